//! A connection that any number of threads use at a time, with no thread of
//! its own.
//!
//! Whoever waits for a reply reads, if nobody else does: messages for others
//! are handed to them, and where another's payload comes, reading is handed
//! to whoever has the buffers for it. So payloads go from the socket to where
//! they are wanted, and a thread that is alone is never woken by another one.
//!
//! There is one lock, held for moments: never while anything is sent or
//! received.

mod flights;
mod reader;
mod send;

pub(crate) use flights::Flights;

use crate::error::{Error, Lost, Result};
use crate::fids::Fids;
use crate::meter::{Counts, Meter};
use crate::options::{Agreed, ConnectOptions};
use crate::requests::{Answer, Requests, Want};
use crate::transport::Transport;
use crate::version::{deadline, negotiate};
use flights::Flight;
use reader::{Reader, Step};
use sluice_proto::p9::wire::Request;
use sluice_vfs::Errno;
use std::cell::LazyCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// Most requests without an answer on a connection; more wait.
const REQUESTS_MAX: u16 = 512;

/// A connection after Tversion.
pub(crate) struct Connection {
    transport: Box<dyn Transport>,
    pub(crate) agreed: Agreed,
    pub(crate) window: usize,
    time_limit: Option<Duration>,
    /// How long one thing is waited for before the limit is looked at.
    pub(crate) tick: Duration,
    meter: Arc<Meter>,
    state: Mutex<State>,
}

struct State {
    requests: Requests<Thread>,
    fids: Fids,
    /// Where the stream stands; none while somebody reads.
    reader: Option<Reader>,
    /// The request whose payload comes next: only who has its buffers reads on.
    held_for: Option<u16>,
    is_sending: bool,
    parked: Vec<Parked>,
    lost: Option<Lost>,
}

/// A thread that waits and cannot read at the moment.
struct Parked {
    thread: Thread,
    need: Need,
}

/// What a thread waits for, besides that it could read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Reply,
    /// That nobody else sends, and there is room for so many requests.
    Send(usize),
}

