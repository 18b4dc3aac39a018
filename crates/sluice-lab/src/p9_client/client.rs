//! The connection: Tversion, Tattach, and one request at a time.

use super::nodes::Nodes;
use super::translate;
use super::transport::{Message, P9Transport};
use crate::waits::Waits;
use sluice_proto::p9::wire::{
    Attr as WireAttr, Dialect, Extended, GetattrMask, Header, IO_HEADER_LEN, LockArgs, NOFID,
    NOTAG, Names, Qid, Reply, Request, Str, UnixId, decode_reply, encode_request,
};
use sluice_vfs::{
    Caller, Errno, EventSink, Features, HandleId, LockOutcome, NodeId, Result, Stamp, Stat, WaitId,
};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DIALECT: Dialect = Dialect::Linux;

/// What is asked for.
const MSIZE: u32 = 256 * 1024;

/// Longest request that is sent, its payload not counted.
const REQUEST_MAX: usize = 16 * 1024;

/// A mounted 9P connection.
pub struct P9Client<T: P9Transport> {
    transport: T,
    export: Vec<u8>,
    msize: u32,
    tags: Mutex<Tags>,
    next_fid: AtomicU32,
    pub(super) nodes: Mutex<Nodes>,
    pub(super) files: Mutex<HashMap<HandleId, OpenFile>>,
    waits: Arc<Waits>,
}

/// A handle: a fid that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) fid: u32,
    pub(super) node: NodeId,
}

#[derive(Default)]
struct Tags {
    last: u16,
    used: HashSet<u16>,
}

/// A reply that is no error.
pub(super) struct Answer {
    message: Vec<u8>,
}

impl Answer {
    pub(super) fn get(&self) -> Reply<'_> {
        let (prefix, payload) = split(&self.message);
        let decoded = decode_reply(prefix, payload.len(), DIALECT);
        let message = decoded.unwrap_or_else(|why| panic!("a malformed reply: {why}"));
        message.result.expect("errors were sorted out before")
    }

    /// The data of an Rread or Rreaddir.
    pub(super) fn payload(&self) -> &[u8] {
        split(&self.message).1
    }

    /// The qid of what was made.
    pub(super) fn qid(&self) -> Qid {
        match self.get() {
            Reply::Attach { qid }
            | Reply::Lopen { qid, .. }
            | Reply::Lcreate { qid, .. }
            | Reply::Symlink { qid }
            | Reply::Mknod { qid }
            | Reply::Mkdir { qid } => qid,
            other => panic!("{other:?} has no qid"),
        }
    }
}

impl<T: P9Transport> P9Client<T> {
    /// Agrees on a version.
    pub(super) fn start(transport: T, export: Vec<u8>, events: Arc<dyn EventSink>) -> Result<Self> {
        let mut client = P9Client {
            transport,
            export,
            msize: MSIZE,
            tags: Mutex::default(),
            next_fid: AtomicU32::new(0),
            nodes: Mutex::default(),
            files: Mutex::default(),
            waits: Arc::new(Waits::new(events)),
        };
        let version = Request::Version {
            msize: MSIZE,
            version: Str(DIALECT.version()),
        };
        let reply = client.exchange(NOTAG, &version, &[])?;
        let Reply::Version { msize, version } = reply.get() else {
            panic!("Tversion is answered by itself");
        };
        assert_eq!(version.0, DIALECT.version());
        assert!(msize <= MSIZE, "the server asks for more");
        client.msize = msize;
        Ok(client)
    }

    /// Attributes of the root, as the superuser sees them.
    pub(super) fn root(&self) -> Result<Stat> {
        let fid = self.fid_of(&Caller::ROOT, NodeId::ROOT)?;
        let attr = self.getattr_fid(fid)?;
        Ok(Stat {
            attr: translate::attr(&attr),
            stamp: Stamp::NONE,
        })
    }

    /// What a peer may take for granted, and ACLs if the server has them.
    pub(super) fn features(&self) -> Result<Features> {
        let fid = self.fid_of(&Caller::ROOT, NodeId::ROOT)?;
        let acl = self.read_xattr(fid, b"system.posix_acl_access");
        let mut features = Features::LOCKS;
        features.set(Features::POSIX_ACL, acl != Err(Errno::EOPNOTSUPP));
        Ok(features)
    }

    /// Most bytes of a read or write.
    pub(super) fn payload_max(&self) -> usize {
        self.msize.saturating_sub(IO_HEADER_LEN) as usize
    }

    /// Runs a request.
    pub(super) fn call(&self, request: &Request<'_>) -> Result<Answer> {
        self.call_with(request, &[])
    }

    /// Runs a request that brings a payload.
    pub(super) fn call_with(&self, request: &Request<'_>, payload: &[u8]) -> Result<Answer> {
        let tag = self.take_tag();
        let answer = self.exchange(tag, request, payload);
        self.free_tag(tag);
        answer
    }

    fn exchange(&self, tag: u16, request: &Request<'_>, payload: &[u8]) -> Result<Answer> {
        let prefix = encode(tag, request);
        let reply = self.transport.exchange(Message {
            prefix: &prefix,
            payload,
        });
        let message = reply.unwrap_or_else(|| panic!("{:?} got no reply", request.kind()));
        check(tag, request, message)
    }

    /// A fid that is not in use.
    pub(super) fn new_fid(&self) -> u32 {
        self.next_fid.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a fid for the root of a user.
    pub(super) fn attach(&self, caller: &Caller<'_>) -> Result<(u32, Qid)> {
        self.transport.introduce(caller);
        let fid = self.new_fid();
        let answer = self.call(&Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(b""),
            aname: Str(&self.export),
            n_uname: Extended(UnixId(caller.uid)),
        })?;
        Ok((fid, answer.qid()))
    }

