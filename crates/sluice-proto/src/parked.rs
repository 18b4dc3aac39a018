//! Lock requests that wait.
//!
//! A request is registered before the service is asked to wait, so that a
//! grant can't overtake it; it is answered by whoever takes it out: the
//! service's event, the caller that learns it needn't wait, or the end of the
//! session.

use sluice_vfs::{Errno, WaitId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Answers a request that waited.
pub(crate) type Answer = Box<dyn FnOnce(Result<(), Errno>) + Send>;

/// Most lock requests of one session that wait at a time; the next gets
/// `ENOLCK`. On a virtqueue each holds a slot of the ring (128 with QEMU's
/// default), and nothing can take it back.
pub const PARKED_MAX: usize = 32;

/// Interruptions that came before the request they are about, and are kept.
const EARLY_MAX: usize = 16;

/// The waiting requests of one session.
#[derive(Default)]
pub(crate) struct ParkedLocks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    next_wait: u64,
    early: [Option<u64>; EARLY_MAX],
    early_next: usize,
    is_closed: bool,
}

struct Waiting {
    wait: WaitId,
    unique: u64,
    is_interrupted: bool,
    answer: Answer,
}

impl ParkedLocks {
    /// Whether another request may wait: `ENOLCK` beyond [`PARKED_MAX`].
    pub(crate) fn check_room(&self) -> Result<(), Errno> {
        self.state().check_room()
    }

    /// Registers the request named `unique`. If it can't wait after all it is answered here.
    pub(crate) fn park(&self, unique: u64, answer: Answer) -> Option<WaitId> {
        let mut state = self.state();
        if let Err(error) = state.check_room() {
            drop(state);
            answer(Err(error));
            return None;
        }
        let wait = WaitId(state.next_wait);
        state.next_wait += 1;
        let is_interrupted = state.early.contains(&Some(unique));
        state.waiting.push(Waiting {
            wait,
            unique,
            is_interrupted,
            answer,
        });
        Some(wait)
    }

    /// Answers a request, unless someone else did.
    pub(crate) fn settle(&self, wait: WaitId, result: Result<(), Errno>) {
        let mut state = self.state();
        let Some(index) = state
            .waiting
            .iter()
            .position(|waiting| waiting.wait == wait)
        else {
            return;
        };
        let waiting = state.waiting.swap_remove(index);
        drop(state);
        (waiting.answer)(result);
    }

    /// Notes that the peer takes `unique` back. Returns the wait to cancel, if
    /// it waits already.
    pub(crate) fn interrupt(&self, unique: u64) -> Option<WaitId> {
        let mut state = self.state();
        let found = state
            .waiting
            .iter_mut()
            .find(|waiting| waiting.unique == unique);
        if let Some(waiting) = found {
            waiting.is_interrupted = true;
            return Some(waiting.wait);
        }
        let slot = state.early_next % EARLY_MAX;
        state.early_next = slot + 1;
        if let Some(early) = state.early.get_mut(slot) {
            *early = Some(unique);
        }
        None
    }

    /// Whether `wait` still waits although it was taken back before the
    /// service knew of it.
    pub(crate) fn is_interrupted(&self, wait: WaitId) -> bool {
        self.state()
            .waiting
            .iter()
            .any(|waiting| waiting.wait == wait && waiting.is_interrupted)
    }

    /// Answers all with `ENOTCONN` and takes no more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for waiting in waiting {
            (waiting.answer)(Err(Errno::ENOTCONN));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check_room(&self) -> Result<(), Errno> {
        if self.is_closed {
            return Err(Errno::ENOTCONN);
        }
        if self.waiting.len() >= PARKED_MAX {
            return Err(Errno::ENOLCK);
        }
        Ok(())
    }
}
