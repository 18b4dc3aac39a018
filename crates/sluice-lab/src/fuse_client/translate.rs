//! Neutral words to wire words and back.

use rustix::fs::OFlags;
use sluice_proto::fuse::wire;
use sluice_proto::fuse::wire::{AttrFlags, EntryOut, FattrValid, FopenFlags, SetattrIn};
use sluice_vfs::{
    Attr, AttrMask, Device, Entry, FileIoctl, FileIoctlReply, Fsx, HandleId, Lock, LockKind,
    LockRange, LockStyle, NodeId, OpenFlags, OpenHints, Opened, SetAttr, SetTime, Stamp, StatFs,
    Timestamp, UnixMode, Whence,
};

/// `__FMODE_EXEC`: set by execve(2), and not among the flags of open(2).
const FMODE_EXEC: u32 = 0o40;

/// `O_*` of a request.
pub(super) fn open_flags(flags: OpenFlags) -> u32 {
    let is_read = flags.intersects(OpenFlags::READ | OpenFlags::EXEC);
    let mut out = match (is_read, flags.contains(OpenFlags::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    for (flag, bits) in [
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::TRUNCATE, OFlags::TRUNC),
        (OpenFlags::EXCLUSIVE, OFlags::EXCL),
        (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::DIRECT, OFlags::DIRECT),
        (OpenFlags::SYNC, OFlags::SYNC),
        (OpenFlags::DSYNC, OFlags::DSYNC),
        (OpenFlags::NOATIME, OFlags::NOATIME),
    ] {
        out.set(bits, flags.contains(flag));
    }
    let exec = match flags.contains(OpenFlags::EXEC) {
        true => FMODE_EXEC,
        false => 0,
    };
    out.bits() | exec
}

/// An open handle.
pub(super) fn opened(open: &wire::OpenOut) -> Opened {
    let mut hints = OpenHints::empty();
    for (flag, hint) in [
        (FopenFlags::KEEP_CACHE, OpenHints::KEEP_CACHE),
        (FopenFlags::DIRECT_IO, OpenHints::DIRECT_IO),
        (FopenFlags::NONSEEKABLE, OpenHints::NONSEEKABLE),
        (FopenFlags::NOFLUSH, OpenHints::NO_FLUSH),
    ] {
        hints.set(hint, open.open_flags.contains(flag));
    }
    Opened {
        handle: HandleId(open.fh),
        hints,
        stamp: Stamp::NONE,
    }
}

/// An entry that exists.
pub(super) fn entry(entry: &EntryOut) -> Entry {
    assert_eq!(entry.generation, 0, "node ids are never used again");
    Entry {
        node: NodeId(entry.nodeid),
        attr: attr(&entry.attr),
        stamp: Stamp::NONE,
        dir_stamp: Stamp::NONE,
    }
}

/// Attributes in the layout of GETATTR.
pub(super) fn attr(attr: &wire::Attr) -> Attr {
    Attr {
        mask: AttrMask::BASIC,
        ino: attr.ino,
        mode: UnixMode(attr.mode),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: Device::from_u32(attr.rdev),
        size: attr.size,
        blocks: attr.blocks,
        blksize: attr.blksize,
        atime: time(attr.atime, attr.atimensec),
        mtime: time(attr.mtime, attr.mtimensec),
        ctime: time(attr.ctime, attr.ctimensec),
        is_submount: attr.flags.contains(AttrFlags::SUBMOUNT),
        ..Attr::default()
    }
}

/// Attributes in the layout of statx(2).
pub(super) fn statx(out: &wire::StatxOut) -> Attr {
    let stat = &out.stat;
    Attr {
        mask: AttrMask::from_bits_truncate(stat.mask),
        ino: stat.ino,
        mode: UnixMode(stat.mode.into()),
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        rdev: Device {
            major: stat.rdev_major,
            minor: stat.rdev_minor,
        },
        dev: Device {
            major: stat.dev_major,
            minor: stat.dev_minor,
        },
        size: stat.size,
        blocks: stat.blocks,
        blksize: stat.blksize,
        atime: sx_time(&stat.atime),
        mtime: sx_time(&stat.mtime),
        ctime: sx_time(&stat.ctime),
        btime: sx_time(&stat.btime),
        flags: stat.attributes,
        flags_mask: stat.attributes_mask,
        is_submount: out.flags.contains(AttrFlags::SUBMOUNT),
    }
}

fn time(sec: u64, nsec: u32) -> Timestamp {
    Timestamp {
        sec: sec.cast_signed(),
        nsec,
    }
}

fn sx_time(time: &wire::SxTime) -> Timestamp {
    Timestamp {
        sec: time.tv_sec,
        nsec: time.tv_nsec,
    }
}

/// Changes of attributes, all but the handle and the lock owner.
pub(super) fn setattr(changes: &SetAttr) -> SetattrIn {
    let mut args = SetattrIn::default();
    let mut valid = FattrValid::empty();
    for (flag, is_given) in [
        (FattrValid::MODE, changes.perm.is_some()),
        (FattrValid::UID, changes.uid.is_some()),
        (FattrValid::GID, changes.gid.is_some()),
        (FattrValid::SIZE, changes.size.is_some()),
        (FattrValid::ATIME, changes.atime.is_some()),
        (FattrValid::MTIME, changes.mtime.is_some()),
        (FattrValid::CTIME, changes.touch_ctime),
        (FattrValid::KILL_SUIDGID, changes.kill_suidgid),
    ] {
        valid.set(flag, is_given);
    }
    args.mode = changes.perm.unwrap_or(0);
    args.uid = changes.uid.unwrap_or(0);
    args.gid = changes.gid.unwrap_or(0);
    args.size = changes.size.unwrap_or(0);
    match changes.atime {
        Some(SetTime::Now) => valid |= FattrValid::ATIME_NOW,
        Some(SetTime::To(time)) => (args.atime, args.atimensec) = wire_time(time),
        None => {}
    }
    match changes.mtime {
        Some(SetTime::Now) => valid |= FattrValid::MTIME_NOW,
        Some(SetTime::To(time)) => (args.mtime, args.mtimensec) = wire_time(time),
        None => {}
    }
    SetattrIn { valid, ..args }
}

fn wire_time(time: Timestamp) -> (u64, u32) {
    (time.sec.cast_unsigned(), time.nsec)
}

/// Figures of a file system; FUSE carries neither type nor id.
pub(super) fn statfs(st: &wire::Kstatfs) -> StatFs {
    StatFs {
        bsize: st.bsize,
        frsize: st.frsize,
        blocks: st.blocks,
        bfree: st.bfree,
        bavail: st.bavail,
        files: st.files,
        ffree: st.ffree,
        namelen: st.namelen,
        ..StatFs::default()
    }
}

/// `SEEK_*`.
pub(super) fn whence(whence: Whence) -> u32 {
    match whence {
        Whence::End => 2,
        Whence::Data => 3,
        Whence::Hole => 4,
    }
}

/// A lock as it travels.
pub(super) fn file_lock(lock: &Lock) -> wire::FileLock {
    wire::FileLock {
        start: lock.range.start,
        end: lock.range.end,
        kind: match lock.kind {
            LockKind::Read => wire::FileLock::READ,
            LockKind::Write => wire::FileLock::WRITE,
            LockKind::Unlock => wire::FileLock::UNLOCK,
        },
        pid: lock.pid,
    }
}

/// A lock in the way; the family is the one that was asked about.
pub(super) fn held_lock(lk: &wire::FileLock, style: LockStyle) -> Option<Lock> {
    let kind = match lk.kind {
        wire::FileLock::READ => LockKind::Read,
        wire::FileLock::WRITE => LockKind::Write,
        _ => return None,
    };
    Some(Lock {
        style,
        kind,
        range: LockRange {
            start: lk.start,
            end: lk.end,
        },
        pid: lk.pid,
    })
}

/// Bytes of `struct fsxattr`.
const FSX_LEN: usize = 28;

/// Request number, argument and room for the result (linux/fs.h, as 64-bit
/// processes have them).
pub(super) fn ioctl(request: &FileIoctl) -> (u32, Vec<u8>, u32) {
    match request {
        FileIoctl::GetFlags => (0x8008_6601, Vec::new(), 4),
        FileIoctl::SetFlags(flags) => (0x4008_6602, flags.to_ne_bytes().to_vec(), 0),
        FileIoctl::GetFsx => (0x801c_581f, Vec::new(), FSX_LEN as u32),
        FileIoctl::SetFsx(fsx) => {
            let words = [
                fsx.xflags,
                fsx.extent_size,
                fsx.extents,
                fsx.project_id,
                fsx.cow_extent_size,
            ];
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.resize(FSX_LEN, 0);
            (0x401c_5820, bytes, 0)
        }
    }
}

/// The result of an ioctl.
pub(super) fn ioctl_reply(request: &FileIoctl, data: &[u8]) -> FileIoctlReply {
    let word = |index: usize| {
        let bytes = data.chunks_exact(4).nth(index);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        u32::from_ne_bytes(bytes.expect("the result is as long as was asked for"))
    };
    match request {
        FileIoctl::GetFlags => FileIoctlReply::Flags(word(0)),
        FileIoctl::GetFsx => FileIoctlReply::Fsx(Fsx {
            xflags: word(0),
            extent_size: word(1),
            extents: word(2),
            project_id: word(3),
            cow_extent_size: word(4),
        }),
        FileIoctl::SetFlags(_) | FileIoctl::SetFsx(_) => FileIoctlReply::Done,
    }
}
