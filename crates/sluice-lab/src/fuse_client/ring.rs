//! A virtio-fs device, asked through its virtqueues by a driver in this process.

use super::transport::{Connector, Done, FuseTransport, Message};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use sluice_proto::fuse::serve::ServeOptions;
use sluice_proto::fuse::wire::{
    Dialect, GetattrIn, Operation, OutHeader, ROOT_ID, Reply, RequestHead, encode_request,
};
use sluice_vfs::{AttachOptions, FileService, Result};
use sluice_virtio::driver::{Driver, DriverError, DriverQueue, Options, Token};
use sluicefs::serve::{Serving, Tag};
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// Index of the queue for what must not wait.
const HIPRIO: u16 = 0;
/// Index of the queue for everything else.
const REQUESTS: u16 = 1;

/// Devices over a service, each on a socket of its own with one driver.
pub struct RingConnector {
    service: Arc<dyn FileService>,
    options: ServeOptions,
}

impl RingConnector {
    /// Devices over `service`.
    pub fn new(service: Arc<dyn FileService>, options: ServeOptions) -> Self {
        RingConnector { service, options }
    }
}

impl Connector for RingConnector {
    type Transport = Ring;

    /// Peer, limits and events are the device's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<Ring> {
        Ring::start(Arc::clone(&self.service), self.options).map_err(|error| {
            panic!("no device: {error}");
        })
    }
}

/// `sluice serve`, a process for each device.
pub struct DaemonConnector {
    program: PathBuf,
    share: PathBuf,
    options: Vec<String>,
}

impl DaemonConnector {
    /// Processes of `program` that serve `share` with these options.
    pub fn new(program: PathBuf, share: PathBuf, options: Vec<String>) -> Self {
        DaemonConnector {
            program,
            share,
            options,
        }
    }
}

impl Connector for DaemonConnector {
    type Transport = Ring;

    /// Peer and limits are the device's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<Ring> {
        Ring::start_process(self).map_err(|error| {
            panic!("no device: {error}");
        })
    }
}

/// What a driver talks to; it ends when this is dropped.
enum Device {
    Here(#[expect(dead_code, reason = "serves until dropped")] Serving),
    Process(Child),
}

impl Drop for Device {
    /// A process must end as if it had been asked to, not by what it did.
    fn drop(&mut self) {
        let Device::Process(process) = self else {
            return;
        };
        let pid = Pid::from_child(process);
        kill_process(pid, Signal::TERM).expect("it was not waited for");
        let status = process.wait().expect("it is a child");
        if !status.success() && !thread::panicking() {
            panic!("sluice serve ended with {status}");
        }
    }
}

/// A device, its driver, and the thread that works the rings.
pub struct Ring {
    jobs: Option<Sender<Job>>,
    wake: Arc<OwnedFd>,
    worker: Option<JoinHandle<()>>,
    // Dropped in this order: the driver leaves before the device ends.
    _driver: Driver,
    _device: Device,
    _dir: TempDir,
}

impl Ring {
    fn start(
        service: Arc<dyn FileService>,
        options: ServeOptions,
    ) -> std::result::Result<Ring, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("socket");
        let tag: Tag = "conformance".parse()?;
        let serving = Serving::start(service, &socket, &tag, options)?;
        Ring::over(Device::Here(serving), &socket, dir)
    }