impl Connection {
    /// Agrees with the server on a dialect.
    pub(crate) fn open(transport: Box<dyn Transport>, options: &ConnectOptions) -> Result<Self> {
        let tick = options.time_limit.map_or(Duration::from_secs(1), |limit| {
            (limit / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
        });
        transport.set_patience(tick).map_err(Lost::from)?;
        let agreed = negotiate(&*transport, options)?;
        Ok(Connection {
            transport,
            agreed,
            window: options.window.max(1),
            time_limit: options.time_limit,
            tick,
            meter: Arc::clone(&options.meter),
            state: Mutex::new(State {
                requests: Requests::new(
                    agreed.dialect,
                    agreed.msize,
                    REQUESTS_MAX,
                    options.zero_copy_from,
                ),
                fids: Fids::default(),
                reader: Some(Reader::default()),
                held_for: None,
                is_sending: false,
                parked: Vec::new(),
                lost: None,
            }),
        })
    }

    /// What it did so far.
    pub(crate) fn counts(&self) -> Counts {
        self.meter.counts()
    }

    /// A number for a fid.
    pub(crate) fn take_fid(&self) -> u32 {
        self.lock().fids.take()
    }

    /// The server knows this fid no more, or never did.
    pub(crate) fn give_back_fid(&self, fid: u32) {
        self.lock().fids.give_back(fid);
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&self, request: &Request<'_>) -> Result<Answer> {
        let mut flights = Flights::new(self);
        let tag = flights.send(request, Vec::new(), &[])?;
        flights.wait(tag)
    }

    /// Sends requests at once and waits for all replies. The server takes them
    /// in their order, and what one of them does to a fid the next one finds
    /// done, unless the server runs them side by side.
    pub(crate) fn call_all<const N: usize>(
        &self,
        requests: [&Request<'_>; N],
    ) -> Result<[Result<Answer>; N]> {
        let mut flights = Flights::new(self);
        let tags = flights.send_all(requests)?;
        let answers = tags.map(|tag| flights.wait(tag));
        if let Some(Err(lost)) = answers
            .iter()
            .find(|answer| matches!(answer, Err(error) if error.is_fatal()))
        {
            return Err(lost.clone());
        }
        Ok(answers)
    }

    /// Sends a request whose outcome nobody wants to know. `fid` is free once
    /// it is answered.
    pub(crate) fn post(&self, request: &Request<'_>, fid: Option<u32>) -> Result<()> {
        let want = Want::Nothing(fid);
        let mut flights = Flights::new(self);
        self.submit([(request, want)], &[], &mut flights).map(drop)
    }

    /// Asks the server to answer a request that `waiter` waits for no more, if it
    /// still does: it ends with `EINTR`, unless it was answered before.
    pub(crate) fn call_off(&self, tag: u16, waiter: ThreadId) -> Result<()> {
        Flights::new(self).call_off(tag, waiter, Errno::EINTR.into())
    }

    /// Whether nothing more can be asked for, as far as can be told now.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().lost.is_some() || self.transport.has_ended()
    }

    /// Ends it.
    pub(crate) fn close(&self) {
        self.lock().lose(Lost::Closed);
        self.transport.close();
    }

    /// Waits, reading if nobody else does, until `ready` finds what it wants. Clocks
    /// are not asked where that is so at once: some cost as much as a system call.
    fn wait_for<T>(
        &self,
        flights: &mut [Flight<'_>],
        need: Need,
        deadline: impl FnOnce() -> Option<Instant>,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T> {
        let deadline = LazyCell::new(deadline);
        let mut has_waited = false;
        let mut state = self.lock();
        loop {
            if let Some(out) = ready(&mut state) {
                state.pass_on();
                return Ok(out);
            }
            if let Some(lost) = state.lost {
                return Err(lost.into());
            }
            let is_mid_payload = state.is_held_for(flights);
            let is_over = has_waited && deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if is_over && !is_mid_payload {
                state.pass_on();
                return Err(Error::TimedOut(self.time_limit.unwrap_or_default()));
            }
            has_waited = true;
            self.meter.add_wait();
            let reader = match need {
                // From reading it is not woken when the other one is done.
                Need::Send(_) if state.is_sending && !is_mid_payload => None,
                _ => state.take_reader(flights),
            };
            match reader {
                Some(mut reader) => {
                    drop(state);
                    let step = self.read_some(&mut reader, flights);
                    state = self.lock();
                    state.put_reader_back(reader, step);
                }
                None => {
                    let thread = thread::current();
                    let id = thread.id();
                    state.parked.push(Parked { thread, need });
                    drop(state);
                    thread::park_timeout(self.tick);
                    state = self.lock();
                    state.parked.retain(|parked| parked.thread.id() != id);
                }
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        deadline(self.time_limit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The right to read, if it is free and nobody else's payload comes next.
    fn take_reader(&mut self, flights: &[Flight<'_>]) -> Option<Reader> {
        match self.held_for {
            Some(tag) if !flights.iter().any(|flight| flight.tag == tag) => None,
            _ => self.reader.take(),
        }
    }

    fn is_held_for(&self, flights: &[Flight<'_>]) -> bool {
        let held_for = |tag| flights.iter().any(|flight| flight.tag == tag);
        self.held_for.is_some_and(held_for)
    }

    fn put_reader_back(&mut self, reader: Reader, step: std::result::Result<Step, Lost>) {
        self.held_for = reader.payload_in_place();
        self.reader = Some(reader);
        match step {
            Ok(Step::Read) => {}
            Ok(Step::NotMine(tag)) => match self.requests.is_in_place(tag) {
                true => self.held_for = Some(tag),
                // It was given up meanwhile.
                false => self.held_for = None,
            },
            Err(lost) => self.lose(lost),
        }
        if self.held_for.is_some() {
            self.pass_on();
        }
    }

    /// Somebody else may have to read on.
    fn pass_on(&self) {
        if self.reader.is_none() {
            return;
        }
        match self.held_for.and_then(|tag| self.requests.owner(tag)) {
            Some(owner) => owner.unpark(),
            None => {
                // While somebody sends, whoever waits for that does not read.
                let reads = |parked: &&Parked| !self.is_sending || parked.need == Need::Reply;
                if let Some(parked) = self.parked.iter().find(reads) {
                    parked.thread.unpark();
                }
            }
        }
    }

    /// Somebody may be able to send; while another one sends, that one says so. Who
    /// needs more room than there is would not pass it on.
    fn wake_sender(&self) {
        if self.is_sending {
            return;
        }
        let can_send = |parked: &&Parked| match parked.need {
            Need::Send(count) => self.requests.has_room(count),
            Need::Reply => false,
        };
        if let Some(parked) = self.parked.iter().find(can_send) {
            parked.thread.unpark();
        }
    }

    /// The end of everything.
    fn lose(&mut self, lost: Lost) {
        self.lost.get_or_insert(lost);
        for owner in self.requests.owners() {
            owner.unpark();
        }
        for parked in &self.parked {
            parked.thread.unpark();
        }
    }

    /// A message is complete.
    fn finish(&mut self, tag: u16, message: &[u8], payload_len: usize, data: Vec<u8>) {
        let (owner, fid) = self.requests.finish(tag, message, payload_len, data);
        if let Some(fid) = fid {
            self.fids.give_back(fid);
        }
        if let Some(owner) = owner.filter(|owner| owner.id() != thread::current().id()) {
            owner.unpark();
        }
        self.wake_sender();
    }
}

#[cfg(test)]
pub(crate) mod tests;
