//! Neutral words to wire words and back.

use sluice_proto::p9::wire::{
    Attr as WireAttr, GetattrMask, Getlock, LockArgs, LopenFlags, SetAttr as WireSetAttr,
    SetattrMask, StatFs as WireStatFs,
};
use sluice_vfs::{
    Attr, AttrMask, Device, Errno, Lock, LockKind, LockRange, LockStyle, OpenFlags, Result,
    SetAttr, SetTime, StatFs, Timestamp, UnixMode,
};

/// Attributes.
pub(super) fn attr(attr: &WireAttr) -> Attr {
    let time = |sec: u64, nsec: u64| Timestamp {
        sec: sec.cast_signed(),
        nsec: nsec as u32,
    };
    assert!(attr.valid.contains(GetattrMask::BASIC), "all was asked for");
    let mut mask = AttrMask::BASIC;
    mask.set(AttrMask::BTIME, attr.valid.contains(GetattrMask::BTIME));
    assert_ne!(attr.qid.version, 0, "Linux would not cache it");
    Attr {
        mask,
        ino: attr.qid.path,
        mode: UnixMode(attr.mode),
        nlink: attr.nlink as u32,
        uid: attr.uid,
        gid: attr.gid,
        rdev: Device::from_u32(attr.rdev as u32),
        size: attr.size,
        blocks: attr.blocks,
        blksize: attr.blksize as u32,
        atime: time(attr.atime_sec, attr.atime_nsec),
        mtime: time(attr.mtime_sec, attr.mtime_nsec),
        ctime: time(attr.ctime_sec, attr.ctime_nsec),
        btime: time(attr.btime_sec, attr.btime_nsec),
        ..Attr::default()
    }
}

/// Changes of attributes.
pub(super) fn setattr(changes: &SetAttr) -> WireSetAttr {
    let mut valid = SetattrMask::empty();
    for (flag, is_given) in [
        (SetattrMask::MODE, changes.perm.is_some()),
        (SetattrMask::UID, changes.uid.is_some()),
        (SetattrMask::GID, changes.gid.is_some()),
        (SetattrMask::SIZE, changes.size.is_some()),
        (SetattrMask::ATIME, changes.atime.is_some()),
        (SetattrMask::MTIME, changes.mtime.is_some()),
        (SetattrMask::CTIME, changes.touch_ctime),
    ] {
        valid.set(flag, is_given);
    }
    let mut out = WireSetAttr {
        mode: changes.perm.unwrap_or(0),
        uid: changes.uid.unwrap_or(0),
        gid: changes.gid.unwrap_or(0),
        size: changes.size.unwrap_or(0),
        ..WireSetAttr::default()
    };
    if let Some(SetTime::To(time)) = changes.atime {
        valid |= SetattrMask::ATIME_SET;
        (out.atime_sec, out.atime_nsec) = (time.sec.cast_unsigned(), time.nsec.into());
    }
    if let Some(SetTime::To(time)) = changes.mtime {
        valid |= SetattrMask::MTIME_SET;
        (out.mtime_sec, out.mtime_nsec) = (time.sec.cast_unsigned(), time.nsec.into());
    }
    out.valid = valid;
    out
}

/// Flags of Tlopen and Tlcreate.
pub(super) fn lopen_flags(flags: OpenFlags) -> LopenFlags {
    let is_read = flags.intersects(OpenFlags::READ | OpenFlags::EXEC);
    let mut out = match (is_read, flags.contains(OpenFlags::WRITE)) {
        (true, true) => LopenFlags::RDWR,
        (false, true) => LopenFlags::WRONLY,
        (_, false) => LopenFlags::empty(),
    };
    for (flag, bit) in [
        (OpenFlags::APPEND, LopenFlags::APPEND),
        (OpenFlags::TRUNCATE, LopenFlags::TRUNC),
        (OpenFlags::EXCLUSIVE, LopenFlags::EXCL),
        (OpenFlags::DIRECTORY, LopenFlags::DIRECTORY),
        (OpenFlags::DIRECT, LopenFlags::DIRECT),
        (OpenFlags::SYNC, LopenFlags::SYNC),
        (OpenFlags::DSYNC, LopenFlags::DSYNC),
        (OpenFlags::NOATIME, LopenFlags::NOATIME),
    ] {
        out.set(bit, flags.contains(flag));
    }
    out
}

/// Figures of a file system.
pub(super) fn statfs(figures: &WireStatFs) -> StatFs {
    StatFs {
        fs_type: figures.fs_type,
        bsize: figures.bsize,
        frsize: figures.bsize,
        blocks: figures.blocks,
        bfree: figures.bfree,
        bavail: figures.bavail,
        files: figures.files,
        ffree: figures.ffree,
        fsid: figures.fsid,
        namelen: figures.namelen,
    }
}

/// Kind of a lock.
pub(super) fn lock_kind(kind: LockKind) -> u8 {
    match kind {
        LockKind::Read => LockArgs::READ,
        LockKind::Write => LockArgs::WRITE,
        LockKind::Unlock => LockArgs::UNLOCK,
    }
}

/// Length of a range.
pub(super) fn lock_length(range: LockRange) -> u64 {
    match range.end {
        LockRange::EOF => 0,
        end => end.wrapping_sub(range.start).wrapping_add(1),
    }
}

/// A lock that is in the way.
pub(super) fn held_lock(lock: &Getlock<'_>) -> Option<Lock> {
    let kind = match lock.kind {
        LockArgs::READ => LockKind::Read,
        LockArgs::WRITE => LockKind::Write,
        _ => return None,
    };
    Some(Lock {
        style: LockStyle::Posix,
        kind,
        range: LockRange {
            start: lock.start,
            end: match lock.length {
                0 => LockRange::EOF,
                length => lock.start + length - 1,
            },
        },
        pid: lock.proc_id,
    })
}

/// Status of an Rlock, as Linux takes it.
pub(super) fn lock_status(status: u8) -> Result<()> {
    match status {
        LockArgs::SUCCESS => Ok(()),
        LockArgs::BLOCKED => Err(Errno::EAGAIN),
        LockArgs::ERROR | LockArgs::GRACE => Err(Errno::ENOLCK),
        other => panic!("an Rlock with status {other}"),
    }
}
