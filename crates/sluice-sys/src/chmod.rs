//! Permission bits of a descriptor that is not open for I/O.

use crate::check;
use rustix::fd::{AsRawFd, BorrowedFd};
use sluice_vfs::Result;

/// fchmodat2(2), the same number on every architecture (Linux 6.6).
const SYS_FCHMODAT2: libc::c_long = 452;

/// Sets the permission bits of what `fd` holds; unlike fchmod(2) it takes an
/// `O_PATH` descriptor. `ENOSYS` before Linux 6.6.
pub fn chmod_at_empty_path(fd: BorrowedFd<'_>, perm: u32) -> Result<()> {
    let raw_fd = fd.as_raw_fd();
    // SAFETY: the path is a NUL-terminated literal; the call keeps no pointer.
    let outcome = unsafe {
        libc::syscall(
            SYS_FCHMODAT2,
            raw_fd,
            c"".as_ptr(),
            perm,
            libc::AT_EMPTY_PATH,
        )
    };
    check(outcome).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{Mode, OFlags, fstat, open};
    use sluice_vfs::Errno;

    #[test]
    fn an_o_path_descriptor_is_enough() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = open(file.path(), OFlags::PATH, Mode::empty()).unwrap();
        match chmod_at_empty_path(fd.as_fd(), 0o741) {
            Ok(()) => assert_eq!(fstat(&fd).unwrap().st_mode & 0o7777, 0o741),
            Err(errno) => assert_eq!(errno, Errno::ENOSYS),
        }
    }
}
