//! Extended attributes, which are read and written through fids of their own.

use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, FidState, XattrRead, XattrWrite};
use crate::p9::wire::{Dialect, Reply, XATTR_EMPTY};
use sluice_vfs::{
    Errno, Features, Result, VecSink, XATTR_LIST_MAX, XATTR_VALUE_MAX, XattrFlags, XattrName,
};
use std::sync::{Mutex, PoisonError};

/// `XATTR_CREATE` and `XATTR_REPLACE`.
const PEER_FLAGS: XattrFlags = XattrFlags::CREATE.union(XattrFlags::REPLACE);

/// The value is what it is now, however long it takes to be read.
pub(in super::super) fn xattrwalk(
    call: &Call<'_>,
    fid: u32,
    newfid: u32,
    name: &[u8],
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let newfid = call.connection.fids.reserve(newfid)?;
    let (ctx, node) = (fid.ctx(), fid.node.node);
    let mut sink = VecSink::new(XATTR_VALUE_MAX.max(XATTR_LIST_MAX));
    if name.is_empty() {
        check_enabled(call)?;
        fid.session().listxattr(&ctx, node, Some(&mut sink))?;
    } else {
        let name = usable_name(call, &fid, name)?;
        fid.session().getxattr(&ctx, node, name, Some(&mut sink))?;
    }
    let value = sink.into_bytes();
    let size = value.len() as u64;
    let room = call.connection.xattr_budget.take(value.len())?;
    let state = FidState::XattrRead(XattrRead { value, _room: room });
    newfid.fill(fid.in_state(state));
    answer.set(&Reply::Xattrwalk { size })
}

pub(in super::super) fn xattrcreate(
    call: &Call<'_>,
    number: u32,
    name: &[u8],
    size: u64,
    flags: u32,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(number)?;
    fid.require_path()?;
    usable_name(call, &fid, name)?;
    let is_empty = flags & XATTR_EMPTY != 0;
    let can_be_empty = call.connection.dialect == Dialect::Sluice && size == 0;
    let flags = XattrFlags::from_bits_retain(flags & !XATTR_EMPTY);
    if !PEER_FLAGS.contains(flags) || is_empty && !can_be_empty {
        return Err(Errno::EINVAL);
    }
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > XATTR_VALUE_MAX {
        return Err(Errno::E2BIG);
    }
    let state = FidState::XattrWrite(XattrWrite {
        name: name.into(),
        flags,
        removes: size == 0 && !is_empty,
        size,
        value: Mutex::default(),
        _room: call.connection.xattr_budget.take(size)?,
    });
    call.connection.fids.replace(number, fid.in_state(state));
    answer.set(&Reply::Xattrcreate {})
}

/// Sets what was written, when its fid is clunked; nothing at all removes the
/// attribute, unless that is its value. `EINVAL` unless it is as much as was announced.
pub(super) fn commit(fid: &Fid, write: &XattrWrite) -> Result<()> {
    let name = XattrName::new(&write.name)?;
    let (ctx, node) = (fid.ctx(), fid.node.node);
    if write.removes {
        fid.session().removexattr(&ctx, node, name)?;
        return Ok(());
    }
    let value = write.value.lock().unwrap_or_else(PoisonError::into_inner);
    if value.count != write.size || value.bytes.len() != write.size {
        return Err(Errno::EINVAL);
    }
    fid.session()
        .setxattr(&ctx, node, name, &value.bytes, write.flags)?;
    Ok(())
}

/// ACLs that nobody obeys must not be shown or set.
fn usable_name<'n>(call: &Call<'_>, fid: &Fid, name: &'n [u8]) -> Result<XattrName<'n>> {
    check_enabled(call)?;
    let is_acl = name.starts_with(b"system.posix_acl_");
    let has_acl = fid.node.tree.features.contains(Features::POSIX_ACL);
    if is_acl && !(has_acl && call.config.options.posix_acl) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(XattrName::new(name)?)
}

fn check_enabled(call: &Call<'_>) -> Result<()> {
    match call.config.options.xattr {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}
