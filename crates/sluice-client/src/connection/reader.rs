//! Receiving: where the stream stands, and what is done with what comes.

use super::Connection;
use super::flights::Flight;
use crate::error::{Lost, Violation};
use crate::requests::{Incoming, Place};
use arrayvec::ArrayVec;
use sluice_proto::p9::wire::{HEADER_LEN, Header, REPLY_PAYLOAD_AT};
use std::io::{self, ErrorKind, IoSliceMut};

/// What is received at a time, at least, while no large payload is awaited. One that
/// somebody asks for meanwhile may begin behind, so it is not more than is cheaply
/// copied.
const GULP: usize = 512;

/// Bytes of a usual reply without payload.
const USUAL_REPLY: usize = 192;

/// What nobody wants goes here.
const SCRATCH: usize = 8 << 10;

/// Buffers that are filled at a time.
const SLICES_MAX: usize = 64;

/// Where the stream stands.
#[derive(Default)]
pub(super) struct Reader {
    /// What was received and is not used yet is what lies between the two.
    buf: Vec<u8>,
    used: usize,
    end: usize,
    /// The message that is being received.
    body: Option<Body>,
    /// Ticks that passed within a message, with nothing coming.
    idle_ticks: u32,
}

struct Body {
    incoming: Incoming,
    /// All but the payload, once it is there.
    message: Option<Vec<u8>>,
    /// Bytes of payload that have come.
    have: usize,
}

/// What reading came to.
pub(super) enum Step {
    /// A message, or a part of one, or a tick in which nothing came.
    Read,
    /// The payload of this request comes next, and its buffers are another's.
    NotMine(u16),
}

/// What receiving came to.
enum Received {
    Some,
    NothingYet,
}

impl Reader {
    /// The request whose payload comes next, if that goes to buffers.
    pub(super) fn payload_in_place(&self) -> Option<u16> {
        let body = self.body.as_ref()?;
        let is_awaited = body.message.is_some() && matches!(body.incoming.place, Place::Caller);
        is_awaited.then_some(body.incoming.tag)
    }

    fn unused(&self) -> &[u8] {
        self.buf.get(self.used..self.end).unwrap_or_default()
    }

    /// Room for `len` more bytes behind those.
    fn room(&mut self, len: usize) -> &mut [u8] {
        self.buf.copy_within(self.used..self.end, 0);
        self.end -= self.used;
        self.used = 0;
        if self.buf.len() < self.end + len {
            self.buf.resize(self.end + len, 0);
        }
        self.buf
            .get_mut(self.end..self.end + len)
            .unwrap_or_default()
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
        if self.used >= self.end {
            (self.used, self.end) = (0, 0);
        }
    }
}

