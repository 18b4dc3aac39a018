//! A socket that carries vhost-user messages and descriptors.

use super::message::{HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, MAX_TABLE_REGIONS};
use crate::notify::Event;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Descriptors that one message may carry.
pub const MAX_FDS: usize = MAX_TABLE_REGIONS;

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// As many bytes as the header says.
    pub payload: Vec<u8>,
    /// Descriptors that came along.
    pub fds: Vec<OwnedFd>,
}

/// Why no message came or went.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The socket failed.
    #[error("vhost-user socket: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the socket in the middle of a message.
    #[error("message cut short")]
    CutShort,
    /// A payload longer than any message's.
    #[error("message {request} has a payload of {size} bytes")]
    TooLong {
        /// Number of the request.
        request: u32,
        /// Bytes.
        size: u32,
    },
    /// More descriptors than any message has.
    #[error("more than {MAX_FDS} descriptors in one message")]
    TooManyFds,
    /// The time given to [`Channel::with_timeout`] is over.
    #[error("no answer in time")]
    TimedOut,
    /// Somebody asked to stop.
    #[error("stopped")]
    Stopped,
}

/// One end of the connection.
#[derive(Debug)]
pub struct Channel {
    socket: Arc<OwnedFd>,
    stop: Option<Arc<Event>>,
    timeout: Option<Duration>,
}

impl Channel {
    /// A channel over a connected unix stream socket.
    pub fn new(socket: impl Into<OwnedFd>) -> Self {
        Channel {
            socket: Arc::new(socket.into()),
            stop: None,
            timeout: None,
        }
    }

    /// Fails with [`ChannelError::TimedOut`] when the peer keeps a message from coming
    /// or going for so long.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        let timeout = Some(timeout);
        Channel { timeout, ..self }
    }

    /// Fails with [`ChannelError::Stopped`] once `stop` is raised.
    pub(crate) fn with_stop(self, stop: Arc<Event>) -> Self {
        let stop = Some(stop);
        Channel { stop, ..self }
    }

    /// The socket, for somebody who wants to shut it down.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    /// Receives a message; `None` if the peer closed the socket between two.
    pub fn recv(&self) -> Result<Option<Message>, ChannelError> {
        let mut fds = Vec::new();
        let mut header = [0; HEADER_BYTES];
        let count = self.fill(&mut header, &mut fds)?;
        if count == 0 {
            return Ok(None);
        }
        if count < HEADER_BYTES {
            return Err(ChannelError::CutShort);
        }
        let header = Header::from_bytes(header);
        let Header { request, size, .. } = header;
        let len = usize::try_from(size).unwrap_or(usize::MAX);
        if len > MAX_PAYLOAD_BYTES {
            return Err(ChannelError::TooLong { request, size });
        }
        let mut payload = vec![0; len];
        if self.fill(&mut payload, &mut fds)? < len {
            return Err(ChannelError::CutShort);
        }
        Ok(Some(Message {
            header,
            payload,
            fds,
        }))
    }

    /// Sends a message.
    pub fn send(
        &self,
        request: u32,
        flags: u32,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        let mut bytes = Header::new(request, flags, payload.len()).to_bytes();
        bytes.extend(payload);
        self.send_bytes(&bytes, fds)
    }

    /// Sends bytes that need not be a message, for tests of the other side.
    pub fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        if fds.len() > MAX_FDS {
            return Err(ChannelError::TooManyFds);
        }
        let mut rest = bytes;
        let mut fds = fds;
        while !rest.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(fds));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let iov = [IoSlice::new(rest)];
            match rustix::net::sendmsg(&self.socket, &iov, &mut control, flags) {
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    fds = &[];
                }
                Err(error) => self.wait_after(error, PollFlags::OUT)?,
            }
        }
        Ok(())
    }

    /// Fills `buf`; returns less than its length only at the end of the stream.
    fn fill(&self, buf: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<usize, ChannelError> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let mut iov = [IoSliceMut::new(rest)];
            let outcome = rustix::net::recvmsg(&self.socket, &mut iov, &mut control, flags);
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    fds.extend(rights);
                }
            }
            match outcome {
                Ok(received) => {
                    let cut = received.flags.contains(ReturnFlags::CTRUNC);
                    if cut || fds.len() > MAX_FDS {
                        return Err(ChannelError::TooManyFds);
                    }
                    if received.bytes == 0 {
                        break;
                    }
                    done += received.bytes;
                }
                Err(error) => self.wait_after(error, PollFlags::IN)?,
            }
        }
        Ok(done)
    }

    /// Waits for the socket if `error` says that it is not ready.
    fn wait_after(&self, error: Errno, what: PollFlags) -> Result<(), ChannelError> {
        match error {
            Errno::AGAIN => self.wait(what),
            Errno::INTR => Ok(()),
            Errno::CONNRESET | Errno::PIPE => Err(ChannelError::CutShort),
            other => Err(io::Error::from(other).into()),
        }
    }

    fn wait(&self, what: PollFlags) -> Result<(), ChannelError> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let stop = self.stop.as_ref().map(|stop| stop.as_owned().as_fd());
            let socket = PollFd::new(&self.socket, what);
            let stop_or_socket = stop.unwrap_or(self.socket.as_fd());
            let mut fds = [
                socket,
                PollFd::from_borrowed_fd(stop_or_socket, PollFlags::IN),
            ];
            let watched = if stop.is_some() { 2 } else { 1 };
            let fds = fds.get_mut(..watched).unwrap_or_default();
            match rustix::event::poll(fds, left.as_ref()) {
                Ok(0) => return Err(ChannelError::TimedOut),
                Ok(_) if stop.is_some() && fds.get(1).is_some_and(is_ready) => {
                    return Err(ChannelError::Stopped);
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    !fd.revents().is_empty()
}
