//! A FUSE session over a vhost-user driver, one request at a time, laid out in
//! buffers as Linux's virtiofs lays them out: header, arguments and payload
//! apart.

use crate::bench::error::{BenchError, Context};
use sluice_proto::fuse::wire::{
    BatchForgetIn, CBytes, Counted, Dialect, Direntpluses, EntryOut, FlushIn, FopenFlags,
    ForgetOne, FsyncIn, GetattrIn, InHeader, InitFlags, InitIn, MAJOR, MINOR, OpenIn, OpenOut,
    Operation, OutHeader, Payload, ROOT_ID, ReadIn, ReleaseIn, Reply, RequestHead, WriteIn,
    decode_reply, encode_request,
};
use sluice_vfs::Errno;
use sluice_virtio::driver::{Completion, Driver, DriverQueue, Options, WaitMode};
use std::path::Path;
use zerocopy::FromBytes;

/// Queues of a virtio-fs device (virtio 1.3, 5.11.2).
const HIPRIO_QUEUE: u16 = 0;
const FIRST_REQUEST_QUEUE: u16 = 1;

/// Room for the longest request that is used here, a full BATCH_FORGET.
const PREFIX_ROOM: usize = 8192;

/// Room for a reply without payload.
const REPLY_ROOM: u32 = 256;

const IN_HEADER: usize = size_of::<InHeader>();
const OUT_HEADER: u32 = size_of::<OutHeader>() as u32;

/// Most items that fit into a BATCH_FORGET.
pub(super) const FORGET_BATCH: usize = 400;

/// A session with a virtio-fs device.
#[derive(Debug)]
pub(super) struct Client {
    requests: DriverQueue,
    hiprio: DriverQueue,
    prefix: Vec<u8>,
    reply: Vec<u8>,
    unique: u64,
    _driver: Driver,
}

impl Client {
    /// Connects to a vhost-user socket, starts the rings and the session.
    pub(super) fn connect(socket: &Path, wait_mode: WaitMode) -> Result<Self, BenchError> {
        let options = Options {
            wait_mode,
            ..Options::default()
        };
        let mut driver = Driver::connect(socket, options).context(socket.display())?;
        let hiprio = driver
            .start_queue(HIPRIO_QUEUE)
            .context("the hiprio queue")?;
        let requests = driver
            .start_queue(FIRST_REQUEST_QUEUE)
            .context("the request queue")?;
        let mut client = Client {
            requests,
            hiprio,
            prefix: vec![0; PREFIX_ROOM],
            reply: Vec::with_capacity(256 * 1024),
            unique: 0,
            _driver: driver,
        };
        client.init()?;
        Ok(client)
    }

    fn init(&mut self) -> Result<(), BenchError> {
        let flags = offered().bits();
        let args = InitIn {
            major: MAJOR,
            minor: MINOR,
            max_readahead: 128 * 1024,
            flags: flags as u32,
            flags2: (flags >> 32) as u32,
            unused: [0; 11],
        };
        self.ask(0, Operation::Init { args })
            .map(drop)
            .context("INIT")
    }

    pub(super) fn getattr(&mut self, node: u64) -> Result<(), BenchError> {
        let args = GetattrIn::default();
        self.ask(node, Operation::Getattr { args })
            .map(drop)
            .context("GETATTR")
    }

    /// Asks `count` times, with up to `depth` requests in flight: takes all
    /// completions that there are, and sends as many requests again.
    pub(super) fn getattr_pipelined(
        &mut self,
        node: u64,
        count: u32,
        depth: u32,
    ) -> Result<(), BenchError> {
        let (mut sent, mut done) = (0, 0);
        while done < count {
            while sent < count && sent - done < depth {
                self.send_getattr(node)?;
                sent += 1;
            }
            self.requests.kick();
            let mut next = Some(self.requests.wait().context("GETATTR")?);
            while let Some(completion) = next {
                check_header(&self.out_header(&completion)?).context("GETATTR")?;
                done += 1;
                next = self.requests.poll().context("GETATTR")?;
            }
        }
        Ok(())
    }

