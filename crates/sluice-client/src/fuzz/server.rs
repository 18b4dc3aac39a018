//! A server that means well, and a line on which its answers are tampered with.

use super::script::{Ending, Script, Setup, Step, What};
use crate::error::{Error, Result};
use crate::transport::Transport;
use sluice_proto::p9::loopback::{Loopback, Ticket};
use sluice_proto::p9::serve::ServerConfig;
use sluice_proto::p9::wire::{
    Dialect, Failure, HEADER_LEN, Header, LockFlags, NOTAG, Payload, REPLY_PAYLOAD_AT, Reply,
    Request, Str, decode_reply, decode_request, encode_failure, encode_reply,
};
use sluice_vfs::{AccessChecks, Errno, FileService, Peer};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reads and writes from here on are answered without the service: what they carry says
/// which they are ([`content`]).
pub(super) const MADE_UP: u64 = 1 << 32;

/// So long are the files that are made up; the next begins at a multiple of [`MADE_UP`].
const MADE_UP_LEN: u64 = 40_000;

/// A client that asks in vain for so long, and this often, waits for ever.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
const IDLE_POLLS: u32 = 1000;

/// A lock may be waited for without limit: so long it is.
const LOCK_PATIENCE: Duration = Duration::from_millis(20);

/// Most that is received at a time besides what the largest message holds: the longest
/// reply that is no payload.
const ROOM_MAX: usize = (64 << 10) + 256;

/// The byte at an offset of what is made up.
pub(super) fn content(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 32).wrapping_mul(37)) as u8
}

/// A read of what is made up, and what its reply brought.
pub(super) struct Read {
    pub(super) offset: u64,
    pub(super) count: usize,
    /// None unless the reply is one that is to be believed.
    pub(super) data: Option<Vec<u8>>,
}

/// What all connections of an input have in common.
pub(super) struct Ground {
    service: Arc<dyn FileService>,
    pub(super) setup: Setup,
    script: Mutex<Script>,
    reads: Mutex<Vec<Read>>,
    connections: Mutex<u8>,
}

impl Ground {
    pub(super) fn new(service: Arc<dyn FileService>, setup: Setup, script: Script) -> Arc<Self> {
        Arc::new(Ground {
            service,
            setup,
            script: Mutex::new(script),
            reads: Mutex::default(),
            connections: Mutex::default(),
        })
    }

    /// Another connection, if there may be more.
    pub(super) fn connect(self: &Arc<Self>) -> Result<Box<dyn Transport>> {
        let mut connections = lock(&self.connections);
        if *connections >= self.setup.connections {
            return Err(Error::Connect("no more".to_owned()));
        }
        *connections += 1;
        Ok(Box::new(Line(Mutex::new(State::new(Arc::clone(self))))))
    }

    /// The reads within a range, in the order in which they were asked for.
    pub(super) fn reads<T>(&self, from: u64, act: impl FnOnce(&[&Read]) -> T) -> T {
        let reads = lock(&self.reads);
        let is_in_range = |read: &&Read| read.offset / MADE_UP == from / MADE_UP;
        act(&reads.iter().filter(is_in_range).collect::<Vec<_>>())
    }

