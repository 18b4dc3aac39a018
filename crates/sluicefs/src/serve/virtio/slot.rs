//! Chains whose answer has to wait: lock requests.
//!
//! Each holds its descriptors on a ring, and a ring can only stop when none is
//! in flight. So they are known here, by queue.

use sluice_vfs::Errno;
use sluice_virtio::queue::Chain;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The reply that tells of an error.
pub(super) type ErrorReply = Box<dyn Fn(Errno) -> Vec<u8> + Send + Sync>;

/// The waiting chains of a connection. How many there may be is the protocol
/// server's limit.
#[derive(Default)]
pub(super) struct ParkedChains(Mutex<Vec<Arc<Slot>>>);

struct Slot {
    /// Names the request among those of its connection.
    unique: u64,
    queue: u16,
    failure: ErrorReply,
    /// `None` once answered.
    chain: Mutex<Option<Chain>>,
}

impl ParkedChains {
    /// Keeps `chain` until its reply is known or its ring stops.
    pub(super) fn park(
        self: &Arc<Self>,
        chain: Chain,
        unique: u64,
        failure: ErrorReply,
    ) -> Box<ParkedChain> {
        let slot = Arc::new(Slot {
            unique,
            queue: chain.queue(),
            failure,
            chain: Mutex::new(Some(chain)),
        });
        self.slots().push(Arc::clone(&slot));
        Box::new(ParkedChain {
            parked: Arc::clone(self),
            slot,
        })
    }

    /// The requests that wait on a queue.
    pub(super) fn waiting_on(&self, queue: u16) -> Vec<u64> {
        let slots = self.slots();
        let on_queue = slots.iter().filter(|slot| slot.queue == queue);
        on_queue.map(|slot| slot.unique).collect()
    }

    /// Answers all that wait on a queue with `EINTR`.
    pub(super) fn interrupt(&self, queue: u16) {
        let stopped: Vec<_> = {
            let mut slots = self.slots();
            slots.extract_if(.., |slot| slot.queue == queue).collect()
        };
        for slot in stopped {
            slot.fail(Errno::EINTR);
        }
    }

    fn remove(&self, slot: &Arc<Slot>) {
        self.slots().retain(|other| !Arc::ptr_eq(other, slot));
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The chain, unless somebody answered it.
    fn take(&self) -> Option<Chain> {
        let mut chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        chain.take()
    }

    fn answer(&self, message: &[u8]) {
        if let Some(chain) = self.take() {
            // Without room for the message there is no reply.
            let written = chain.writer().write_at(0, message);
            chain.complete(written.map_or(0, |()| message.len()));
        }
    }

    fn fail(&self, errno: Errno) {
        self.answer(&(self.failure)(errno));
    }
}

/// A chain that waits for its answer.
pub(super) struct ParkedChain {
    parked: Arc<ParkedChains>,
    slot: Arc<Slot>,
}

impl ParkedChain {
    /// Answers, unless somebody did.
    pub(super) fn answer(&self, message: &[u8]) {
        self.slot.answer(message);
    }

    /// Gives the chain back without an answer.
    pub(super) fn discard(&self) {
        drop(self.slot.take());
    }
}

impl Drop for ParkedChain {
    /// A reply that nobody gave is an error, not an empty success.
    fn drop(&mut self) {
        self.parked.remove(&self.slot);
        self.slot.fail(Errno::EIO);
    }
}
