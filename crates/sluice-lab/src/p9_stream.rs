//! A 9P server on a stream, for clients in the same process.

use sluice_proto::p9::serve::{Admission, Exchange, Job, Link, Parked, Server, ServerConfig};
use sluice_proto::p9::wire::{HEADER_LEN, Header};
use sluice_vfs::{Errno, FileService, ReadSink, SliceSource, VecSink, WriteFlags, WriteSource};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Room for the payload of a reply, in bytes.
const PAYLOAD_ROOM: usize = 8 << 20;

/// How requests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// One after the other.
    Inline,
    /// Each on a thread of its own.
    Threads,
}

/// Serves a connection on threads of its own until the peer closes it. `config`
/// gets the link that runs what waited for others.
pub fn serve_stream(
    service: Arc<dyn FileService>,
    stream: UnixStream,
    run: Run,
    config: impl FnOnce(Arc<dyn Link>) -> ServerConfig,
) {
    let (bell, rings) = channel();
    let config = config(Arc::new(Bell(Mutex::new(bell))));
    let server = Arc::new(Server::new(service, config));
    let for_waiting = Arc::downgrade(&server);
    thread::spawn(move || {
        while rings.recv().is_ok() {
            let Some(server) = for_waiting.upgrade() else {
                return;
            };
            run_ready(&server);
        }
    });
    thread::spawn(move || {
        take_in(&server, stream, run);
        server.close();
    });
}

fn take_in(server: &Arc<Server<ToStream>>, mut stream: UnixStream, run: Run) {
    let Ok(out) = stream.try_clone() else {
        return;
    };
    let out = Arc::new(Mutex::new(out));
    while let Some(message) = receive(&mut stream) {
        let Ok(header) = Header::peek(&message) else {
            break;
        };
        let (prefix, payload) = message.split_at(header.prefix_len().min(message.len()));
        let exchange = ToStream {
            payload: Cursor(payload.to_vec()),
            sink: VecSink::new(PAYLOAD_ROOM),
            out: Arc::clone(&out),
        };
        match server.admit(prefix, exchange) {
            Ok(Admission::Run(job)) => start(server, job, prefix, run),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn start(server: &Arc<Server<ToStream>>, job: Job<ToStream>, prefix: &[u8], run: Run) {
    match run {
        Run::Inline => server.run(job, prefix),
        Run::Threads => {
            let (server, prefix) = (Arc::clone(server), prefix.to_vec());
            thread::spawn(move || server.run(job, &prefix));
        }
    }
}

fn run_ready(server: &Arc<Server<ToStream>>) {
    while let Some(job) = server.next_ready() {
        server.run(job, &[]);
    }
}

struct Bell(Mutex<Sender<()>>);

impl Link for Bell {
    fn ready(&self) {
        // A server that is gone has nothing to run.
        let _ = lock(&self.0).send(());
    }
}

struct ToStream {
    payload: Cursor,
    sink: VecSink,
    out: Arc<Mutex<UnixStream>>,
}

impl Exchange for ToStream {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.payload
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, message: &[u8], payload_len: usize) {
        let mut reply = message.to_vec();
        reply.extend(self.sink.into_bytes().iter().take(payload_len));
        // The peer may be gone.
        let _ = lock(&self.out).write_all(&reply);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedReply(self.out))
    }
}

struct ParkedReply(Arc<Mutex<UnixStream>>);

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, message: &[u8]) {
        let _ = lock(&self.0).write_all(message);
    }

    fn discard(self: Box<Self>) {}
}

struct Cursor(Vec<u8>);

impl WriteSource for Cursor {
    fn remaining(&self) -> usize {
        self.0.len()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize, Errno> {
        let count = SliceSource::new(&self.0).write_to(fd, offset, len, flags)?;
        self.0.drain(..count);
        Ok(count)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<(), Errno> {
        let bytes = self.0.get(..buf.len()).ok_or(Errno::EMSGSIZE)?;
        buf.copy_from_slice(bytes);
        self.0.drain(..buf.len());
        Ok(())
    }
}

/// A whole message; none when the peer has closed.
pub fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; HEADER_LEN];
    stream.read_exact(&mut message).ok()?;
    let size = Header::peek(&message).ok()?.size as usize;
    message.resize(size.max(HEADER_LEN), 0);
    stream.read_exact(message.get_mut(HEADER_LEN..)?).ok()?;
    Some(message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
