//! A 9P2000.L session over a socket, one request at a time.

use crate::bench::error::{BenchError, Context};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno as IoErrno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};
use sluice_proto::p9::wire::{
    Dialect, Dirents, Extended, GetattrMask, HEADER_LEN, Header, IO_HEADER_LEN, LopenFlags, NOFID,
    NOTAG, Names, Payload, Reply, Request, Str, UnixId, decode_reply, encode_request,
};
use sluice_vfs::Errno;
use sluice_virtio::driver::WaitMode;
use sluicefs::Address;
use std::io::IoSlice;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// What is asked for, in bytes: room for a MiB of data.
const MSIZE: u32 = (1 << 20) + 4096;

/// Room for a request without payload.
const REQUEST_ROOM: usize = 4096;

/// Fid of the root.
pub(super) const ROOT: u32 = 0;

/// A session.
#[derive(Debug)]
pub(super) struct Client {
    socket: OwnedFd,
    wait_mode: WaitMode,
    msize: u32,
    tag: u16,
    request: Vec<u8>,
    /// What was received, from its beginning.
    reply: Vec<u8>,
    received: usize,
}

impl Client {
    /// Connects, and attaches to the export called `aname`.
    pub(super) fn connect(
        address: &Address,
        aname: &str,
        wait_mode: WaitMode,
    ) -> Result<Self, BenchError> {
        let mut client = Client {
            socket: connect(address)?,
            wait_mode,
            msize: MSIZE,
            tag: NOTAG,
            request: vec![0; REQUEST_ROOM],
            reply: vec![0; MSIZE as usize],
            received: 0,
        };
        let version = Request::Version {
            msize: MSIZE,
            version: Str(Dialect::Linux.version()),
        };
        client.msize = match client.ask(&version).context("Tversion")? {
            Reply::Version { msize, .. } => msize.min(MSIZE),
            other => return Err(unexpected(&other)),
        };
        let attach = Request::Attach {
            fid: ROOT,
            afid: NOFID,
            uname: Str(b"root"),
            aname: Str(aname.as_bytes()),
            n_uname: Extended(UnixId(0)),
        };
        client.tag = 0;
        client.ask(&attach).context("Tattach")?;
        Ok(client)
    }

    /// Most bytes that a message carries.
    pub(super) fn payload_max(&self) -> u32 {
        self.msize.saturating_sub(IO_HEADER_LEN)
    }

    pub(super) fn getattr(&mut self, fid: u32) -> Result<(), BenchError> {
        let mask = GetattrMask::BASIC;
        self.ask(&Request::Getattr { fid, mask })
            .map(drop)
            .context("Tgetattr")
    }

    /// Asks `count` times, with up to `depth` requests in flight.
    pub(super) fn getattr_pipelined(
        &mut self,
        fid: u32,
        count: u32,
        depth: u32,
    ) -> Result<(), BenchError> {
        let (mut sent, mut done) = (0, 0);
        while done < count {
            while sent < count && sent - done < depth {
                self.tag = sent as u16;
                self.send_getattr(fid)?;
                sent += 1;
            }
            done += u32::from(self.take_getattr()?);
        }
        Ok(())
    }

    /// Asks, and waits for no answer.
    pub(super) fn send_getattr(&mut self, fid: u32) -> Result<(), BenchError> {
        let mask = GetattrMask::BASIC;
        self.send(&Request::Getattr { fid, mask }, &[])
    }

    /// Takes an answer to [`Client::send_getattr`], if one is there.
    pub(super) fn take_getattr(&mut self) -> Result<bool, BenchError> {
        if self.arrived()?.is_none() {
            self.take_in(RecvFlags::DONTWAIT)?;
        }
        let Some(len) = self.arrived()? else {
            return Ok(false);
        };
        if Header::peek(&self.reply).context("Rgetattr")?.kind != RGETATTR {
            return Err(BenchError::new("Tgetattr fails"));
        }
        self.reply.copy_within(len..self.received, 0);
        self.received -= len;
        Ok(true)
    }

    /// Makes `newfid` for what `names` lead to.
    pub(super) fn walk(&mut self, fid: u32, newfid: u32, names: &[&str]) -> Result<(), BenchError> {
        let walked = self.try_walk(fid, newfid, names)?;
        walked.context("Twalk")
    }

    /// Looks for a name that does not exist.
    pub(super) fn walk_missing(&mut self, fid: u32, name: &str) -> Result<(), BenchError> {
        match self.try_walk(fid, NOFID - 1, &[name])? {
            Err(Errno::ENOENT) => Ok(()),
            other => Err(BenchError::new(format!("Twalk to nothing: {other:?}"))),
        }
    }

    fn try_walk(
        &mut self,
        fid: u32,
        newfid: u32,
        names: &[&str],
    ) -> Result<Result<(), Errno>, BenchError> {
        let names: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
        let mut room = [0; 256];
        let names = Names::new(&names, &mut room).context("Twalk")?;
        Ok(
            match self.ask_errno(&Request::Walk { fid, newfid, names })? {
                Ok(Reply::Walk { qids }) if qids.0.len() == names.len() => Ok(()),
                Ok(_) => Err(Errno::ENOENT),
                Err(errno) => Err(errno),
            },
        )
    }

    pub(super) fn open(&mut self, fid: u32, flags: LopenFlags) -> Result<(), BenchError> {
        self.ask(&Request::Lopen { fid, flags })
            .map(drop)
            .context("Tlopen")
    }

