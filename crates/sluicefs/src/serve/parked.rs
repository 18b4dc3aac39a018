//! Chains whose answer has to wait: lock requests.
//!
//! Each holds its descriptors on a ring, and a ring can only stop when none is
//! in flight. So they are known here, by queue.

use super::exchange::answer;
use sluice_proto::fuse::serve::Parked;
use sluice_proto::fuse::wire::OutHeader;
use sluice_vfs::Errno;
use sluice_virtio::queue::Chain;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The waiting chains of a connection. How many there may be is the FUSE
/// server's limit.
#[derive(Default)]
pub(super) struct ParkedChains(Mutex<Vec<Arc<Slot>>>);

struct Slot {
    unique: u64,
    queue: u16,
    /// `None` once answered.
    chain: Mutex<Option<Chain>>,
}

impl ParkedChains {
    /// Keeps `chain` until its reply is known or its ring stops.
    pub(super) fn park(self: &Arc<Self>, chain: Chain, unique: u64) -> Box<dyn Parked> {
        let slot = Arc::new(Slot {
            unique,
            queue: chain.queue(),
            chain: Mutex::new(Some(chain)),
        });
        self.slots().push(Arc::clone(&slot));
        Box::new(ParkedReply {
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
            slot.answer(OutHeader::failure(slot.unique, Errno::EINTR));
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
    /// Answers, unless somebody did.
    fn answer(&self, header: OutHeader) {
        let chain = self
            .chain
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(chain) = chain {
            answer(chain, header);
        }
    }
}

struct ParkedReply {
    parked: Arc<ParkedChains>,
    slot: Arc<Slot>,
}

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, header: OutHeader) {
        self.slot.answer(header);
    }
}

impl Drop for ParkedReply {
    /// A reply that nobody gave is an error, not an empty success.
    fn drop(&mut self) {
        self.parked.remove(&self.slot);
        self.slot
            .answer(OutHeader::failure(self.slot.unique, Errno::EIO));
    }
}
