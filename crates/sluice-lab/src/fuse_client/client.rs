//! The connection: INIT and DESTROY, and one request at a time.

use super::translate;
use super::transport::{FuseTransport, Message};
use crate::waits::Waits;
use sluice_proto::fuse::wire::{
    BatchForgetIn, Counted, Dialect, EntryOut, ForgetIn, ForgetOne, GetattrIn, GetxattrIn,
    GetxattrOut, InitFlags, InitIn, InitOut, InterruptIn, LkIn, MAJOR, MINOR, Opcode, Operation,
    PREFIX_MAX, Reply, RequestHead, decode_reply, encode_request,
};
use sluice_vfs::{
    Caller, Created, Ctx, Entry, EventSink, Features, HandleId, LockOutcome, NodeId, ReadSink,
    Result, Stamp, Stat, WaitId,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::FromBytes;

/// A mounted FUSE connection.
pub struct FuseClient<T: FuseTransport> {
    transport: T,
    settled: InitOut,
    next_unique: AtomicU64,
    /// Handles of directories, which other requests sync and close.
    dirs: Mutex<HashSet<HandleId>>,
    waits: Arc<Waits>,
}

/// The reply to a request that succeeded.
pub(super) struct Answer {
    opcode: Opcode,
    message: Vec<u8>,
}

impl Answer {
    /// Decodes it.
    pub(super) fn get(&self) -> Reply<'_> {
        decode(self.opcode, &self.message).expect("errors were sorted out before")
    }

    /// Attributes.
    pub(super) fn stat(&self) -> Stat {
        let attr = match self.get() {
            Reply::Getattr { attr } | Reply::Setattr { attr } => translate::attr(&attr.attr),
            Reply::Statx { stat } => translate::statx(&stat),
            other => panic!("{other:?} has no attributes"),
        };
        Stat {
            attr,
            stamp: Stamp::NONE,
        }
    }

    /// Content of any kind.
    pub(super) fn bytes(&self) -> &[u8] {
        match self.get() {
            Reply::Readlink { target: bytes }
            | Reply::Read { data: bytes }
            | Reply::Getxattr { value: bytes }
            | Reply::Listxattr { names: bytes } => bytes.0,
            other => panic!("{other:?} has no bytes"),
        }
    }

    /// How many bytes were taken.
    pub(super) fn count(&self) -> usize {
        match self.get() {
            Reply::Write { written } | Reply::CopyFileRange { written } => written.size as usize,
            Reply::CopyFileRange64 { copied } => copied.bytes_copied as usize,
            other => panic!("{other:?} counts nothing"),
        }
    }
}

/// For requests of the kernel's own.
const KERNEL: Ctx<'static> = Ctx::new(Caller::ROOT);

impl<T: FuseTransport> FuseClient<T> {
    /// Sends INIT, offering everything that the protocol has but to do without
    /// opening.
    pub(super) fn start(transport: T, events: Arc<dyn EventSink>) -> Result<Self> {
        let mut client = FuseClient {
            transport,
            settled: InitOut::default(),
            next_unique: AtomicU64::new(2),
            dirs: Mutex::default(),
            waits: Arc::new(Waits::new(events)),
        };
        let opens = InitFlags::NO_OPEN_SUPPORT | InitFlags::NO_OPENDIR_SUPPORT;
        let offered = (InitFlags::all() - opens).bits();
        let args = InitIn {
            major: MAJOR,
            minor: MINOR,
            max_readahead: 1 << 20,
            flags: offered as u32,
            flags2: (offered >> 32) as u32,
            unused: [0; 11],
        };
        let reply = client.call(&KERNEL, NodeId(0), &Operation::Init { args })?;
        if let Reply::Init { init } = reply.get() {
            assert_eq!((init.major, init.minor), (MAJOR, MINOR));
            client.settled = init;
        }
        Ok(client)
    }

    /// Attributes of the root.
    pub(super) fn root(&self) -> Result<Stat> {
        let args = GetattrIn::default();
        let reply = self.call(&KERNEL, NodeId::ROOT, &Operation::Getattr { args })?;
        let Reply::Getattr { attr } = reply.get() else {
            panic!("GETATTR is answered by itself");
        };
        Ok(Stat {
            attr: translate::attr(&attr.attr),
            stamp: Stamp::NONE,
        })
    }