    fn send_getattr(&mut self, node: u64) -> Result<(), BenchError> {
        let args = GetattrIn::default();
        let len = self.encode(node, &Operation::Getattr { args })?;
        let prefix = self.prefix.get(..len).unwrap_or_default();
        let (header, args) = prefix.split_at(IN_HEADER.min(len));
        self.requests
            .submit(&[header, args], &[OUT_HEADER, REPLY_ROOM])
            .map(drop)
            .context("GETATTR")
    }

    /// Sends an FSYNC and waits for no answer: it comes, unseen, before that of a
    /// later request. Nothing is sent while there are `most` requests in flight.
    pub(super) fn send_fsync(&mut self, node: u64, fh: u64, most: usize) -> Result<(), BenchError> {
        if self.requests.in_flight() >= most {
            return Ok(());
        }
        let args = FsyncIn {
            fh,
            ..FsyncIn::default()
        };
        let len = self.encode(node, &Operation::Fsync { args })?;
        let prefix = self.prefix.get(..len).unwrap_or_default();
        let (header, args) = prefix.split_at(IN_HEADER.min(len));
        self.requests
            .submit(&[header, args], &[OUT_HEADER])
            .context("FSYNC")?;
        self.requests.kick();
        Ok(())
    }

    /// Looks a name up that exists.
    pub(super) fn lookup(&mut self, parent: u64, name: &str) -> Result<u64, BenchError> {
        match self.lookup_entry(parent, name)? {
            Some(entry) => Ok(entry.nodeid),
            None => Err(BenchError::new(format!("LOOKUP finds no {name}"))),
        }
    }

    /// Looks a name up that does not exist.
    pub(super) fn lookup_missing(&mut self, parent: u64, name: &str) -> Result<(), BenchError> {
        match self.lookup_entry(parent, name)? {
            None => Ok(()),
            Some(_) => Err(BenchError::new(format!("LOOKUP finds {name}"))),
        }
    }

    fn lookup_entry(&mut self, parent: u64, name: &str) -> Result<Option<EntryOut>, BenchError> {
        let name = CBytes(name.as_bytes());
        match self.ask_errno(parent, Operation::Lookup { name })? {
            // Both say that the name does not exist.
            Err(Errno::ENOENT) => Ok(None),
            Ok(Reply::Lookup { entry }) if entry.nodeid == 0 => Ok(None),
            Ok(Reply::Lookup { entry }) => Ok(Some(entry)),
            other => Err(unexpected("LOOKUP", &other)),
        }
    }

    pub(super) fn open(&mut self, node: u64, flags: u32) -> Result<OpenOut, BenchError> {
        let args = OpenIn {
            flags,
            ..OpenIn::default()
        };
        match self.ask(node, Operation::Open { args }).context("OPEN")? {
            Reply::Open { open } => Ok(open),
            other => Err(unexpected("OPEN", &Ok(other))),
        }
    }

    /// What Linux sends for the last close of a file: a FLUSH unless the server
    /// said that it needs none, and a RELEASE.
    pub(super) fn close(&mut self, node: u64, open: &OpenOut) -> Result<(), BenchError> {
        let fh = open.fh;
        if !open.open_flags.contains(FopenFlags::NOFLUSH) {
            let args = FlushIn {
                fh,
                ..FlushIn::default()
            };
            self.ask(node, Operation::Flush { args }).context("FLUSH")?;
        }
        let args = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        self.ask(node, Operation::Release { args })
            .map(drop)
            .context("RELEASE")
    }

    pub(super) fn opendir(&mut self, node: u64) -> Result<u64, BenchError> {
        let args = OpenIn::default();
        match self
            .ask(node, Operation::Opendir { args })
            .context("OPENDIR")?
        {
            Reply::Opendir { open } => Ok(open.fh),
            other => Err(unexpected("OPENDIR", &Ok(other))),
        }
    }

    pub(super) fn releasedir(&mut self, node: u64, fh: u64) -> Result<(), BenchError> {
        let args = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        self.ask(node, Operation::Releasedir { args })
            .map(drop)
            .context("RELEASEDIR")
    }

