//! What comes from a socket, cut into messages.
//!
//! Requests are copied out up to their payload, which stays where the kernel
//! put it: behind the request in the buffer that brought it, and the rest in
//! one for all of it, once a good part has come. A connection that sends nothing
//! holds nothing here; one that stops within a message holds the memory for that.

use super::buffer::{Buffer, Bytes, SMALL};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sluice_proto::p9::serve::Close;
use sluice_proto::p9::wire::{HEADER_LEN, Header};
use std::mem;
use std::time::Instant;

/// What has come and was not taken.
#[derive(Default)]
pub(super) struct Input {
    /// Received by the way.
    chunk: Option<Bytes>,
    /// The beginning of a message that has not come whole.
    begun: Vec<u8>,
    /// Its payload, if that has begun.
    payload: Option<Incoming>,
    /// The socket had no more when it was last asked.
    is_drained: bool,
    /// Nothing is taken any more.
    is_over: bool,
}

/// A payload that comes in.
struct Incoming {
    parts: Vec<Bytes>,
    /// Where the next bytes go, and how many are there.
    filling: Option<(Buffer, usize)>,
    /// Bytes that have come.
    have: usize,
    /// Bytes that have not.
    missing: usize,
    /// Since when there is memory for more, of which no good part has come.
    stuck_since: Option<Instant>,
    /// Bytes that have come since then.
    came_since: usize,
}

/// What became of asking for a message.
pub(super) enum Received {
    /// The caller's `prefix` is the beginning of one, and this is its payload.
    Message(Vec<Bytes>),
    /// Nothing whole is there yet.
    Nothing,
    /// A payload has begun for the rest of which there is no memory.
    NoMemory,
}

