//! Arguments and results of operations on open files and of those that make nodes.

use crate::attr::{FileType, UnixMode};
use crate::dir::Entry;
use crate::ids::{BackingId, HandleId, NodeId, Stamp};
use crate::name::XattrName;
use bitflags::bitflags;
use std::os::fd::OwnedFd;

bitflags! {
    /// How to open a node. Frontends translate from their wire's own values.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u32 {
        /// For reading.
        const READ = 1 << 0;
        /// For writing.
        const WRITE = 1 << 1;
        /// Every write goes to the end.
        const APPEND = 1 << 2;
        /// Empty the file first.
        const TRUNCATE = 1 << 3;
        /// With `create`: fail with `EEXIST` if the name exists.
        const EXCLUSIVE = 1 << 4;
        /// Fail with `ENOTDIR` unless it is a directory.
        const DIRECTORY = 1 << 5;
        /// Past the page cache (`O_DIRECT`).
        const DIRECT = 1 << 6;
        /// Data and metadata reach the disk with each write (`O_SYNC`).
        const SYNC = 1 << 7;
        /// Data reaches the disk with each write (`O_DSYNC`).
        const DSYNC = 1 << 8;
        /// Leave the access time alone.
        const NOATIME = 1 << 9;
        /// For execution: checked as `x`, readable by the kernel.
        const EXEC = 1 << 10;
        /// With `TRUNCATE`: clear set-id bits as an unprivileged writer does.
        const KILL_SUIDGID = 1 << 11;
    }
}

bitflags! {
    /// What a service knows about an open file that its frontend may use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OpenHints: u32 {
        /// What the peer has cached of the content is still good.
        const KEEP_CACHE = 1 << 0;
        /// The peer should not cache the content.
        const DIRECT_IO = 1 << 1;
        /// The file can't seek.
        const NONSEEKABLE = 1 << 2;
        /// Closing needs no `flush` while nothing was written.
        const NO_FLUSH = 1 << 3;
    }
}

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The handle, to be given back by [`Session::release`](crate::Session::release).
    pub handle: HandleId,
    /// What the service knows about it.
    pub hints: OpenHints,
    /// Version of the node at the time of opening.
    pub stamp: Stamp,
}

/// A node that was found or made, and opened in the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The entry, with a reference taken.
    pub entry: Entry,
    /// The open handle.
    pub opened: Opened,
    /// Whether the call made the file; `false` if it was there before.
    pub is_new: bool,
}

/// A security label to set as part of making a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecurityLabel<'a> {
    /// Full attribute name, such as `security.selinux`.
    pub name: XattrName<'a>,
    /// Its value.
    pub value: &'a [u8],
}

/// Common part of everything that makes a node. Owner and group come from the
/// context's caller and the directory's set-group-id bit.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// Permission bits before the umask.
    pub perm: u32,
    /// The caller's umask; a default ACL of the directory takes its place.
    pub umask: u32,
    /// Label to set with it, if the peer sent one.
    pub label: Option<SecurityLabel<'a>>,
}

impl NewNode<'_> {
    /// With these permission bits and an empty umask.
    pub const fn with_perm(perm: u32) -> Self {
        NewNode {
            perm,
            umask: 0,
            label: None,
        }
    }

    /// The mode of a node of type `file_type` made with these bits, umask not applied.
    pub const fn mode(&self, file_type: FileType) -> UnixMode {
        UnixMode::new(file_type, self.perm)
    }
}

/// Arguments of create and tmpfile.
#[derive(Clone, Copy, Debug)]
pub struct CreateArgs<'a> {
    /// How to open it.
    pub flags: OpenFlags,
    /// What to make if it isn't there.
    pub new: NewNode<'a>,
}

bitflags! {
    /// Variants of rename, as renameat2(2) has them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RenameFlags: u32 {
        /// Fail with `EEXIST` if the new name exists.
        const NOREPLACE = 1 << 0;
        /// Swap the two.
        const EXCHANGE = 1 << 1;
        /// Leave a whiteout at the old name.
        const WHITEOUT = 1 << 2;
    }
}

/// Versions of the two directories after a rename.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renamed {
    /// Version of the names in the old directory.
    pub old_dir_stamp: Stamp,
    /// Version of the names in the new directory.
    pub new_dir_stamp: Stamp,
}

