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

/// Programs that this process starts from now on get none of its descriptors, but for
/// their standard streams and `but`. Kernels before 5.11 know no such thing.
pub fn keep_descriptors(but: Option<i32>) -> Result<()> {
    let but = but.and_then(|number| u32::try_from(number).ok());
    let but = but.filter(|number| *number >= 3);
    if let Some(first) = but.map_or(Some(3), |number| number.checked_add(1)) {
        keep_range(first, u32::MAX)?;
    }
    match but {
        Some(number) if number > 3 => keep_range(3, number - 1),
        _ => Ok(()),
    }
}

fn keep_range(first: u32, last: u32) -> Result<()> {
    // SAFETY: with this flag nothing is closed here, and no memory is touched.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    check(outcome).map(drop)
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
