//! Attributes of nodes and of file systems.

use crate::ids::Stamp;
use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// Which fields of an [`Attr`] are asked for or filled. The values are
    /// those of statx(2)'s `STATX_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct AttrMask: u32 {
        /// The type bits of `mode`.
        const TYPE = 0x0001;
        /// The permission bits of `mode`.
        const MODE = 0x0002;
        /// `nlink`.
        const NLINK = 0x0004;
        /// `uid`.
        const UID = 0x0008;
        /// `gid`.
        const GID = 0x0010;
        /// `atime`.
        const ATIME = 0x0020;
        /// `mtime`.
        const MTIME = 0x0040;
        /// `ctime`.
        const CTIME = 0x0080;
        /// `ino`.
        const INO = 0x0100;
        /// `size`.
        const SIZE = 0x0200;
        /// `blocks`.
        const BLOCKS = 0x0400;
        /// `btime`.
        const BTIME = 0x0800;
        /// What stat(2) reports: all but `btime`.
        const BASIC = 0x07ff;
    }
}

/// Seconds and nanoseconds since the epoch. `nsec` is below 1,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub sec: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

/// A device number, split as Linux splits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Device {
    /// The 32-bit form of the kernel's `new_encode_dev`, which FUSE carries.
    pub const fn to_u32(self) -> u32 {
        (self.minor & 0xff) | ((self.major & 0xfff) << 8) | ((self.minor & !0xff) << 12)
    }

    /// Inverse of [`Device::to_u32`].
    pub const fn from_u32(dev: u32) -> Self {
        Device {
            major: (dev & 0x000f_ff00) >> 8,
            minor: (dev & 0xff) | ((dev >> 12) & 0x000f_ff00),
        }
    }
}

/// What kind of object a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device.
    BlockDevice,
    /// Character device.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
}

impl FileType {
    /// The type bits of a Unix mode (`S_IF*`).
    pub const fn to_mode_bits(self) -> u32 {
        match self {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::Regular => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// The type that the type bits of `mode` name, if they name one.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & UnixMode::TYPE_MASK {
            0o010_000 => FileType::Fifo,
            0o020_000 => FileType::CharDevice,
            0o040_000 => FileType::Directory,
            0o060_000 => FileType::BlockDevice,
            0o100_000 => FileType::Regular,
            0o120_000 => FileType::Symlink,
            0o140_000 => FileType::Socket,
            _ => return None,
        })
    }

    /// The `DT_*` value of getdents64(2), which FUSE and 9P carry too.
    pub const fn to_dirent_type(self) -> u8 {
        (self.to_mode_bits() >> 12) as u8
    }

    /// The type that a `DT_*` value names; `None` for `DT_UNKNOWN` and others.
    pub const fn from_dirent_type(dirent_type: u8) -> Option<Self> {
        FileType::from_mode((dirent_type as u32) << 12)
    }
}

/// Type and permission bits as stat(2) reports them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UnixMode(pub u32);

impl UnixMode {
    /// The type bits (`S_IFMT`).
    pub const TYPE_MASK: u32 = 0o170_000;
    /// The permission bits with set-id and sticky.
    pub const PERM_MASK: u32 = 0o7777;

    /// A mode from its two parts.
    pub const fn new(file_type: FileType, perm: u32) -> Self {
        UnixMode(file_type.to_mode_bits() | (perm & Self::PERM_MASK))
    }

    /// The permission bits.
    pub const fn perm(self) -> u32 {
        self.0 & Self::PERM_MASK
    }

    /// The type, if the type bits name one.
    pub const fn file_type(self) -> Option<FileType> {
        FileType::from_mode(self.0)
    }

    /// Whether this is a directory.
    pub const fn is_dir(self) -> bool {
        matches!(self.file_type(), Some(FileType::Directory))
    }

    /// Whether this is a regular file.
    pub const fn is_file(self) -> bool {
        matches!(self.file_type(), Some(FileType::Regular))
    }

    /// Whether this is a symbolic link.
    pub const fn is_symlink(self) -> bool {
        matches!(self.file_type(), Some(FileType::Symlink))
    }
}

impl fmt::Debug for UnixMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#o}", self.0)
    }
}

/// Attributes of a node. A field means something only if its bit is in `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The fields that are filled.
    pub mask: AttrMask,
    /// Inode number, unique within the export even where it spans several host
    /// file systems.
    pub ino: u64,
    /// Type and permissions.
    pub mode: UnixMode,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Which device a device node stands for.
    pub rdev: Device,
    /// The device that holds the node, as the service sees it.
    pub dev: Device,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub blksize: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the attributes.
    pub ctime: Timestamp,
    /// Birth.
    pub btime: Timestamp,
    /// `STATX_ATTR_*` bits that are set (immutable, append-only, …).
    pub flags: u64,
    /// `STATX_ATTR_*` bits that the file system supports.
    pub flags_mask: u64,
    /// The node is the root of a file system mounted below its parent.
    pub is_submount: bool,
}

impl Default for Attr {
    fn default() -> Self {
        Attr {
            mask: AttrMask::empty(),
            ino: 0,
            mode: UnixMode(0),
            nlink: 0,
            uid: 0,
            gid: 0,
            rdev: Device::default(),
            dev: Device::default(),
            size: 0,
            blocks: 0,
            blksize: 0,
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            flags: 0,
            flags_mask: 0,
            is_submount: false,
        }
    }
}

/// Attributes with the version they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The attributes.
    pub attr: Attr,
    /// Version of the node's attributes; after a change, the version it made.
    pub stamp: Stamp,
}

/// How a time is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The service's clock.
    Now,
    /// This time.
    To(Timestamp),
}

/// The attributes to change; those left `None` stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits.
    pub perm: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// Move the change time to now even if nothing else is set (9P's lone
    /// `P9_SETATTR_CTIME`; chown(2) with both ids −1).
    pub touch_ctime: bool,
    /// Clear set-user-id, and set-group-id on group-executable files, as Linux
    /// does when someone without `CAP_FSETID` changes content or owner.
    pub kill_suidgid: bool,
}

/// What statfs(2) reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Type of the file system (`f_type`).
    pub fs_type: u32,
    /// Optimal transfer size in bytes.
    pub bsize: u32,
    /// Unit of the block counts in bytes.
    pub frsize: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for unprivileged users.
    pub bavail: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// File system id.
    pub fsid: u64,
    /// Longest name in bytes.
    pub namelen: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_round_trip_in_the_kernels_encoding() {
        // /dev/null is 1:3; 8:17 is sdb1; a minor past 255 spills into the high bits.
        assert_eq!(Device { major: 1, minor: 3 }.to_u32(), 0x103);
        assert_eq!(
            Device {
                major: 8,
                minor: 17
            }
            .to_u32(),
            0x811
        );
        assert_eq!(
            Device {
                major: 8,
                minor: 0x12345
            }
            .to_u32(),
            0x1230_0845
        );
        for dev in [0x103, 0x811, 0x1230_0845, 0x0fff_ffff] {
            assert_eq!(Device::from_u32(dev).to_u32(), dev);
        }
    }

    #[test]
    fn file_types_agree_with_dirent_and_mode() {
        assert_eq!(FileType::from_mode(0o100_644), Some(FileType::Regular));
        assert_eq!(FileType::Directory.to_dirent_type(), 4);
        assert_eq!(FileType::Socket.to_dirent_type(), 12);
        assert_eq!(FileType::from_dirent_type(0), None);
        assert_eq!(FileType::from_dirent_type(10), Some(FileType::Symlink));
        assert_eq!(FileType::from_mode(0), None);
    }
}
