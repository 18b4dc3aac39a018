//! File handles: names of inodes that outlive every descriptor of them, and
//! are never used for another inode (open_by_handle_at(2)).

use crate::check;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::path::Arg;
use sluice_vfs::{Errno, Result};
use std::ffi::CStr;

/// Longest handle that the kernel gives out (`MAX_HANDLE_SZ`).
const HANDLE_MAX: usize = 128;

/// What identifies an inode within its file system, its generation included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    kind: i32,
    bytes: Box<[u8]>,
}

/// `struct file_handle` with room for any handle.
#[repr(C)]
struct RawHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; HANDLE_MAX],
}

impl FileHandle {
    /// The handle of what `name` is in `dir`; a symlink is not followed. An
    /// empty name means `dir` itself. `EOPNOTSUPP` where the file system has
    /// none.
    pub fn of(dir: BorrowedFd<'_>, name: impl Arg) -> Result<Self> {
        name.into_with_c_str(|name| Ok(Self::of_c_name(dir, name)))?
    }

    fn of_c_name(dir: BorrowedFd<'_>, name: &CStr) -> Result<Self> {
        let mut raw = RawHandle {
            handle_bytes: HANDLE_MAX as u32,
            handle_type: 0,
            f_handle: [0; HANDLE_MAX],
        };
        let mut mount_id: libc::c_int = 0;
        // SAFETY: the kernel stores at most `handle_bytes` bytes at `f_handle`,
        // which has that many, and an int at `mount_id`; the name is
        // NUL-terminated.
        check(unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                dir.as_raw_fd(),
                name.as_ptr(),
                &raw mut raw,
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        })?;
        let bytes = raw.f_handle.get(..raw.handle_bytes as usize);
        Ok(FileHandle {
            kind: raw.handle_type,
            bytes: bytes.ok_or(Errno::EIO)?.into(),
        })
    }

    /// Opens the inode for its identity and attributes only (`O_PATH`).
    /// `mount` is open, not merely `O_PATH`, on the mount that it is reached
    /// through. `ESTALE` if the inode is gone; `EPERM` without
    /// `CAP_DAC_READ_SEARCH`.
    pub fn open_path(&self, mount: BorrowedFd<'_>) -> Result<OwnedFd> {
        let mut raw = RawHandle {
            handle_bytes: self.bytes.len() as u32,
            handle_type: self.kind,
            f_handle: [0; HANDLE_MAX],
        };
        let room = raw.f_handle.get_mut(..self.bytes.len());
        room.ok_or(Errno::EINVAL)?.copy_from_slice(&self.bytes);
        // SAFETY: the kernel reads `handle_bytes` bytes at `f_handle`, which
        // has more.
        let fd = check(unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                mount.as_raw_fd(),
                &raw mut raw,
                libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW,
            )
        })?;
        let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_handle_finds_a_file_that_moved_and_none_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "x").unwrap();
        let open = fs::File::open(dir.path()).unwrap();
        let handle = match FileHandle::of(open.as_fd(), c"f") {
            Ok(handle) => handle,
            Err(errno) => return assert_eq!(errno, Errno::EOPNOTSUPP),
        };
        assert_eq!(FileHandle::of(open.as_fd(), c"missing"), Err(Errno::ENOENT));
        let ino = fs::metadata(dir.path().join("f")).unwrap().ino();
        fs::rename(dir.path().join("f"), dir.path().join("g")).unwrap();
        let found = match handle.open_path(open.as_fd()) {
            Ok(found) => found,
            Err(errno) => return assert_eq!(errno, Errno::EPERM),
        };
        assert_eq!(rustix::fs::fstat(&found).unwrap().st_ino, ino);
        drop(found);
        fs::remove_file(dir.path().join("g")).unwrap();
        assert_eq!(handle.open_path(open.as_fd()).err(), Some(Errno::ESTALE));
    }
}
