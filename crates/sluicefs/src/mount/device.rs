//! `/dev/fuse`: one request per read(2), one reply per writev(2).

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// A descriptor of the connection to the kernel. A reply has to go to the
/// descriptor that its request came from.
#[derive(Debug)]
pub(super) struct Device(OwnedFd);

/// What there was to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A request of so many bytes.
    Message(usize),
    /// Nothing yet.
    Nothing,
    /// No more, after unmounting or an abort through `/sys/fs/fuse`.
    Ended,
}

impl Device {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Device(fd)
    }

    /// Another descriptor, which does not sleep for requests. Only where this
    /// process may open the device: a copy of the same descriptor would sleep.
    pub(super) fn without_sleep(&self) -> io::Result<Device> {
        let fd = sluice_sys::clone_fuse_connection(self.0.as_fd())?;
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Device(fd))
    }

    /// Takes a request, and sleeps before that if none waits and this descriptor
    /// sleeps.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<Received> {
        match rustix::io::read(&self.0, buf) {
            Ok(len) => Ok(Received::Message(len)),
            Err(Errno::NODEV) => Ok(Received::Ended),
            Err(Errno::CONNABORTED) => {
                tracing::warn!("the connection to the kernel was aborted");
                Ok(Received::Ended)
            }
            // ENOENT: the request was taken back while it was handed over.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Received::Nothing),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether a request waits, or nobody can tell.
    pub(super) fn has_request(&self) -> bool {
        self.look(PollFlags::IN).is_none_or(|seen| !seen.is_empty())
    }

    /// Whether no more requests come.
    pub(super) fn has_ended(&self) -> bool {
        let seen = self.look(PollFlags::empty());
        seen.is_some_and(|seen| seen.contains(PollFlags::ERR))
    }

    /// What poll(2) says, without waiting for it.
    fn look(&self, wanted: PollFlags) -> Option<PollFlags> {
        let mut polled = [PollFd::new(&self.0, wanted)];
        let looked = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        looked.ok().map(|_| polled[0].revents())
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
