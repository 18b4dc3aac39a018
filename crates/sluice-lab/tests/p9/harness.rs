//! A server over the model or a directory, and a peer that talks to it.

use sluice_export::{Export, ExportOptions};
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_proto::p9::loopback::{Loopback, Ticket};
use sluice_proto::p9::serve::{Link, ServerConfig};
use sluice_proto::p9::wire::*;
use sluice_vfs::{AccessChecks, Errno, FileService, Peer};
use std::sync::Arc;

/// A connection that speaks one dialect, with fid 0 for the root.
pub(crate) struct Conn {
    pub(crate) peer: Loopback,
    pub(crate) dialect: Dialect,
}

/// A reply in its bytes.
pub(crate) struct Answer {
    message: Vec<u8>,
    dialect: Dialect,
}

impl Answer {
    pub(crate) fn get(&self) -> Reply<'_> {
        decoded(&self.message, self.dialect)
            .result
            .expect("success")
    }

    /// The data of an Rread or Rreaddir.
    pub(crate) fn data(&self) -> &[u8] {
        split(&self.message).1
    }
}

pub(crate) fn config(link: Arc<dyn Link>) -> ServerConfig {
    let peer = Peer {
        label: "test".to_owned(),
        checks: AccessChecks::Peer,
    };
    ServerConfig::new(peer, link)
}

pub(crate) fn model() -> Arc<dyn FileService> {
    Arc::new(ModelService::new(ModelOptions::default()))
}

pub(crate) fn export(dir: &tempfile::TempDir) -> Arc<dyn FileService> {
    let export = Export::open(dir.path(), ExportOptions::default());
    Arc::new(export.expect("it can be exported"))
}

impl Conn {
    /// Over the model.
    pub(crate) fn new(dialect: Dialect) -> Self {
        Conn::over(model(), dialect, |_| {})
    }

    /// Over any service, with a changed configuration.
    pub(crate) fn over(
        service: Arc<dyn FileService>,
        dialect: Dialect,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let conn = Conn::cold(service, dialect, change);
        conn.version(8192).expect("Tversion");
        conn.attach(0, 0).expect("Tattach");
        conn
    }

    /// Before Tversion.
    pub(crate) fn cold(
        service: Arc<dyn FileService>,
        dialect: Dialect,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let peer = Loopback::new(service, |link| {
            let mut config = config(link);
            change(&mut config);
            config
        });
        Conn { peer, dialect }
    }

    pub(crate) fn version(&self, msize: u32) -> Result<(u32, Vec<u8>), Errno> {
        self.version_of(msize, self.dialect.version())
    }

    pub(crate) fn version_of(&self, msize: u32, version: &[u8]) -> Result<(u32, Vec<u8>), Errno> {
        let version = Str(version);
        let answer = self.call_tagged(NOTAG, &Request::Version { msize, version }, b"")?;
        match answer.get() {
            Reply::Version { msize, version } => Ok((msize, version.0.to_vec())),
            other => panic!("{other:?} answers Tversion"),
        }
    }

