//! The device's side of one split ring, without locks, threads or file descriptors.

use super::layout::*;
use crate::memory::{GuestMemory, OutOfRange, Window};
use std::sync::atomic::{Ordering, fence};

/// Where and how large a ring is, in user addresses (`VHOST_USER_SET_VRING_ADDR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    /// Descriptors: a power of two, 1 to [`MAX_QUEUE_SIZE`].
    pub size: u16,
    /// User address of the descriptor table.
    pub descriptors: u64,
    /// User address of the available ring.
    pub available: u64,
    /// User address of the used ring.
    pub used: u64,
}

/// What a ring may not do. Nothing on such a ring can be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Not a power of two, zero, or too large.
    #[error("queue size {0} is not a power of two from 1 to {MAX_QUEUE_SIZE}")]
    BadSize(u32),
    /// A part of the ring is not (in one piece) in guest memory.
    #[error("ring outside of guest memory: {0}")]
    OutOfRange(#[from] OutOfRange),
    /// A part of the ring is not aligned as section 2.7 requires.
    #[error("ring address {0:#x} is not aligned")]
    Unaligned(u64),
    /// `avail.idx` ran backwards or by more than the queue's size.
    #[error("available index jumped from {seen} to {now}")]
    IndexJump {
        /// What the device has taken so far.
        seen: u16,
        /// What the ring says.
        now: u16,
    },
    /// A head that is no descriptor's index.
    #[error("head {0} is not in the descriptor table")]
    BadHead(u16),
    /// More chains are in flight than the ring has descriptors.
    #[error("more chains in flight than the ring has descriptors")]
    Overrun,
    /// A memory file shrank under its mapping.
    #[error("guest memory was taken away")]
    MemoryLost,
    /// The device gave a chain back with [`Chain::break_ring`](super::Chain::break_ring).
    #[error("{0}")]
    Refused(&'static str),
}

/// The device's side of a split ring.
#[derive(Debug)]
pub(crate) struct SplitQueue {
    layout: RingLayout,
    parts: Parts,
    event_idx: bool,
    next_avail: u16,
    next_used: u16,
    /// Used index at the last decision whether to signal; `None` before the first.
    signal_decided_at: Option<u16>,
    /// Whether something was published since then.
    undecided: bool,
}

impl SplitQueue {
    /// A ring that goes on at `next_avail` of the available ring and at whatever the
    /// used ring's index says.
    pub(crate) fn new(
        layout: RingLayout,
        memory: &GuestMemory,
        next_avail: u16,
        event_idx: bool,
    ) -> Result<Self, RingError> {
        let parts = Parts::find(&layout, memory)?;
        Ok(SplitQueue {
            next_used: parts.used.load_le16(RING_IDX, Ordering::Acquire),
            layout,
            parts,
            event_idx,
            next_avail,
            signal_decided_at: None,
            undecided: false,
        })
    }

    /// Follows a change of the memory table.
    pub(crate) fn relocate(&mut self, memory: &GuestMemory) -> Result<(), RingError> {
        self.parts = Parts::find(&self.layout, memory)?;
        Ok(())
    }

    pub(crate) fn size(&self) -> u16 {
        self.layout.size
    }

    pub(crate) fn next_avail(&self) -> u16 {
        self.next_avail
    }

    pub(crate) fn set_next_avail(&mut self, index: u16) {
        self.next_avail = index;
    }

    pub(crate) fn next_used(&self) -> u16 {
        self.next_used
    }

    /// How many chains wait.
    pub(crate) fn pending(&self) -> Result<u16, RingError> {
        // Acquire: what the driver wrote before it moved the index is visible.
        let now = self.parts.avail.load_le16(RING_IDX, Ordering::Acquire);
        let pending = now.wrapping_sub(self.next_avail);
        if pending > self.layout.size {
            let seen = self.next_avail;
            return Err(RingError::IndexJump { seen, now });
        }
        Ok(pending)
    }

    /// Takes the next head from the available ring.
    pub(crate) fn take_head(&mut self) -> Result<Option<u16>, RingError> {
        if self.pending()? == 0 {
            return Ok(None);
        }
        let slot = self.next_avail & (self.layout.size - 1);
        let offset = avail_element_offset(slot);
        let head = self.parts.avail.load_le16(offset, Ordering::Relaxed);
        if head >= self.layout.size {
            return Err(RingError::BadHead(head));
        }
        self.next_avail = self.next_avail.wrapping_add(1);
        Ok(Some(head))
    }

    /// The descriptor at `index` of the table.
    pub(crate) fn descriptor(&self, index: u16) -> Option<Descriptor> {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let offset = usize::from(index) * DESCRIPTOR_BYTES;
        self.parts
            .descriptors
            .read(offset, &mut bytes)
            .then(|| Descriptor::from_bytes(bytes))
    }

    /// Puts a chain on the used ring and publishes it.
    pub(crate) fn push_used(&mut self, head: u16, len: u32) {
        let slot = self.next_used & (self.layout.size - 1);
        let [h0, h1] = head.to_le_bytes();
        let [l0, l1, l2, l3] = len.to_le_bytes();
        let element = [h0, h1, 0, 0, l0, l1, l2, l3];
        self.parts.used.write(used_element_offset(slot), &element);
        self.next_used = self.next_used.wrapping_add(1);
        self.undecided = true;
        // Release: reply and element are visible before the index that covers them.
        self.parts
            .used
            .store_le16(RING_IDX, self.next_used, Ordering::Release);
    }

    /// Whether the driver wants a signal for what was published since the last time
    /// this was asked (sections 2.7.7 and 2.7.8).
    pub(crate) fn wants_signal(&mut self) -> bool {
        if !std::mem::take(&mut self.undecided) {
            return false;
        }
        let new = self.next_used;
        let old = self.signal_decided_at.replace(new);
        // The driver stores its wish and then looks at the used index; we store the
        // index and then look at its wish. One of the two must see the other.
        fence(Ordering::SeqCst);
        let avail = &self.parts.avail;
        if !self.event_idx {
            let flags = avail.load_le16(RING_FLAGS, Ordering::Relaxed);
            return flags & AVAIL_NO_INTERRUPT == 0;
        }
        let event = avail.load_le16(used_event_offset(self.layout.size), Ordering::Relaxed);
        old.is_none_or(|old| passed_event(event, new, old))
    }

    /// Asks for a kick with the next chain. True if chains came meanwhile: then the
    /// driver may not have seen the wish, and nobody should sleep.
    pub(crate) fn enable_kicks(&mut self) -> Result<bool, RingError> {
        let used = &self.parts.used;
        if self.event_idx {
            let offset = avail_event_offset(self.layout.size);
            used.store_le16(offset, self.next_avail, Ordering::Relaxed);
        } else {
            // Whoever served the ring before may have left the flag.
            used.store_le16(RING_FLAGS, 0, Ordering::Relaxed);
        }
        // As in `wants_signal`, the other way round.
        fence(Ordering::SeqCst);
        Ok(self.pending()? > 0)
    }

    /// Asks for no kicks while chains are being taken anyway. With EVENT_IDX nothing
    /// is to be done: the driver kicks once per `avail_event`.
    pub(crate) fn disable_kicks(&mut self) {
        if !self.event_idx {
            let used = &self.parts.used;
            used.store_le16(RING_FLAGS, USED_NO_NOTIFY, Ordering::Relaxed);
        }
    }

    /// Whether memory that the ring itself lies in was taken away.
    pub(crate) fn is_poisoned(&self) -> bool {
        let Parts {
            descriptors,
            avail,
            used,
        } = &self.parts;
        [descriptors, avail, used].iter().any(|w| w.is_poisoned())
    }
}

/// The ring's three parts, mapped.
#[derive(Debug)]
struct Parts {
    descriptors: Window,
    avail: Window,
    used: Window,
}

impl Parts {
    fn find(layout: &RingLayout, memory: &GuestMemory) -> Result<Parts, RingError> {
        let size = layout.size;
        if !size.is_power_of_two() || size > MAX_QUEUE_SIZE {
            return Err(RingError::BadSize(size.into()));
        }
        let part = |addr: u64, len: usize, align: usize| {
            let window = memory.window_at_user(addr, len)?;
            if window.is_aligned(align) {
                Ok(window)
            } else {
                Err(RingError::Unaligned(addr))
            }
        };
        Ok(Parts {
            descriptors: part(layout.descriptors, descriptor_table_bytes(size), 16)?,
            avail: part(layout.available, avail_bytes(size), 2)?,
            used: part(layout.used, used_bytes(size), 4)?,
        })
    }
}