    /// Makes a fid for what `name` is below another one, or without a name for
    /// the same. The qid is where the walk ended, if it went anywhere.
    pub(super) fn walk(&self, fid: u32, name: Option<&[u8]>) -> Result<(u32, Option<Qid>)> {
        let newfid = self.new_fid();
        let mut room = [0; 512];
        let names = name.into_iter().collect::<Vec<_>>();
        let names = Names::new(&names, &mut room).map_err(|_| Errno::ENAMETOOLONG)?;
        let answer = self.call(&Request::Walk { fid, newfid, names })?;
        match answer.get() {
            Reply::Walk { qids } => {
                assert_eq!(qids.iter().count(), names.len(), "one name, one qid");
                Ok((newfid, qids.iter().last()))
            }
            other => panic!("{other:?} answers Twalk"),
        }
    }

    /// Gives a fid back.
    pub(super) fn clunk(&self, fid: u32) -> Result<()> {
        self.call(&Request::Clunk { fid }).map(drop)
    }

    pub(super) fn getattr_fid(&self, fid: u32) -> Result<WireAttr> {
        let mask = GetattrMask::BASIC | GetattrMask::BTIME;
        match self.call(&Request::Getattr { fid, mask })?.get() {
            Reply::Getattr { attr } => Ok(attr),
            other => panic!("{other:?} answers Tgetattr"),
        }
    }

    /// Tlock that waits: done at once, or put aside under `wait`.
    pub(super) fn lock_or_wait(
        &self,
        fid: u32,
        args: LockArgs<'_>,
        wait: WaitId,
    ) -> Result<LockOutcome> {
        let tag = self.take_tag();
        self.waits.begin(wait, tag.into())?;
        let request = Request::Lock { fid, args };
        let prefix = encode(tag, &request);
        let message = Message {
            prefix: &prefix,
            payload: &[],
        };
        let waits = Arc::clone(&self.waits);
        self.transport.exchange_later(
            message,
            Box::new(move |reply| {
                // One that was taken back gets no reply.
                let result = match reply {
                    Some(message) => locked(tag, &message),
                    None => Err(Errno::EINTR),
                };
                waits.answered(wait, result);
            }),
        );
        // The tag stays taken: it may be waited for, for as long as it takes.
        self.waits.sent(wait)
    }

    /// Tflush of the request that stands for `wait`.
    pub(super) fn take_back(&self, wait: WaitId) {
        if let Some(oldtag) = self.waits.request_of(wait) {
            let oldtag = oldtag as u16;
            let flushed = self.call(&Request::Flush { oldtag });
            assert!(flushed.is_ok(), "Tflush never fails");
        }
    }

    /// The fid of an open file; `EBADF` if the handle is not this node's.
    pub(super) fn file(&self, node: NodeId, handle: HandleId) -> Result<u32> {
        match self.lock_files().get(&handle) {
            Some(file) if file.node == node => Ok(file.fid),
            _ => Err(Errno::EBADF),
        }
    }

    pub(super) fn lock_files(&self) -> MutexGuard<'_, HashMap<HandleId, OpenFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an open fid; its handle.
    pub(super) fn note_open(&self, fid: u32, node: NodeId) -> HandleId {
        let handle = HandleId(fid.into());
        self.lock_files().insert(handle, OpenFile { fid, node });
        handle
    }

    fn take_tag(&self) -> u16 {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            tags.last = (tags.last + 1) % NOTAG;
            let tag = tags.last;
            if tags.used.insert(tag) {
                return tag;
            }
        }
    }

    fn free_tag(&self, tag: u16) {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        tags.used.remove(&tag);
    }
}

fn encode(tag: u16, request: &Request<'_>) -> Vec<u8> {
    let mut prefix = vec![0; REQUEST_MAX];
    let len = encode_request(tag, request, DIALECT, &mut prefix);
    prefix.truncate(len.expect("requests fit"));
    prefix
}

fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let header = Header::peek(message).expect("a reply has a header");
    message.split_at(header.prefix_len().min(message.len()))
}

/// Makes sure that the reply is this request's, and sorts errors out.
fn check(tag: u16, request: &Request<'_>, message: Vec<u8>) -> Result<Answer> {
    let (prefix, payload) = split(&message);
    let decoded = decode_reply(prefix, payload.len(), DIALECT)
        .unwrap_or_else(|why| panic!("{request:?} got a malformed reply: {why}"));
    assert_eq!(decoded.tag, tag, "{request:?} got another's reply");
    match decoded.result {
        Ok(reply) => assert_eq!(reply.kind(), request.kind(), "another kind of reply"),
        Err(failure) => return Err(Errno::from_raw(failure.errno.cast_signed())),
    }
    Ok(Answer { message })
}

/// What an Rlock says.
fn locked(tag: u16, message: &[u8]) -> Result<()> {
    let decoded = decode_reply(message, 0, DIALECT)
        .unwrap_or_else(|why| panic!("Tlock got a malformed reply: {why}"));
    assert_eq!(decoded.tag, tag, "Tlock got another's reply");
    match decoded.result {
        Ok(Reply::Lock { status }) => translate::lock_status(status),
        Ok(other) => panic!("{other:?} answers Tlock"),
        Err(failure) => Err(Errno::from_raw(failure.errno.cast_signed())),
    }
}