    fn start_process(
        daemon: &DaemonConnector,
    ) -> std::result::Result<Ring, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("socket");
        let mut process = Command::new(&daemon.program)
            .arg("serve")
            .arg(&daemon.share)
            .arg("--virtiofs")
            .arg(&socket)
            .args(&daemon.options)
            .env("RUST_LOG", "warn")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stderr = BufReader::new(process.stderr.take().ok_or("no pipe")?);
        let device = Device::Process(process);
        let mut said = String::new();
        stderr.read_line(&mut said)?;
        if !said.starts_with("sluice: serving ") {
            return Err(said.into());
        }
        thread::spawn(move || {
            stderr
                .lines()
                .map_while(|line| line.ok())
                .for_each(|line| eprintln!("{line}"))
        });
        Ring::over(device, &socket, dir)
    }

    fn over(
        device: Device,
        socket: &Path,
        dir: TempDir,
    ) -> std::result::Result<Ring, Box<dyn std::error::Error>> {
        let mut driver = Driver::connect(socket, Options::default())?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (jobs, receiver) = channel();
        let worker = Worker {
            hiprio: driver.start_queue(HIPRIO)?,
            requests: driver.start_queue(REQUESTS)?,
            jobs: receiver,
            wake: Arc::clone(&wake),
            backlog: VecDeque::new(),
            in_flight: HashMap::new(),
        };
        let worker = thread::Builder::new()
            .name("ring".to_owned())
            .spawn(move || worker.run())?;
        Ok(Ring {
            jobs: Some(jobs),
            wake,
            worker: Some(worker),
            _driver: driver,
            _device: device,
            _dir: dir,
        })
    }

    fn send(&self, message: Message<'_>, done: Done) {
        let job = Job {
            readable: parts(&message).iter().map(|part| part.to_vec()).collect(),
            writable: match message.body_room {
                None => Vec::new(),
                Some(0) => vec![HEADER_LEN],
                Some(room) => vec![HEADER_LEN, room as u32],
            },
            is_urgent: message.is_urgent,
            done,
        };
        if let Some(jobs) = &self.jobs {
            jobs.send(job)
                .expect("the worker lives as long as the ring");
        }
        self.wake_worker();
    }

    fn wake_worker(&self) {
        // A counter that is full wakes the worker just as well.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl FuseTransport for Ring {
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        let (sender, receiver) = channel();
        let done: Done = Box::new(move |reply| {
            // Whoever asked may have given up.
            let _ = sender.send(reply);
        });
        self.send(message, done);
        receiver.recv().expect("the device completes every request")
    }

    /// The queue's requests are taken up in order: when one that came later
    /// was answered, this one was answered too, put aside, or is slow.
    fn exchange_later(&self, message: Message<'_>, done: Done) {
        self.send(message, done);
        let operation = Operation::Getattr {
            args: GetattrIn::default(),
        };
        let head = RequestHead {
            unique: u64::MAX,
            nodeid: ROOT_ID,
            ..RequestHead::default()
        };
        let mut prefix = [0; 128];
        let len = encode_request(&head, &operation, Dialect::default(), &mut prefix);
        let len = len.expect("a GETATTR is short");
        self.exchange(Message {
            prefix: &prefix[..len],
            payload: &[],
            body_room: Some(Reply::min_len(operation.opcode())),
            is_urgent: false,
        });
    }
}

impl Drop for Ring {
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

/// Bytes of a reply's header, which Linux gives a descriptor of its own.
const HEADER_LEN: u32 = size_of::<OutHeader>() as u32;

fn parts<'a>(message: &Message<'a>) -> Vec<&'a [u8]> {
    match message.payload {
        [] => vec![message.prefix],
        payload => vec![message.prefix, payload],
    }
}

/// A request for the worker.
struct Job {
    readable: Vec<Vec<u8>>,
    writable: Vec<u32>,
    is_urgent: bool,
    done: Done,
}

/// Puts requests on the rings and takes completions off, until the ring is
/// dropped.
struct Worker {
    hiprio: DriverQueue,
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
                    Ok(job) if job.is_urgent => self.run_urgent(job),
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
        let readable: Vec<&[u8]> = job.readable.iter().map(Vec::as_slice).collect();
        let completed = self.hiprio.roundtrip(&readable, &job.writable);
        let completion = completed.expect("the device serves the hiprio queue");
        let reply = self.hiprio.reply(&completion);
        (job.done)((!reply.is_empty()).then_some(reply));
    }

    fn submit(&mut self) {
        while let Some(job) = self.backlog.pop_front() {
            let readable: Vec<&[u8]> = job.readable.iter().map(Vec::as_slice).collect();
            match self.requests.submit(&readable, &job.writable) {
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
