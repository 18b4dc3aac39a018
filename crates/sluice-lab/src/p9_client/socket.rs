//! A real `sluice serve --9p` on a unix socket.

use super::transport::{Connector, Done, Message, P9Transport, probe};
use crate::daemon::{Daemon, RunningDaemon};
use sluice_proto::p9::wire::{Header, Type};
use sluice_vfs::{AttachOptions, Caller, Result};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// Processes, each with one connection.
pub struct SocketConnector(Daemon);

impl SocketConnector {
    /// Processes of `program` that serve `share` with these options.
    pub fn new(program: PathBuf, share: PathBuf, options: Vec<String>) -> Self {
        SocketConnector(Daemon {
            program,
            share,
            place: "--9p",
            options,
        })
    }
}

impl Connector for SocketConnector {
    type Transport = Socket;

    /// Peer and limits are the server's own affair.
    fn connect(&self, _: AttachOptions<'_>) -> Result<Socket> {
        Ok(Socket::start(&self.0).unwrap_or_else(|error| panic!("no server: {error}")))
    }
}

/// A connection, and the thread that takes its replies.
pub struct Socket {
    stream: UnixStream,
    /// Held while a message is sent.
    sending: Mutex<()>,
    pending: Arc<Mutex<Pending>>,
    reader: Option<JoinHandle<()>>,
    _daemon: RunningDaemon,
    _dir: TempDir,
}

/// What has no reply yet.
#[derive(Default)]
struct Pending {
    requests: HashMap<u16, Done>,
    /// By the tag of a Tflush, the tag that it is about.
    flushes: HashMap<u16, u16>,
}

impl Socket {
    fn start(daemon: &Daemon) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("socket");
        let daemon = daemon.start(format!("unix:{}", path.display()))?;
        let stream = UnixStream::connect(&path)?;
        let pending = Arc::<Mutex<Pending>>::default();
        let (replies, known) = (stream.try_clone()?, Arc::clone(&pending));
        let reader = thread::spawn(move || take_replies(replies, &known));
        Ok(Socket {
            stream,
            sending: Mutex::new(()),
            pending,
            reader: Some(reader),
            _daemon: daemon,
            _dir: dir,
        })
    }

    fn send(&self, message: Message<'_>, done: Done) {
        let header = Header::peek(message.prefix).expect("a request has a header");
        // Messages are not mixed up, and replies are taken meanwhile: the server may wait for that.
        let _turn = lock(&self.sending);
        let mut pending = lock(&self.pending);
        if header.kind == Type::Flush as u8 {
            let oldtag = [message.prefix[7], message.prefix[8]];
            let oldtag = u16::from_le_bytes(oldtag);
            pending.flushes.insert(header.tag, oldtag);
        }
        pending.requests.insert(header.tag, done);
        drop(pending);
        let bytes = [message.prefix, message.payload].concat();
        (&self.stream)
            .write_all(&bytes)
            .unwrap_or_else(|error| panic!("the server takes no request: {error}"));
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let is_well = reader.join().is_ok();
            assert!(
                is_well || thread::panicking(),
                "the server's replies are odd"
            );
        }
    }
}

impl P9Transport for Socket {
    /// The server knows of a user what the protocol says.
    fn introduce(&self, _: &Caller<'_>) {}

    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        let (sender, receiver) = channel();
        let done: Done = Box::new(move |reply| {
            // Whoever asked may have given up.
            let _ = sender.send(reply);
        });
        self.send(message, done);
        receiver.recv().expect("the server answers every request")
    }

    /// Requests are taken up in order: when one that came later was answered, this
    /// one was answered too, put aside, or is slow.
    fn exchange_later(&self, message: Message<'_>, done: Done) {
        self.send(message, done);
        probe(self);
    }
}

/// Until the connection ends; then nobody waits any more.
fn take_replies(mut stream: UnixStream, pending: &Mutex<Pending>) {
    while let Ok(message) = next_reply(&mut stream) {
        let tag = Header::peek(&message).expect("a reply has a header").tag;
        let mut known = lock(pending);
        let done = known.requests.remove(&tag);
        let flushed = known.flushes.remove(&tag);
        let taken_back = flushed.and_then(|tag| known.requests.remove(&tag));
        drop(known);
        if let Some(done) = taken_back {
            done(None);
        }
        done.expect("a reply has a request")(Some(message));
    }
    lock(pending).requests.clear();
}

fn next_reply(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut message = size.to_vec();
    message.resize((u32::from_le_bytes(size) as usize).max(7), 0);
    stream.read_exact(&mut message[4..])?;
    Ok(message)
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