    /// What INIT tells of a session's abilities, and those that are told by
    /// errors alone.
    pub(super) fn features(&self) -> Features {
        let mut features = Features::TMPFILE | Features::EVENTS;
        for (flag, feature) in [
            (InitFlags::POSIX_ACL, Features::POSIX_ACL),
            (InitFlags::POSIX_LOCKS, Features::LOCKS),
            (InitFlags::HANDLE_KILLPRIV_V2, Features::KILL_SUIDGID),
        ] {
            features.set(feature, self.settled.init_flags().contains(flag));
        }
        features
    }

    /// Most bytes of a read or write.
    pub(super) fn payload_max(&self) -> usize {
        self.settled.max_write as usize
    }

    /// Runs a request whose reply has no more than its fixed part.
    pub(super) fn call(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        operation: &Operation<'_>,
    ) -> Result<Answer> {
        self.call_with_room(ctx, node, operation, 0)
    }

    /// Runs a request whose reply may have `more` bytes beyond its fixed part.
    pub(super) fn call_with_room(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        operation: &Operation<'_>,
        more: usize,
    ) -> Result<Answer> {
        self.call_with_payload(ctx, node, operation, &[], more)
    }

    /// CREATE and TMPFILE.
    pub(super) fn make(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        operation: &Operation<'_>,
    ) -> Result<Created> {
        let reply = self.call(ctx, parent, operation)?;
        let (entry, open) = match reply.get() {
            Reply::Create { entry, open } | Reply::Tmpfile { entry, open } => (entry, open),
            other => panic!("{other:?} answers CREATE"),
        };
        Ok(Created {
            entry: translate::entry(&entry),
            opened: translate::opened(&open),
            is_new: false,
        })
    }

