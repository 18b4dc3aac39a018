//! Replies on their way to a peer, which may be slow to take them.
//!
//! A reply goes out in one system call with its payload, unless that is in a
//! pipe. Those that come while another is being sent, or while the socket is
//! full, wait in a queue, and the next call takes as many of them as it can.
//! Nobody waits for a peer.

use super::buffer::{Bytes, Held, SMALL};
use super::pipe::Piped;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most replies that one system call sends.
const REPLIES_MAX: usize = 16;

/// What waits to be sent.
#[derive(Default)]
pub(super) struct Output(Mutex<State>);

#[derive(Default)]
struct State {
    queue: VecDeque<Reply>,
    /// Some thread is at it, and will come back to the queue.
    is_sending: bool,
    /// The socket is full: nothing goes until it says otherwise. Since then
    /// nothing has gone.
    blocked_since: Option<Instant>,
    is_closed: bool,
}

struct Reply {
    message: Vec<u8>,
    payload: Payload,
    /// Bytes that are gone, of message and buffer.
    sent: usize,
    /// What it takes and was not counted while nobody waited for the peer.
    _held: Held,
}

/// What follows a message: what is in a pipe, then what is in a buffer.
#[derive(Debug, Default)]
pub(super) struct Payload {
    pub(super) piped: Option<Piped>,
    pub(super) bytes: Option<Bytes>,
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
        payload: Payload,
    ) -> Result<Sent, Errno> {
        let mut state = self.lock();
        if state.is_closed {
            return Ok(Sent::Done);
        }
        let must_wait = state.is_sending || state.blocked_since.is_some();
        if must_wait || !state.queue.is_empty() || payload.piped.is_some() {
            state.queue.push_back(Reply::new(message, payload));
            if must_wait {
                return Ok(Sent::Done);
            }
            state.is_sending = true;
            drop(state);
            return self.drain(socket);
        }
        state.is_sending = true;
        drop(state);
        let pieces = [message, payload.bytes.as_deref().unwrap_or_default()];
        let whole = pieces[0].len() + pieces[1].len();
        let outcome = send_now(socket, &pieces.map(IoSlice::new), SendFlags::empty());
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
        state.blocked_since = None;
        if state.is_sending || state.is_closed {
            return Ok(Sent::Done);
        }
        state.is_sending = true;
        drop(state);
        self.drain(socket)
    }

    /// Whether replies wait for the peer.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since().is_some()
    }

    /// Since when nothing has gone although replies wait.
    pub(super) fn blocked_since(&self) -> Option<Instant> {
        self.lock().blocked_since
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
            let batch = state.next_batch();
            if batch.is_empty() {
                state.is_sending = false;
                return Ok(Sent::Done);
            }
            drop(state);
            let (left, is_full) = send_batch(socket, batch)?;
            let mut state = self.lock();
            for reply in left.into_iter().rev() {
                state.queue.push_front(reply);
            }
            if is_full {
                state.is_sending = false;
                state.blocked_since = Some(Instant::now());
                return Ok(Sent::Blocked);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Replies for one system call; one with a pipe is sent by itself.
    fn next_batch(&mut self) -> Vec<Reply> {
        let is_plain = |reply: &&Reply| reply.payload.piped.is_none();
        let plain = self.queue.iter().take(REPLIES_MAX).take_while(is_plain);
        let count = plain.count().max(1).min(self.queue.len());
        self.queue.drain(..count).collect()
    }
}

impl Reply {
    fn new(message: &[u8], payload: Payload) -> Self {
        let small = payload.bytes.as_ref().filter(|it| it.counted() == 0);
        let uncounted = message.len() + small.map_or(0, |_| SMALL);
        Reply {
            message: message.to_vec(),
            payload,
            sent: 0,
            _held: Held::new(uncounted),
        }
    }

    fn len(&self) -> usize {
        self.message.len() + self.payload.bytes.as_deref().map_or(0, <[u8]>::len)
    }

    /// What of it is left, in order, but for what is in a pipe between the two.
    fn pieces(&self) -> [&[u8]; 2] {
        let bytes = self.payload.bytes.as_deref().unwrap_or_default();
        let behind = self.sent.saturating_sub(self.message.len());
        [
            self.message.get(self.sent..).unwrap_or_default(),
            bytes.get(behind..).unwrap_or_default(),
        ]
    }

    /// Sends what is left, with a pipe in the middle; `EAGAIN` if not all goes.
    fn send_with_pipe(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        while self.sent < self.message.len() {
            let [message, _] = self.pieces();
            self.sent += send_now(socket, &[IoSlice::new(message)], SendFlags::MORE)?;
        }
        if let Some(piped) = &mut self.payload.piped {
            piped.drain(socket, self.payload.bytes.is_some())?;
        }
        while self.sent < self.len() {
            let [_, bytes] = self.pieces();
            self.sent += send_now(socket, &[IoSlice::new(bytes)], SendFlags::empty())?;
        }
        Ok(())
    }
}

/// Sends as much of a batch as goes: what is left, and whether the socket is full.
fn send_batch(socket: BorrowedFd<'_>, mut batch: Vec<Reply>) -> Result<(Vec<Reply>, bool), Errno> {
    let outcome = match batch.as_mut_slice() {
        [reply] if reply.payload.piped.is_some() => match reply.send_with_pipe(socket) {
            Ok(()) => return Ok((Vec::new(), false)),
            Err(error) => Err(error),
        },
        plain => send_plain(socket, plain),
    };
    match outcome {
        Ok(sent) => Ok((advance(batch, sent), false)),
        Err(Errno::AGAIN) => Ok((batch, true)),
        Err(error) => Err(error),
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

fn send_plain(socket: BorrowedFd<'_>, batch: &[Reply]) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); 2 * REPLIES_MAX];
    let pieces = batch.iter().flat_map(Reply::pieces);
    let mut count = 0;
    for (slice, piece) in slices
        .iter_mut()
        .zip(pieces.filter(|piece| !piece.is_empty()))
    {
        *slice = IoSlice::new(piece);
        count += 1;
    }
    let slices = slices.get(..count).unwrap_or_default();
    send_now(socket, slices, SendFlags::empty())
}

fn send_now(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    more: SendFlags,
) -> Result<usize, Errno> {
    let flags = more | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
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

    fn payload(byte: u8, len: usize) -> Payload {
        let mut buffer = Buffer::new(len);
        buffer[..len].fill(byte);
        Payload {
            piped: None,
            bytes: Some(Bytes::new(buffer, len)),
        }
    }

    #[test]
    fn replies_reach_a_slow_peer_whole_and_in_order() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let output = Output::default();
        let mut expected = Vec::new();
        let mut outcomes = Vec::new();
        for number in 0..200_u8 {
            let len = usize::from(number) * 100;
            outcomes.push(output.send(near.as_fd(), &[number; 3], payload(number, len)));
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
            output.send(near.as_fd(), b"x", Payload::default()),
            Err(Errno::PIPE),
            "and no signal"
        );
        output.close();
        assert_eq!(
            output.send(near.as_fd(), b"x", Payload::default()),
            Ok(Sent::Done)
        );
    }
}
