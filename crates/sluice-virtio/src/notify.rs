//! Descriptors that wake somebody: eventfds, and sockets where a peer wants to be called
//! on one.
//!
//! A peer shares the descriptors that it gives with us, and may do to them what it likes
//! at any time: fill them, make them block, and hold the kernel's locks on them while it
//! reads into memory that never comes. So only kinds are taken on which that cannot hold
//! anybody up here: nothing waits for a unix socket that is asked not to, and an eventfd
//! can be emptied by whoever has it ([`unstuck`]). A pipe has but one end here, and its
//! lock is held while others copy.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{AddressFamily, SendFlags, sockopt};
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
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

/// What a front-end gave to be called on.
#[derive(Debug)]
pub(crate) enum Caller {
    Eventfd(OwnedFd),
    /// User-mode Linux has one end of a socket pair called.
    Socket(OwnedFd),
}

impl Caller {
    /// Takes a descriptor from the peer, if it is of a kind that can be signalled.
    pub(crate) fn adopt(fd: OwnedFd) -> io::Result<Self> {
        let is_socket =
            FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == FileType::Socket;
        match is_socket {
            true if sockopt::socket_domain(&fd)? == AddressFamily::UNIX => Ok(Caller::Socket(fd)),
            true => Err(Errno::AFNOSUPPORT.into()),
            false => adopt_eventfd(fd).map(Caller::Eventfd),
        }
    }

    /// Wakes whoever waits at the other end. One that is full wakes it as well.
    pub(crate) fn signal(&self) {
        match self {
            Caller::Eventfd(fd) => signal(fd),
            Caller::Socket(fd) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(fd, &1u64.to_ne_bytes(), flags);
            }
        }
    }
}

/// Takes an eventfd from the peer, which is made not to block, unless the peer makes it
/// block again (see [`unstuck`]).
pub(crate) fn adopt_eventfd(fd: OwnedFd) -> io::Result<OwnedFd> {
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    // Anonymous inodes, of which an eventfd is one, have no file type.
    if FileType::from_raw_mode(mode) != FileType::Unknown {
        return Err(Errno::INVAL.into());
    }
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    // Of all of these only an eventfd takes eight bytes of zero, and adds nothing.
    match rustix::io::write(&fd, &0u64.to_ne_bytes()) {
        Ok(8) | Err(Errno::AGAIN) => Ok(fd),
        Ok(_) => Err(Errno::INVAL.into()),
        Err(error) => Err(error.into()),
    }
}

/// Raises an eventfd. A counter that is full wakes whoever waits as well.
pub(crate) fn signal(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Takes back what an eventfd was raised by, without waiting, though the peer may have
/// made it block again.
pub(crate) fn drain(fd: &OwnedFd) {
    const HERE: u64 = u64::MAX;
    let mut count = [0; 8];
    let bufs = &mut [IoSliceMut::new(&mut count)];
    let _ = rustix::io::preadv2(fd, bufs, HERE, ReadWriteFlags::NOWAIT);
}

/// Runs `act`, in which others may be signalling `callers`, and gets them out of that
/// should they hang there, in an eventfd that its owner made block, and filled.
pub(crate) fn unstuck<T>(callers: &[Arc<Caller>], act: impl FnOnce() -> T) -> T {
    let Ok(over) = Event::new() else {
        return act();
    };
    let watch = || {
        while !over.is_raised() {
            if over.wait(UNSTICK_INTERVAL).is_ok() && !over.is_raised() {
                callers.iter().for_each(|caller| give_way(caller));
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

/// Ends a write that waits for a counter to fall. Its owner may fill it again at once,
/// and be faster than the one who is to be woken, but not every time.
fn give_way(caller: &Caller) {
    const TIMES: usize = 1000;
    if let Caller::Eventfd(fd) = caller {
        (0..TIMES).for_each(|_| drain(fd));
    }
}

struct RaisedAtEnd<'a>(&'a Event);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}
