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
    /// Bytes of the next message's payload that are where they belong already.
    in_place: usize,
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
                let is_there = match self.lone_flight(reader, flights) {
                    Some(flight) => self.receive_lone(reader, flight)?,
                    None => self.ensure(reader, HEADER_LEN)?,
                };
                if !is_there {
                    return Ok(Step::Read);
                }
                let header = Header::peek(reader.unused()).map_err(Violation::from)?;
                let incoming = self.lock().requests.arrives(&header)?;
                reader.body = Some(Body {
                    incoming,
                    message: None,
                    have: std::mem::take(&mut reader.in_place),
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

    /// The one request under way, if it waits for a large payload, and nothing of its
    /// reply has come.
    fn lone_flight<'f, 'b>(
        &self,
        reader: &Reader,
        flights: &'f mut [Flight<'b>],
    ) -> Option<&'f mut Flight<'b>> {
        let [flight] = flights else {
            return None;
        };
        let is_lone = reader.unused().is_empty() && self.lock().requests.is_lone(flight.tag);
        is_lone.then_some(flight)
    }

    /// Receives the beginning of a reply and its payload at once, each to its place;
    /// false if less than a header came. What proves to be something else is put
    /// behind the beginning, to be looked at in its order.
    fn receive_lone(
        &self,
        reader: &mut Reader,
        flight: &mut Flight<'_>,
    ) -> std::result::Result<bool, Lost> {
        let mut bufs = ArrayVec::<_, { SLICES_MAX + 1 }>::new();
        bufs.push(IoSliceMut::new(reader.room(REPLY_PAYLOAD_AT)));
        bufs.extend(part(&mut flight.slices, 0, usize::MAX));
        let outcome = self.transport.receive(&mut bufs, false);
        drop(bufs);
        let received = *outcome.as_ref().unwrap_or(&0);
        reader.end += received.min(REPLY_PAYLOAD_AT);
        let behind = received.saturating_sub(REPLY_PAYLOAD_AT);
        if let Received::NothingYet = self.judge(outcome, false, &mut reader.idle_ticks)? {
            return Ok(false);
        }
        let payload_len = payload_len(reader.unused(), flight.tag);
        let in_place = behind.min(payload_len);
        for slice in part(&mut flight.slices, in_place, behind - in_place) {
            reader.room(slice.len()).copy_from_slice(&slice);
            reader.end += slice.len();
            self.meter.add_copied(slice.len());
        }
        reader.in_place = in_place;
        Ok(reader.unused().len() >= HEADER_LEN)
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

/// Bytes of payload in the message of which `bytes` are the beginning, if that is the
/// reply with data to the request with this tag.
fn payload_len(bytes: &[u8], tag: u16) -> usize {
    match Header::peek(bytes) {
        Ok(header) if header.tag == tag && header.prefix_len() == REPLY_PAYLOAD_AT => {
            (header.size as usize).saturating_sub(REPLY_PAYLOAD_AT)
        }
        _ => 0,
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

#[cfg(test)]
mod tests {
    use crate::connection::{Connection, Flights};
    use crate::error::{Error, Result};
    use crate::options::ConnectOptions;
    use crate::transport::Transport;
    use sluice_proto::p9::wire::{Dialect, Payload, Reply, Request, encode_reply};
    use sluice_vfs::Errno;
    use std::collections::VecDeque;
    use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
    use std::sync::{Arc, Mutex, Weak};
    use std::time::Duration;

    /// A server that says what was written down for it, a segment a time.
    #[derive(Default)]
    struct Scripted {
        segments: Mutex<VecDeque<Vec<u8>>>,
        /// How many bytes each receipt had.
        receipts: Mutex<Vec<usize>>,
        /// On this connection a Tclunk is sent while a reply is awaited.
        interrupted: Mutex<Option<Weak<Connection>>>,
    }

    impl Transport for Arc<Scripted> {
        fn set_patience(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn receive(&self, bufs: &mut [IoSliceMut<'_>], _: bool) -> io::Result<usize> {
            let interrupted = self.interrupted.lock().unwrap().take();
            if let Some(connection) = interrupted.and_then(|it| it.upgrade()) {
                let fid = connection.take_fid();
                connection.post(&Request::Clunk { fid }, Some(fid)).unwrap();
            }
            let mut segments = self.segments.lock().unwrap();
            let segment = segments.front_mut().ok_or(ErrorKind::WouldBlock)?;
            let mut received = 0;
            for buf in bufs {
                let count = buf.len().min(segment.len());
                buf[..count].copy_from_slice(&segment[..count]);
                segment.drain(..count);
                received += count;
            }
            if segment.is_empty() {
                segments.pop_front();
            }
            self.receipts.lock().unwrap().push(received);
            Ok(received)
        }

        fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
            Ok(bufs.iter().map(|buf| buf.len()).sum())
        }

        fn wait_to_send(&self, _: bool, _: Duration) -> io::Result<bool> {
            Ok(false)
        }

        fn has_ended(&self) -> bool {
            false
        }

        fn close(&self) {}
    }

    const ASKED: usize = 4096;
    const RVERSION: &[u8] = b"\x15\0\0\0\x65\xff\xff\0\x20\0\0\x08\09P2000.L";
    const RCLUNK: &[u8] = b"\x07\0\0\0\x79\x01\0";
    const NEXT_RCLUNK: &[u8] = b"\x07\0\0\0\x79\x02\0";
    const RLERROR: &[u8] = b"\x0b\0\0\0\x07\0\0\x05\0\0\0";

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| at as u8 ^ (at >> 8) as u8).collect()
    }

    fn rread(len: usize) -> Vec<u8> {
        let mut message = vec![0; 64];
        let data = Payload { len };
        let end = encode_reply(0, &Reply::Read { data }, Dialect::Linux, &mut message).unwrap();
        message.truncate(end);
        message.extend(content(len));
        message
    }

    struct Outcome {
        read: Result<Vec<u8>>,
        receipts: Vec<usize>,
        copied: u64,
    }

    fn connect(server: &Arc<Scripted>) -> Arc<Connection> {
        server.segments.lock().unwrap().push_back(RVERSION.to_vec());
        let transport = Box::new(Arc::clone(server));
        let connection = Connection::open(transport, &ConnectOptions::default()).unwrap();
        server.receipts.lock().unwrap().clear();
        Arc::new(connection)
    }

    fn read_on(connection: &Connection) -> Result<Vec<u8>> {
        let mut buf = vec![0; ASKED];
        let (head, tail) = buf.split_at_mut(1000);
        let request = Request::Read {
            fid: 1,
            offset: 0,
            count: ASKED as u32,
        };
        let mut flights = Flights::new(connection);
        let slices = vec![IoSliceMut::new(head), IoSliceMut::new(tail)];
        let tag = flights.send(&request, slices, &[]).unwrap();
        let answer = flights.wait(tag);
        drop(flights);
        Ok(buf[..answer?.payload_len].to_vec())
    }

    /// Reads with these segments as the reply.
    fn read(segments: &[&[u8]]) -> Outcome {
        let server = Arc::new(Scripted::default());
        let connection = connect(&server);
        let scripted = segments.iter().map(|segment| segment.to_vec());
        server.segments.lock().unwrap().extend(scripted);
        Outcome {
            read: read_on(&connection),
            receipts: server.receipts.lock().unwrap().clone(),
            copied: connection.counts().copied,
        }
    }

    /// The same while another thread's Tclunk is answered in the same segment.
    fn read_interrupted(segment: Vec<u8>) -> Result<Vec<u8>> {
        let server = Arc::new(Scripted::default());
        let connection = connect(&server);
        server.segments.lock().unwrap().push_back(segment);
        *server.interrupted.lock().unwrap() = Some(Arc::downgrade(&connection));
        let read = read_on(&connection);
        // Whatever came with it is taken in before this.
        let next = NEXT_RCLUNK.to_vec();
        server.segments.lock().unwrap().push_back(next);
        connection.call(&Request::Clunk { fid: 9 }).unwrap();
        assert_eq!(connection.counts().received, 3);
        read
    }

    #[test]
    fn a_lone_reply_comes_with_its_payload_at_once() {
        let outcome = read(&[&rread(ASKED)]);
        assert_eq!(outcome.read.unwrap(), content(ASKED));
        assert_eq!((outcome.receipts, outcome.copied), (vec![11 + ASKED], 0));
    }

    #[test]
    fn a_lone_reply_may_come_in_pieces() {
        let message = rread(ASKED);
        for at in [1, 6, 7, 10, 11, 12, 1011, 1012, 4000] {
            let (first, second) = message.split_at(at);
            let outcome = read(&[first, second]);
            assert_eq!(outcome.read.unwrap(), content(ASKED), "{at}");
        }
        let bytes: Vec<_> = message.chunks(1).collect();
        assert_eq!(read(&bytes).read.unwrap(), content(ASKED));
    }

    #[test]
    fn a_lone_reply_may_be_short_or_an_error() {
        for len in [0, 1, 100, 1500] {
            let outcome = read(&[&rread(len)]);
            assert_eq!(outcome.read.unwrap(), content(len));
            assert_eq!((outcome.receipts, outcome.copied), (vec![11 + len], 0));
        }
        let refused = read(&[RLERROR]).read;
        assert_eq!(refused.unwrap_err(), Error::Refused(Errno::EIO));
    }

    #[test]
    fn what_comes_with_a_lone_reply_is_anothers() {
        for len in [0, 100, 1500, ASKED] {
            let both = [&rread(len)[..], RCLUNK].concat();
            assert_eq!(read_interrupted(both).unwrap(), content(len), "{len}");
        }
    }

    #[test]
    fn what_comes_before_a_lone_reply_is_anothers() {
        for len in [0, 100, 1500, ASKED] {
            let both = [RCLUNK, &rread(len)[..]].concat();
            assert_eq!(read_interrupted(both).unwrap(), content(len), "{len}");
        }
    }
}