    /// Reads data, and leaves it in the shared memory.
    pub(super) fn read(
        &mut self,
        node: u64,
        fh: u64,
        offset: u64,
        size: u32,
    ) -> Result<(), BenchError> {
        let args = read_args(fh, offset, size);
        let done = self.exchange(node, Operation::Read { args }, &[], size)?;
        let header = self.out_header(&done)?;
        check_header(&header).context("READ")?;
        expect_len(header.len, OUT_HEADER + size).context("READ")
    }

    pub(super) fn write(
        &mut self,
        node: u64,
        fh: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), BenchError> {
        let args = WriteIn {
            fh,
            offset,
            size: data.len() as u32,
            ..WriteIn::default()
        };
        let payload = Payload { len: data.len() };
        let write = Operation::Write {
            args,
            data: payload,
        };
        let done = self.exchange(node, write, data, REPLY_ROOM)?;
        match self.decode(&write, &done)? {
            Ok(Reply::Write { written }) => {
                expect_len(written.size, data.len() as u32).context("WRITE")
            }
            other => Err(unexpected("WRITE", &other)),
        }
    }

    /// Reads a chunk of a directory; each entry's node goes to `nodes`. Returns
    /// where to go on, or `None` at the end.
    pub(super) fn readdirplus(
        &mut self,
        node: u64,
        fh: u64,
        offset: u64,
        size: u32,
        nodes: &mut Vec<u64>,
    ) -> Result<Option<u64>, BenchError> {
        let args = read_args(fh, offset, size);
        let operation = Operation::Readdirplus { args };
        let done = self.exchange(node, operation, &[], size)?;
        let entries = match self.decode(&operation, &done)? {
            Ok(Reply::Readdirplus { entries }) => entries,
            other => return Err(unexpected("READDIRPLUS", &other)),
        };
        let mut next = None;
        for record in Direntpluses(entries.0) {
            let record = record.context("READDIRPLUS")?;
            next = Some(record.entry.dirent.off);
            if record.entry.entry_out.nodeid != 0 {
                nodes.push(record.entry.entry_out.nodeid);
            }
        }
        Ok(next)
    }

    /// Gives one reference to each node back.
    pub(super) fn forget(&mut self, nodes: &[u64]) -> Result<(), BenchError> {
        for batch in nodes.chunks(FORGET_BATCH) {
            let items: Vec<_> = batch
                .iter()
                .map(|&nodeid| ForgetOne { nodeid, nlookup: 1 })
                .collect();
            self.forget_batch(Counted::new(&items))
                .context("BATCH_FORGET")?;
        }
        Ok(())
    }

    fn forget_batch(
        &mut self,
        nodes: Counted<'_, BatchForgetIn, ForgetOne>,
    ) -> Result<(), BenchError> {
        let len = self.encode(0, &Operation::BatchForget { nodes })?;
        let prefix = self.prefix.get(..len).unwrap_or_default();
        // No reply, but the descriptors come back when it is done.
        self.hiprio.roundtrip(&[prefix], &[]).context("hiprio")?;
        Ok(())
    }

    /// Asks for something that must succeed.
    fn ask(&mut self, node: u64, operation: Operation<'_>) -> Result<Reply<'_>, BenchError> {
        self.ask_errno(node, operation)?
            .map_err(|error| BenchError::new(error.to_string()))
    }

    fn ask_errno(
        &mut self,
        node: u64,
        operation: Operation<'_>,
    ) -> Result<Result<Reply<'_>, Errno>, BenchError> {
        let done = self.exchange(node, operation, &[], REPLY_ROOM)?;
        self.decode(&operation, &done)
    }

    fn exchange(
        &mut self,
        node: u64,
        operation: Operation<'_>,
        payload: &[u8],
        room: u32,
    ) -> Result<Completion, BenchError> {
        let len = self.encode(node, &operation)?;
        let prefix = self.prefix.get(..len).unwrap_or_default();
        let (header, args) = prefix.split_at(IN_HEADER.min(len));
        let parts = [header, args, payload];
        let parts = match (args.is_empty(), payload.is_empty()) {
            (true, _) => &parts[..1],
            (false, true) => &parts[..2],
            (false, false) => &parts[..],
        };
        self.requests
            .roundtrip(parts, &[OUT_HEADER, room])
            .context("request")
    }

