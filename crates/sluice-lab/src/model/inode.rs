//! An inode of the model.

use super::content::{Content, PAGE};
use super::directory::Directory;
use sluice_vfs::{
    Attr, AttrMask, Device, Errno, FileType, Fsx, Result, Stamp, Timestamp, UnixMode,
};
use std::collections::BTreeMap;

/// The device that the whole model claims to live on.
const MODEL_DEVICE: Device = Device {
    major: 0,
    minor: 77,
};

/// `FS_IMMUTABLE_FL`: nothing about the inode changes.
pub(super) const FLAG_IMMUTABLE: u32 = 0x10;
/// `FS_APPEND_FL`: content only grows, names only come.
pub(super) const FLAG_APPEND: u32 = 0x20;
/// `FS_NODUMP_FL`.
const FLAG_NODUMP: u32 = 0x40;
/// The flags that can be set: the two above, `SYNC`, `NODUMP`, `NOATIME`, `DIRSYNC`.
pub(super) const FLAGS_SETTABLE: u32 = 0x0001_00f8;

/// `STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP`: statx(2)'s
/// bits have the same values as the flags.
const STATX_FLAGS: u64 = (FLAG_IMMUTABLE | FLAG_APPEND | FLAG_NODUMP) as u64;

pub(super) enum Body {
    File(Content),
    Dir(Directory),
    Symlink(Vec<u8>),
    /// A device, pipe or socket.
    Special,
}

pub(super) struct Inode {
    pub(super) ino: u64,
    pub(super) file_type: FileType,
    pub(super) perm: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: Device,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) btime: Timestamp,
    /// Version of everything about the inode but its access time.
    pub(super) stamp: Stamp,
    /// Version of a directory's names.
    pub(super) names_stamp: Stamp,
    /// Node table entries and handles, of all sessions, that keep it alive.
    pub(super) pins: u64,
    /// Made without a name and may be given one.
    pub(super) is_linkable: bool,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `FS_*_FL`.
    pub(super) flags: u32,
    pub(super) fsx: Fsx,
    pub(super) body: Body,
}

impl Inode {
    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// A directory that was removed but is still held.
    pub(super) fn is_dead(&self) -> bool {
        self.is_dir() && self.nlink == 0
    }

    pub(super) fn directory(&self) -> Result<&Directory> {
        match &self.body {
            Body::Dir(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory> {
        match &mut self.body {
            Body::Dir(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The content; `EISDIR` for directories and `EINVAL` for what has none.
    pub(super) fn content(&self) -> Result<&Content> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn content_mut(&mut self) -> Result<&mut Content> {
        match &mut self.body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Clears set-user-id, and set-group-id where group execution makes it
    /// mean something; directories keep theirs.
    pub(super) fn kill_suidgid(&mut self) {
        if self.is_dir() {
            return;
        }
        self.perm &= !0o4000;
        if self.perm & 0o0010 != 0 {
            self.perm &= !0o2000;
        }
        self.xattrs.remove(&b"security.capability"[..]);
    }

    pub(super) fn attr(&self) -> Attr {
        Attr {
            mask: AttrMask::BASIC | AttrMask::BTIME,
            ino: self.ino,
            mode: UnixMode::new(self.file_type, self.perm),
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            dev: MODEL_DEVICE,
            size: self.size(),
            blocks: self.pages() * (PAGE / 512),
            blksize: PAGE as u32,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            flags: u64::from(self.flags) & STATX_FLAGS,
            flags_mask: STATX_FLAGS,
            is_submount: false,
        }
    }

    /// Pages of content that take space.
    pub(super) fn pages(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.page_count(),
            _ => 0,
        }
    }

    fn size(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.size(),
            Body::Dir(directory) => 20 * (directory.len() as u64 + 2),
            Body::Symlink(target) => target.len() as u64,
            Body::Special => 0,
        }
    }
}
