//! A server over a [`Recorder`], and a peer that talks to it.

use crate::recorder::{HANDLE, Recorder};
use sluice_proto::fuse::loopback::{Loopback, Ticket};
use sluice_proto::fuse::serve::{
    CacheMode, Exchange, Notifier, Parked, ServeOptions, Server, ServerConfig, TransportLimits,
};
use sluice_proto::fuse::wire::*;
use sluice_vfs::{
    AccessChecks, Errno, Peer, ReadSink, SessionLimits, SliceSource, VecSink, WriteSource,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, IntoBytes};

/// Node that requests are about.
pub(crate) const NODEID: u64 = 0x11;

/// What Linux 7.2 offers, and all that it might.
pub(crate) const OFFERED: InitFlags = InitFlags::all();

/// A handle as requests name it: the one that the recorder gives out.
pub(crate) const FH: u64 = HANDLE.0;

/// The usual header.
pub(crate) const HEAD: RequestHead = RequestHead {
    unique: 42,
    nodeid: NODEID,
    uid: 1000,
    gid: 1001,
    pid: 1234,
};

pub(crate) struct Harness {
    pub(crate) server: Server,
    pub(crate) service: Recorder,
    pub(crate) notified: Arc<Notified>,
}

/// Collects notifications.
#[derive(Default)]
pub(crate) struct Notified(Mutex<Vec<String>>);

impl Notifier for Notified {
    fn notify(&self, notification: &Notification<'_>) {
        self.0.lock().unwrap().push(format!("{notification:?}"));
    }
}

impl Notified {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Harness {
    /// Before INIT.
    pub(crate) fn cold(options: ServeOptions, allows_reinit: bool) -> Self {
        Harness::over(Recorder::new(), options, allows_reinit)
    }

    /// Before INIT, over a service of one's own.
    pub(crate) fn over(service: Recorder, options: ServeOptions, allows_reinit: bool) -> Self {
        let notified = Arc::new(Notified::default());
        let notifier = Some(Arc::clone(&notified) as Arc<dyn Notifier>);
        let config = config(options, allows_reinit, notifier);
        Harness {
            server: Server::new(Arc::new(service.clone_for_test()), config),
            service,
            notified,
        }
    }

    /// After INIT with every flag offered.
    pub(crate) fn with(options: ServeOptions) -> Self {
        let harness = Harness::cold(options, true);
        harness.init(init_in(MINOR, OFFERED)).expect("INIT");
        harness.service.calls();
        harness
    }

    /// After INIT, with changed options.
    pub(crate) fn changed(change: impl FnOnce(&mut ServeOptions)) -> Self {
        let mut options = ServeOptions::new(CacheMode::Auto);
        change(&mut options);
        Harness::with(options)
    }

    /// After INIT, in the mode that is the default.
    pub(crate) fn new() -> Self {
        Harness::with(ServeOptions::new(CacheMode::Auto))
    }

    pub(crate) fn peer(&self) -> Loopback<'_> {
        Loopback::new(&self.server)
    }

    pub(crate) fn init(&self, args: InitIn) -> Result<InitOut, Errno> {
        match self.call(&Operation::Init { args }).expect("a reply") {
            Ok(body) => {
                let mut init = InitOut::default();
                init.as_mut_bytes().copy_from_slice(&body);
                Ok(init)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn send(&self, unique: u64, operation: &Operation<'_>) -> Ticket {
        self.peer()
            .send(&RequestHead { unique, ..HEAD }, operation, b"")
    }

    /// Runs a request; `None` if it gets no reply.
    pub(crate) fn call(&self, operation: &Operation<'_>) -> Option<Result<Vec<u8>, Errno>> {
        self.call_with(operation, b"")
    }

    pub(crate) fn call_with(
        &self,
        operation: &Operation<'_>,
        payload: &[u8],
    ) -> Option<Result<Vec<u8>, Errno>> {
        let message = self.peer().send(&HEAD, operation, payload).wait()?;
        Some(outcome(operation.opcode(), &message))
    }

    /// Runs a request that makes the service panic; the answer, if there is one.
    pub(crate) fn call_across_panic(
        &self,
        operation: &Operation<'_>,
    ) -> Option<Result<Vec<u8>, Errno>> {
        let mut prefix = [0; 128];
        let len = encode_request(&HEAD, operation, Dialect::default(), &mut prefix).unwrap();
        let answer = Arc::new(Mutex::new(None));
        let exchange = Watched {
            source: SliceSource::new(b""),
            sink: VecSink::new(4096),
            answer: Arc::clone(&answer),
        };
        let run = AssertUnwindSafe(|| self.server.handle(&prefix[..len], exchange));
        assert!(catch_unwind(run).is_err(), "the service did not panic");
        let message: Vec<u8> = answer.lock().unwrap().take()?;
        Some(outcome(operation.opcode(), &message))
    }

    /// Runs a request that succeeds; what the service was asked, and the body.
    pub(crate) fn run(&self, operation: &Operation<'_>) -> (String, Vec<u8>) {
        let body = self
            .call(operation)
            .expect("a reply")
            .unwrap_or_else(|error| panic!("{operation:?}: {error:?}"));
        (self.service.calls().join("; "), body)
    }

    pub(crate) fn called(&self, operation: &Operation<'_>) -> String {
        self.run(operation).0
    }

    pub(crate) fn open_flags(&self, flags: u32) -> (String, OpenOut) {
        let args = OpenIn {
            flags,
            open_flags: OpenInFlags::empty(),
        };
        let (call, body) = self.run(&Operation::Open { args });
        (call, OpenOut::read_from_bytes(&body).unwrap())
    }

    /// Runs a request that fails.
    pub(crate) fn error(&self, operation: &Operation<'_>) -> Errno {
        self.call(operation)
            .expect("a reply")
            .expect_err("an error")
    }
}

/// An exchange whose answer outlives it.
struct Watched {
    source: SliceSource<'static>,
    sink: VecSink,
    answer: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Exchange for Watched {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, header: OutHeader) {
        let message = [header.as_bytes(), &self.sink.into_bytes()].concat();
        let previous = self.answer.lock().unwrap().replace(message);
        assert_eq!(previous, None, "answered twice");
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        unreachable!("nothing here waits")
    }
}

/// A connection's configuration.
pub(crate) fn config(
    options: ServeOptions,
    allows_reinit: bool,
    notifier: Option<Arc<dyn Notifier>>,
) -> ServerConfig {
    ServerConfig {
        peer: Peer {
            label: "test".to_owned(),
            checks: AccessChecks::Peer,
        },
        export: b"share".to_vec(),
        limits: SessionLimits::default(),
        options,
        transport: TransportLimits {
            max_payload: 1 << 20,
            allows_reinit,
        },
        notifier,
    }
}

/// The body of a reply, or its error. It must be one that a peer can decode.
pub(crate) fn outcome(opcode: Opcode, message: &[u8]) -> Result<Vec<u8>, Errno> {
    let reply = decode_reply(opcode, message)
        .unwrap_or_else(|why| panic!("{opcode:?} got a reply that is malformed: {why}"));
    assert_eq!(reply.unique, 42, "another request's reply");
    reply.result.map(|_| message[16..].to_vec())
}

pub(crate) fn init_in(minor: u32, flags: InitFlags) -> InitIn {
    InitIn {
        major: 7,
        minor,
        max_readahead: 0x2_0000,
        flags: flags.bits() as u32,
        flags2: (flags.bits() >> 32) as u32,
        unused: [0; 11],
    }
}