/// Arguments of a write besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteArgs {
    /// Where to write, in bytes. A handle opened with
    /// [`OpenFlags::APPEND`] writes at the end whatever this says.
    pub offset: u64,
    /// Clear set-id bits as an unprivileged writer does.
    pub kill_suidgid: bool,
    /// Written from the peer's page cache some time after the application
    /// wrote it; the handle need not be the application's own.
    pub is_writeback: bool,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes written; fewer than offered only if an error ended it early.
    pub len: usize,
    /// Version that the write made.
    pub stamp: Stamp,
}

bitflags! {
    /// What `access` asks for, as access(2)'s bits.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Execute or search.
        const EXEC = 1;
        /// Write.
        const WRITE = 2;
        /// Read.
        const READ = 4;
    }
}

bitflags! {
    /// Conditions on setting an extended attribute, as setxattr(2) has them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct XattrFlags: u32 {
        /// Fail with `EEXIST` if it exists.
        const CREATE = 1;
        /// Fail with `ENODATA` unless it exists.
        const REPLACE = 2;
        /// With an ACL: clear set-group-id as a caller outside the group does.
        const KILL_SGID = 1 << 16;
    }
}

bitflags! {
    /// What fallocate does, as fallocate(2)'s bits; none means allocate.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct FallocateMode: u32 {
        /// Don't change the size.
        const KEEP_SIZE = 0x01;
        /// Free the range (with `KEEP_SIZE`).
        const PUNCH_HOLE = 0x02;
        /// Cut the range out.
        const COLLAPSE_RANGE = 0x08;
        /// Turn the range to zeros.
        const ZERO_RANGE = 0x10;
        /// Shift data up to make room.
        const INSERT_RANGE = 0x20;
        /// Unshare shared blocks.
        const UNSHARE_RANGE = 0x40;
    }
}

/// From where a seek is meant. The absolute and relative forms are the peer's
/// own affair; only those that need the file's layout reach a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The next data at or after the offset (`SEEK_DATA`).
    Data,
    /// The next hole at or after the offset (`SEEK_HOLE`).
    Hole,
    /// Relative to the end (`SEEK_END`).
    End,
}

/// One side of a copy within the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySide {
    /// The file.
    pub node: NodeId,
    /// Its handle.
    pub handle: HandleId,
    /// Where, in bytes.
    pub offset: u64,
}

/// Arguments of copy_file_range(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRange {
    /// Where from.
    pub from: CopySide,
    /// Where to.
    pub to: CopySide,
    /// Bytes to copy.
    pub len: u64,
}

/// How a handle is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Drop the flock of the context's lock owner.
    pub unlock_flock: bool,
    /// Flush first, as close(2) does.
    pub flush: bool,
}

/// `struct fsxattr` of linux/fs.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fsx {
    /// `FS_XFLAG_*` bits.
    pub xflags: u32,
    /// Extent size hint in bytes.
    pub extent_size: u32,
    /// Number of extents; only reported.
    pub extents: u32,
    /// Project id.
    pub project_id: u32,
    /// Copy-on-write extent size hint in bytes.
    pub cow_extent_size: u32,
}

/// The few ioctl(2) requests that mean the same on any file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIoctl {
    /// `FS_IOC_GETFLAGS`: what lsattr(1) shows.
    GetFlags,
    /// `FS_IOC_SETFLAGS`: what chattr(1) sets.
    SetFlags(u32),
    /// `FS_IOC_FSGETXATTR`.
    GetFsx,
    /// `FS_IOC_FSSETXATTR`.
    SetFsx(Fsx),
}

/// Outcome of a [`FileIoctl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIoctlReply {
    /// Done; nothing to report.
    Done,
    /// `FS_*_FL` bits.
    Flags(u32),
    /// Extended flags.
    Fsx(Fsx),
}

/// A descriptor of the host that holds a file's content, lent to the peer for
/// mapping (DAX), passthrough or donation.
#[derive(Debug)]
pub struct Backing {
    /// Names the loan, for revocation and return.
    pub id: BackingId,
    /// The descriptor, opened no wider than the protection that was asked for.
    pub fd: OwnedFd,
    /// Where in it the range begins, in bytes.
    pub offset: u64,
    /// Version of the content when it was lent.
    pub stamp: Stamp,
}
