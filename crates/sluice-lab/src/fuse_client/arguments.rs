//! Arguments of requests, out of more than one word of the caller's.

use super::translate;
use sluice_proto::fuse::wire::{
    CopyFileRangeIn, CreateIn, Extensions, GetattrFlags, GetattrIn, Groups, Label, LkFlags, LkIn,
    OpenInFlags, Operation, StatxIn,
};
use sluice_vfs::{
    AttrMask, CopyRange, CreateArgs, Ctx, FileType, HandleId, Lock, LockStyle, NewNode, OpenFlags,
};

/// What requests name as their handle when there is none: a number that no
/// server gives out.
const NO_HANDLE: u64 = u64::MAX;

/// From how many bytes on a copy is asked for in the form that counts in 64 bits.
const COPY_64_FROM: u64 = 1 << 16;

/// Where a handle may be missing.
pub(super) fn fh(handle: Option<HandleId>) -> u64 {
    handle.map_or(NO_HANDLE, |handle| handle.0)
}

/// GETATTR, or STATX for what GETATTR can't tell.
pub(super) fn getattr(handle: Option<HandleId>, mask: AttrMask) -> Operation<'static> {
    let mut getattr_flags = GetattrFlags::empty();
    getattr_flags.set(GetattrFlags::FH, handle.is_some());
    let fh = fh(handle);
    if AttrMask::BASIC.contains(mask) {
        Operation::Getattr {
            args: GetattrIn {
                getattr_flags,
                fh,
                ..GetattrIn::default()
            },
        }
    } else {
        Operation::Statx {
            args: StatxIn {
                getattr_flags,
                fh,
                sx_mask: mask.bits(),
                ..StatxIn::default()
            },
        }
    }
}

/// COPY_FILE_RANGE in the form for the length.
pub(super) fn copy_range(copy: &CopyRange) -> Operation<'static> {
    let args = CopyFileRangeIn {
        fh_in: copy.from.handle.0,
        off_in: copy.from.offset,
        nodeid_out: copy.to.node.0,
        fh_out: copy.to.handle.0,
        off_out: copy.to.offset,
        len: copy.len,
        flags: 0,
    };
    if copy.len < COPY_64_FROM {
        Operation::CopyFileRange { args }
    } else {
        Operation::CopyFileRange64 { args }
    }
}

/// Label and supplementary groups, which only requests that make nodes carry.
pub(super) fn extensions<'a>(ctx: &Ctx<'a>, new: &NewNode<'a>) -> Extensions<'a> {
    Extensions {
        label: new.label.map(|label| Label {
            name: label.name.as_bytes(),
            value: label.value,
        }),
        groups: Groups::new(ctx.caller.groups),
    }
}

pub(super) fn create_in(args: &CreateArgs<'_>) -> CreateIn {
    CreateIn {
        flags: translate::open_flags(args.flags),
        mode: args.new.mode(FileType::Regular).0,
        umask: args.new.umask,
        open_flags: open_in_flags(args.flags),
    }
}

pub(super) fn open_in_flags(flags: OpenFlags) -> OpenInFlags {
    let mut open_flags = OpenInFlags::empty();
    let kills = flags.contains(OpenFlags::KILL_SUIDGID);
    open_flags.set(OpenInFlags::KILL_SUIDGID, kills);
    open_flags
}

pub(super) fn lk_in(ctx: &Ctx<'_>, handle: HandleId, lock: &Lock) -> LkIn {
    let mut lk_flags = LkFlags::empty();
    lk_flags.set(LkFlags::FLOCK, lock.style == LockStyle::Flock);
    LkIn {
        fh: handle.0,
        owner: ctx.lock_owner.0,
        lk: translate::file_lock(lock),
        lk_flags,
        padding: 0,
    }
}