/// Why nothing more can be received.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// What came is not 9P, or not for now.
    #[error("{0}")]
    Message(#[from] Close),
    /// The socket.
    #[error("{0}")]
    Socket(#[from] Errno),
    /// The peer has gone, at the end of a message or within one.
    #[error("the peer has gone")]
    Gone,
}

impl Input {
    /// The next message. `prefix` is cleared, and gets all of it but its payload;
    /// `check` is asked about its header before anything behind that is received, and
    /// `has_memory` before it takes more than a small buffer.
    /// With `trusts_short` a socket that gave less than it could have has no more.
    pub(super) fn next(
        &mut self,
        socket: BorrowedFd<'_>,
        prefix: &mut Vec<u8>,
        check: impl Fn(&Header) -> Result<(), Close>,
        has_memory: impl Fn() -> bool,
        trusts_short: bool,
    ) -> Result<Received, Failed> {
        self.is_drained = false;
        prefix.clear();
        if self.is_over {
            return Err(Failed::Gone);
        }
        prefix.append(&mut self.begun);
        let outcome = self.collect(socket, prefix, check, has_memory, trusts_short);
        match outcome {
            Ok(Received::Message(_)) => {}
            // Not by taking it: the caller's keeps its room.
            _ => self.begun = prefix.as_slice().to_vec(),
        }
        outcome
    }

    /// Drops what has come, and takes nothing more.
    pub(super) fn end(&mut self) {
        *self = Input {
            is_over: true,
            ..Input::default()
        };
    }

    /// Whether nothing is there until the socket says so.
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_none() && self.is_drained
    }

    /// Since when less of such a payload has come than a small buffer holds: a byte now
    /// and then would keep its memory for ever.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        self.payload.as_ref()?.stuck_since
    }

    fn collect(
        &mut self,
        socket: BorrowedFd<'_>,
        prefix: &mut Vec<u8>,
        check: impl Fn(&Header) -> Result<(), Close>,
        has_memory: impl Fn() -> bool,
        trusts_short: bool,
    ) -> Result<Received, Failed> {
        loop {
            if let Some(payload) = &mut self.payload {
                payload.take_from(&mut self.chunk);
                if payload.missing == 0 {
                    let parts = mem::take(&mut payload.parts);
                    self.payload = None;
                    return Ok(Received::Message(parts));
                }
                if payload.needs_memory() && !has_memory() {
                    return Ok(Received::NoMemory);
                }
            } else if let Some(header) = self.extend(prefix, &check)? {
                match header.size as usize - header.prefix_len() {
                    0 => return Ok(Received::Message(Vec::new())),
                    missing => self.payload = Some(Incoming::new(missing)),
                }
                continue;
            }
            let asked_and_got = match &mut self.payload {
                Some(payload) => payload.receive(socket),
                None => self.receive(socket),
            };
            match asked_and_got {
                Ok((_, 0)) | Err(Errno::CONNRESET) => return Err(Failed::Gone),
                Ok((asked, got)) => self.is_drained = trusts_short && got < asked,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.is_drained = true;
                    return Ok(Received::Nothing);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Moves what belongs to the prefix there; the header once that is whole.
    fn extend(
        &mut self,
        prefix: &mut Vec<u8>,
        check: impl Fn(&Header) -> Result<(), Close>,
    ) -> Result<Option<Header>, Close> {
        if !self.move_up_to(prefix, HEADER_LEN) {
            return Ok(None);
        }
        let header = Header::peek(prefix)?;
        check(&header)?;
        match self.move_up_to(prefix, header.prefix_len()) {
            true => Ok(Some(header)),
            false => Ok(None),
        }
    }

    /// Whether `prefix` is `len` bytes long, now that it got what there is.
    fn move_up_to(&mut self, prefix: &mut Vec<u8>, len: usize) -> bool {
        let missing = len.saturating_sub(prefix.len());
        if let Some(chunk) = &mut self.chunk {
            prefix.extend_from_slice(&chunk.split_front(missing));
            if chunk.is_empty() {
                self.chunk = None;
            }
        }
        prefix.len() >= len
    }

    fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<(usize, usize), Errno> {
        let mut buffer = Buffer::new(SMALL);
        let asked = buffer.len();
        let (got, _) = recv(socket, &mut *buffer, RecvFlags::DONTWAIT)?;
        self.chunk = (got > 0).then(|| Bytes::new(buffer, got));
        Ok((asked, got))
    }
}

impl Incoming {
    fn new(missing: usize) -> Self {
        Incoming {
            parts: Vec::new(),
            filling: None,
            have: 0,
            missing,
            stuck_since: None,
            came_since: 0,
        }
    }

    /// Whether the next buffer is more than a small one.
    fn needs_memory(&self) -> bool {
        self.filling.is_none() && self.next_size() > SMALL
    }

    fn next_size(&self) -> usize {
        match self.have < SMALL / 2 {
            true => self.missing.min(SMALL),
            false => self.missing,
        }
    }

    fn take_from(&mut self, chunk: &mut Option<Bytes>) {
        if let Some(bytes) = chunk {
            let part = bytes.split_front(self.missing);
            if bytes.is_empty() {
                *chunk = None;
            }
            self.count(part.len());
            self.parts.push(part);
        }
    }

    /// Into a small buffer first, then into one that holds the rest: who has that needs
    /// no more memory to go on.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<(usize, usize), Errno> {
        let (mut buffer, len) = match self.filling.take() {
            Some(filling) => filling,
            None => (Buffer::new(self.next_size()), 0),
        };
        let end = buffer.len().min(len + self.missing);
        let room = buffer.get_mut(len..end).unwrap_or_default();
        let asked = room.len();
        let outcome = recv(socket, room, RecvFlags::DONTWAIT).map(|(got, _)| got);
        let len = len + outcome.unwrap_or(0);
        self.count(outcome.unwrap_or(0));
        let is_stuck = outcome == Err(Errno::AGAIN) && buffer.len() > SMALL;
        if is_stuck && self.stuck_since.is_none() {
            (self.stuck_since, self.came_since) = (Some(Instant::now()), 0);
        }
        match self.missing == 0 || len == buffer.len() {
            true => self.parts.push(Bytes::new(buffer, len)),
            false => self.filling = Some((buffer, len)),
        }
        outcome.map(|got| (asked, got))
    }

    fn count(&mut self, bytes: usize) {
        self.have += bytes;
        self.missing = self.missing.saturating_sub(bytes);
        self.came_since += bytes;
        if self.came_since >= SMALL {
            self.stuck_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::p9::wire::{self, Dialect, Request, encode_request};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_sends_a_byte_now_and_then_has_stopped_all_the_same() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut input = Input::default();
        let mut look = || {
            let received = input.next(near.as_fd(), &mut Vec::new(), |_| Ok(()), || true, true);
            assert!(matches!(received, Ok(Received::Nothing)));
            input.stuck_since()
        };
        let mut message = vec![0; 100_000];
        let data = wire::Payload { len: 1 << 20 };
        let (fid, offset) = (1, 0);
        let request = Request::Write { fid, offset, data };
        encode_request(1, &request, Dialect::Linux, &mut message).unwrap();
        far.write_all(&message).unwrap();
        let stopped = look();
        assert!(stopped.is_some());
        for _ in 0..3 {
            far.write_all(b"x").unwrap();
            assert_eq!(look(), stopped);
        }
        far.write_all(&[b'x'; SMALL]).unwrap();
        let again = look();
        assert!(again.is_some() && again != stopped);
    }
}