    fn encode(&mut self, nodeid: u64, operation: &Operation<'_>) -> Result<usize, BenchError> {
        self.unique += 2;
        let head = RequestHead {
            unique: self.unique,
            nodeid,
            ..RequestHead::default()
        };
        encode_request(&head, operation, Dialect::default(), &mut self.prefix)
            .context("encoding a request")
    }

    fn decode(
        &mut self,
        operation: &Operation<'_>,
        done: &Completion,
    ) -> Result<Result<Reply<'_>, Errno>, BenchError> {
        self.reply.resize(done.written as usize, 0);
        self.requests.read_reply(done, 0, &mut self.reply);
        let message = decode_reply(operation.opcode(), &self.reply).context("a reply")?;
        if message.unique == self.unique {
            Ok(message.result)
        } else {
            Err(BenchError::new("a reply to another request"))
        }
    }

    fn out_header(&self, done: &Completion) -> Result<OutHeader, BenchError> {
        let mut bytes = [0; OUT_HEADER as usize];
        self.requests.read_reply(done, 0, &mut bytes);
        OutHeader::read_from_bytes(&bytes).map_err(|_| BenchError::new("no reply header"))
    }
}

/// What Linux offers on virtio-fs.
fn offered() -> InitFlags {
    InitFlags::ASYNC_READ
        | InitFlags::POSIX_LOCKS
        | InitFlags::ATOMIC_O_TRUNC
        | InitFlags::EXPORT_SUPPORT
        | InitFlags::BIG_WRITES
        | InitFlags::DONT_MASK
        | InitFlags::SPLICE_WRITE
        | InitFlags::SPLICE_MOVE
        | InitFlags::SPLICE_READ
        | InitFlags::FLOCK_LOCKS
        | InitFlags::HAS_IOCTL_DIR
        | InitFlags::AUTO_INVAL_DATA
        | InitFlags::DO_READDIRPLUS
        | InitFlags::READDIRPLUS_AUTO
        | InitFlags::ASYNC_DIO
        | InitFlags::WRITEBACK_CACHE
        | InitFlags::NO_OPEN_SUPPORT
        | InitFlags::PARALLEL_DIROPS
        | InitFlags::HANDLE_KILLPRIV
        | InitFlags::POSIX_ACL
        | InitFlags::ABORT_ERROR
        | InitFlags::MAX_PAGES
        | InitFlags::CACHE_SYMLINKS
        | InitFlags::NO_OPENDIR_SUPPORT
        | InitFlags::EXPLICIT_INVAL_DATA
        | InitFlags::SUBMOUNTS
        | InitFlags::HANDLE_KILLPRIV_V2
        | InitFlags::SETXATTR_EXT
        | InitFlags::INIT_EXT
        | InitFlags::CREATE_SUPP_GROUP
        | InitFlags::HAS_EXPIRE_ONLY
        | InitFlags::DIRECT_IO_ALLOW_MMAP
        | InitFlags::NO_EXPORT_SUPPORT
        | InitFlags::HAS_RESEND
        | InitFlags::ALLOW_IDMAP
}

fn read_args(fh: u64, offset: u64, size: u32) -> ReadIn {
    ReadIn {
        fh,
        offset,
        size,
        ..ReadIn::default()
    }
}

fn check_header(header: &OutHeader) -> Result<(), Errno> {
    match header.error {
        0 => Ok(()),
        error => Err(Errno::from_raw(error.saturating_neg())),
    }
}

fn expect_len(len: u32, expected: u32) -> Result<(), BenchError> {
    if len == expected {
        Ok(())
    } else {
        Err(BenchError::new(format!(
            "{len} bytes instead of {expected}"
        )))
    }
}

fn unexpected(what: &str, reply: &Result<Reply<'_>, Errno>) -> BenchError {
    BenchError::new(format!("{what} is answered by {reply:?}"))
}

/// The root's node id.
pub(super) const ROOT: u64 = ROOT_ID;