impl Connection {
    /// Reads to the end of a message, or until nothing comes for a tick. Called
    /// by the one thread that has the reader.
    pub(super) fn read_some(
        &self,
        reader: &mut Reader,
        flights: &mut [Flight<'_>],
    ) -> std::result::Result<Step, Lost> {
        loop {
            let Some(body) = &mut reader.body else {
                if !self.ensure(reader, HEADER_LEN)? {
                    return Ok(Step::Read);
                }
                let header = Header::peek(reader.unused()).map_err(Violation::from)?;
                let incoming = self.lock().requests.arrives(&header)?;
                reader.body = Some(Body {
                    incoming,
                    message: None,
                    have: 0,
                });
                continue;
            };
            let prefix_len = body.incoming.prefix_len;
            if body.message.is_none() {
                if !self.ensure(reader, prefix_len)? {
                    return Ok(Step::Read);
                }
                let message = reader.unused().get(..prefix_len).map(<[u8]>::to_vec);
                reader.consume(prefix_len);
                if let Some(body) = &mut reader.body {
                    body.message = message;
                }
                continue;
            }
            if body.have < body.incoming.payload_len {
                match self.receive_payload(reader, flights)? {
                    Payload::NotMine(tag) => return Ok(Step::NotMine(tag)),
                    Payload::Some(Received::Some) => continue,
                    Payload::Some(Received::NothingYet) => return Ok(Step::Read),
                }
            }
            self.complete(reader);
            return Ok(Step::Read);
        }
    }

    fn complete(&self, reader: &mut Reader) {
        let Some(body) = reader.body.take() else {
            return;
        };
        let Incoming {
            tag,
            payload_len,
            place,
            ..
        } = body.incoming;
        let data = match place {
            Place::Owned(data) => data,
            Place::Caller | Place::Nowhere => Vec::new(),
        };
        let message = body.message.unwrap_or_default();
        self.meter.add_received(message.len() + payload_len);
        self.lock().finish(tag, &message, payload_len, data);
    }

    /// Sees to it that `len` bytes are there; false if they are not yet.
    fn ensure(&self, reader: &mut Reader, len: usize) -> std::result::Result<bool, Lost> {
        loop {
            let have = reader.unused().len();
            if have >= len {
                return Ok(true);
            }
            // What follows may be a payload that has its place elsewhere. It does
            // not begin sooner than this, also behind a shorter message.
            let want = match self.lock().requests.small_replies(USUAL_REPLY) {
                None => len.max(REPLY_PAYLOAD_AT) - have,
                Some(all) => all
                    .min(self.agreed.msize as usize)
                    .max(GULP)
                    .max(len - have),
            };
            let room = reader.room(want);
            let outcome = self.transport.receive(&mut [IoSliceMut::new(room)], false);
            reader.end += *outcome.as_ref().unwrap_or(&0);
            let is_within = reader.body.is_some() || have > 0;
            if let Received::NothingYet = self.judge(outcome, is_within, &mut reader.idle_ticks)? {
                return Ok(false);
            }
        }
    }

    /// Takes more of a payload in, to where it belongs.
    fn receive_payload(
        &self,
        reader: &mut Reader,
        flights: &mut [Flight<'_>],
    ) -> std::result::Result<Payload, Lost> {
        if let Received::NothingYet = self.receive_copy(reader)? {
            return Ok(Payload::Some(Received::NothingYet));
        }
        let Some(body) = &mut reader.body else {
            return Ok(Payload::Some(Received::Some));
        };
        let (tag, have) = (body.incoming.tag, body.have);
        let left = body.incoming.payload_len - have;
        if !self.lock().requests.is_in_place(tag) && matches!(body.incoming.place, Place::Caller) {
            // Whoever waited gave up.
            body.incoming.place = Place::Nowhere;
        }
        let mut scratch;
        let mut single;
        let mut room = match &mut body.incoming.place {
            Place::Caller => match flights.iter_mut().find(|flight| flight.tag == tag) {
                None => return Ok(Payload::NotMine(tag)),
                Some(flight) => part(&mut flight.slices, have, left),
            },
            Place::Owned(buf) => {
                single = [IoSliceMut::new(buf)];
                part(&mut single, have, left)
            }
            Place::Nowhere => {
                scratch = [0; SCRATCH];
                single = [IoSliceMut::new(&mut scratch)];
                part(&mut single, 0, left)
            }
        };
        let buffered = reader.buf.get(reader.used..reader.end).unwrap_or_default();
        if !buffered.is_empty() {
            let copied = copy(buffered, &mut room);
            drop(room);
            body.have += copied;
            self.meter.add_copied(copied);
            reader.consume(copied);
            return Ok(Payload::Some(Received::Some));
        }
        let outcome = self.transport.receive(&mut room, true);
        body.have += *outcome.as_ref().unwrap_or(&0);
        let received = self.judge(outcome, true, &mut reader.idle_ticks)?;
        Ok(Payload::Some(received))
    }

    /// Takes more of a payload that is to be copied in, unless some of it waits for
    /// that.
    fn receive_copy(&self, reader: &mut Reader) -> std::result::Result<Received, Lost> {
        let body = reader.body.as_ref();
        let Some(body) = body.filter(|body| body.incoming.is_copied) else {
            return Ok(Received::Some);
        };
        let left = body.incoming.payload_len - body.have;
        if !reader.unused().is_empty() {
            return Ok(Received::Some);
        }
        let mut room = [IoSliceMut::new(reader.room(left))];
        let outcome = self.transport.receive(&mut room, true);
        reader.end += *outcome.as_ref().unwrap_or(&0);
        self.judge(outcome, true, &mut reader.idle_ticks)
    }

    /// What an attempt to receive came to. A server that stops within a message
    /// is not waited for without limit.
    fn judge(
        &self,
        outcome: io::Result<usize>,
        is_within: bool,
        idle_ticks: &mut u32,
    ) -> std::result::Result<Received, Lost> {
        match outcome {
            Ok(0) => Err(Lost::Closed),
            Ok(_) => {
                *idle_ticks = 0;
                Ok(Received::Some)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *idle_ticks = if is_within { *idle_ticks + 1 } else { 0 };
                let idle = self.tick.saturating_mul(*idle_ticks);
                match self.time_limit.is_some_and(|limit| idle > limit) {
                    true => Err(Lost::Stalled),
                    false => Ok(Received::NothingYet),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// `len` bytes of `slices` behind the first `skip`, or as many as are there and
/// can be told to the kernel at once.
fn part<'a>(
    slices: &'a mut [IoSliceMut<'_>],
    mut skip: usize,
    mut len: usize,
) -> ArrayVec<IoSliceMut<'a>, SLICES_MAX> {
    let mut out = ArrayVec::new();
    for slice in slices {
        let start = skip.min(slice.len());
        skip -= start;
        let end = slice.len().min(start.saturating_add(len));
        len -= end - start;
        if let Some(room) = slice.get_mut(start..end).filter(|room| !room.is_empty())
            && out.try_push(IoSliceMut::new(room)).is_err()
        {
            break;
        }
    }
    out
}

/// Copies as much as there is and fits.
fn copy(mut from: &[u8], to: &mut [IoSliceMut<'_>]) -> usize {
    let mut copied = 0;
    for slice in to {
        let count = slice.len().min(from.len());
        let (now, later) = from.split_at(count);
        if let Some(room) = slice.get_mut(..count) {
            room.copy_from_slice(now);
        }
        from = later;
        copied += count;
    }
    copied
}

/// What taking a payload in came to.
enum Payload {
    Some(Received),
    NotMine(u16),
}
