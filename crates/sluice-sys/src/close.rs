//! Closing with the answer heard.

use crate::check;
use rustix::fd::{IntoRawFd, OwnedFd};
use sluice_vfs::Result;

/// Closes `fd` and says what the file system says about it. The descriptor is
/// gone either way.
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor was owned and is given up here.
    let outcome = unsafe { libc::close(fd.into_raw_fd()) };
    check(outcome.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    #[test]
    fn the_descriptor_is_gone() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(writer.as_raw_fd() >= 0);
        close(writer).unwrap();
        // No writer is left, so the pipe has ended.
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0));
    }
}
