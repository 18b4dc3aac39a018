//! Neutral words to wire words and back.

use super::config::QidVersion;
use crate::p9::wire::{
    Attr as WireAttr, GetattrMask, LockArgs, LopenFlags, OpenMode, Perm, Qid, QidType,
    SetAttr as WireSetAttr, SetattrMask, StatFs as WireStatFs,
};
use sluice_vfs::{
    Attr, AttrMask, Errno, FileType, LockKind, LockRange, OpenFlags, Result, SetAttr, SetTime,
    StatFs, Timestamp, UnixMode,
};

/// The attributes that qids and replies are made of. Always the same ones, so
/// that a version does not depend on what was asked.
pub(super) const ATTRS: AttrMask = AttrMask::BASIC.union(AttrMask::BTIME);

/// The qid of a file.
pub(super) fn qid(attr: &Attr, how: QidVersion) -> Qid {
    let file_type = attr.mode.file_type().unwrap_or(FileType::Regular);
    Qid {
        kind: qid_type(file_type),
        version: version(attr, how),
        path: attr.ino,
    }
}

/// The part of a qid that is the same for as long as the file exists.
pub(super) fn stable_qid(attr: &Attr) -> Qid {
    qid(attr, QidVersion::Stable)
}

/// The qid of a directory entry, whose version is not known.
pub(super) fn entry_qid(file_type: Option<FileType>, ino: u64) -> Qid {
    Qid {
        kind: qid_type(file_type.unwrap_or(FileType::Regular)),
        version: 1,
        path: ino,
    }
}

fn qid_type(file_type: FileType) -> QidType {
    match file_type {
        FileType::Directory => QidType::DIR,
        FileType::Symlink => QidType::SYMLINK,
        _ => QidType::empty(),
    }
}

/// Birth time in any case: an inode number that is used again is another file.
fn version(attr: &Attr, how: QidVersion) -> u32 {
    let mut mix = Mix::new();
    if attr.mask.contains(AttrMask::BTIME) {
        mix.time(attr.btime);
    }
    if how == QidVersion::Content {
        mix.time(attr.mtime);
        mix.add(attr.size);
    }
    let hash = mix.0;
    ((hash >> 32) as u32 ^ hash as u32).max(1)
}

/// FNV-1a, over whole words.
pub(super) struct Mix(pub(super) u64);

