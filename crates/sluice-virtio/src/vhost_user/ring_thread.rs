//! The thread that serves a ring.

use super::device::Device;
use super::error::Error;
use crate::notify::{self, Event, NotifierKind};
use crate::queue::Ring;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How often a ring without a kick descriptor is looked at when it is idle.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// A running thread; [`RingThread::stop`] ends it.
#[derive(Debug)]
pub(super) struct RingThread {
    stop: Arc<Event>,
    handle: JoinHandle<()>,
}

impl RingThread {
    /// Serves `ring` until it is stopped or fails; a failure goes to `failed`.
    pub(super) fn start(
        ring: Arc<Ring>,
        kick: Option<Arc<OwnedFd>>,
        device: Arc<dyn Device>,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Event::new()?);
        let doorbell = Doorbell::new(kick, stop.clone())?;
        let index = ring.index();
        let serve = move || {
            let loop_ = || ring.serve(|| serve_ring(&ring, &doorbell, &*device));
            let outcome = catch_unwind(AssertUnwindSafe(loop_));
            if let Err(error) = outcome.unwrap_or(Err(Error::DevicePanicked(index))) {
                failed(error);
            }
        };
        let handle = std::thread::Builder::new()
            .name(format!("ring-{index}"))
            .spawn(serve)?;
        Ok(RingThread { stop, handle })
    }

    /// Ends the thread, after the request it is working on.
    pub(super) fn stop(self) {
        self.stop.raise();
        // It catches panics itself, so there is nothing to learn from the outcome.
        let _ = self.handle.join();
    }
}

fn serve_ring(ring: &Arc<Ring>, doorbell: &Doorbell, device: &dyn Device) -> Result<(), Error> {
    let failed = Error::ring(ring.index());
    loop {
        while let Some(chain) = ring.pop().map_err(&failed)? {
            device.process(ring.index(), chain);
            if doorbell.stop.is_raised() {
                ring.flush();
                return Ok(());
            }
        }
        ring.flush();
        if ring.enable_kicks().map_err(&failed)? {
            continue;
        }
        match doorbell.wait() {
            Ok(Woken::Kicked) => {}
            Ok(Woken::Stopped) => return Ok(()),
            Err(error) => return Err(Error::Io("cannot wait for kicks", error)),
        }
    }
}

enum Woken {
    Kicked,
    Stopped,
}

/// Waits for kicks. An eventfd is watched for edges and never read, which makes one
/// system call of each wake-up; a stream must be emptied.
#[derive(Debug)]
struct Doorbell {
    epoll: OwnedFd,
    stop: Arc<Event>,
    kick: Option<(Arc<OwnedFd>, NotifierKind)>,
}

const STOP: u64 = 0;
const KICK: u64 = 1;

impl Doorbell {
    fn new(kick: Option<Arc<OwnedFd>>, stop: Arc<Event>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            stop.as_owned(),
            EventData::new_u64(STOP),
            EventFlags::IN,
        )?;
        let kick = match kick {
            None => None,
            Some(fd) => {
                let kind = notify::adopt(&fd)?;
                let flags = EventFlags::IN | EventFlags::ET;
                epoll::add(&epoll, &*fd, EventData::new_u64(KICK), flags)?;
                Some((fd, kind))
            }
        };
        Ok(Doorbell { epoll, stop, kick })
    }

    fn wait(&self) -> io::Result<Woken> {
        let timeout = self.kick.is_none().then_some(&POLL_INTERVAL);
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 2];
        loop {
            match epoll::wait(&self.epoll, events.as_mut_slice(), timeout) {
                Ok((ready, _)) if ready.iter().any(|e| e.data.u64() == STOP) => {
                    return Ok(Woken::Stopped);
                }
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some((fd, NotifierKind::Stream)) = &self.kick {
            notify::drain(fd);
        }
        Ok(Woken::Kicked)
    }
}

impl Drop for Doorbell {
    /// What was signalled belongs to this run of the ring.
    fn drop(&mut self) {
        if let Some((fd, _)) = &self.kick {
            notify::drain(fd);
        }
    }
}
