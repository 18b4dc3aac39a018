//! Servers at the other end of a socket: one that serves the model, and one
//! that says what a test tells it to.

use sluice_client::{Client, ConnectOptions, Dialect, Socket};
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_proto::p9::serve::{
    Admission, Bounds, Exchange, Job, Link, NumericUsers, Parked, ServeOptions, Server,
    ServerConfig,
};
use sluice_proto::p9::wire::*;
use sluice_vfs::{
    AccessChecks, Errno, FileService, Peer, ReadSink, SessionLimits, SliceSource, VecSink,
    WriteSource,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longer than anything here takes, and an end all the same.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        uid: 0,
        time_limit: Some(PATIENCE),
        ..ConnectOptions::default()
    }
}

pub(crate) fn only(dialect: Dialect) -> ConnectOptions {
    ConnectOptions {
        dialects: vec![dialect],
        ..options()
    }
}

/// A client of a server over the model.
pub(crate) fn client(options: &ConnectOptions) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    serve_model(theirs, Run::Inline);
    over(ours, options).unwrap()
}

pub(crate) fn over(stream: UnixStream, options: &ConnectOptions) -> sluice_client::Result<Client> {
    let socket = Socket::new(stream.into())?;
    Client::over(Box::new(socket), options)
}

/// How requests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// One after the other.
    Inline,
    /// Each on a thread of its own.
    Threads,
}

/// Serves the model until the peer closes.
pub(crate) fn serve_model(stream: UnixStream, run: Run) {
    let service: Arc<dyn FileService> = Arc::new(ModelService::new(ModelOptions::default()));
    thread::spawn(move || {
        let (bell, rings) = channel();
        let config = ServerConfig {
            peer: Peer {
                label: "test".to_owned(),
                checks: AccessChecks::Peer,
            },
            limits: SessionLimits::default(),
            bounds: Bounds::default(),
            options: ServeOptions::default(),
            users: Arc::new(NumericUsers),
            link: Arc::new(Bell(Mutex::new(bell))),
        };
        let server = Arc::new(Server::new(service, config));
        let for_waiting = Arc::clone(&server);
        thread::spawn(move || run_ready(&for_waiting, &rings));
        take_in(&server, stream, run);
        server.close();
    });
}

fn take_in(server: &Arc<Server<ToStream>>, mut stream: UnixStream, run: Run) {
    let out = Arc::new(Mutex::new(stream.try_clone().unwrap()));
    while let Some(message) = receive(&mut stream) {
        let header = Header::peek(&message).unwrap();
        let (prefix, payload) = message.split_at(header.prefix_len().min(message.len()));
        let exchange = ToStream {
            payload: Cursor(payload.to_vec()),
            sink: VecSink::new(8 << 20),
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

/// Until nobody rings any more.
fn run_ready(server: &Arc<Server<ToStream>>, rings: &Receiver<()>) {
    while rings.recv_timeout(PATIENCE).is_ok() {
        while let Some(job) = server.next_ready() {
            server.run(job, &[]);
        }
    }
}

struct Bell(Mutex<Sender<()>>);

impl Link for Bell {
    fn ready(&self) {
        let _ = self.0.lock().unwrap().send(());
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
        reply.extend(&self.sink.into_bytes()[..payload_len]);
        let _ = self.out.lock().unwrap().write_all(&reply);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedReply(self.out))
    }
}

struct ParkedReply(Arc<Mutex<UnixStream>>);

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, message: &[u8]) {
        let _ = self.0.lock().unwrap().write_all(message);
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
        fd: std::os::fd::BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: sluice_vfs::WriteFlags,
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
pub(crate) fn receive(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut message = vec![0; HEADER_LEN];
    stream.read_exact(&mut message).ok()?;
    let size = Header::peek(&message).unwrap().size as usize;
    message.resize(size, 0);
    stream.read_exact(&mut message[HEADER_LEN..]).ok()?;
    Some(message)
}

/// A server that answers Tversion and Tattach, and everything behind them as it
/// is told to.
pub(crate) struct Script {
    pub(crate) stream: UnixStream,
}

impl Script {
    /// A client that speaks 9P2000.L, and `script` on a thread of its own once that is attached.
    pub(crate) fn client(
        options: &ConnectOptions,
        script: impl FnOnce(&mut Script) + Send + 'static,
    ) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let dialect = Dialect::Linux;
        let dialects = vec![dialect];
        let options = &ConnectOptions {
            dialects,
            ..options.clone()
        };
        let msize = options.msize;
        thread::spawn(move || {
            let mut it = Script { stream: theirs };
            it.next();
            let version = Str(dialect.version());
            it.reply(NOTAG, &Reply::Version { msize, version }, dialect, &[]);
            let tag = it.next().tag;
            let qid = Qid {
                kind: QidType::DIR,
                ..Qid::default()
            };
            it.reply(tag, &Reply::Attach { qid }, dialect, &[]);
            script(&mut it);
        });
        over(ours, options).unwrap()
    }

    /// The header of the next request.
    pub(crate) fn next(&mut self) -> Header {
        self.next_or_end().expect("another request")
    }

    pub(crate) fn next_or_end(&mut self) -> Option<Header> {
        receive(&mut self.stream).map(|message| Header::peek(&message).unwrap())
    }

    pub(crate) fn reply(&mut self, tag: u16, reply: &Reply<'_>, dialect: Dialect, data: &[u8]) {
        let mut message = vec![0; 4096];
        let len = encode_reply(tag, reply, dialect, &mut message).unwrap();
        message.truncate(len);
        message.extend(data);
        self.stream.write_all(&message).unwrap();
    }

    /// In 9P2000.L.
    pub(crate) fn answer(&mut self, tag: u16, reply: &Reply<'_>) {
        self.reply(tag, reply, Dialect::Linux, &[]);
    }

    pub(crate) fn refuse(&mut self, tag: u16, errno: Errno) {
        let mut message = [11, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0];
        message[5..7].copy_from_slice(&tag.to_le_bytes());
        message[7..11].copy_from_slice(&errno.raw().to_le_bytes());
        self.stream.write_all(&message).unwrap();
    }

    /// Answers the two messages that open a file.
    pub(crate) fn let_open(&mut self) {
        let qid = Qid::default();
        let tag = self.next().tag;
        let qids = [qid.to_bytes()];
        self.answer(tag, &Reply::Walk { qids: Qids(&qids) });
        let tag = self.next().tag;
        self.answer(tag, &Reply::Lopen { qid, iounit: 0 });
    }

    /// Reads on until the client goes.
    pub(crate) fn ignore_all(&mut self) {
        while self.next_or_end().is_some() {}
    }
}
