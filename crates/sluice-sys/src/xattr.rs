//! Extended attributes of a name relative to a directory descriptor, the
//! final symlink followed.
//!
//! Linux 6.13 has system calls for that. Before, the only way is the working
//! directory, which the calling thread then gets for itself.

use crate::{check, unshare_thread_fs};
use bitflags::bitflags;
use rustix::fd::{AsRawFd, BorrowedFd};
use sluice_vfs::{Errno, Result, XattrName};
use std::ffi::CStr;
use std::ptr;

/// The same numbers on every architecture (Linux 6.13).
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;

bitflags! {
    /// Conditions on setting an attribute.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct XattrSet: u32 {
        /// `XATTR_CREATE`: fail with `EEXIST` if it exists.
        const CREATE = 1;
        /// `XATTR_REPLACE`: fail with `ENODATA` unless it exists.
        const REPLACE = 2;
    }
}

/// Puts the value of an attribute into `value` and returns its length; with an
/// empty `value` only the length. `ERANGE` if it does not fit.
pub fn getxattr_at(
    dir: BorrowedFd<'_>,
    path: &CStr,
    name: XattrName<'_>,
    value: &mut [u8],
) -> Result<usize> {
    let name = CName::new(name)?;
    let args = XattrArgs::new(value.as_mut_ptr(), value.len(), 0)?;
    // SAFETY: the kernel stores at most `args.size` bytes at `args.value`,
    // which is `value`; path and name are NUL-terminated.
    let outcome = check(unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            dir.as_raw_fd(),
            path.as_ptr(),
            0,
            name.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    });
    or_in_working_directory(outcome, dir, || {
        // SAFETY: as above.
        let outcome = unsafe {
            libc::getxattr(
                path.as_ptr(),
                name.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        };
        check(outcome as libc::c_long)
    })
}

/// Puts the names of all attributes, each ended by a NUL, into `list` and
/// returns their length; with an empty `list` only the length. `ERANGE` if
/// they do not fit.
pub fn listxattr_at(dir: BorrowedFd<'_>, path: &CStr, list: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel stores at most `list.len()` bytes into `list`; the
    // path is NUL-terminated.
    let outcome = check(unsafe {
        libc::syscall(
            SYS_LISTXATTRAT,
            dir.as_raw_fd(),
            path.as_ptr(),
            0,
            list.as_mut_ptr(),
            list.len(),
        )
    });
    or_in_working_directory(outcome, dir, || {
        // SAFETY: as above.
        let outcome =
            unsafe { libc::listxattr(path.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
        check(outcome as libc::c_long)
    })
}

/// Sets an attribute.
pub fn setxattr_at(
    dir: BorrowedFd<'_>,
    path: &CStr,
    name: XattrName<'_>,
    value: &[u8],
    flags: XattrSet,
) -> Result<()> {
    let name = CName::new(name)?;
    let args = XattrArgs::new(value.as_ptr().cast_mut(), value.len(), flags.bits())?;
    // SAFETY: the kernel loads `args.size` bytes at `args.value`, which is
    // `value`, and stores nothing; path and name are NUL-terminated.
    let outcome = check(unsafe {
        libc::syscall(
            SYS_SETXATTRAT,
            dir.as_raw_fd(),
            path.as_ptr(),
            0,
            name.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    });
    or_in_working_directory(outcome, dir, || {
        // SAFETY: as above.
        let outcome = unsafe {
            libc::setxattr(
                path.as_ptr(),
                name.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                flags.bits() as libc::c_int,
            )
        };
        check(outcome.into())
    })
    .map(drop)
}

/// Removes an attribute; `ENODATA` if there is none.
pub fn removexattr_at(dir: BorrowedFd<'_>, path: &CStr, name: XattrName<'_>) -> Result<()> {
    let name = CName::new(name)?;
    // SAFETY: path and name are NUL-terminated; the call keeps no pointer.
    let outcome = check(unsafe {
        libc::syscall(
            SYS_REMOVEXATTRAT,
            dir.as_raw_fd(),
            path.as_ptr(),
            0,
            name.as_ptr(),
        )
    });
    or_in_working_directory(outcome, dir, || {
        // SAFETY: as above.
        check(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }.into())
    })
    .map(drop)
}

/// `struct xattr_args` of linux/xattr.h.
#[repr(C, align(8))]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

impl XattrArgs {
    fn new(value: *mut u8, len: usize, flags: u32) -> Result<Self> {
        let size = u32::try_from(len).map_err(|_| Errno::E2BIG)?;
        let value = if len == 0 { ptr::null_mut() } else { value };
        Ok(XattrArgs {
            value: value.expose_provenance() as u64,
            size,
            flags,
        })
    }
}

/// An attribute's name with its NUL.
struct CName([u8; sluice_vfs::XATTR_NAME_MAX + 1]);

impl CName {
    fn new(name: XattrName<'_>) -> Result<Self> {
        let mut bytes = [0; sluice_vfs::XATTR_NAME_MAX + 1];
        let name = name.as_bytes();
        let room = bytes.get_mut(..name.len()).ok_or(Errno::ERANGE)?;
        room.copy_from_slice(name);
        Ok(CName(bytes))
    }

    fn as_ptr(&self) -> *const libc::c_char {
        self.0.as_ptr().cast()
    }
}

/// `outcome`, or what `call` gives with `dir` as the thread's working
/// directory if the kernel does not know the system call.
fn or_in_working_directory(
    outcome: Result<usize>,
    dir: BorrowedFd<'_>,
    call: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    match outcome {
        Err(Errno::ENOSYS) => {
            unshare_thread_fs()?;
            rustix::process::fchdir(dir)?;
            call()
        }
        settled => settled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;

    #[test]
    fn attributes_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("f")).unwrap();
        let dir = File::open(dir.path()).unwrap();
        let (dir, name) = (dir.as_fd(), XattrName::new(b"user.sluice").unwrap());
        match setxattr_at(dir, c"f", name, b"value", XattrSet::CREATE) {
            Err(Errno::EOPNOTSUPP) => return,
            outcome => outcome.unwrap(),
        }
        assert_eq!(
            setxattr_at(dir, c"f", name, b"value", XattrSet::CREATE),
            Err(Errno::EEXIST)
        );
        let mut value = [0; 16];
        assert_eq!(getxattr_at(dir, c"f", name, &mut []), Ok(5));
        assert_eq!(
            getxattr_at(dir, c"f", name, &mut value[..4]),
            Err(Errno::ERANGE)
        );
        assert_eq!(getxattr_at(dir, c"f", name, &mut value), Ok(5));
        assert_eq!(&value[..5], b"value");
        let mut list = [0; 256];
        let len = listxattr_at(dir, c"f", &mut list).unwrap();
        assert!(
            list[..len]
                .split(|byte| *byte == 0)
                .any(|name| name == b"user.sluice")
        );
        removexattr_at(dir, c"f", name).unwrap();
        assert_eq!(getxattr_at(dir, c"f", name, &mut []), Err(Errno::ENODATA));
    }

    #[test]
    fn old_kernels_are_served_through_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("f")).unwrap();
        let fd = File::open(dir.path()).unwrap();
        let there = or_in_working_directory(Err(Errno::ENOSYS), fd.as_fd(), || {
            Ok(usize::from(std::path::Path::new("f").exists()))
        });
        assert_eq!(there, Ok(1));
        let kept = or_in_working_directory(Err(Errno::EPERM), fd.as_fd(), || Ok(0));
        assert_eq!(kept, Err(Errno::EPERM));
    }
}
