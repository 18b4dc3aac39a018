//! Replies on their way to a peer, which may be slow to take them.
//!
//! A reply goes out in one system call with its payload. Those that come while
//! another is being sent, or while the socket is full, wait in a queue, and the
//! next call takes as many of them as it can. Nobody waits for a peer.

use super::buffer::Bytes;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most pieces that one system call sends.
const PIECES_MAX: usize = 32;

/// What waits to be sent.
#[derive(Default)]
pub(super) struct Output(Mutex<State>);

#[derive(Default)]
struct State {
    queue: VecDeque<Reply>,
    /// Some thread is at it, and will come back to the queue.
    is_sending: bool,
    /// The socket is full: nothing goes until it says otherwise.
    is_blocked: bool,
    is_closed: bool,
}

struct Reply {
    message: Vec<u8>,
    payload: Option<Bytes>,
    /// Bytes of both that are gone.
    sent: usize,
}

/// How sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All is gone, or somebody else sees to it.
    Done,
    /// The socket is full; it must say when it is not.
    Blocked,
}

impl Output {
    /// Sends a reply, or leaves it to be sent.
    pub(super) fn send(
        &self,
        socket: BorrowedFd<'_>,
        message: &[u8],
        payload: Option<Bytes>,
    ) -> Result<Sent, Errno> {
        let mut state = self.lock();
        if state.is_closed {
            return Ok(Sent::Done);
        }
        if state.is_sending || state.is_blocked || !state.queue.is_empty() {
            state.queue.push_back(Reply::new(message, payload));
            return Ok(Sent::Done);
        }
        state.is_sending = true;
        drop(state);
        let pieces = [message, payload.as_deref().unwrap_or_default()];
        let whole = pieces[0].len() + pieces[1].len();
        let outcome = send_now(socket, &pieces.map(IoSlice::new));
        if outcome != Ok(whole) {
            let sent = outcome.or_else(|error| match error {
                Errno::AGAIN => Ok(0),
                error => Err(error),
            })?;
            let reply = Reply {
                sent,
                ..Reply::new(message, payload)
            };
            self.lock().queue.push_front(reply);
        }
        self.drain(socket)
    }

    /// Goes on with what waits, now that the socket can take some.
    pub(super) fn resume(&self, socket: BorrowedFd<'_>) -> Result<Sent, Errno> {
        let mut state = self.lock();
        state.is_blocked = false;
        if state.is_sending || state.is_closed {
            return Ok(Sent::Done);
        }
        state.is_sending = true;
        drop(state);
        self.drain(socket)
    }

    /// Whether replies wait for the peer.
    pub(super) fn is_blocked(&self) -> bool {
        self.lock().is_blocked
    }

    /// Drops what waits, and what comes.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        drop(dropped);
    }

    /// By the one thread that is sending.
    fn drain(&self, socket: BorrowedFd<'_>) -> Result<Sent, Errno> {
        loop {
            let mut state = self.lock();
            let mut batch: Vec<Reply> = Vec::new();
            let most = (PIECES_MAX / 2).min(state.queue.len());
            batch.extend(state.queue.drain(..most));
            if batch.is_empty() {
                state.is_sending = false;
                return Ok(Sent::Done);
            }
            drop(state);
            let outcome = send_batch(socket, &batch);
            let mut left = match outcome {
                Ok(sent) => advance(batch, sent),
                Err(Errno::AGAIN) => batch,
                Err(error) => return Err(error),
            };
            let mut state = self.lock();
            while let Some(reply) = left.pop() {
                state.queue.push_front(reply);
            }
            if outcome.is_err() {
                state.is_sending = false;
                state.is_blocked = true;
                return Ok(Sent::Blocked);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reply {
    fn new(message: &[u8], payload: Option<Bytes>) -> Self {
        Reply {
            message: message.to_vec(),
            payload,
            sent: 0,
        }
    }

    fn len(&self) -> usize {
        self.message.len() + self.payload.as_ref().map_or(0, |payload| payload.len())
    }

    /// What of it is left, in order.
    fn pieces(&self) -> [&[u8]; 2] {
        let payload = self.payload.as_deref().unwrap_or_default();
        let behind = self.sent.saturating_sub(self.message.len());
        [
            self.message.get(self.sent..).unwrap_or_default(),
            payload.get(behind..).unwrap_or_default(),
        ]
    }
}

/// What is left of `batch` after `sent` bytes of it.
fn advance(batch: Vec<Reply>, mut sent: usize) -> Vec<Reply> {
    let step = |mut reply: Reply| {
        let step = sent.min(reply.len() - reply.sent);
        sent -= step;
        reply.sent += step;
        (reply.sent < reply.len()).then_some(reply)
    };
    batch.into_iter().filter_map(step).collect()
}

fn send_batch(socket: BorrowedFd<'_>, batch: &[Reply]) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
    let pieces = batch.iter().flat_map(Reply::pieces);
    let mut count = 0;
    for (slice, piece) in slices
        .iter_mut()
        .zip(pieces.filter(|piece| !piece.is_empty()))
    {
        *slice = IoSlice::new(piece);
        count += 1;
    }
    send_now(socket, slices.get(..count).unwrap_or_default())
}

fn send_now(socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut control = SendAncillaryBuffer::default();
    rustix::io::retry_on_intr(|| sendmsg(socket, slices, &mut control, flags))
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Buffer;
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn payload(byte: u8, len: usize) -> Bytes {
        let mut buffer = Buffer::new(len);
        buffer[..len].fill(byte);
        Bytes::new(buffer, len)
    }

    #[test]
    fn replies_reach_a_slow_peer_whole_and_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let output = Output::default();
        let mut expected = Vec::new();
        let mut outcomes = Vec::new();
        for number in 0..200_u8 {
            let len = usize::from(number) * 100;
            outcomes.push(output.send(near.as_fd(), &[number; 3], Some(payload(number, len))));
            expected.extend(vec![number; 3 + len]);
        }
        assert!(outcomes.contains(&Ok(Sent::Blocked)), "the socket is full");
        assert!(output.is_blocked());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).unwrap();
            all
        });
        loop {
            let mut writable = [rustix::event::PollFd::new(
                &near,
                rustix::event::PollFlags::OUT,
            )];
            rustix::event::poll(&mut writable, None).unwrap();
            if output.resume(near.as_fd()) == Ok(Sent::Done) {
                break;
            }
        }
        drop(near);
        assert_eq!(reader.join().unwrap(), expected);
    }

    #[test]
    fn what_is_closed_takes_nothing() {
        let (near, far) = UnixStream::pair().unwrap();
        let output = Output::default();
        drop(far);
        assert_eq!(
            output.send(near.as_fd(), b"x", None),
            Err(Errno::PIPE),
            "and no signal"
        );
        output.close();
        assert_eq!(output.send(near.as_fd(), b"x", None), Ok(Sent::Done));
    }
}