    pub(crate) fn attach(&self, fid: u32, uid: u32) -> Result<Qid, Errno> {
        let (uname, n_uname) = (uid.to_string(), Extended(UnixId(uid)));
        let answer = self.call(&Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(uname.as_bytes()),
            aname: Str(b""),
            n_uname,
        })?;
        match answer.get() {
            Reply::Attach { qid } => Ok(qid),
            other => panic!("{other:?} answers Tattach"),
        }
    }

    pub(crate) fn send(&self, tag: u16, request: &Request<'_>) -> Ticket {
        let sent = self.peer.send(tag, request, self.dialect, b"");
        sent.expect("the connection stays open")
    }

    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Answer, Errno> {
        self.call_tagged(1, request, b"")
    }

    pub(crate) fn call_tagged(
        &self,
        tag: u16,
        request: &Request<'_>,
        payload: &[u8],
    ) -> Result<Answer, Errno> {
        let sent = self.peer.send(tag, request, self.dialect, payload);
        let ticket = sent.expect("the connection stays open");
        let message = ticket.wait().expect("a reply");
        let reply = decoded(&message, self.dialect);
        assert_eq!(reply.tag, tag);
        match reply.result {
            Ok(reply) => assert_eq!(reply.kind(), request.kind()),
            Err(failure) => return Err(errno_of(&failure, self.dialect)),
        }
        Ok(Answer {
            message,
            dialect: self.dialect,
        })
    }

    /// Sends bytes; the error that comes back.
    pub(crate) fn error_for(&self, message: &[u8]) -> Errno {
        let sent = self.peer.send_bytes(message, b"");
        let ticket = sent.expect("the connection stays open");
        let reply = ticket.wait().expect("a reply");
        let failure = decoded(&reply, self.dialect).result;
        errno_of(&failure.expect_err("an error"), self.dialect)
    }

    pub(crate) fn walk(&self, fid: u32, newfid: u32, names: &[&str]) -> Result<Vec<Qid>, Errno> {
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let mut room = [0; 8192];
        let names = Names::new(&names, &mut room).expect("there is room");
        match self.call(&Request::Walk { fid, newfid, names })?.get() {
            Reply::Walk { qids } => Ok(qids.iter().collect()),
            other => panic!("{other:?} answers Twalk"),
        }
    }

    pub(crate) fn clunk(&self, fid: u32) -> Result<(), Errno> {
        self.call(&Request::Clunk { fid }).map(drop)
    }

    pub(crate) fn read(&self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>, Errno> {
        let answer = self.call(&Request::Read { fid, offset, count })?;
        Ok(answer.data().to_vec())
    }

    pub(crate) fn write(&self, fid: u32, offset: u64, bytes: &[u8]) -> Result<u32, Errno> {
        let data = Payload { len: bytes.len() };
        let request = Request::Write { fid, offset, data };
        match self.call_tagged(1, &request, bytes)?.get() {
            Reply::Write { count } => Ok(count),
            other => panic!("{other:?} answers Twrite"),
        }
    }

    /// A new file in the root, open for reading and writing as `fid` (9P2000.L).
    pub(crate) fn lcreate(&self, fid: u32, name: &str, content: &[u8]) {
        self.walk(0, fid, &[]).expect("a clone");
        let made = self.call(&Request::Lcreate {
            fid,
            name: Str(name.as_bytes()),
            flags: LopenFlags::RDWR | LopenFlags::EXCL,
            mode: 0o644,
            gid: 0,
        });
        made.expect("Tlcreate");
        if !content.is_empty() {
            assert_eq!(self.write(fid, 0, content), Ok(content.len() as u32));
        }
    }

    pub(crate) fn mkdir(&self, dfid: u32, name: &str) {
        let made = self.call(&Request::Mkdir {
            dfid,
            name: Str(name.as_bytes()),
            mode: 0o755,
            gid: 0,
        });
        made.expect("Tmkdir");
    }

    pub(crate) fn lopen(&self, fid: u32, flags: LopenFlags) -> Result<(), Errno> {
        self.call(&Request::Lopen { fid, flags }).map(drop)
    }

    pub(crate) fn getattr(&self, fid: u32) -> Result<Attr, Errno> {
        let mask = GetattrMask::BASIC;
        match self.call(&Request::Getattr { fid, mask })?.get() {
            Reply::Getattr { attr } => Ok(attr),
            other => panic!("{other:?} answers Tgetattr"),
        }
    }
}

pub(crate) fn decoded(message: &[u8], dialect: Dialect) -> ReplyMessage<'_> {
    let (prefix, payload) = split(message);
    let decoded = decode_reply(prefix, payload.len(), dialect);
    decoded.unwrap_or_else(|why| panic!("a malformed reply: {why}: {message:?}"))
}

fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let header = Header::peek(message).expect("a header");
    message.split_at(header.prefix_len().min(message.len()))
}

/// The number of an error; in plain 9P2000, the one that its words stand for.
fn errno_of(failure: &Failure<'_>, dialect: Dialect) -> Errno {
    if dialect != Dialect::Plan9 {
        assert_eq!(failure.ename.0.is_empty(), dialect.is_linux());
        return Errno::from_raw(failure.errno.cast_signed());
    }
    let text = std::str::from_utf8(failure.ename.0).expect("words");
    let is_it = |number: &i32| {
        let error = std::io::Error::from_raw_os_error(*number).to_string();
        error.starts_with(text)
    };
    Errno::from_raw((1..512).find(is_it).expect("words of strerror(3)"))
}
