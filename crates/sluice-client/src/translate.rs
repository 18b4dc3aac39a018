//! Neutral words to wire words and back, as a client needs them.

use crate::error::{Result, Violation};
use sluice_proto::p9::wire::{
    Attr as WireAttr, Dialect, GetattrMask, Getlock, LockArgs, LopenFlags, OpenMode, Perm, Qid,
    QidType, SetAttr as WireSetAttr, SetattrMask, Stat, StatFs as WireStatFs,
};
use sluice_vfs::{
    Attr, AttrMask, Device, FileType, Lock, LockKind, LockRange, LockStyle, OpenFlags, SetAttr,
    SetTime, StatFs, Timestamp, UnixMode,
};

/// Bits of `valid` and the fields that they are about.
const VALID: [(GetattrMask, AttrMask); 12] = [
    (GetattrMask::MODE, AttrMask::MODE.union(AttrMask::TYPE)),
    (GetattrMask::NLINK, AttrMask::NLINK),
    (GetattrMask::UID, AttrMask::UID),
    (GetattrMask::GID, AttrMask::GID),
    (GetattrMask::ATIME, AttrMask::ATIME),
    (GetattrMask::MTIME, AttrMask::MTIME),
    (GetattrMask::CTIME, AttrMask::CTIME),
    (GetattrMask::INO, AttrMask::INO),
    (GetattrMask::SIZE, AttrMask::SIZE),
    (GetattrMask::BLOCKS, AttrMask::BLOCKS),
    (GetattrMask::BTIME, AttrMask::BTIME),
    (GetattrMask::RDEV, AttrMask::empty()),
];

/// Attributes out of an Rgetattr.
pub fn attr(attr: &WireAttr) -> Attr {
    let time = |sec: u64, nsec: u64| Timestamp {
        sec: sec.cast_signed(),
        nsec: u32::try_from(nsec).unwrap_or(0).min(999_999_999),
    };
    let told = VALID.iter().filter(|(bit, _)| attr.valid.contains(*bit));
    let mask = told.fold(AttrMask::empty(), |mask, (_, field)| mask | *field);
    Attr {
        mask: mask | AttrMask::INO,
        ino: attr.qid.path,
        mode: UnixMode(attr.mode),
        nlink: u32::try_from(attr.nlink).unwrap_or(u32::MAX),
        uid: attr.uid,
        gid: attr.gid,
        rdev: Device::from_u32(attr.rdev as u32),
        size: attr.size,
        blocks: attr.blocks,
        blksize: u32::try_from(attr.blksize).unwrap_or(4096),
        atime: time(attr.atime_sec, attr.atime_nsec),
        mtime: time(attr.mtime_sec, attr.mtime_nsec),
        ctime: time(attr.ctime_sec, attr.ctime_nsec),
        btime: time(attr.btime_sec, attr.btime_nsec),
        ..Attr::default()
    }
}

/// Attributes out of an Rstat. Owners that have no number in it are not known.
pub(crate) fn attr_of_stat(stat: &Stat<'_>, dialect: Dialect) -> Attr {
    let time = |sec: u32| Timestamp {
        sec: sec.into(),
        nsec: 0,
    };
    let number = |id: Option<u32>, name: &[u8]| {
        let digits = || std::str::from_utf8(name).ok()?.parse().ok();
        id.or_else(digits)
    };
    let uid = number(stat.n_uid.0.get(), stat.uid.0);
    let gid = number(stat.n_gid.0.get(), stat.gid.0);
    let is_unix = dialect == Dialect::Unix;
    let mut mask = AttrMask::TYPE | AttrMask::MODE | AttrMask::INO | AttrMask::SIZE;
    mask |= AttrMask::ATIME | AttrMask::MTIME;
    mask.set(AttrMask::UID, uid.is_some());
    mask.set(AttrMask::GID, gid.is_some());
    let (rdev, is_block) = device_of(stat.extension.0.0);
    let file_type = match stat.mode {
        mode if mode.contains(Perm::DIR) => FileType::Directory,
        mode if is_unix && mode.contains(Perm::SYMLINK) => FileType::Symlink,
        mode if is_unix && mode.contains(Perm::DEVICE) && is_block => FileType::BlockDevice,
        mode if is_unix && mode.contains(Perm::DEVICE) => FileType::CharDevice,
        mode if is_unix && mode.contains(Perm::NAMED_PIPE) => FileType::Fifo,
        mode if is_unix && mode.contains(Perm::SOCKET) => FileType::Socket,
        _ => FileType::Regular,
    };
    Attr {
        mask,
        ino: stat.qid.path,
        mode: UnixMode::new(file_type, perm_bits(stat.mode, is_unix)),
        nlink: 1,
        uid: uid.unwrap_or(0),
        gid: gid.unwrap_or(0),
        rdev,
        size: stat.length,
        blocks: stat.length.div_ceil(512),
        blksize: 4096,
        atime: time(stat.atime),
        mtime: time(stat.mtime),
        ..Attr::default()
    }
}

/// What 9P2000.u says of a device: `b 8 1` or `c 1 3`.
fn device_of(extension: &[u8]) -> (Device, bool) {
    let text = std::str::from_utf8(extension).unwrap_or_default();
    let mut words = text.split(' ');
    let is_block = words.next() == Some("b");
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let (major, minor) = (number(), number());
    (Device { major, minor }, is_block)
}

/// Bits of a mode above the low nine, in both forms (9P2000.u).
const SPECIAL: [(Perm, u32); 3] = [
    (Perm::SETUID, 0o4000),
    (Perm::SETGID, 0o2000),
    (Perm::SETVTX, 0o1000),
];

