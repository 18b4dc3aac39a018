//! Extended attributes.

use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::wire::{CBytes, GetxattrIn, GetxattrOut, InitFlags, SetxattrFlags, SetxattrIn};
use sluice_vfs::{Errno, ReadSink, Result, XATTR_VALUE_MAX, XattrFlags, XattrName};
use std::os::fd::BorrowedFd;

pub(in super::super) fn getxattr(
    call: &Call<'_>,
    args: &GetxattrIn,
    name: CBytes<'_>,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let name = usable_name(call, name)?;
    sized_reply(args.size, sink, |sink| {
        call.session().getxattr(&call.ctx(), call.node, name, sink)
    })
}

pub(in super::super) fn listxattr(
    call: &Call<'_>,
    args: &GetxattrIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    check_enabled(call)?;
    sized_reply(args.size, sink, |sink| {
        call.session().listxattr(&call.ctx(), call.node, sink)
    })
}

pub(in super::super) fn setxattr(
    call: &Call<'_>,
    args: &SetxattrIn,
    name: CBytes<'_>,
    value: &[u8],
) -> Result<()> {
    /// `XATTR_CREATE` and `XATTR_REPLACE`.
    const PEER_FLAGS: XattrFlags = XattrFlags::CREATE.union(XattrFlags::REPLACE);
    let name = usable_name(call, name)?;
    if value.len() > XATTR_VALUE_MAX {
        return Err(Errno::E2BIG);
    }
    if args.flags & !PEER_FLAGS.bits() != 0 {
        return Err(Errno::EINVAL);
    }
    let mut flags = XattrFlags::from_bits_truncate(args.flags);
    flags.set(
        XattrFlags::KILL_SGID,
        args.setxattr_flags.contains(SetxattrFlags::ACL_KILL_SGID),
    );
    call.session()
        .setxattr(&call.ctx(), call.node, name, value, flags)?;
    Ok(())
}

pub(in super::super) fn removexattr(call: &Call<'_>, name: CBytes<'_>) -> Result<()> {
    let name = usable_name(call, name)?;
    call.session().removexattr(&call.ctx(), call.node, name)?;
    Ok(())
}

/// ACLs that nobody obeys must not be shown or set.
fn usable_name<'a>(call: &Call<'_>, name: CBytes<'a>) -> Result<XattrName<'a>> {
    check_enabled(call)?;
    let is_acl = name.0.starts_with(b"system.posix_acl_");
    if is_acl && !call.negotiated().has(InitFlags::POSIX_ACL) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(XattrName::new(name.0)?)
}

fn check_enabled(call: &Call<'_>) -> Result<()> {
    if call.connection.options.xattr {
        Ok(())
    } else {
        Err(Errno::ENOSYS)
    }
}

/// Answers with a length if `size` is 0, else with up to `size` bytes.
fn sized_reply(
    size: u32,
    sink: &mut dyn ReadSink,
    get: impl FnOnce(Option<&mut dyn ReadSink>) -> Result<usize>,
) -> Result<()> {
    if size == 0 {
        let len = get(None)?;
        let size = u32::try_from(len).map_err(|_| Errno::E2BIG)?;
        return put(sink, &GetxattrOut { size, padding: 0 });
    }
    let room = sink.remaining().min(size as usize);
    get(Some(&mut LimitedSink { sink, room }))?;
    Ok(())
}

/// The first bytes of a sink.
struct LimitedSink<'a> {
    sink: &'a mut dyn ReadSink,
    room: usize,
}

impl ReadSink for LimitedSink<'_> {
    fn remaining(&self) -> usize {
        self.room
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let count = self.sink.read_from(fd, offset, len.min(self.room))?;
        self.room = self.room.saturating_sub(count);
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.room {
            return Err(Errno::EMSGSIZE);
        }
        self.sink.put(bytes)?;
        self.room -= bytes.len();
        Ok(())
    }
}
