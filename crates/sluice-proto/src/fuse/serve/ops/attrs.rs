//! Attributes, permission checks, symlink targets, file system figures.

use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::serve::translate::{kstatfs, timestamp};
use crate::fuse::wire::{
    AccessIn, FattrValid, GetattrFlags, GetattrIn, SetattrIn, StatfsOut, StatxIn,
};
use sluice_vfs::{Access, AttrMask, Errno, HandleId, ReadSink, Result, SetAttr, SetTime, UnixMode};

pub(in super::super) fn getattr(
    call: &Call<'_>,
    args: &GetattrIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let handle = stat_handle(call, args.getattr_flags, args.fh);
    let stat = call
        .session()
        .getattr(&call.ctx(), call.node, handle, AttrMask::BASIC)?;
    put(sink, &call.presenter().attr_out(&stat.attr))
}

/// Linux refuses a reply that lacks any of the basic attributes.
pub(in super::super) fn statx(
    call: &Call<'_>,
    args: &StatxIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let handle = stat_handle(call, args.getattr_flags, args.fh);
    let mask = AttrMask::from_bits_truncate(args.sx_mask) | AttrMask::BASIC;
    let stat = call
        .session()
        .getattr(&call.ctx(), call.node, handle, mask)?;
    put(sink, &call.presenter().statx_out(&stat.attr))
}

pub(in super::super) fn setattr(
    call: &Call<'_>,
    args: &SetattrIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let handle = args
        .valid
        .contains(FattrValid::FH)
        .then(|| call.file_handle(args.fh))
        .flatten();
    let changes = changes(args)?;
    let stat =
        call.session()
            .setattr(&call.ctx_of(args.lock_owner), call.node, handle, &changes)?;
    put(sink, &call.presenter().attr_out(&stat.attr))
}

pub(in super::super) fn access(call: &Call<'_>, args: &AccessIn) -> Result<()> {
    let access = Access::from_bits(args.mask).ok_or(Errno::EINVAL)?;
    call.session().access(&call.ctx(), call.node, access)
}

pub(in super::super) fn readlink(call: &Call<'_>, sink: &mut dyn ReadSink) -> Result<()> {
    call.session().readlink(&call.ctx(), call.node, sink)?;
    Ok(())
}

pub(in super::super) fn statfs(call: &Call<'_>, sink: &mut dyn ReadSink) -> Result<()> {
    let figures = call.session().statfs(&call.ctx(), call.node)?;
    put(
        sink,
        &StatfsOut {
            st: kstatfs(&figures),
        },
    )
}

fn stat_handle(call: &Call<'_>, flags: GetattrFlags, fh: u64) -> Option<HandleId> {
    flags
        .contains(GetattrFlags::FH)
        .then(|| call.file_handle(fh))
        .flatten()
}

fn changes(args: &SetattrIn) -> Result<SetAttr> {
    let has = |flag| args.valid.contains(flag);
    Ok(SetAttr {
        perm: has(FattrValid::MODE).then_some(args.mode & UnixMode::PERM_MASK),
        uid: has(FattrValid::UID).then_some(args.uid),
        gid: has(FattrValid::GID).then_some(args.gid),
        size: has(FattrValid::SIZE).then_some(args.size),
        atime: set_time(
            has(FattrValid::ATIME),
            has(FattrValid::ATIME_NOW),
            (args.atime, args.atimensec),
        )?,
        mtime: set_time(
            has(FattrValid::MTIME),
            has(FattrValid::MTIME_NOW),
            (args.mtime, args.mtimensec),
        )?,
        touch_ctime: has(FattrValid::CTIME),
        kill_suidgid: has(FattrValid::KILL_SUIDGID),
    })
}

fn set_time(is_set: bool, is_now: bool, (sec, nsec): (u64, u32)) -> Result<Option<SetTime>> {
    match (is_set, is_now) {
        (false, _) => Ok(None),
        (true, true) => Ok(Some(SetTime::Now)),
        (true, false) => Ok(Some(SetTime::To(timestamp(sec, nsec)?))),
    }
}
