//! A device that echoes, and a back-end for it in this process.
#![allow(dead_code, unreachable_pub)]

use sluice_virtio::driver::{Driver, Options};
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user::{Backend, Device, Error, Served, Stopper};
use std::borrow::Cow;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that begins with this is kept until [`Echo::release`].
pub const PARK: &[u8] = b"park";
/// A request that begins with this makes the device panic.
pub const PANIC: &[u8] = b"panic";
/// A request that begins with this is dropped without an answer.
pub const DROP: &[u8] = b"drop";
/// What parked requests get when their ring stops.
pub const INTERRUPTED: &[u8] = b"interrupted";

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Connected,
    Started(u16),
    Parked(u16),
    Stopped(u16),
    Reset,
    Disconnected,
}

pub struct Echo {
    pub queues: u16,
    parked: Mutex<Vec<Chain>>,
    events: Sender<Event>,
}

impl Echo {
    pub fn new(queues: u16) -> (Arc<Self>, Receiver<Event>) {
        let (events, received) = channel();
        let parked = Mutex::default();
        let device = Arc::new(Echo {
            queues,
            parked,
            events,
        });
        (device, received)
    }

    /// Answers what is parked.
    pub fn release(&self) -> usize {
        let parked = std::mem::take(&mut *self.parked.lock().unwrap());
        let count = parked.len();
        parked.into_iter().for_each(echo);
        count
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}

pub fn echo(chain: Chain) {
    let mut bytes = vec![0; chain.reader().remaining()];
    chain.reader().read_exact(&mut bytes).unwrap();
    let written = chain.writer().write(&bytes);
    chain.complete(written);
}

impl Device for Echo {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(b"0123456789")
    }

    fn queues(&self) -> u16 {
        self.queues
    }

    fn connected(&self) {
        self.tell(Event::Connected);
    }

    fn process(&self, queue: u16, chain: Chain) {
        let mut start = [0; 16];
        let count = chain.reader().read(&mut start);
        let start = &start[..count];
        if start.starts_with(PARK) {
            self.parked.lock().unwrap().push(chain);
            self.tell(Event::Parked(queue));
        } else if start.starts_with(PANIC) {
            panic!("asked to");
        } else if start.starts_with(DROP) {
            drop(chain);
        } else {
            echo(chain);
        }
    }

    fn ring_started(&self, queue: u16) {
        self.tell(Event::Started(queue));
    }

    fn ring_stopped(&self, queue: u16) {
        self.tell(Event::Stopped(queue));
        let mut parked = self.parked.lock().unwrap();
        let (mine, others) = parked.drain(..).partition(|chain| chain.queue() == queue);
        *parked = others;
        drop(parked);
        for chain in mine {
            let written = chain.writer().write(INTERRUPTED);
            chain.complete(written);
        }
    }

    fn reset(&self) {
        self.tell(Event::Reset);
    }

    fn disconnected(&self) {
        self.tell(Event::Disconnected);
    }
}

/// One connection to a device, served by a thread.
pub struct Served1 {
    pub device: Arc<Echo>,
    pub events: Receiver<Event>,
    pub stopper: Stopper,
    outcome: Receiver<Result<Served, Error>>,
}

impl Served1 {
    /// How the connection ended; waits for it.
    pub fn outcome(self) -> Result<Served, Error> {
        self.outcome.recv_timeout(PATIENCE).unwrap()
    }

    /// Waits for `event`, over any others.
    pub fn wait_for(&self, event: Event) {
        wait_for(&self.events, event);
    }
}

pub fn wait_for(events: &Receiver<Event>, event: Event) {
    while events
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| panic!("{event:?} did not come"))
        != event
    {}
}

/// Serves an echo device with two queues over a socket pair.
pub fn serve() -> (UnixStream, Served1) {
    let (device, events) = Echo::new(2);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let backend = Backend::new(device.clone()).unwrap();
    let stopper = backend.stopper();
    let (ended, outcome) = channel();
    std::thread::spawn(move || ended.send(backend.serve(theirs)));
    let served = Served1 {
        device,
        events,
        stopper,
        outcome,
    };
    (ours, served)
}

/// The same, with a driver connected.
pub fn connect(options: Options) -> (Driver, Served1) {
    let (stream, served) = serve();
    (Driver::new(stream, options).unwrap(), served)
}
