//! Neutral words to wire words and back.

use super::options::{CachePolicy, TIMEOUT_MAX};
use crate::fuse::wire::{
    Attr as WireAttr, AttrFlags, AttrOut, EntryOut, Kstatfs, Statx, StatxOut, SxTime,
};
use sluice_vfs::{Attr, Device, Entry, Errno, OpenFlags, Result, StatFs, Timestamp};
use std::time::Duration;

/// How a connection shows nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Presenter {
    /// What may be cached, and for how long.
    pub(super) cache: CachePolicy,
    /// Submounts are marked.
    pub(super) marks_submounts: bool,
}

impl Presenter {
    /// An entry that exists.
    pub(super) fn entry_out(&self, entry: &Entry) -> EntryOut {
        let (entry_valid, entry_valid_nsec) = timeout(self.cache.entry_timeout);
        let (attr_valid, attr_valid_nsec) = timeout(self.cache.attr_timeout);
        EntryOut {
            nodeid: entry.node.0,
            generation: 0, // node ids are never used again
            entry_valid,
            attr_valid,
            entry_valid_nsec,
            attr_valid_nsec,
            attr: self.attr(&entry.attr),
        }
    }

    /// A name that is missing, or `ENOENT` if that may not be cached.
    pub(super) fn missing_entry_out(&self) -> Result<EntryOut> {
        let (entry_valid, entry_valid_nsec) = timeout(self.cache.negative_timeout);
        if (entry_valid, entry_valid_nsec) == (0, 0) {
            return Err(Errno::ENOENT);
        }
        Ok(EntryOut {
            entry_valid,
            entry_valid_nsec,
            ..EntryOut::default()
        })
    }

    /// Attributes of a node.
    pub(super) fn attr_out(&self, attr: &Attr) -> AttrOut {
        let (attr_valid, attr_valid_nsec) = timeout(self.cache.attr_timeout);
        AttrOut {
            attr_valid,
            attr_valid_nsec,
            dummy: 0,
            attr: self.attr(attr),
        }
    }

    /// Attributes of a node in the layout of statx(2).
    pub(super) fn statx_out(&self, attr: &Attr) -> StatxOut {
        let (attr_valid, attr_valid_nsec) = timeout(self.cache.attr_timeout);
        StatxOut {
            attr_valid,
            attr_valid_nsec,
            flags: self.attr_flags(attr),
            spare: [0; 2],
            stat: statx(attr),
        }
    }

    fn attr(&self, attr: &Attr) -> WireAttr {
        WireAttr {
            ino: attr.ino,
            size: attr.size,
            blocks: attr.blocks,
            atime: attr.atime.sec as u64,
            mtime: attr.mtime.sec as u64,
            ctime: attr.ctime.sec as u64,
            atimensec: attr.atime.nsec,
            mtimensec: attr.mtime.nsec,
            ctimensec: attr.ctime.nsec,
            mode: attr.mode.0,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev.to_u32(),
            blksize: attr.blksize,
            flags: self.attr_flags(attr),
        }
    }

    fn attr_flags(&self, attr: &Attr) -> AttrFlags {
        if self.marks_submounts && attr.is_submount {
            AttrFlags::SUBMOUNT
        } else {
            AttrFlags::empty()
        }
    }
}

fn statx(attr: &Attr) -> Statx {
    let Device {
        major: rdev_major,
        minor: rdev_minor,
    } = attr.rdev;
    let Device {
        major: dev_major,
        minor: dev_minor,
    } = attr.dev;
    Statx {
        mask: attr.mask.bits(),
        blksize: attr.blksize,
        attributes: attr.flags,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode.0 as u16,
        spare0: [0],
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        attributes_mask: attr.flags_mask,
        atime: sx_time(attr.atime),
        btime: sx_time(attr.btime),
        ctime: sx_time(attr.ctime),
        mtime: sx_time(attr.mtime),
        rdev_major,
        rdev_minor,
        dev_major,
        dev_minor,
        spare2: [0; 14],
    }
}

fn sx_time(time: Timestamp) -> SxTime {
    SxTime {
        tv_sec: time.sec,
        tv_nsec: time.nsec,
        reserved: 0,
    }
}

/// Figures of a file system.
pub(super) fn kstatfs(figures: &StatFs) -> Kstatfs {
    Kstatfs {
        blocks: figures.blocks,
        bfree: figures.bfree,
        bavail: figures.bavail,
        files: figures.files,
        ffree: figures.ffree,
        bsize: figures.bsize,
        namelen: figures.namelen,
        frsize: figures.frsize,
        padding: 0,
        spare: [0; 6],
    }
}

/// Seconds and nanoseconds of a timeout.
fn timeout(duration: Duration) -> (u64, u32) {
    let capped = duration.min(TIMEOUT_MAX);
    (capped.as_secs(), capped.subsec_nanos())
}

/// A time that a peer sent; `EINVAL` unless the nanoseconds are below a second.
pub(super) fn timestamp(sec: u64, nsec: u32) -> Result<Timestamp> {
    if nsec >= 1_000_000_000 {
        return Err(Errno::EINVAL);
    }
    Ok(Timestamp {
        sec: sec as i64,
        nsec,
    })
}

/// `O_*` as the peer's kernel has them. Guest and host have one architecture.
mod wire_open {
    pub(super) const ACCMODE: u32 = 0o3;
    pub(super) const WRONLY: u32 = 0o1;
    pub(super) const RDWR: u32 = 0o2;
    /// `__FMODE_EXEC`: set by execve(2).
    pub(super) const EXEC: u32 = 0o40;
    pub(super) const EXCL: u32 = 0o200;
    pub(super) const TRUNC: u32 = 0o1000;
    pub(super) const APPEND: u32 = 0o2000;
    pub(super) const DSYNC: u32 = 0o10000;
    pub(super) const NOATIME: u32 = 0o1000000;
    /// `__O_SYNC`, without `O_DSYNC`.
    pub(super) const SYNC: u32 = 0o4000000;

    #[cfg(not(any(
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "powerpc64"
    )))]
    pub(super) const DIRECT: u32 = 0o40000;
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    pub(super) const DIRECT: u32 = 0o200000;
    #[cfg(target_arch = "powerpc64")]
    pub(super) const DIRECT: u32 = 0o400000;
}

/// Open flags of a request. `EINVAL` for an access mode that does not exist.
pub(super) fn open_flags(wire: u32) -> Result<OpenFlags> {
    let mut flags = match wire & wire_open::ACCMODE {
        0 => OpenFlags::READ,
        wire_open::WRONLY => OpenFlags::WRITE,
        wire_open::RDWR => OpenFlags::READ | OpenFlags::WRITE,
        _ => return Err(Errno::EINVAL),
    };
    for (bit, flag) in [
        (wire_open::EXEC, OpenFlags::EXEC),
        (wire_open::EXCL, OpenFlags::EXCLUSIVE),
        (wire_open::TRUNC, OpenFlags::TRUNCATE),
        (wire_open::APPEND, OpenFlags::APPEND),
        (wire_open::DIRECT, OpenFlags::DIRECT),
        (wire_open::DSYNC, OpenFlags::DSYNC),
        (wire_open::SYNC, OpenFlags::SYNC),
        (wire_open::NOATIME, OpenFlags::NOATIME),
    ] {
        flags.set(flag, wire & bit != 0);
    }
    Ok(flags)
}
