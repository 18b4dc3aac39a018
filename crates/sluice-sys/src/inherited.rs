//! Descriptors that a process was started with.

use crate::check;
use rustix::fd::{FromRawFd, OwnedFd};
use sluice_vfs::Result;

/// A descriptor of our own for what the process knows as descriptor `number`,
/// which stays as it is. `EBADF` if there is none.
pub fn duplicate_inherited(number: i32) -> Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC touches no memory, and changes no descriptor there
    // is.
    let outcome = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    check(outcome.into())?;
    // SAFETY: the kernel just made this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(outcome) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;
    use sluice_vfs::Errno;

    #[test]
    fn the_original_stays() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let second = duplicate_inherited(writer.as_raw_fd()).unwrap();
        drop(writer);
        rustix::io::write(&second, b"x").unwrap();
        assert_eq!(rustix::io::read(&reader, &mut [0; 2]), Ok(1));
        assert_eq!(duplicate_inherited(-1).unwrap_err(), Errno::EBADF);
    }
}
