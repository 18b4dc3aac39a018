//! What runs side by side, what in order, and what a Tflush makes of it.

use crate::harness::{config, decoded, model};
use sluice_proto::p9::serve::{Admission, Close, Exchange, Job, Link, Parked, Server};
use sluice_proto::p9::wire::*;
use sluice_vfs::{ReadSink, Result, SliceSource, VecSink, WriteSource};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What reads have to wait for before they give their data away.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

/// A request whose data goes through a gate. Replies arrive in one place, in
/// the order in which they were sent.
struct Gated {
    source: SliceSource<'static>,
    sink: GatedSink,
    replies: Sender<(u16, Vec<u8>)>,
    tag: u16,
}

struct GatedSink {
    sink: VecSink,
    gate: Option<Gate>,
}

impl ReadSink for GatedSink {
    fn remaining(&self) -> usize {
        self.sink.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        self.sink.read_from(fd, offset, len)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
        self.sink.put(bytes)
    }
}

impl Exchange for Gated {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, message: &[u8], payload_len: usize) {
        let mut reply = message.to_vec();
        reply.extend(&self.sink.sink.into_bytes()[..payload_len]);
        let _ = self.replies.send((self.tag, reply));
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        unreachable!("nothing here waits for a lock")
    }
}

/// Counts calls.
#[derive(Default)]
struct Woken(Mutex<u32>);

impl Link for Woken {
    fn ready(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

/// A server whose requests run when the test says so.
struct Scene {
    server: Arc<Server<Gated>>,
    woken: Arc<Woken>,
    replies: Receiver<(u16, Vec<u8>)>,
    sender: Sender<(u16, Vec<u8>)>,
}

impl Scene {
    /// Fid 0 is the root; there is a file `f` with "hello" in it.
    fn new(change: impl FnOnce(&mut sluice_proto::p9::serve::ServerConfig)) -> Self {
        let woken = Arc::new(Woken::default());
        let mut config = config(woken.clone());
        change(&mut config);
        let (sender, replies) = channel();
        let scene = Scene {
            server: Arc::new(Server::new(model(), config)),
            woken,
            replies,
            sender,
        };
        let version = Str(Dialect::Linux.version());
        let msize = 8192;
        scene.run(NOTAG, &Request::Version { msize, version });
        scene.run(
            1,
            &Request::Attach {
                fid: 0,
                afid: NOFID,
                uname: Str(b""),
                aname: Str(b""),
                n_uname: Extended(UnixId(0)),
            },
        );
        scene.run(1, &walk(0, 1));
        let name = Str(b"f");
        scene.run(
            1,
            &Request::Lcreate {
                fid: 1,
                name,
                flags: LopenFlags::RDWR,
                mode: 0o644,
                gid: 0,
            },
        );
        let changes = SetAttr {
            valid: SetattrMask::SIZE,
            size: 5,
            ..SetAttr::default()
        };
        scene.run(1, &Request::Setattr { fid: 1, changes });
        scene
    }

    fn admit(&self, tag: u16, request: &Request<'_>, gate: Option<&Gate>) -> Admission<Gated> {
        let prefix = encoded(tag, request);
        let admitted = self.server.admit(&prefix, self.exchange(tag, gate));
        admitted.expect("the connection stays open")
    }

    fn exchange(&self, tag: u16, gate: Option<&Gate>) -> Gated {
        Gated {
            source: SliceSource::new(b""),
            sink: GatedSink {
                sink: VecSink::new(8192),
                gate: gate.cloned(),
            },
            replies: self.sender.clone(),
            tag,
        }
    }

    /// Takes a request in that can run at once.
    fn job(&self, tag: u16, request: &Request<'_>, gate: Option<&Gate>) -> Job<Gated> {
        match self.admit(tag, request, gate) {
            Admission::Run(job) => job,
            _ => panic!("{request:?} does not run at once"),
        }
    }

    /// Takes a request in that has to wait.
    fn waits(&self, tag: u16, request: &Request<'_>) {
        let admitted = self.admit(tag, request, None);
        assert!(matches!(admitted, Admission::Waiting), "{request:?} runs");
    }

    /// Runs a request to its end.
    fn run(&self, tag: u16, request: &Request<'_>) {
        let job = self.job(tag, request, None);
        self.server.run(job, &encoded(tag, request));
        assert_eq!(self.answered(), tag);
    }

    /// Runs what has become ready, one after the other.
    fn run_ready(&self) {
        while let Some(job) = self.server.next_ready() {
            self.server.run(job, &[]);
        }
    }

    /// The tag of the next reply, which must be a success.
    fn answered(&self) -> u16 {
        let (tag, reply) = self.replies.recv().expect("a reply");
        let reply = decoded(&reply, Dialect::Linux);
        assert_eq!(reply.tag, tag);
        assert!(reply.result.is_ok(), "{reply:?}");
        tag
    }

    fn has_reply(&self) -> bool {
        self.replies.try_recv().is_ok()
    }

    fn woken(&self) -> u32 {
        std::mem::take(&mut *self.woken.0.lock().unwrap())
    }
}

fn encoded(tag: u16, request: &Request<'_>) -> Vec<u8> {
    let mut prefix = vec![0; 512];
    let len = encode_request(tag, request, Dialect::Linux, &mut prefix).expect("it fits");
    prefix.truncate(len);
    prefix
}

fn walk(fid: u32, newfid: u32) -> Request<'static> {
    let names = Names::default();
    Request::Walk { fid, newfid, names }
}

const READ: Request<'static> = Request::Read {
    fid: 1,
    offset: 0,
    count: 5,
};

