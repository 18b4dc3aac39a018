//! A running ring: what its threads and whoever completes its chains share.

use super::chain::Chain;
use super::inflight::InflightRecord;
use super::split::{RingError, SplitQueue};
use super::walk::walk_chain;
use crate::memory::{GuestMemory, Segments, Storage, lost_pages};
use crate::notify::Caller;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A ring between its start and its stop.
#[derive(Debug)]
pub(crate) struct Ring {
    index: u16,
    size: u16,
    indirect: bool,
    state: Mutex<State>,
    /// Signalled when the last chain in flight is completed while somebody drains.
    drained: Condvar,
}

#[derive(Debug)]
struct State {
    queue: SplitQueue,
    memory: Arc<GuestMemory>,
    lost_pages_seen: usize,
    record: Option<InflightRecord>,
    /// Heads that were in flight when an earlier back-end ended.
    resubmit: VecDeque<u16>,
    /// Lists of completed chains, for the next ones; at most as many as were ever
    /// in flight at once.
    spare: Vec<Storage>,
    in_flight: usize,
    /// Chains that were taken.
    taken: u64,
    /// Why no more are.
    broken: Option<&'static str>,
    draining: bool,
    call: Option<Arc<Caller>>,
    warned: bool,
}

/// What was found for a chain.
struct Taken {
    head: u16,
    number: u64,
    segments: Segments,
}

impl Ring {
    pub(crate) fn new(
        index: u16,
        indirect: bool,
        queue: SplitQueue,
        memory: Arc<GuestMemory>,
        call: Option<Arc<Caller>>,
    ) -> Self {
        Ring {
            index,
            size: queue.size(),
            indirect,
            drained: Condvar::new(),
            state: Mutex::new(State {
                queue,
                lost_pages_seen: 0,
                memory,
                record: None,
                resubmit: VecDeque::new(),
                spare: Vec::new(),
                in_flight: 0,
                taken: 0,
                broken: None,
                draining: false,
                call,
                warned: false,
            }),
        }
    }

    /// Keeps `record` from now on, and begins with the chains it has in flight. They
    /// were taken from the available ring, so the ring goes on behind them.
    pub(crate) fn track(&self, record: InflightRecord, heads: Vec<u16>) {
        let mut state = self.lock();
        let taken = u16::try_from(heads.len()).unwrap_or(u16::MAX);
        let next = state.queue.next_used().wrapping_add(taken);
        state.queue.set_next_avail(next);
        state.record = Some(record);
        state.resubmit = heads.into();
    }

    /// Index of the queue.
    pub(crate) fn index(&self) -> u16 {
        self.index
    }

    /// Number of its descriptors.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Takes the next chain. Malformed ones are returned to the driver unused.
    pub(crate) fn pop(self: &Arc<Self>) -> Result<Option<Chain>, RingError> {
        let mut state = self.lock();
        let outcome = state.pop(self.indirect);
        let intact = state.check_memory();
        let due = state.signal_due();
        drop(state);
        signal(due);
        let chain = outcome.map(|found| {
            let taken = found?;
            let (head, number) = (taken.head, taken.number);
            Some(Chain::new(self.clone(), head, number, taken.segments))
        });
        // What came from memory that is gone is not the driver's word, error or not.
        intact.and(chain)
    }

    /// Publishes a chain as used with `len` bytes written. `segments` is the chain's
    /// list of buffers.
    pub(super) fn complete(&self, head: u16, len: u32, segments: Segments) {
        let mut state = self.lock();
        state.push_used(head, len);
        state.spare.push(segments.into_storage());
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.draining && state.in_flight == 0 {
            self.drained.notify_all();
        }
        let due = state.signal_due();
        drop(state);
        signal(due);
    }

    /// Takes no more chains: who asks for them gets an error.
    pub(super) fn fail(&self, why: &'static str) {
        self.lock().broken.get_or_insert(why);
    }

