//! Requests that come all the time take nothing from the heap.

use allocation_counter::measure;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::time::{ClockId, clock_gettime};
use sluice_export::{Export, ExportOptions};
use sluice_proto::fuse::serve::{
    CacheMode, Exchange, Parked, ServeOptions, Server, ServerConfig, TransportLimits,
};
use sluice_proto::fuse::wire::{
    CBytes, Dialect, EntryOut, ForgetIn, GetattrIn, InitIn, MAJOR, MINOR, OpenIn, OpenOut,
    Operation, OutHeader, PREFIX_MAX, Payload, ReadIn, ReleaseIn, RequestHead, WriteIn,
    encode_request,
};
use sluice_vfs::{
    AccessChecks, Peer, ReadSink, SessionLimits, SliceSink, SliceSource, WriteSource,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use tempfile::TempDir;
use zerocopy::FromBytes;

const ROOT: u64 = 1;
const PAGE: usize = 4096;

/// A request in memory that was there before, and room for its reply.
struct Fixed<'a> {
    source: SliceSource<'a>,
    sink: SliceSink<'a>,
    error: &'a AtomicI32,
}

impl Exchange for Fixed<'_> {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, header: OutHeader) {
        self.error.store(header.error, Ordering::Relaxed);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        panic!("nothing waits here")
    }
}

/// Waits until the file is older than the clock that stamps new ones, which
/// moves on every few milliseconds. Younger ones are told by descriptors.
fn settle(path: &Path) {
    let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME).unwrap();
    let born = (stat.stx_btime.tv_sec, i64::from(stat.stx_btime.tv_nsec));
    let has_passed = || {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec) > born
    };
    while !has_passed() {
        std::thread::yield_now();
    }
}

/// An exported directory behind FUSE bytes.
struct Share {
    dir: TempDir,
    server: Server,
    prefix: Vec<u8>,
    reply: Vec<u8>,
}

impl Share {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let export = Export::open(dir.path(), ExportOptions::default()).unwrap();
        let config = ServerConfig {
            peer: Peer {
                label: "allocations".to_owned(),
                checks: AccessChecks::Peer,
            },
            export: Vec::new(),
            limits: SessionLimits::default(),
            options: ServeOptions::new(CacheMode::Auto),
            transport: TransportLimits {
                max_payload: 1 << 20,
                allows_reinit: true,
            },
            notifier: None,
        };
        let mut share = Share {
            dir,
            server: Server::new(Arc::new(export), config),
            prefix: vec![0; PREFIX_MAX],
            reply: vec![0; 64 * 1024],
        };
        let args = InitIn {
            major: MAJOR,
            minor: MINOR,
            max_readahead: 0,
            flags: 0,
            flags2: 0,
            unused: [0; 11],
        };
        share.ask(0, &Operation::Init { args }, &[]);
        share
    }

    /// How many allocations the server makes to serve a request, which succeeds.
    fn ask(&mut self, nodeid: u64, operation: &Operation<'_>, payload: &[u8]) -> u64 {
        let head = RequestHead {
            unique: 2,
            nodeid,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: 1,
        };
        let len = encode_request(&head, operation, Dialect::default(), &mut self.prefix).unwrap();
        let error = AtomicI32::new(0);
        let exchange = Fixed {
            source: SliceSource::new(payload),
            sink: SliceSink::new(&mut self.reply),
            error: &error,
        };
        let (server, prefix) = (&self.server, &self.prefix[..len]);
        let counted = measure(|| server.handle(prefix, exchange));
        assert_eq!(error.into_inner(), 0, "{operation:?}");
        counted.count_total
    }

    /// The same where the request comes again and again.
    fn ask_often(&mut self, nodeid: u64, operation: &Operation<'_>, payload: &[u8]) -> u64 {
        for _ in 0..3 {
            self.ask(nodeid, operation, payload);
        }
        (0..100).map(|_| self.ask(nodeid, operation, payload)).sum()
    }

    fn lookup(&mut self, name: &[u8]) -> u64 {
        let name = CBytes(name);
        self.ask(ROOT, &Operation::Lookup { name }, &[]);
        EntryOut::read_from_prefix(&self.reply).unwrap().0.nodeid
    }

    fn open(&mut self, node: u64, flags: u32) -> (u64, u64) {
        let args = OpenIn {
            flags,
            ..OpenIn::default()
        };
        let count = self.ask(node, &Operation::Open { args }, &[]);
        (OpenOut::read_from_prefix(&self.reply).unwrap().0.fh, count)
    }

    fn opendir(&mut self, node: u64) -> u64 {
        let args = OpenIn::default();
        self.ask(node, &Operation::Opendir { args }, &[]);
        OpenOut::read_from_prefix(&self.reply).unwrap().0.fh
    }
}