#[test]
fn reads_of_one_file_overlap_whatever_one_of_them_waits_for() {
    let scene = Scene::new(|_| {});
    let gate = Gate::default();
    let stuck = scene.job(100, &READ, Some(&gate));
    let server = Arc::clone(&scene.server);
    let thread = thread::spawn(move || server.run(stuck, &encoded(100, &READ)));
    for tag in 101..132 {
        scene.run(tag, &READ);
    }
    assert!(!scene.has_reply(), "one is stuck");
    gate.open();
    assert_eq!(scene.answered(), 100);
    thread.join().unwrap();
}

#[test]
fn requests_that_build_on_each_other_may_be_sent_at_once() {
    let scene = Scene::new(|_| {});
    let mut room = [0; 8];
    let names = Names::new(&[b"f"], &mut room).unwrap();
    let first = Request::Walk {
        fid: 0,
        newfid: 5,
        names,
    };
    let flags = LopenFlags::empty();
    let read = Request::Read {
        fid: 5,
        offset: 0,
        count: 5,
    };
    let job = scene.job(10, &first, None);
    scene.waits(11, &Request::Lopen { fid: 5, flags });
    scene.waits(12, &read);
    scene.waits(13, &read);
    scene.waits(14, &Request::Clunk { fid: 5 });
    assert_eq!(scene.woken(), 0);
    scene.server.run(job, &encoded(10, &first));
    assert!(scene.woken() > 0, "the transport is told");
    scene.run_ready();
    let order: Vec<u16> = (0..5).map(|_| scene.answered()).collect();
    assert_eq!(order, [10, 11, 12, 13, 14]);
    assert!(scene.server.next_ready().is_none());
}

#[test]
fn a_flush_is_answered_after_what_it_is_about() {
    let scene = Scene::new(|_| {});
    let gate = Gate::default();
    let stuck = scene.job(100, &READ, Some(&gate));
    let server = Arc::clone(&scene.server);
    let thread = thread::spawn(move || server.run(stuck, &encoded(100, &READ)));
    scene.waits(101, &Request::Flush { oldtag: 100 });
    scene.waits(102, &Request::Flush { oldtag: 100 });
    scene.waits(103, &Request::Flush { oldtag: 101 });
    assert!(!scene.has_reply());
    gate.open();
    thread.join().unwrap();
    scene.run_ready();
    let order: Vec<u16> = (0..4).map(|_| scene.answered()).collect();
    assert_eq!(order[..3], [100, 101, 102]);
    assert_eq!(order[3], 103);
}

#[test]
fn a_flush_of_nothing_or_itself_is_answered_at_once() {
    let scene = Scene::new(|_| {});
    for oldtag in [77, 5, NOTAG] {
        let admitted = scene.admit(5, &Request::Flush { oldtag }, None);
        assert!(matches!(admitted, Admission::Over));
        assert_eq!(scene.answered(), 5);
    }
}