impl Mix {
    pub(super) fn new() -> Self {
        Mix(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    fn time(&mut self, time: Timestamp) {
        self.add(time.sec.cast_unsigned());
        self.add(time.nsec.into());
    }
}

/// Rgetattr. What was not asked for may be there all the same, as stat(2) is
/// one call.
pub(super) fn getattr(attr: &Attr, how: QidVersion) -> WireAttr {
    let mut valid = GetattrMask::BASIC;
    valid.set(GetattrMask::BTIME, attr.mask.contains(AttrMask::BTIME));
    WireAttr {
        valid,
        qid: qid(attr, how),
        mode: attr.mode.0,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink.into(),
        rdev: attr.rdev.to_u32().into(),
        size: attr.size,
        blksize: attr.blksize.into(),
        blocks: attr.blocks,
        atime_sec: attr.atime.sec.cast_unsigned(),
        atime_nsec: attr.atime.nsec.into(),
        mtime_sec: attr.mtime.sec.cast_unsigned(),
        mtime_nsec: attr.mtime.nsec.into(),
        ctime_sec: attr.ctime.sec.cast_unsigned(),
        ctime_nsec: attr.ctime.nsec.into(),
        btime_sec: attr.btime.sec.cast_unsigned(),
        btime_nsec: attr.btime.nsec.into(),
        generation: 0,
        data_version: 0,
    }
}

/// Tsetattr. A time without its `_SET` is the server's now.
pub(super) fn setattr(changes: &WireSetAttr) -> Result<SetAttr> {
    let has = |bit| changes.valid.contains(bit);
    let time = |bit, set, sec: u64, nsec: u64| match (has(bit), has(set)) {
        (false, _) => Ok(None),
        (true, false) => Ok(Some(SetTime::Now)),
        (true, true) => match u32::try_from(nsec) {
            Ok(nsec) if nsec < 1_000_000_000 => Ok(Some(SetTime::To(Timestamp {
                sec: sec.cast_signed(),
                nsec,
            }))),
            _ => Err(Errno::EINVAL),
        },
    };
    Ok(SetAttr {
        perm: has(SetattrMask::MODE).then_some(changes.mode & UnixMode::PERM_MASK),
        uid: has(SetattrMask::UID).then_some(changes.uid),
        gid: has(SetattrMask::GID).then_some(changes.gid),
        size: has(SetattrMask::SIZE).then_some(changes.size),
        atime: time(
            SetattrMask::ATIME,
            SetattrMask::ATIME_SET,
            changes.atime_sec,
            changes.atime_nsec,
        )?,
        mtime: time(
            SetattrMask::MTIME,
            SetattrMask::MTIME_SET,
            changes.mtime_sec,
            changes.mtime_nsec,
        )?,
        touch_ctime: has(SetattrMask::CTIME),
        kill_suidgid: false,
    })
}

/// Rstatfs has one size of blocks, which is the unit of its counts.
pub(super) fn statfs(figures: &StatFs) -> WireStatFs {
    WireStatFs {
        fs_type: figures.fs_type,
        bsize: match figures.frsize {
            0 => figures.bsize,
            unit => unit,
        },
        blocks: figures.blocks,
        bfree: figures.bfree,
        bavail: figures.bavail,
        files: figures.files,
        ffree: figures.ffree,
        fsid: figures.fsid,
        namelen: figures.namelen,
    }
}

/// Flags of Tlopen and Tlcreate. Caches are the client's own affair, so
/// `DIRECT` is left out: alignment would come with it.
pub(super) fn lopen_flags(flags: LopenFlags) -> Result<OpenFlags> {
    let mut out = match flags.bits() & 3 {
        0 => OpenFlags::READ,
        1 => OpenFlags::WRITE,
        2 => OpenFlags::READ | OpenFlags::WRITE,
        _ => return Err(Errno::EINVAL),
    };
    for (bit, flag) in [
        (LopenFlags::APPEND, OpenFlags::APPEND),
        (LopenFlags::TRUNC, OpenFlags::TRUNCATE),
        (LopenFlags::EXCL, OpenFlags::EXCLUSIVE),
        (LopenFlags::DIRECTORY, OpenFlags::DIRECTORY),
        (LopenFlags::SYNC, OpenFlags::SYNC),
        (LopenFlags::DSYNC, OpenFlags::DSYNC),
        (LopenFlags::NOATIME, OpenFlags::NOATIME),
    ] {
        out.set(flag, flags.contains(bit));
    }
    Ok(out)
}

/// Mode of Topen and Tcreate.
pub(super) fn open_mode(mode: OpenMode) -> OpenFlags {
    let mut out = match mode.bits() & 3 {
        0 => OpenFlags::READ,
        1 => OpenFlags::WRITE,
        2 => OpenFlags::READ | OpenFlags::WRITE,
        _ => OpenFlags::EXEC,
    };
    out.set(OpenFlags::TRUNCATE, mode.contains(OpenMode::TRUNC));
    out.set(OpenFlags::APPEND, mode.contains(OpenMode::APPEND));
    out
}

/// Bits of a mode above the low nine, in both forms.
const SPECIAL: [(Perm, u32); 3] = [
    (Perm::SETUID, 0o4000),
    (Perm::SETGID, 0o2000),
    (Perm::SETVTX, 0o1000),
];

/// Mode in `Stat`; the kinds beyond directories are 9P2000.u's.
pub(super) fn perm(mode: UnixMode, is_unix: bool) -> Perm {
    let kind = match mode.file_type() {
        Some(FileType::Directory) => Perm::DIR,
        _ if !is_unix => Perm::empty(),
        Some(FileType::Symlink) => Perm::SYMLINK,
        Some(FileType::BlockDevice | FileType::CharDevice) => Perm::DEVICE,
        Some(FileType::Fifo) => Perm::NAMED_PIPE,
        Some(FileType::Socket) => Perm::SOCKET,
        Some(FileType::Regular) | None => Perm::empty(),
    };
    let mut out = Perm::from_bits_retain(mode.0 & 0o777) | kind;
    for (bit, special) in SPECIAL {
        out.set(bit, is_unix && mode.0 & special != 0);
    }
    out
}

/// Permission bits of a mode that came with Twstat or Tcreate.
pub(super) fn unix_perm(perm: Perm, is_unix: bool) -> u32 {
    let special = SPECIAL.iter().filter(|(bit, _)| perm.contains(*bit));
    let special: u32 = special.map(|(_, special)| special).sum();
    (perm.bits() & 0o777) | if is_unix { special } else { 0 }
}

/// Range of a lock: `length` 0 reaches to the end.
pub(super) fn lock_range(start: u64, length: u64) -> Result<LockRange> {
    if start > LockRange::EOF {
        return Err(Errno::EINVAL);
    }
    let end = match length {
        0 => LockRange::EOF,
        _ => start.saturating_add(length - 1).min(LockRange::EOF),
    };
    Ok(LockRange { start, end })
}

/// Length of a range as it travels.
pub(super) fn lock_length(range: LockRange) -> u64 {
    match range.end {
        LockRange::EOF => 0,
        end => end.saturating_sub(range.start).saturating_add(1),
    }
}

/// Kind of a lock.
pub(super) fn lock_kind(kind: u8) -> Result<LockKind> {
    match kind {
        LockArgs::READ => Ok(LockKind::Read),
        LockArgs::WRITE => Ok(LockKind::Write),
        LockArgs::UNLOCK => Ok(LockKind::Unlock),
        _ => Err(Errno::EINVAL),
    }
}

/// The same as it travels.
pub(super) fn wire_lock_kind(kind: LockKind) -> u8 {
    match kind {
        LockKind::Read => LockArgs::READ,
        LockKind::Write => LockArgs::WRITE,
        LockKind::Unlock => LockArgs::UNLOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Attr {
        Attr {
            mask: ATTRS,
            ino: 7,
            mode: UnixMode(0o100_644),
            size: 5,
            mtime: Timestamp { sec: 10, nsec: 1 },
            btime: Timestamp { sec: 3, nsec: 4 },
            ..Attr::default()
        }
    }

    #[test]
    fn a_stable_version_outlives_changes_and_not_the_inode() {
        let version = |attr: &Attr| qid(attr, QidVersion::Stable).version;
        let before = file();
        let written = Attr {
            size: 6,
            mtime: Timestamp { sec: 11, nsec: 0 },
            ..before
        };
        let another = Attr {
            btime: Timestamp { sec: 3, nsec: 5 },
            ..before
        };
        assert_eq!(version(&before), version(&written));
        assert_ne!(version(&before), version(&another));
        assert_ne!(version(&Attr::default()), 0);
    }

    #[test]
    fn a_content_version_follows_the_content_and_nothing_else() {
        let version = |attr: &Attr| qid(attr, QidVersion::Content).version;
        let before = file();
        let touched = Attr {
            mtime: Timestamp { sec: 10, nsec: 2 },
            ..before
        };
        let linked = Attr {
            nlink: 2,
            ctime: Timestamp { sec: 12, nsec: 0 },
            ..before
        };
        assert_ne!(version(&before), version(&touched));
        assert_eq!(version(&before), version(&linked));
    }

    #[test]
    fn ranges_of_locks_reach_to_the_end_or_say_how_far() {
        assert_eq!(lock_range(0, 0), Ok(LockRange::ALL));
        let ten = lock_range(5, 10).unwrap();
        assert_eq!((ten.start, ten.end, lock_length(ten)), (5, 14, 10));
        let beyond = lock_range(LockRange::EOF, u64::MAX).unwrap();
        assert_eq!(beyond.end, LockRange::EOF);
        assert_eq!(lock_length(beyond), 0);
        assert_eq!(lock_range(1 << 63, 1), Err(Errno::EINVAL));
    }

    #[test]
    fn modes_carry_what_their_dialect_has() {
        let setuid = UnixMode(0o104_755);
        assert_eq!(perm(setuid, true).bits(), 0x0008_01ed);
        assert_eq!(perm(setuid, false).bits(), 0o755);
        assert_eq!(unix_perm(perm(setuid, true), true), 0o4755);
        assert_eq!(unix_perm(perm(setuid, true), false), 0o755);
        assert_eq!(
            perm(UnixMode(0o041_777), true),
            Perm::DIR | Perm::SETVTX | Perm::from_bits_retain(0o777)
        );
        assert_eq!(perm(UnixMode(0o120_777), false).bits(), 0o777);
    }

    #[test]
    fn times_without_a_value_are_now() {
        let changes = |valid, mtime_nsec| {
            setattr(&WireSetAttr {
                valid,
                mtime_nsec,
                ..WireSetAttr::default()
            })
        };
        let now = changes(SetattrMask::MTIME, 0).unwrap();
        assert_eq!(now.mtime, Some(SetTime::Now));
        let unasked = changes(SetattrMask::MTIME_SET, 0).unwrap();
        assert_eq!(unasked, SetAttr::default());
        let both = SetattrMask::MTIME | SetattrMask::MTIME_SET;
        assert_eq!(changes(both, 1_000_000_000), Err(Errno::EINVAL));
        assert!(changes(SetattrMask::CTIME, 0).unwrap().touch_ctime);
    }
}
