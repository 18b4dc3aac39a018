//! The only place that opens anything below the root.
//!
//! A name is looked up as one component in a directory that is held, and never
//! followed, so no name leads out of the tree. What is held is opened for I/O
//! through its descriptor in `/proc/self/fd`, which leads to that very inode
//! whatever its name is now.

use crate::inode::Node;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::path::DecInt;
use sluice_sys::FileHandle;
use sluice_vfs::{Errno, FileType, Name, Result};
use std::path::Path;

/// Opens the directory that is to be exported. Here alone symlinks are
/// followed: the path is the host's own.
pub(crate) fn open_root(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens what `name` is in `dir`, for its identity and attributes only.
pub(crate) fn child(dir: BorrowedFd<'_>, name: Name<'_>) -> Result<OwnedFd> {
    open_for_peer(dir, name.as_os_str(), PATH_FLAGS, Mode::empty())
}

/// Opens what `handle` names on the file system of `mount`, for its identity
/// and attributes only. The handle must be one that was found in the tree.
pub(crate) fn by_handle(mount: BorrowedFd<'_>, handle: &FileHandle) -> Result<OwnedFd> {
    handle.open_path(mount).map_err(|errno| match errno {
        Errno::EMFILE => Errno::ENFILE,
        other => other,
    })
}

/// Opens the directory above `dir`. The caller has to see to it that this
/// isn't outside the tree.
pub(crate) fn parent(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    open_for_peer(dir, "..", PATH_FLAGS | OFlags::DIRECTORY, Mode::empty())
}

/// Makes a regular file; `EEXIST` if there is anything under that name.
pub(crate) fn create(
    dir: BorrowedFd<'_>,
    name: Name<'_>,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    open_for_peer(dir, name.as_os_str(), flags, mode)
}

/// Makes a regular file without a name on the file system of `dir`.
pub(crate) fn create_unnamed(dir: BorrowedFd<'_>, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    open_for_peer(dir, ".", flags | OFlags::TMPFILE, mode)
}

const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// The descriptors of this process as names, by which what one holds can be
/// opened again or given to calls that only take names.
pub(crate) struct Descriptors {
    dir: OwnedFd,
}

impl Descriptors {
    /// Opens `/proc/self/fd`, which then works wherever the process' root goes.
    pub(crate) fn open() -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        match rustix::fs::fstatfs(&dir)?.f_type {
            rustix::fs::PROC_SUPER_MAGIC => Ok(Descriptors { dir }),
            _ => Err(Errno::ENODEV),
        }
    }

    /// The directory that has the names given by [`Descriptors::name`]. Its
    /// entries must be followed, and lead no further than to their inode.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The name of `fd` among the descriptors.
    pub(crate) fn name(fd: &impl AsFd) -> DecInt {
        DecInt::from_fd(fd)
    }

    /// Opens what `node` stands for. Only regular files and directories ever
    /// are: opening a device or a pipe has effects of its own. `EOPNOTSUPP` for
    /// these, `ELOOP` for a symlink.
    pub(crate) fn reopen(&self, node: &Node, flags: OFlags) -> Result<OwnedFd> {
        match node.file_type {
            FileType::Regular => {}
            FileType::Directory if flags.intersects(WRITE_MODES) => return Err(Errno::EISDIR),
            FileType::Directory => {}
            FileType::Symlink => return Err(Errno::ELOOP),
            _ => return Err(Errno::EOPNOTSUPP),
        }
        open_for_peer(
            self.dir(),
            Self::name(&node.path_fd()),
            flags,
            Mode::empty(),
        )
    }

    /// Opens the directory that `fd` holds, for calls that take no `O_PATH`.
    pub(crate) fn open_dir(&self, fd: &OwnedFd) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        open_for_peer(self.dir(), Self::name(fd), flags, Mode::empty())
    }

    /// Opens what the open file `fd` is, for its identity and attributes only.
    pub(crate) fn path_to(&self, fd: &OwnedFd) -> Result<OwnedFd> {
        open_for_peer(self.dir(), Self::name(fd), OFlags::PATH, Mode::empty())
    }
}

const WRITE_MODES: OFlags = OFlags::WRONLY.union(OFlags::RDWR);

/// Running out of descriptors is this request's misfortune, not the process':
/// the peer sees what a system without free file structures says.
fn open_for_peer(
    dir: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    openat(dir, path, flags | OFlags::CLOEXEC, mode).map_err(|errno| match errno {
        rustix::io::Errno::MFILE => Errno::ENFILE,
        other => other.into(),
    })
}