    fn step(&self) -> Option<Step> {
        lock(&self.script).step()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection.
struct Line(Mutex<State>);

struct State {
    ground: Arc<Ground>,
    /// None once it is over.
    peer: Option<Loopback>,
    /// The beginning of a T-message.
    incoming: Vec<u8>,
    asked: Vec<Asked>,
    /// What is on its way to the client.
    out: VecDeque<u8>,
    /// What it got of a message that is not complete.
    told: Vec<u8>,
    /// Messages that were sent.
    answers: u32,
    /// So many bytes are received at a time, so often.
    pieces: (usize, u8),
    /// The same for sending; none of zero bytes.
    intake: (usize, u8),
    /// Nothing comes, so often.
    silent: u8,
    idle: Option<(Instant, u32)>,
    has_ended: bool,
    is_closed: bool,
}

/// A request.
struct Asked {
    tag: u16,
    oldtag: Option<u16>,
    /// Which of the reads of what is made up.
    read: Option<usize>,
    waits_for_lock: bool,
    answer: Answer,
    /// A reply with its tag has come.
    is_answered: bool,
}

enum Answer {
    Owed(Ticket),
    There(Vec<u8>),
    Given,
}

impl State {
    fn new(ground: Arc<Ground>) -> Self {
        let config = |link| {
            let peer = Peer {
                label: "fuzz".to_owned(),
                checks: AccessChecks::Service,
            };
            ServerConfig::new(peer, link)
        };
        State {
            peer: Some(Loopback::new(Arc::clone(&ground.service), config)),
            ground,
            incoming: Vec::new(),
            asked: Vec::new(),
            out: VecDeque::new(),
            told: Vec::new(),
            answers: 0,
            pieces: (usize::MAX, 0),
            intake: (usize::MAX, 0),
            silent: 0,
            idle: None,
            has_ended: false,
            is_closed: false,
        }
    }

    /// Takes in what the client sends, which has to be in order.
    fn take_in(&mut self, bytes: &[u8]) {
        self.incoming.extend(bytes);
        while let Ok(header) = Header::peek(&self.incoming) {
            let size = header.size as usize;
            assert!(header.size <= self.ground.setup.msize, "{header:?}");
            assert!(size >= HEADER_LEN, "{header:?}");
            if self.incoming.len() < size {
                return;
            }
            let rest = self.incoming.split_off(size);
            let message = std::mem::replace(&mut self.incoming, rest);
            self.ask(&header, &message);
        }
    }

    fn ask(&mut self, header: &Header, message: &[u8]) {
        let (prefix, payload) = message.split_at(header.prefix_len());
        let dialect = self.ground.setup.dialect;
        let (tag, request) = decode_request(prefix, payload.len(), dialect)
            .unwrap_or_else(|why| panic!("the client sent {message:?}: {why}"));
        let is_in_use = |asked: &Asked| asked.tag == tag && !asked.is_answered;
        assert!(!self.asked.iter().any(is_in_use), "tag {tag} is in use");
        let (answer, read) = match self.made_up(tag, &request, payload) {
            Some(made_up) => made_up,
            None => {
                let sent = self
                    .peer
                    .as_ref()
                    .map(|peer| peer.send_bytes(prefix, payload));
                match sent {
                    Some(Ok(ticket)) => (Answer::Owed(ticket), None),
                    Some(Err(_)) | None => (Answer::Given, None),
                }
            }
        };
        self.asked.push(Asked {
            tag,
            oldtag: match request {
                Request::Flush { oldtag } => Some(oldtag),
                _ => None,
            },
            read,
            waits_for_lock: match request {
                Request::Lock { args, .. } => args.flags.contains(LockFlags::BLOCK),
                _ => false,
            },
            answer,
            is_answered: false,
        });
    }

    /// The answer to a read or write of what is made up.
    fn made_up(
        &self,
        tag: u16,
        request: &Request<'_>,
        payload: &[u8],
    ) -> Option<(Answer, Option<usize>)> {
        let reply = |reply: &Reply<'_>, data: Vec<u8>| {
            let mut message = vec![0; 64];
            let len = encode_reply(tag, reply, Dialect::Linux, &mut message);
            message.truncate(len.expect("it is short"));
            message.extend(data);
            Answer::There(message)
        };
        match *request {
            Request::Read { offset, count, .. } if offset >= MADE_UP => {
                let left = MADE_UP_LEN.saturating_sub(offset % MADE_UP);
                let len = left.min(count.into()) as usize;
                let data = (offset..).take(len).map(content).collect();
                let mut reads = lock(&self.ground.reads);
                reads.push(Read {
                    offset,
                    count: count as usize,
                    data: None,
                });
                let read = reads.len() - 1;
                let data_len = Payload { len };
                Some((reply(&Reply::Read { data: data_len }, data), Some(read)))
            }
            Request::Write { offset, .. } if offset >= MADE_UP => {
                let is_it = (offset..)
                    .zip(payload)
                    .all(|(at, byte)| content(at) == *byte);
                assert!(is_it, "other bytes are written at {offset}");
                let count = payload.len() as u32;
                Some((reply(&Reply::Write { count }, Vec::new()), None))
            }
            _ => None,
        }
    }

    /// The places of those that can be answered now.
    fn ready(&mut self) -> Vec<usize> {
        for asked in &mut self.asked {
            if let Answer::Owed(ticket) = &asked.answer
                && let Some(reply) = ticket.poll()
            {
                asked.answer = Answer::There(reply);
            }
        }
        let asked = self.asked.iter().enumerate();
        asked
            .filter(|(_, asked)| matches!(asked.answer, Answer::There(_)))
            .map(|(at, _)| at)
            .collect()
    }

    /// The answer to the `nth` of the requests that have one.
    fn answer(&mut self, nth: u8) -> Option<Vec<u8>> {
        let ready = self.ready();
        let at = *ready.get(usize::from(nth) % ready.len().max(1))?;
        let asked = self.asked.get_mut(at)?;
        match std::mem::replace(&mut asked.answer, Answer::Given) {
            Answer::There(reply) => Some(reply),
            other => {
                asked.answer = other;
                None
            }
        }
    }

    fn next_step(&mut self) -> Step {
        let setup = self.ground.setup;
        if setup.begins_well && self.answers < 2 {
            return Step::HONEST;
        }
        self.ground.step().unwrap_or(match setup.ending {
            Ending::Honest => Step::HONEST,
            Ending::Silent => Step::SILENT,
            Ending::Closed => Step::CLOSED,
        })
    }

    /// Does something; whether there is something to receive now. False at the end of
    /// the stream.
    fn act(&mut self) -> io::Result<bool> {
        while self.out.is_empty() {
            if self.is_closed {
                return Ok(false);
            }
            if self.silent > 0 {
                self.silent -= 1;
                return self.idle();
            }
            let Step { what, a, b } = self.next_step();
            let message = match what {
                What::Nothing => {
                    self.silent = a % 4;
                    return self.idle();
                }
                What::Closed if a & 1 == 1 => return Err(ErrorKind::ConnectionReset.into()),
                What::Closed => {
                    self.is_closed = true;
                    continue;
                }
                What::Pieces => {
                    self.pieces = (usize::from(a) + 1, b);
                    continue;
                }
                What::Intake => {
                    self.intake = (usize::from(a), b);
                    continue;
                }
                What::Ended => {
                    self.has_ended = a & 1 == 1;
                    continue;
                }
                What::Raw => lock(&self.ground.script).raw(a),
                What::Honest | What::Tampered(_) => {
                    let nth = if what == What::Honest { a } else { 0 };
                    let Some(answer) = self.answer(nth) else {
                        return self.idle();
                    };
                    match what {
                        What::Tampered(how) => how.of(answer, a, b, self.ground.setup.dialect),
                        _ => answer,
                    }
                }
            };
            self.answers += 1;
            self.out.extend(message);
        }
        Ok(true)
    }

    /// Nothing comes.
    fn idle(&mut self) -> io::Result<bool> {
        let (since, polls) = self.idle.get_or_insert_with(|| (Instant::now(), 0));
        *polls += 1;
        let (idle, polls) = (since.elapsed(), *polls);
        let mut waiting = self.asked.iter().filter(|asked| !asked.is_answered);
        if waiting.any(|asked| asked.waits_for_lock) && idle > LOCK_PATIENCE {
            self.is_closed = true;
            return Ok(false);
        }
        let is_hanging = idle > IDLE_LIMIT && polls > IDLE_POLLS;
        assert!(!is_hanging, "the client waits for ever");
        Err(ErrorKind::WouldBlock.into())
    }

    /// The client has got these bytes.
    fn tell(&mut self, bytes: &[u8]) {
        self.told.extend(bytes);
        while let Ok(header) = Header::peek(&self.told) {
            let size = header.size as usize;
            if size < HEADER_LEN || self.told.len() < size {
                return;
            }
            let rest = self.told.split_off(size);
            let message = std::mem::replace(&mut self.told, rest);
            self.is_told(&header, &message);
        }
    }

    fn is_told(&mut self, header: &Header, message: &[u8]) {
        let asked = self.asked.iter_mut();
        let mut asked = asked.filter(|asked| asked.tag == header.tag && !asked.is_answered);
        let Some(asked) = asked.next() else {
            return;
        };
        asked.is_answered = true;
        if let Some(at) = asked.read {
            let mut reads = lock(&self.ground.reads);
            if let Some(read) = reads.get_mut(at) {
                read.data = believable(header, message, read.count);
            }
        }
        if let Some(oldtag) = asked.oldtag {
            let flushed = self.asked.iter_mut().filter(|asked| asked.tag == oldtag);
            flushed.for_each(|asked| asked.is_answered = true);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.take() {
            peer.end();
        }
    }
}

/// The data of an Rread to a read of `count` bytes, if that is what it is.
fn believable(header: &Header, message: &[u8], count: usize) -> Option<Vec<u8>> {
    let (prefix, payload) = message.split_at(header.prefix_len());
    let decoded = decode_reply(prefix, payload.len(), Dialect::Linux).ok()?;
    match decoded.result {
        Ok(Reply::Read { .. }) if payload.len() <= count => Some(payload.to_vec()),
        _ => None,
    }
}

/// How an answer is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tampering {
    Byte,
    Longer,
    FalseSize,
    Twice,
    Refusal,
    OtherTag,
    /// Another kind, and what would follow it.
    Kind,
}

impl Tampering {
    fn of(self, mut message: Vec<u8>, a: u8, b: u8, dialect: Dialect) -> Vec<u8> {
        match self {
            Tampering::Byte => {
                let at = usize::from(a) % message.len().max(1);
                if let Some(byte) = message.get_mut(at) {
                    *byte ^= b.max(1);
                }
            }
            Tampering::Longer => grow(&mut message, a, b),
            Tampering::FalseSize => {
                let false_size = (message.len() as u32).wrapping_add_signed(i32::from(b as i8));
                put(&mut message, 0, &false_size.to_le_bytes());
            }
            Tampering::Twice => message.extend_from_within(..),
            Tampering::Refusal => return refusal(&message, a, b, dialect),
            Tampering::OtherTag => put(&mut message, 5, &[a, b]),
            Tampering::Kind => put(&mut message, 4, &[a]),
        }
        message
    }
}

/// Makes a message longer or shorter, also for what counts its bytes.
fn grow(message: &mut Vec<u8>, a: u8, b: u8) {
    let header = Header::peek(message).ok();
    let change = i32::from(b as i8) * if a & 1 == 1 { 97 } else { 1 };
    let len = message.len().saturating_add_signed(change as isize);
    message.resize(len.max(HEADER_LEN), b);
    let size = (message.len() as u32).to_le_bytes();
    put(message, 0, &size);
    if header.is_some_and(|header| header.prefix_len() == REPLY_PAYLOAD_AT) {
        let count = message.len().saturating_sub(REPLY_PAYLOAD_AT) as u32;
        put(message, HEADER_LEN, &count.to_le_bytes());
    }
}

fn put(message: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(field) = message.get_mut(at..at + bytes.len()) {
        field.copy_from_slice(bytes);
    }
}

fn refusal(message: &[u8], a: u8, b: u8, dialect: Dialect) -> Vec<u8> {
    let tag = Header::peek(message).map_or(NOTAG, |header| header.tag);
    let text = [b; 40];
    let failure = Failure {
        ename: Str(text.get(..usize::from(b % 40)).unwrap_or_default()),
        errno: a.into(),
    };
    let mut out = vec![0; 128];
    let len = encode_failure(tag, &failure, dialect, &mut out);
    out.truncate(len.expect("it is short"));
    out
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl Transport for Line {
    fn set_patience(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn receive(&self, bufs: &mut [IoSliceMut<'_>], _: bool) -> io::Result<usize> {
        let mut state = self.lock();
        let room: usize = bufs.iter().map(|buf| buf.len()).sum();
        let most = state.ground.setup.msize as usize + ROOM_MAX;
        assert!((1..=most).contains(&room), "room for {room} bytes");
        if !state.act()? {
            return Ok(0);
        }
        state.idle = None;
        let most = match &mut state.pieces {
            (_, 0) => usize::MAX,
            (len, times) => {
                *times -= 1;
                *len
            }
        };
        let count = room.min(most).min(state.out.len());
        let bytes: Vec<u8> = state.out.drain(..count).collect();
        let mut rest = &bytes[..];
        for buf in bufs {
            let (now, later) = rest.split_at(rest.len().min(buf.len()));
            buf[..now.len()].copy_from_slice(now);
            rest = later;
        }
        state.tell(&bytes);
        Ok(count)
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.lock();
        assert!(bufs.iter().any(|buf| !buf.is_empty()), "nothing to send");
        if state.is_closed {
            return Err(Errno::EPIPE.into());
        }
        let most = match &mut state.intake {
            (_, 0) => usize::MAX,
            (len, times) => {
                *times -= 1;
                *len
            }
        };
        if most == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        state.idle = None;
        let bytes: Vec<u8> = bufs
            .iter()
            .flat_map(|buf| buf.iter().copied())
            .take(most)
            .collect();
        state.take_in(&bytes);
        Ok(bytes.len())
    }

    fn wait_to_send(&self, or_receive: bool, _: Duration) -> io::Result<bool> {
        Ok(or_receive && !self.lock().out.is_empty())
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    fn close(&self) {
        self.lock().is_closed = true;
    }
}
