//! A virtio device, asked through its virtqueues by a driver in this process:
//! what carries FUSE and 9P messages has in common.

use crate::daemon::{Daemon, RunningDaemon};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use sluice_vfs::FileService;
use sluice_virtio::driver::{Driver, DriverError, DriverQueue, Options, Token};
use sluicefs::serve::{DeviceOptions, Serving, Tag};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// Takes a reply, or that there will be none.
pub(crate) type Done = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// Which virtqueues a device has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    /// For what must not wait behind requests, if there is one.
    pub(crate) urgent: Option<u16>,
    /// For requests.
    pub(crate) requests: u16,
}

/// Why there is no device.
type NoDevice = Box<dyn std::error::Error>;

/// What a driver talks to; it ends when this is dropped.
enum Device {
    Here(#[expect(dead_code, reason = "serves until dropped")] Serving),
    Process(#[expect(dead_code, reason = "serves until dropped")] RunningDaemon),
}

/// A device, its driver, and the thread that works the rings.
pub struct RingPeer {
    jobs: Option<Sender<Job>>,
    wake: Arc<OwnedFd>,
    worker: Option<JoinHandle<()>>,
    // Dropped in this order: the driver leaves before the device ends.
    _driver: Driver,
    _device: Device,
    _dir: TempDir,
}

impl RingPeer {
    /// A device in this process.
    fn here(
        service: Arc<dyn FileService>,
        options: impl Into<DeviceOptions>,
        queues: Queues,
    ) -> Result<RingPeer, NoDevice> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("socket");
        let tag: Tag = "conformance".parse()?;
        let serving = Serving::start(service, &socket, &tag, options)?;
        RingPeer::over(Device::Here(serving), &socket, dir, queues)
    }

    /// A device of a process of its own.
    pub(crate) fn of_process(daemon: &Daemon, queues: Queues) -> RingPeer {
        RingPeer::start_process(daemon, queues).unwrap_or_else(|error| panic!("no device: {error}"))
    }

    fn start_process(daemon: &Daemon, queues: Queues) -> Result<RingPeer, NoDevice> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("socket");
        let device = Device::Process(daemon.start(&socket)?);
        RingPeer::over(device, &socket, dir, queues)
    }

    fn over(
        device: Device,
        socket: &Path,
        dir: TempDir,
        queues: Queues,
    ) -> Result<RingPeer, NoDevice> {
        let mut driver = Driver::connect(socket, Options::default())?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (jobs, receiver) = channel();
        let worker = Worker {
            urgent: match queues.urgent {
                Some(index) => Some(driver.start_queue(index)?),
                None => None,
            },
            requests: driver.start_queue(queues.requests)?,
            jobs: receiver,
            wake: Arc::clone(&wake),
            backlog: VecDeque::new(),
            in_flight: HashMap::new(),
        };
        let worker = thread::Builder::new()
            .name("ring".to_owned())
            .spawn(move || worker.run())?;
        Ok(RingPeer {
            jobs: Some(jobs),
            wake,
            worker: Some(worker),
            _driver: driver,
            _device: device,
            _dir: dir,
        })
    }

    /// Puts a request on its ring.
    pub(crate) fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            jobs.send(job)
                .expect("the worker lives as long as the ring");
        }
        self.wake_worker();
    }

    /// The same, and waits until it was served.
    pub(crate) fn roundtrip(&self, request: Request) -> Option<Vec<u8>> {
        let (sender, receiver) = channel();
        let done: Done = Box::new(move |reply| {
            // Whoever asked may have given up.
            let _ = sender.send(reply);
        });
        self.send(Job { request, done });
        receiver.recv().expect("the device completes every request")
    }

    fn wake_worker(&self) {
        // A counter that is full wakes the worker just as well.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for RingPeer {
    fn drop(&mut self) {
        self.jobs = None;
        self.wake_worker();
        if let Some(worker) = self.worker.take()
            && worker.join().is_err()
            && !thread::panicking()
        {
            panic!("the thread of the ring panicked");
        }
    }
}

/// A request, in the buffers that its descriptors will name.
pub(crate) struct Request {
    pub(crate) readable: Vec<Vec<u8>>,
    /// Lengths of those for the reply.
    pub(crate) writable: Vec<u32>,
    pub(crate) is_urgent: bool,
}

impl Request {
    fn slices(&self) -> Vec<&[u8]> {
        self.readable.iter().map(Vec::as_slice).collect()
    }
}

/// A request for the worker.
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) done: Done,
}

/// Devices in this process over a service, each on a socket of its own with one
/// driver. `Options` are those of the protocol's server.
pub(crate) struct RingConnector<Options> {
    service: Arc<dyn FileService>,
    options: Options,
}

impl<Options: Copy + Into<DeviceOptions>> RingConnector<Options> {
    /// Devices over `service`.
    pub(crate) fn new(service: Arc<dyn FileService>, options: Options) -> Self {
        RingConnector { service, options }
    }

    /// A device and its driver.
    pub(crate) fn start(&self, queues: Queues) -> RingPeer {
        RingPeer::here(Arc::clone(&self.service), self.options, queues)
            .unwrap_or_else(|error| panic!("no device: {error}"))
    }
}

/// Puts requests on the rings and takes completions off, until the ring is
/// dropped.
struct Worker {
    urgent: Option<DriverQueue>,
    requests: DriverQueue,
    jobs: Receiver<Job>,
    wake: Arc<OwnedFd>,
    /// What the ring has no room for yet.
    backlog: VecDeque<Job>,
    in_flight: HashMap<Token, Done>,
}

impl Worker {
    fn run(mut self) {
        loop {
            loop {
                match self.jobs.try_recv() {
                    Ok(job) if job.request.is_urgent => self.run_urgent(job),
                    Ok(job) => self.backlog.push_back(job),
                    Err(TryRecvError::Empty) => break,
                    // What is in flight goes with the connection.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            self.submit();
            if !self.complete() {
                self.sleep();
            }
        }
    }

    fn run_urgent(&mut self, job: Job) {
        let queue = self.urgent.as_mut().expect("there is a queue for it");
        let completed = queue.roundtrip(&job.request.slices(), &job.request.writable);
        let completion = completed.expect("the device serves the urgent queue");
        let reply = queue.reply(&completion);
        (job.done)((!reply.is_empty()).then_some(reply));
    }

    fn submit(&mut self) {
        while let Some(job) = self.backlog.pop_front() {
            let request = &job.request;
            match self.requests.submit(&request.slices(), &request.writable) {
                Ok(token) => drop(self.in_flight.insert(token, job.done)),
                Err(DriverError::QueueFull) => {
                    self.backlog.push_front(job);
                    break;
                }
                Err(error) => panic!("the request can't be put on the ring: {error}"),
            }
        }
        self.requests.kick();
    }

    /// Hands completions out; whether there were any.
    fn complete(&mut self) -> bool {
        let mut found = false;
        while let Some(completion) = self.requests.poll().expect("the ring is sound") {
            found = true;
            let reply = self.requests.reply(&completion);
            let done = self.in_flight.remove(&completion.token);
            let done = done.expect("each request completes once");
            done((!reply.is_empty()).then_some(reply));
        }
        found
    }

    /// Until the device or a new job wants something.
    fn sleep(&mut self) {
        self.requests.want_signal();
        if self.complete() {
            return;
        }
        let mut fds = [
            PollFd::from_borrowed_fd(self.requests.call_fd(), PollFlags::IN),
            PollFd::new(&*self.wake, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
        self.requests.was_signalled();
        // Nothing to read is as good.
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }
}