    pub(super) fn clunk(&mut self, fid: u32) -> Result<(), BenchError> {
        self.ask(&Request::Clunk { fid })
            .map(drop)
            .context("Tclunk")
    }

    /// Reads data, which stays where it was received.
    pub(super) fn read(&mut self, fid: u32, offset: u64, count: u32) -> Result<(), BenchError> {
        match self
            .ask(&Request::Read { fid, offset, count })
            .context("Tread")?
        {
            Reply::Read { data } if data.len == count as usize => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Result<(), BenchError> {
        let len = data.len();
        let request = Request::Write {
            fid,
            offset,
            data: Payload { len },
        };
        match self.exchange(&request, data)?.context("Twrite")? {
            Reply::Write { count } if count as usize == len => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a chunk of a directory: how many entries, and where to go on; nothing at
    /// the end.
    pub(super) fn readdir(
        &mut self,
        fid: u32,
        offset: u64,
        count: u32,
    ) -> Result<Option<(u64, u64)>, BenchError> {
        let request = Request::Readdir { fid, offset, count };
        let len = match self.ask(&request).context("Treaddir")? {
            Reply::Readdir { entries } => entries.len,
            other => return Err(unexpected(&other)),
        };
        // The reply was dropped, but its bytes are still there.
        let start = HEADER_LEN + 4;
        let bytes = self.reply.get(start..start + len).unwrap_or_default();
        let mut found = None;
        for entry in Dirents(bytes) {
            let entry = entry.context("Rreaddir")?;
            let (entries, _) = found.unwrap_or((0, 0));
            found = Some((entries + 1, entry.offset));
        }
        Ok(found)
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Reply<'_>, BenchError> {
        self.ask_errno(request)?
            .map_err(|errno| BenchError::new(errno.to_string()))
    }

    fn ask_errno(&mut self, request: &Request<'_>) -> Result<Result<Reply<'_>, Errno>, BenchError> {
        self.exchange(request, &[])
    }

    fn exchange(
        &mut self,
        request: &Request<'_>,
        payload: &[u8],
    ) -> Result<Result<Reply<'_>, Errno>, BenchError> {
        self.send(request, payload)?;
        let len = self.receive()?;
        if len != self.received {
            return Err(BenchError::new("more than the reply arrived"));
        }
        self.received = 0;
        let message = self.reply.get(..len).unwrap_or_default();
        let header = Header::peek(message).context("a reply")?;
        let (prefix, payload) = message.split_at(header.prefix_len().min(len));
        let reply = decode_reply(prefix, payload.len(), Dialect::Linux).context("a reply")?;
        let failed = |errno: u32| Errno::from_raw(errno.cast_signed());
        Ok(reply.result.map_err(|failure| failed(failure.errno)))
    }

    fn send(&mut self, request: &Request<'_>, payload: &[u8]) -> Result<(), BenchError> {
        let len = encode_request(self.tag, request, Dialect::Linux, &mut self.request)
            .context("encoding a request")?;
        let prefix = self.request.get(..len).unwrap_or_default();
        let mut slices = [IoSlice::new(prefix), IoSlice::new(payload)];
        let mut rest = &mut slices[..];
        while rest.iter().any(|slice| !slice.is_empty()) {
            let mut nothing = SendAncillaryBuffer::default();
            let sent = sendmsg(&self.socket, rest, &mut nothing, SendFlags::NOSIGNAL);
            IoSlice::advance_slices(&mut rest, sent.context("sending")?);
        }
        Ok(())
    }

    /// Waits until a whole reply is there; its length.
    fn receive(&mut self) -> Result<usize, BenchError> {
        let flags = match self.wait_mode {
            WaitMode::Spin => RecvFlags::DONTWAIT,
            WaitMode::Event => RecvFlags::empty(),
        };
        loop {
            match self.arrived()? {
                Some(len) => return Ok(len),
                None => self.take_in(flags)?,
            }
        }
    }

    /// The length of the first reply, if all of it is there.
    fn arrived(&self) -> Result<Option<usize>, BenchError> {
        let message = self.reply.get(..self.received).unwrap_or_default();
        let Ok(header) = Header::peek(message) else {
            return Ok(None);
        };
        let len = header.size as usize;
        match (HEADER_LEN..=self.reply.len()).contains(&len) {
            true => Ok((len <= self.received).then_some(len)),
            false => Err(BenchError::new(format!("a reply of {len} bytes"))),
        }
    }

    fn take_in(&mut self, flags: RecvFlags) -> Result<(), BenchError> {
        let room = self.reply.get_mut(self.received..).unwrap_or_default();
        match recv(&self.socket, room, flags) {
            Ok((0, _)) => return Err(BenchError::new("the server hung up")),
            Ok((len, _)) => self.received += len,
            Err(IoErrno::AGAIN | IoErrno::INTR) => std::hint::spin_loop(),
            Err(errno) => return Err(errno).context("receiving"),
        }
        Ok(())
    }
}

/// Number of Rgetattr.
const RGETATTR: u8 = 25;

fn connect(address: &Address) -> Result<OwnedFd, BenchError> {
    match address {
        Address::Unix(path) => Ok(UnixStream::connect(path)?.into()),
        _ => {
            let socket = TcpStream::connect(&*address.resolve()?)?;
            sockopt::set_tcp_nodelay(socket.as_fd(), true)?;
            Ok(socket.into())
        }
    }
}

fn unexpected(reply: &Reply<'_>) -> BenchError {
    BenchError::new(format!("unexpected: {reply:?}"))
}