fn read_at(fh: u64, offset: u64, size: usize) -> ReadIn {
    ReadIn {
        fh,
        offset,
        size: size as u32,
        ..ReadIn::default()
    }
}

#[test]
fn requests_that_come_all_the_time_allocate_nothing() {
    let mut share = Share::new();
    fs::write(share.dir.path().join("f"), [7; 2 * PAGE]).unwrap();
    settle(&share.dir.path().join("f"));
    let f = share.lookup(b"f");
    let (fh, _) = share.open(f, 2);

    let args = GetattrIn::default();
    assert_eq!(share.ask_often(f, &Operation::Getattr { args }, &[]), 0);
    let name = CBytes(b"f");
    assert_eq!(share.ask_often(ROOT, &Operation::Lookup { name }, &[]), 0);
    let args = ForgetIn { nlookup: 1 };
    assert_eq!(share.ask_often(f, &Operation::Forget { args }, &[]), 0);
    let args = read_at(fh, 0, PAGE);
    assert_eq!(share.ask_often(f, &Operation::Read { args }, &[]), 0);
    assert_eq!(share.reply[..PAGE], [7; PAGE]);
    let args = WriteIn {
        fh,
        offset: 0,
        size: PAGE as u32,
        ..WriteIn::default()
    };
    let payload = &[8; PAGE];
    let operation = Operation::Write {
        args,
        data: Payload { len: PAGE },
    };
    assert_eq!(share.ask_often(f, &operation, payload), 0);
    assert_eq!(
        fs::read(share.dir.path().join("f")).unwrap()[..PAGE],
        *payload
    );
}

#[test]
fn a_name_that_is_missing_allocates_nothing() {
    let mut share = Share::new();
    fs::write(share.dir.path().join("f"), "").unwrap();
    let name = CBytes(b"missing");
    let operation = Operation::Lookup { name };
    let head = |share: &mut Share| {
        let head = RequestHead {
            unique: 2,
            nodeid: ROOT,
            uid: 0,
            gid: 0,
            pid: 1,
        };
        encode_request(&head, &operation, Dialect::default(), &mut share.prefix).unwrap()
    };
    let len = head(&mut share);
    let mut ask = || {
        let error = AtomicI32::new(0);
        let exchange = Fixed {
            source: SliceSource::new(&[]),
            sink: SliceSink::new(&mut share.reply),
            error: &error,
        };
        let (server, prefix) = (&share.server, &share.prefix[..len]);
        let counted = measure(|| server.handle(prefix, exchange));
        // Either it is told by an error, or by an entry with no node.
        assert!([0, -2].contains(&error.into_inner()));
        counted.count_total
    };
    ask();
    assert_eq!((0..100).map(|_| ask()).sum::<u64>(), 0);
}

#[test]
fn opening_allocates_the_handle_alone() {
    let mut share = Share::new();
    fs::write(share.dir.path().join("f"), "").unwrap();
    let f = share.lookup(b"f");
    let mut count = 0;
    for round in 0..103 {
        let (fh, opening) = share.open(f, 0);
        let args = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        let closing = share.ask(f, &Operation::Release { args }, &[]);
        if round >= 3 {
            count += opening + closing;
        }
    }
    assert!(count <= 100, "{count} allocations in 100 rounds");
}

#[test]
fn a_listing_allocates_its_buffer_alone() {
    let mut share = Share::new();
    for number in 0..200 {
        fs::write(share.dir.path().join(format!("f{number}")), "").unwrap();
    }
    settle(&share.dir.path().join("f199"));
    let fh = share.opendir(ROOT);
    let list = |share: &mut Share| {
        let args = read_at(fh, 0, 60_000);
        share.ask(ROOT, &Operation::Readdirplus { args }, &[])
    };
    list(&mut share);
    let again = list(&mut share);
    assert!(again <= 2, "{again} allocations for 200 known entries");
}