fn perm_bits(perm: Perm, is_unix: bool) -> u32 {
    let special = SPECIAL.iter().filter(|(bit, _)| perm.contains(*bit));
    let special: u32 = special.map(|(_, bit)| bit).sum();
    (perm.bits() & 0o777) | if is_unix { special } else { 0 }
}

/// Permissions as Tcreate and Twstat have them.
pub(crate) fn perm(bits: u32, is_dir: bool, dialect: Dialect) -> Perm {
    let mut out = Perm::from_bits_retain(bits & 0o777);
    for (bit, special) in SPECIAL {
        out.set(bit, dialect == Dialect::Unix && bits & special != 0);
    }
    out.set(Perm::DIR, is_dir);
    out
}

/// The kind of file that a qid names.
pub(crate) fn kind_of(qid: &Qid) -> FileType {
    match qid.kind {
        kind if kind.contains(QidType::DIR) => FileType::Directory,
        kind if kind.contains(QidType::SYMLINK) => FileType::Symlink,
        _ => FileType::Regular,
    }
}

/// Changes of attributes.
pub fn setattr(changes: &SetAttr) -> WireSetAttr {
    let mut out = WireSetAttr {
        mode: changes.perm.unwrap_or(0),
        uid: changes.uid.unwrap_or(0),
        gid: changes.gid.unwrap_or(0),
        size: changes.size.unwrap_or(0),
        ..WireSetAttr::default()
    };
    for (bit, is_given) in [
        (SetattrMask::MODE, changes.perm.is_some()),
        (SetattrMask::UID, changes.uid.is_some()),
        (SetattrMask::GID, changes.gid.is_some()),
        (SetattrMask::SIZE, changes.size.is_some()),
        (SetattrMask::ATIME, changes.atime.is_some()),
        (SetattrMask::MTIME, changes.mtime.is_some()),
        (SetattrMask::CTIME, changes.touch_ctime),
    ] {
        out.valid.set(bit, is_given);
    }
    if let Some(SetTime::To(time)) = changes.atime {
        out.valid |= SetattrMask::ATIME_SET;
        (out.atime_sec, out.atime_nsec) = (time.sec.cast_unsigned(), time.nsec.into());
    }
    if let Some(SetTime::To(time)) = changes.mtime {
        out.valid |= SetattrMask::MTIME_SET;
        (out.mtime_sec, out.mtime_nsec) = (time.sec.cast_unsigned(), time.nsec.into());
    }
    out
}

/// The same for Twstat, as far as it has fields: whole seconds, and no owner.
pub(crate) fn wstat(changes: &SetAttr, is_dir: bool, dialect: Dialect) -> Stat<'static> {
    let time = |time: Option<SetTime>| match time {
        None => Stat::LEAVE.atime,
        Some(SetTime::Now) => {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
            now.map_or(0, |now| now.as_secs() as u32)
        }
        Some(SetTime::To(time)) => u32::try_from(time.sec.max(0)).unwrap_or(u32::MAX - 1),
    };
    let mut out = Stat {
        atime: time(changes.atime),
        mtime: time(changes.mtime),
        length: changes.size.unwrap_or(Stat::LEAVE.length),
        ..Stat::LEAVE
    };
    if let Some(bits) = changes.perm {
        out.mode = perm(bits, is_dir, dialect);
    }
    if let Some(gid) = changes.gid {
        out.n_gid.0.0 = gid;
    }
    if let Some(uid) = changes.uid {
        out.n_uid.0.0 = uid;
    }
    out
}

/// Flags of Tlopen and Tlcreate.
pub fn lopen_flags(flags: OpenFlags) -> LopenFlags {
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

/// Mode of Topen and Tcreate.
pub(crate) fn open_mode(flags: OpenFlags, dialect: Dialect) -> OpenMode {
    let is_read = flags.contains(OpenFlags::READ);
    let mut out = match (is_read, flags.contains(OpenFlags::WRITE)) {
        (true, true) => OpenMode::RDWR,
        (false, true) => OpenMode::WRITE,
        (false, false) if flags.contains(OpenFlags::EXEC) => OpenMode::EXEC,
        (_, false) => OpenMode::empty(),
    };
    out.set(OpenMode::TRUNC, flags.contains(OpenFlags::TRUNCATE));
    let appends = dialect == Dialect::Unix && flags.contains(OpenFlags::APPEND);
    out.set(OpenMode::APPEND, appends);
    out
}

/// Figures of a file system.
pub fn statfs(figures: &WireStatFs) -> StatFs {
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
pub fn lock_kind(kind: LockKind) -> u8 {
    match kind {
        LockKind::Read => LockArgs::READ,
        LockKind::Write => LockArgs::WRITE,
        LockKind::Unlock => LockArgs::UNLOCK,
    }
}

/// Length of a range.
pub fn lock_length(range: LockRange) -> u64 {
    match range.end {
        LockRange::EOF => 0,
        end => end.wrapping_sub(range.start).wrapping_add(1),
    }
}

/// A lock that is in the way, out of an Rgetlock.
///
/// # Errors
/// A kind that no lock has.
pub fn held_lock(lock: &Getlock<'_>) -> Result<Option<Lock>> {
    let kind = match lock.kind {
        LockArgs::READ => LockKind::Read,
        LockArgs::WRITE => LockKind::Write,
        LockArgs::UNLOCK => return Ok(None),
        _ => return Err(Violation::Value("the type of an Rgetlock").into()),
    };
    let end = match lock.length {
        0 => LockRange::EOF,
        length => lock.start.saturating_add(length - 1).min(LockRange::EOF),
    };
    Ok(Some(Lock {
        style: LockStyle::Posix,
        kind,
        range: LockRange {
            start: lock.start.min(end),
            end,
        },
        pid: lock.proc_id,
    }))
}
