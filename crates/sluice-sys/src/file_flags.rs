//! File flags as lsattr(1) and xfs_io(8) know them (linux/fs.h).

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::ioctl::{Opcode, opcode};
use sluice_vfs::{Fsx, Result};
use std::ffi::{c_int, c_long};

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`: declared with a long, used with an int.
const GET_FLAGS: Opcode = opcode::read::<c_long>(b'f', 1);
const SET_FLAGS: Opcode = opcode::write::<c_long>(b'f', 2);
/// `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`.
const GET_FSX: Opcode = opcode::read::<RawFsx>(b'X', 31);
const SET_FSX: Opcode = opcode::write::<RawFsx>(b'X', 32);

/// `FS_*_FL` bits of an open file. `ENOTTY` where the file system has none.
pub fn file_flags(fd: BorrowedFd<'_>) -> Result<u32> {
    let mut flags: c_int = 0;
    // SAFETY: the request stores one int, for which `flags` is the room.
    unsafe { request(fd, GET_FLAGS, &raw mut flags) }?;
    Ok(flags as u32)
}

/// Sets the `FS_*_FL` bits of an open file.
pub fn set_file_flags(fd: BorrowedFd<'_>, flags: u32) -> Result<()> {
    let mut flags = flags as c_int;
    // SAFETY: the request loads one int.
    unsafe { request(fd, SET_FLAGS, &raw mut flags) }
}

/// Extended flags of an open file.
pub fn fsx(fd: BorrowedFd<'_>) -> Result<Fsx> {
    let mut raw = RawFsx::default();
    // SAFETY: the request stores one `struct fsxattr`, for which `raw` is the room.
    unsafe { request(fd, GET_FSX, &raw mut raw) }?;
    Ok(Fsx {
        xflags: raw.xflags,
        extent_size: raw.extent_size,
        extents: raw.extents,
        project_id: raw.project_id,
        cow_extent_size: raw.cow_extent_size,
    })
}

/// Sets the extended flags of an open file.
pub fn set_fsx(fd: BorrowedFd<'_>, fsx: &Fsx) -> Result<()> {
    let mut raw = RawFsx {
        xflags: fsx.xflags,
        extent_size: fsx.extent_size,
        extents: fsx.extents,
        project_id: fsx.project_id,
        cow_extent_size: fsx.cow_extent_size,
        pad: [0; 8],
    };
    // SAFETY: the request loads one `struct fsxattr`.
    unsafe { request(fd, SET_FSX, &raw mut raw) }
}

/// `struct fsxattr`.
#[repr(C)]
#[derive(Default)]
struct RawFsx {
    xflags: u32,
    extent_size: u32,
    extents: u32,
    project_id: u32,
    cow_extent_size: u32,
    pad: [u8; 8],
}

/// # Safety
///
/// `argument` must point at what `opcode` loads or stores.
unsafe fn request<T>(fd: BorrowedFd<'_>, opcode: Opcode, argument: *mut T) -> Result<()> {
    // SAFETY: promised by the caller; the kernel keeps no pointer.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), opcode as _, argument) };
    crate::check(outcome.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use sluice_vfs::Errno;

    /// `FS_NODUMP_FL`, which any owner may set where flags exist at all.
    const NODUMP: u32 = 0x40;

    #[test]
    fn flags_that_are_set_are_read_back() {
        let file = tempfile::tempfile().unwrap();
        let flags = match file_flags(file.as_fd()) {
            Ok(flags) => flags,
            Err(errno) => {
                assert!(matches!(errno, Errno::ENOTTY | Errno::EOPNOTSUPP));
                return;
            }
        };
        set_file_flags(file.as_fd(), flags | NODUMP).unwrap();
        assert_eq!(file_flags(file.as_fd()), Ok(flags | NODUMP));
        if let Ok(before) = fsx(file.as_fd()) {
            set_fsx(file.as_fd(), &before).unwrap();
            assert_eq!(fsx(file.as_fd()), Ok(before));
        }
    }
}
