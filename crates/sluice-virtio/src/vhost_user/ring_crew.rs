//! The threads that serve a ring.

use super::device::Device;
use super::error::Error;
use crate::notify::{self, Event};
use crate::queue::{Chain, Ring};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use sluice_crew::{Crew, CrewConfig, Next, Queue};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// How often a ring without a kick descriptor is looked at when it is idle.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// A ring that is served; [`RingCrew::stop`] ends it.
#[derive(Debug)]
pub(super) struct RingCrew {
    queue: Arc<RingQueue>,
    crew: Crew<RingQueue>,
}

impl RingCrew {
    /// Serves `ring` until it is stopped or fails; a failure goes to `failed`.
    pub(super) fn start(
        ring: Arc<Ring>,
        kick: Option<Arc<OwnedFd>>,
        device: Arc<dyn Device>,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> io::Result<Self> {
        let index = ring.index();
        let config = CrewConfig {
            polling: device.polling(index),
            ..CrewConfig::new(format!("ring-{index}"))
        };
        let queue = Arc::new(RingQueue {
            doorbell: Doorbell::new(kick, Arc::new(Event::new()?))?,
            ring,
            device,
            failed: Mutex::new(Some(Box::new(failed))),
        });
        let crew = Crew::start(Arc::clone(&queue), config)?;
        Ok(RingCrew { queue, crew })
    }

    /// Ends the crew, after the requests it is working on.
    pub(super) fn stop(self) {
        self.queue.doorbell.stop.raise();
        // Panics are caught where they happen: nothing is to be learned here.
        self.crew.join();
        self.queue.doorbell.drain();
    }
}

type Failed = Box<dyn FnOnce(Error) + Send>;

/// The chains of a ring, and the device that answers them.
struct RingQueue {
    ring: Arc<Ring>,
    doorbell: Doorbell,
    device: Arc<dyn Device>,
    /// Takes the first error.
    failed: Mutex<Option<Failed>>,
}

impl std::fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RingQueue")
            .field(&self.ring.index())
            .finish()
    }
}

impl RingQueue {
    /// The ring is served no more.
    fn fail<T>(&self, error: Error) -> Next<T> {
        self.doorbell.stop.raise();
        let failed = self
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(failed) = failed {
            failed(error);
        }
        Next::Ended
    }
}

impl Queue for RingQueue {
    type Hand = ();
    type Job = Chain;

    fn hand(&self) {}

    fn take(&self, _: &mut ()) -> Next<Chain> {
        if self.doorbell.stop.is_raised() {
            return Next::Ended;
        }
        match self.ring.pop() {
            Ok(Some(chain)) => Next::Job(chain),
            Ok(None) => Next::Nothing,
            Err(error) => self.fail(Error::ring(self.ring.index())(error)),
        }
    }

    fn wait(&self, hand: &mut ()) -> Next<Chain> {
        let woken = match self.ring.enable_kicks() {
            Ok(true) => Ok(Woken::Kicked),
            Ok(false) => self.doorbell.wait(),
            Err(error) => return self.fail(Error::ring(self.ring.index())(error)),
        };
        match woken {
            Ok(Woken::Kicked) => {
                self.ring.disable_kicks();
                self.take(hand)
            }
            Ok(Woken::Stopped) => Next::Ended,
            Err(error) => self.fail(Error::Io("cannot wait for kicks", error)),
        }
    }

    fn run(&self, _: &mut (), chain: Chain) {
        let index = self.ring.index();
        let process = || self.device.process(index, chain);
        if catch_unwind(AssertUnwindSafe(process)).is_err() {
            self.fail::<()>(Error::DevicePanicked(index));
        }
    }
}

enum Woken {
    Kicked,
    Stopped,
}

/// Waits for kicks. The eventfd is watched for edges and never read, which makes one
/// system call of each wake-up, and none that depends on what the peer does with it.
#[derive(Debug)]
struct Doorbell {
    epoll: OwnedFd,
    stop: Arc<Event>,
    kick: Option<Arc<OwnedFd>>,
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
        if let Some(fd) = &kick {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, &**fd, EventData::new_u64(KICK), flags)?;
        }
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
                Ok(_) => return Ok(Woken::Kicked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What was signalled belongs to this run of the ring.
    fn drain(&self) {
        if let Some(fd) = &self.kick {
            notify::drain(fd);
        }
    }
}