    /// GETXATTR and LISTXATTR: a value, or with no room at all its length.
    pub(super) fn sized<'a>(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
        operation: impl FnOnce(GetxattrIn) -> Operation<'a>,
    ) -> Result<usize> {
        let size = sink.as_ref().map_or(0, |sink| sink.remaining());
        let operation = operation(GetxattrIn {
            size: size as u32,
            padding: 0,
        });
        let room = size.max(size_of::<GetxattrOut>());
        let reply = self.call_with_room(ctx, node, &operation, room)?;
        let bytes = reply.bytes();
        match sink {
            Some(sink) if size > 0 => {
                sink.put(bytes)?;
                Ok(bytes.len())
            }
            _ => {
                let out = GetxattrOut::read_from_bytes(bytes).expect("a length was asked for");
                Ok(out.size as usize)
            }
        }
    }

    /// Runs a request that brings a payload.
    pub(super) fn call_with_payload(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        operation: &Operation<'_>,
        payload: &[u8],
        more: usize,
    ) -> Result<Answer> {
        let opcode = operation.opcode();
        let unique = self.unique();
        let prefix = self.encode(unique, ctx, node, operation);
        let reply = self.transport.exchange(Message {
            prefix: &prefix,
            payload,
            body_room: Some(Reply::min_len(opcode) + more),
            is_urgent: false,
        });
        let message = reply.unwrap_or_else(|| panic!("{opcode:?} got no reply"));
        check(opcode, unique, &message)?;
        Ok(Answer { opcode, message })
    }

    /// Runs a request that answers with an entry.
    pub(super) fn call_for_entry(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        operation: &Operation<'_>,
    ) -> Result<Entry> {
        let reply = self.call(ctx, node, operation)?;
        let entry: EntryOut = match reply.get() {
            Reply::Lookup { entry }
            | Reply::Symlink { entry }
            | Reply::Mknod { entry }
            | Reply::Mkdir { entry }
            | Reply::Link { entry } => entry,
            other => panic!("{other:?} is no entry"),
        };
        Ok(translate::entry(&entry))
    }

    /// Gives references back, one node or several at a time as kernels do.
    pub(super) fn give_back(&self, node: NodeId, count: u64) {
        let one = [ForgetOne {
            nodeid: node.0,
            nlookup: count,
        }];
        let operation = if count == 1 {
            let args = ForgetIn { nlookup: count };
            Operation::Forget { args }
        } else {
            let nodes: Counted<'_, BatchForgetIn, ForgetOne> = Counted::new(&one);
            Operation::BatchForget { nodes }
        };
        self.tell(node, &operation);
    }

    /// SETLKW: done at once, or put aside under `wait`.
    pub(super) fn lock_or_wait(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        args: LkIn,
        wait: WaitId,
    ) -> Result<LockOutcome> {
        let unique = self.unique();
        self.waits.begin(wait, unique)?;
        let prefix = self.encode(unique, ctx, node, &Operation::Setlkw { args });
        let message = Message {
            prefix: &prefix,
            payload: &[],
            body_room: Some(0),
            is_urgent: false,
        };
        let waits = Arc::clone(&self.waits);
        self.transport.exchange_later(
            message,
            Box::new(move |reply| {
                // A wait that gets no reply ended with its connection.
                if let Some(message) = reply {
                    let result = check(Opcode::Setlkw, unique, &message);
                    waits.answered(wait, result);
                }
            }),
        );
        self.waits.sent(wait)
    }

    /// INTERRUPT of the request that stands for `wait`.
    pub(super) fn interrupt(&self, wait: WaitId) {
        if let Some(unique) = self.waits.request_of(wait) {
            let args = InterruptIn { unique };
            self.tell(NodeId(0), &Operation::Interrupt { args });
        }
    }

    pub(super) fn note_dir(&self, handle: HandleId) {
        self.lock_dirs().insert(handle);
    }

    pub(super) fn is_dir(&self, handle: HandleId) -> bool {
        self.lock_dirs().contains(&handle)
    }

    pub(super) fn drop_dir(&self, handle: HandleId) -> bool {
        self.lock_dirs().remove(&handle)
    }

    /// Sends a request that gets no reply and must not wait behind others.
    fn tell(&self, node: NodeId, operation: &Operation<'_>) {
        let prefix = self.encode(self.unique(), &KERNEL, node, operation);
        let reply = self.transport.exchange(Message {
            prefix: &prefix,
            payload: &[],
            body_room: None,
            is_urgent: true,
        });
        assert_eq!(reply, None, "{:?} is answered", operation.opcode());
    }

    fn encode(
        &self,
        unique: u64,
        ctx: &Ctx<'_>,
        node: NodeId,
        operation: &Operation<'_>,
    ) -> Vec<u8> {
        let head = RequestHead {
            unique,
            nodeid: node.0,
            uid: ctx.caller.uid,
            gid: ctx.caller.gid,
            pid: ctx.caller.pid,
        };
        let dialect = Dialect {
            setxattr_ext: self.settled.init_flags().contains(InitFlags::SETXATTR_EXT),
        };
        let mut prefix = vec![0; PREFIX_MAX];
        let len = encode_request(&head, operation, dialect, &mut prefix);
        prefix.truncate(len.expect("requests fit"));
        prefix
    }

    /// Odd numbers are for interrupts, which have none of their own here.
    fn unique(&self) -> u64 {
        self.next_unique.fetch_add(2, Ordering::Relaxed)
    }

    fn lock_dirs(&self) -> std::sync::MutexGuard<'_, HashSet<HandleId>> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: FuseTransport> Drop for FuseClient<T> {
    /// The session is over when DESTROY is answered.
    fn drop(&mut self) {
        let destroyed = self.call(&KERNEL, NodeId(0), &Operation::Destroy {});
        if !std::thread::panicking() {
            destroyed.expect("DESTROY works");
        }
    }
}

/// Makes sure that the reply is this request's, and sorts errors out.
fn check(opcode: Opcode, unique: u64, message: &[u8]) -> Result<()> {
    let decoded = decode_reply(opcode, message)
        .unwrap_or_else(|why| panic!("{opcode:?} got a malformed reply: {why}"));
    assert_eq!(decoded.unique, unique, "{opcode:?} got another's reply");
    decoded.result.map(drop)
}

fn decode(opcode: Opcode, message: &[u8]) -> Result<Reply<'_>> {
    decode_reply(opcode, message)
        .unwrap_or_else(|why| panic!("{opcode:?} got a malformed reply: {why}"))
        .result
}
