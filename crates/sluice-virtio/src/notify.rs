//! Descriptors that wake somebody: eventfds, and pipes or sockets where a peer has no
//! eventfd.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An eventfd of our own that stays readable once raised.
#[derive(Debug)]
pub(crate) struct Event {
    fd: OwnedFd,
    raised: AtomicBool,
}

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let raised = AtomicBool::new(false);
        Ok(Event { fd, raised })
    }

    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        signal(&self.fd);
    }

    /// Whether it was raised; no system call.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Waits until it is raised, or for so long.
    pub(crate) fn wait(&self, timeout: Timespec) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&timeout))?;
        Ok(())
    }

    pub(crate) fn as_owned(&self) -> &OwnedFd {
        &self.fd
    }
}

/// What a front-end gave for kicks or calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifierKind {
    Eventfd,
    /// A pipe or a socket.
    Stream,
}

/// Prepares a descriptor from the peer: it must be one on which neither a write nor a
/// read of 8 bytes blocks, unless the peer makes it block again (see [`unstuck`]).
pub(crate) fn adopt(fd: &OwnedFd) -> io::Result<NotifierKind> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    // Anonymous inodes, of which an eventfd is one, have no file type.
    let kind = match FileType::from_raw_mode(mode) {
        // User-mode Linux sends one end of a socket pair.
        FileType::Fifo | FileType::Socket => NotifierKind::Stream,
        FileType::Unknown => NotifierKind::Eventfd,
        _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
    };
    let flags = rustix::fs::fcntl_getfl(fd)?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?;
    Ok(kind)
}

/// Wakes whoever waits at the other end. A full pipe or counter wakes it as well.
pub(crate) fn signal(fd: &OwnedFd) {
    let _ = rustix::io::write(fd.as_fd(), &1u64.to_ne_bytes());
}

/// Takes back what was signalled so far; at most what a pipe holds by default, so that a
/// peer that goes on signalling cannot keep anybody here.
pub(crate) fn drain(fd: &OwnedFd) {
    const PIPE_BYTES: usize = 64 << 10;
    let mut buf = [0; 512];
    for _ in 0..PIPE_BYTES / buf.len() {
        match read_now(fd, &mut buf) {
            Ok(count) if count == buf.len() => {}
            _ => return,
        }
    }
}

/// Reads without waiting, though the peer may have made the descriptor block again.
fn read_now(fd: &OwnedFd, buf: &mut [u8]) -> rustix::io::Result<usize> {
    const HERE: u64 = u64::MAX;
    let bufs = &mut [IoSliceMut::new(buf)];
    match rustix::io::preadv2(fd, bufs, HERE, ReadWriteFlags::NOWAIT) {
        // Linux before 6.5 for some kinds of descriptors.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::io::read(fd, buf),
        outcome => outcome,
    }
}

/// Runs `act`, in which others may be signalling `fds`, and gets them out of that should
/// they hang there: a peer shares its descriptors with us, can make them block again,
/// and fill them.
pub(crate) fn unstuck<T>(fds: &[Arc<OwnedFd>], act: impl FnOnce() -> T) -> T {
    let Ok(over) = Event::new() else {
        return act();
    };
    let watch = || {
        while !over.is_raised() {
            if over.wait(UNSTICK_INTERVAL).is_ok() && !over.is_raised() {
                fds.iter().for_each(|fd| give_way(fd));
            }
        }
    };
    std::thread::scope(|scope| {
        // Without threads to be had, a peer can keep its own connection busy.
        let watching = std::thread::Builder::new().spawn_scoped(scope, watch);
        let outcome = {
            let _over = RaisedAtEnd(&over);
            act()
        };
        // The scope's end would not wait until all that is the thread's own is free.
        let _ = watching.map(std::thread::ScopedJoinHandle::join);
        outcome
    })
}

/// How long signalling may take before it counts as hung.
const UNSTICK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// Ends a write that waits: a counter is emptied, a socket shut.
fn give_way(fd: &OwnedFd) {
    drain(fd);
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
}

struct RaisedAtEnd<'a>(&'a Event);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}
