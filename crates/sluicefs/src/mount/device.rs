//! `/dev/fuse`: one request per read(2), one reply per writev(2).

use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// A descriptor of the connection to the kernel. A reply has to go to the
/// descriptor that its request came from.
#[derive(Debug)]
pub(super) struct Device(OwnedFd);

impl Device {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Device(fd)
    }

    /// A second descriptor for another thread: with a queue of its own where
    /// this process may open the device, else the same one again.
    pub(super) fn for_another_thread(&self) -> io::Result<Device> {
        match sluice_sys::clone_fuse_connection(self.0.as_fd()) {
            Ok(fd) => Ok(Device(fd)),
            Err(error) => {
                tracing::debug!(%error, "sharing one descriptor of /dev/fuse");
                Ok(Device(self.0.try_clone()?))
            }
        }
    }

    /// Waits for a request and returns its length; `None` after unmounting
    /// or an abort through `/sys/fs/fuse`.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *buf) {
                Ok(len) => return Ok(Some(len)),
                Err(Errno::NODEV) => return Ok(None),
                Err(Errno::CONNABORTED) => {
                    tracing::warn!("the connection to the kernel was aborted");
                    return Ok(None);
                }
                // ENOENT: the request was taken back while it was handed over.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends a reply or a notification. One to a request that was taken back,
    /// or to a file system that is unmounted, goes nowhere and is no error.
    pub(super) fn send(&self, message: &[IoSlice<'_>]) -> io::Result<()> {
        match rustix::io::writev(&self.0, message) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
