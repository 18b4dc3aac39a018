//! A peer that says what it is told to say.

use crate::common::PATIENCE;
use sluice_proto::p9::wire::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(crate) trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// A socket that gives little at a time.
struct Slow(UnixStream);

impl Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = buf.len().min(4096);
        std::thread::yield_now();
        self.0.read(&mut buf[..len])
    }
}

impl Write for Slow {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A connection in one dialect.
pub(crate) struct Peer {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) dialect: Dialect,
    tag: u16,
}

/// A reply in its bytes.
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    dialect: Dialect,
}

impl Answer {
    fn split(&self) -> (&[u8], &[u8]) {
        let header = Header::peek(&self.message).unwrap();
        self.message.split_at(header.prefix_len())
    }

    /// The data of an Rread or Rreaddir.
    pub(crate) fn data(&self) -> &[u8] {
        self.split().1
    }

    pub(crate) fn tag(&self) -> u16 {
        Header::peek(&self.message).unwrap().tag
    }

    pub(crate) fn result(&self) -> Result<Reply<'_>, u32> {
        let (prefix, data) = self.split();
        let decoded = decode_reply(prefix, data.len(), self.dialect).unwrap();
        decoded.result.map_err(|failure| failure.errno)
    }

    pub(crate) fn get(&self) -> Reply<'_> {
        self.result().unwrap()
    }
}

/// A request in its bytes, without its payload.
pub(crate) fn encoded(tag: u16, request: &Request<'_>, dialect: Dialect) -> Vec<u8> {
    let mut prefix = vec![0; 1 << 16];
    let len = encode_request(tag, request, dialect, &mut prefix).unwrap();
    prefix.truncate(len);
    prefix
}

fn connected(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

impl Peer {
    pub(crate) fn unix(path: &Path) -> Self {
        Peer::over(connected(path))
    }

    /// A connection that can be sent to and received from at the same time: the one that
    /// sends, and the one that receives, slowly.
    pub(crate) fn slow(path: &Path) -> (Self, Self) {
        let socket = connected(path);
        let receiver = Peer::over(Slow(socket.try_clone().unwrap()));
        (Peer::over(socket), receiver)
    }

    pub(crate) fn tcp(address: &str) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer::over(socket)
    }

    pub(crate) fn over(socket: impl Socket + 'static) -> Self {
        Peer {
            socket: Box::new(socket),
            dialect: Dialect::Linux,
            tag: 0,
        }
    }

    /// Agrees on a version and makes fid 0 the root, as the superuser sees it.
    pub(crate) fn mounted(mut self, msize: u32) -> Self {
        self.version(msize);
        self.attach(0, 0, b"").unwrap();
        self
    }

    pub(crate) fn version(&mut self, msize: u32) -> u32 {
        let version = Str(self.dialect.version());
        self.send(NOTAG, &Request::Version { msize, version }, &[]);
        match self.receive().get() {
            Reply::Version { msize, .. } => msize,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn attach(&mut self, fid: u32, uid: u32, aname: &[u8]) -> Result<Qid, u32> {
        let answer = self.call(&Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(b""),
            aname: Str(aname),
            n_uname: Extended(UnixId(uid)),
        });
        answer.result().map(|reply| match reply {
            Reply::Attach { qid } => qid,
            other => panic!("{other:?}"),
        })
    }

    pub(crate) fn walk(&mut self, fid: u32, newfid: u32, names: &[&[u8]]) -> Result<usize, u32> {
        let mut room = [0; 8192];
        let names = Names::new(names, &mut room).unwrap();
        let answer = self.call(&Request::Walk { fid, newfid, names });
        answer.result().map(|reply| match reply {
            Reply::Walk { qids } => qids.iter().count(),
            other => panic!("{other:?}"),
        })
    }

    /// Walks from the root and opens.
    pub(crate) fn open(&mut self, fid: u32, name: &[u8], flags: LopenFlags) -> Result<(), u32> {
        self.walk(0, fid, &[name])?;
        let answer = self.call(&Request::Lopen { fid, flags });
        answer.result().map(drop)
    }

    pub(crate) fn create(&mut self, fid: u32, name: &[u8]) -> Result<(), u32> {
        self.walk(0, fid, &[])?;
        let answer = self.call(&Request::Lcreate {
            fid,
            name: Str(name),
            flags: LopenFlags::RDWR,
            mode: 0o644,
            gid: 0,
        });
        answer.result().map(drop)
    }

    pub(crate) fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<Vec<u8>, u32> {
        let answer = self.call(&Request::Read { fid, offset, count });
        answer.result().map(|_| answer.data().to_vec())
    }

    pub(crate) fn write(&mut self, fid: u32, offset: u64, bytes: &[u8]) -> Result<u32, u32> {
        let data = Payload { len: bytes.len() };
        let request = Request::Write { fid, offset, data };
        let answer = self.call_with(&request, bytes);
        answer.result().map(|reply| match reply {
            Reply::Write { count } => count,
            other => panic!("{other:?}"),
        })
    }

    pub(crate) fn call(&mut self, request: &Request<'_>) -> Answer {
        self.call_with(request, &[])
    }

    pub(crate) fn call_with(&mut self, request: &Request<'_>, payload: &[u8]) -> Answer {
        self.tag = (self.tag + 1) % 1000;
        let tag = self.tag;
        self.send(tag, request, payload);
        let answer = self.receive();
        assert_eq!(answer.tag(), tag, "to {request:?}");
        answer
    }

    pub(crate) fn send(&mut self, tag: u16, request: &Request<'_>, payload: &[u8]) {
        let mut bytes = encoded(tag, request, self.dialect);
        bytes.extend_from_slice(payload);
        self.socket.write_all(&bytes).unwrap();
    }

    pub(crate) fn receive(&mut self) -> Answer {
        self.try_receive().unwrap()
    }

    /// The same, unless the server has closed the connection.
    pub(crate) fn receive_unless_closed(&mut self) -> Option<Answer> {
        use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
        match self.try_receive() {
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => None,
            received => Some(received.unwrap()),
        }
    }

    fn try_receive(&mut self) -> std::io::Result<Answer> {
        let mut size = [0; 4];
        self.socket.read_exact(&mut size)?;
        let mut message = size.to_vec();
        message.resize(u32::from_le_bytes(size) as usize, 0);
        self.socket.read_exact(&mut message[4..])?;
        Ok(Answer {
            message,
            dialect: self.dialect,
        })
    }

    /// Waits until the server closes the connection.
    pub(crate) fn wait_closed(mut self) {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}