    /// Asks the driver for a kick; true if chains wait already.
    pub(crate) fn enable_kicks(&self) -> Result<bool, RingError> {
        let mut state = self.lock();
        let waiting = state.queue.enable_kicks();
        state.check_memory()?;
        Ok(waiting? || !state.resubmit.is_empty())
    }

    /// The driver need not kick. For who asked for kicks and is awake again: another
    /// thread that takes chains meanwhile must leave that wish to be.
    pub(crate) fn disable_kicks(&self) {
        self.lock().queue.disable_kicks();
    }

    /// Exchanges the descriptor that signals, and signals it once: what was published
    /// before may have gone to the old one.
    pub(crate) fn set_call(&self, call: Option<Arc<Caller>>) {
        self.lock().call.clone_from(&call);
        signal(call);
    }

    /// Follows a change of the memory table. Chains in flight keep theirs.
    pub(crate) fn set_memory(&self, memory: Arc<GuestMemory>) -> Result<(), RingError> {
        let mut state = self.lock();
        state.queue.relocate(&memory)?;
        state.memory = memory;
        state.lost_pages_seen = 0;
        Ok(())
    }

    /// Waits until no chain is in flight.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        while state.in_flight > 0 {
            state = self
                .drained
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.draining = false;
    }

    /// Where the ring would go on: the index of the next chain to take.
    pub(crate) fn next_avail(&self) -> u16 {
        self.lock().queue.next_avail()
    }

    /// Index of the used ring that comes next.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn next_used(&self) -> u16 {
        self.lock().queue.next_used()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self, indirect: bool) -> Result<Option<Taken>, RingError> {
        if let Some(why) = self.broken {
            return Err(RingError::Refused(why));
        }
        while let Some(head) = self.take_head()? {
            let storage = self.spare.pop().unwrap_or_default();
            let mut segments = Segments::new(self.memory.clone(), storage);
            match walk_chain(&self.queue, &self.memory, head, indirect, &mut segments) {
                Ok(()) => {
                    self.in_flight += 1;
                    let number = self.taken;
                    self.taken += 1;
                    return Ok(Some(Taken {
                        head,
                        number,
                        segments,
                    }));
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.warned, true) {
                        tracing::warn!(%error, head, "malformed chain returned unused");
                    }
                    self.spare.push(segments.into_storage());
                    self.push_used(head, 0);
                }
            }
        }
        Ok(None)
    }

    fn take_head(&mut self) -> Result<Option<u16>, RingError> {
        if let Some(head) = self.resubmit.pop_front() {
            return Ok(Some(head));
        }
        let Some(head) = self.queue.take_head()? else {
            return Ok(None);
        };
        if self.in_flight >= usize::from(self.queue.size()) {
            return Err(RingError::Overrun);
        }
        if let Some(record) = &mut self.record {
            record.begin(head);
        }
        Ok(Some(head))
    }

    fn push_used(&mut self, head: u16, len: u32) {
        if let Some(record) = &mut self.record {
            record.finishing(head);
        }
        self.queue.push_used(head, len);
        if let Some(record) = &mut self.record {
            record.finished(head, self.queue.next_used());
        }
    }

    /// Costs one load while no page of anybody's memory was lost.
    fn check_memory(&mut self) -> Result<(), RingError> {
        let lost = lost_pages();
        if lost == self.lost_pages_seen {
            return Ok(());
        }
        if self.memory.is_poisoned() || self.queue.is_poisoned() {
            return Err(RingError::MemoryLost);
        }
        if let Some(record) = &self.record {
            record.check()?;
        }
        self.lost_pages_seen = lost;
        Ok(())
    }

    /// The descriptor to signal now, if there is something the driver wants to know.
    fn signal_due(&mut self) -> Option<Arc<Caller>> {
        self.queue.wants_signal().then(|| self.call.clone())?
    }
}

/// Signals outside of every lock: the descriptor is the peer's.
fn signal(call: Option<Arc<Caller>>) {
    if let Some(caller) = call {
        caller.signal();
    }
}