#[test]
fn what_has_not_begun_is_flushed_without_an_answer_or_an_effect() {
    let scene = Scene::new(|_| {});
    let first = walk(0, 5);
    let job = scene.job(10, &first, None);
    scene.waits(11, &Request::Remove { fid: 5 });
    scene.waits(12, &Request::Clunk { fid: 5 });
    let admitted = scene.admit(13, &Request::Flush { oldtag: 11 }, None);
    assert!(matches!(admitted, Admission::Over));
    assert_eq!(scene.answered(), 13);
    scene.server.run(job, &encoded(10, &first));
    scene.run_ready();
    assert_eq!([scene.answered(), scene.answered()], [10, 12]);
    assert!(!scene.has_reply());
}

#[test]
fn a_version_waits_for_what_runs_and_nothing_overtakes_it() {
    let scene = Scene::new(|_| {});
    let gate = Gate::default();
    let stuck = scene.job(100, &READ, Some(&gate));
    let server = Arc::clone(&scene.server);
    let thread = thread::spawn(move || server.run(stuck, &encoded(100, &READ)));
    let (msize, version) = (8192, Str(Dialect::Linux.version()));
    scene.waits(NOTAG, &Request::Version { msize, version });
    scene.waits(101, &walk(0, 5));
    gate.open();
    thread.join().unwrap();
    scene.run_ready();
    assert_eq!([scene.answered(), scene.answered()], [100, NOTAG]);
    let (tag, reply) = scene.replies.recv().unwrap();
    assert_eq!(tag, 101);
    let outcome = decoded(&reply, Dialect::Linux).result;
    assert!(outcome.is_err(), "fid 0 is no more: {outcome:?}");
}

#[test]
fn tags_name_one_request_at_a_time() {
    let scene = Scene::new(|_| {});
    let job = scene.job(10, &READ, None);
    let refused = |tag, request: &Request<'_>| {
        let admitted = scene
            .server
            .admit(&encoded(tag, request), scene.exchange(tag, None));
        admitted.err()
    };
    assert_eq!(refused(10, &READ), Some(Close::Tag(10)));
    assert_eq!(
        refused(10, &Request::Flush { oldtag: 3 }),
        Some(Close::Tag(10))
    );
    assert_eq!(refused(NOTAG, &READ), Some(Close::Tag(NOTAG)));
    scene.server.run(job, &encoded(10, &READ));
    scene.answered();
    scene.run(10, &READ);
}

#[test]
fn work_beyond_the_bounds_waits_outside() {
    let scene = Scene::new(|config| {
        config.bounds.requests = 3;
        config.bounds.bytes = 10_000;
    });
    let jobs: Vec<_> = (10..13).map(|tag| scene.job(tag, &READ, None)).collect();
    assert!(!scene.server.has_room());
    let mut jobs = jobs.into_iter();
    scene.server.run(jobs.next().unwrap(), &encoded(10, &READ));
    assert!(scene.server.has_room());
    drop(jobs);
    let huge = Request::Read {
        fid: 1,
        offset: 0,
        count: u32::MAX,
    };
    let first = scene.job(20, &huge, None);
    assert!(scene.server.has_room(), "8 KiB");
    let second = scene.job(21, &huge, None);
    assert!(!scene.server.has_room(), "16 KiB");
    drop((first, second));
    assert!(scene.server.has_room());
}

#[test]
fn a_job_that_nobody_runs_is_an_error() {
    let scene = Scene::new(|_| {});
    drop(scene.job(10, &READ, None));
    let (tag, reply) = scene.replies.recv().unwrap();
    assert_eq!(tag, 10);
    assert!(decoded(&reply, Dialect::Linux).result.is_err());
    scene.run(10, &READ);
}

#[test]
fn a_closed_connection_takes_nothing_and_drops_what_waits() {
    let scene = Scene::new(|_| {});
    let first = walk(0, 5);
    let job = scene.job(10, &first, None);
    scene.waits(11, &Request::Clunk { fid: 5 });
    scene.server.close();
    let refused = scene
        .server
        .admit(&encoded(12, &READ), scene.exchange(12, None));
    assert_eq!(refused.err(), Some(Close::Closed));
    scene.server.run(job, &encoded(10, &first));
    let (tag, reply) = scene.replies.recv().unwrap();
    assert_eq!(tag, 10);
    assert!(reply.len() >= HEADER_LEN);
    assert!(scene.server.next_ready().is_none() && !scene.has_reply());
}
