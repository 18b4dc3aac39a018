//! A peer in the same process, for tests and fuzzing: messages in memory.

use super::serve::{Admission, Close, Exchange, Job, Link, Parked, Server, ServerConfig};
use super::wire::{Dialect, Header, Request, encode_request};
use sluice_vfs::{
    Errno, FileService, ReadSink, Result, SliceSource, VecSink, WriteFlags, WriteSource,
};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Room for the payload of a reply, in bytes.
const PAYLOAD_ROOM: usize = 8 << 20;

/// Takes a reply; dropped if there will be none.
type Done = Box<dyn FnOnce(Vec<u8>) + Send>;

/// The peer of a server.
pub struct Loopback {
    server: Arc<Server<MemoryExchange>>,
    /// Runs what waited for others.
    thread: JoinHandle<()>,
}

/// A request that may still be under way.
pub struct Ticket {
    reply: Receiver<Vec<u8>>,
}

impl Loopback {
    /// A peer of a new server over `service`. `config` gets the link that runs
    /// what waited for others.
    pub fn new(
        service: Arc<dyn FileService>,
        config: impl FnOnce(Arc<dyn Link>) -> ServerConfig,
    ) -> Self {
        let (bell, rings) = channel();
        let server = Arc::new(Server::new(service, config(Arc::new(Doorbell(bell)))));
        let weak = Arc::downgrade(&server);
        let thread = std::thread::spawn(move || run_ready(&weak, &rings));
        Loopback { server, thread }
    }

    /// Ends the connection, and waits until nothing is left of it: what looks for leaks
    /// would take a thread's own memory for one.
    pub fn end(self) {
        self.server.close();
        drop(self.server);
        self.thread.join().expect("it does not panic");
    }

    /// The server.
    pub fn server(&self) -> &Server<MemoryExchange> {
        &self.server
    }

    /// Sends a request with its payload.
    pub fn send(
        &self,
        tag: u16,
        request: &Request<'_>,
        dialect: Dialect,
        payload: &[u8],
    ) -> std::result::Result<Ticket, Close> {
        let mut prefix = vec![0; 1 << 17];
        let len = encode_request(tag, request, dialect, &mut prefix);
        prefix.truncate(len.unwrap_or(0));
        self.send_bytes(&prefix, payload)
    }

    /// Sends any bytes at all. What can run at once has run when this returns.
    pub fn send_bytes(&self, prefix: &[u8], payload: &[u8]) -> std::result::Result<Ticket, Close> {
        let (sender, reply) = channel();
        // Nobody may be waiting any more.
        let done = move |message| drop(sender.send(message));
        if let Some(job) = self.admit(prefix, payload, done)? {
            self.run(job, prefix);
        }
        Ok(Ticket { reply })
    }

    /// Takes a request in, and returns what can run at once.
    pub fn admit(
        &self,
        prefix: &[u8],
        payload: &[u8],
        done: impl FnOnce(Vec<u8>) + Send + 'static,
    ) -> std::result::Result<Option<Job<MemoryExchange>>, Close> {
        self.server.check_header(&Header::peek(prefix)?)?;
        let exchange = MemoryExchange {
            source: OwnedSource {
                bytes: payload.to_vec(),
                taken: 0,
            },
            sink: VecSink::new(PAYLOAD_ROOM),
            done: Box::new(done),
        };
        Ok(match self.server.admit(prefix, exchange)? {
            Admission::Run(job) => Some(job),
            _ => None,
        })
    }

    /// Runs what was taken in, on any thread.
    pub fn run(&self, job: Job<MemoryExchange>, prefix: &[u8]) {
        self.server.run(job, prefix);
    }
}

impl Ticket {
    /// Waits for the reply; `None` if there will be none.
    pub fn wait(self) -> Option<Vec<u8>> {
        self.reply.recv().ok()
    }

    /// The reply, if it is there already.
    pub fn poll(&self) -> Option<Vec<u8>> {
        self.reply.try_recv().ok()
    }

    /// Whether no reply is there and none will come.
    pub fn is_over(&self) -> bool {
        matches!(self.reply.try_recv(), Err(TryRecvError::Disconnected))
    }
}

/// Rings once there is something to run.
struct Doorbell(Sender<()>);

impl Link for Doorbell {
    fn ready(&self) {
        // The server may outlive whoever listens.
        let _ = self.0.send(());
    }
}

/// Until the server is gone, and with it the bell.
fn run_ready(server: &Weak<Server<MemoryExchange>>, rings: &Receiver<()>) {
    for () in rings {
        let Some(server) = server.upgrade() else {
            return;
        };
        while let Some(job) = server.next_ready() {
            server.run(job, &[]);
        }
    }
}

/// A request whose ends are in memory.
pub struct MemoryExchange {
    source: OwnedSource,
    sink: VecSink,
    done: Done,
}

impl Exchange for MemoryExchange {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, message: &[u8], payload_len: usize) {
        let mut reply = message.to_vec();
        let payload = self.sink.into_bytes();
        reply.extend(payload.get(..payload_len).unwrap_or_default());
        (self.done)(reply);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedReply(self.done))
    }
}

struct ParkedReply(Done);

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, message: &[u8]) {
        (self.0)(message.to_vec());
    }

    fn discard(self: Box<Self>) {}
}

/// Writes from bytes of its own.
struct OwnedSource {
    bytes: Vec<u8>,
    taken: usize,
}

impl OwnedSource {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }
}

impl WriteSource for OwnedSource {
    fn remaining(&self) -> usize {
        self.rest().len()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize> {
        let count = SliceSource::new(self.rest()).write_to(fd, offset, len, flags)?;
        self.taken += count;
        Ok(count)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        let bytes = self.rest().get(..buf.len()).ok_or(Errno::EMSGSIZE)?;
        buf.copy_from_slice(bytes);
        self.taken += buf.len();
        Ok(())
    }
}
