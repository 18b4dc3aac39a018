//! The record of chains in flight that a front-end keeps for us, so that a back-end
//! which starts anew neither loses nor repeats one (vhost-user specification,
//! "Inflight I/O tracking", split virtqueue).
//!
//! All fields are in native byte order. Order of stores matters, as this process may
//! end between any two.

use super::split::RingError;
use crate::memory::Window;
use std::sync::atomic::{Ordering, compiler_fence};

/// Why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflightError {
    /// Neither empty nor of the one version there is.
    #[error("in-flight record has version {0}")]
    Version(u16),
    /// For a queue of another size.
    #[error("in-flight record is for {0} descriptors")]
    Size(u16),
}

/// Bytes of the record of one queue.
pub(crate) const fn record_bytes(queue_size: u16) -> usize {
    (HEADER_BYTES + queue_size as usize * STATE_BYTES).next_multiple_of(64)
}

/// The record of one queue, and what it says was in flight when it was opened.
#[derive(Debug)]
pub(crate) struct InflightRecord {
    window: Window,
    size: u16,
    counter: u64,
}

// `QueueRegionSplit`: features u64, version u16, desc_num u16, last_batch_head u16,
// used_idx u16, desc[]
const HEADER_BYTES: usize = 16;
const VERSION: usize = 8;
const DESC_NUM: usize = 10;
const LAST_BATCH_HEAD: usize = 12;
const USED_IDX: usize = 14;
// `DescStateSplit`: inflight u8, padding, next u16, counter u64
const STATE_BYTES: usize = 16;
const INFLIGHT: usize = 0;
const NEXT: usize = 6;
const COUNTER: usize = 8;

const CURRENT_VERSION: u16 = 1;

impl InflightRecord {
    /// Opens the record of a queue whose used index is `used_idx`; an empty one is
    /// filled in. Also returns the heads in flight, oldest first.
    pub(crate) fn open(
        window: Window,
        size: u16,
        used_idx: u16,
    ) -> Result<(Self, Vec<u16>), InflightError> {
        let mut record = InflightRecord {
            window,
            size,
            counter: 0,
        };
        match record.get_u16(VERSION) {
            0 => record.fill_in(used_idx),
            CURRENT_VERSION => record.settle_last_batch(used_idx),
            other => return Err(InflightError::Version(other)),
        }
        match record.get_u16(DESC_NUM) {
            num if num == size => {}
            num => return Err(InflightError::Size(num)),
        }
        let mut heads: Vec<(u64, u16)> = (0..size)
            .filter(|head| record.is_inflight(*head))
            .map(|head| (record.get_u64(state_offset(head) + COUNTER), head))
            .collect();
        heads.sort_unstable();
        record.counter = heads.last().map_or(0, |(last, _)| last.wrapping_add(1));
        Ok((record, heads.into_iter().map(|(_, head)| head).collect()))
    }

    /// A chain was taken from the available ring.
    pub(crate) fn begin(&mut self, head: u16) {
        let state = state_offset(head);
        self.put(state + COUNTER, &self.counter.to_ne_bytes());
        self.counter = self.counter.wrapping_add(1);
        self.put(state + INFLIGHT, &[1]);
    }

    /// A chain is about to be published on the used ring.
    pub(crate) fn finishing(&mut self, head: u16) {
        let last = self.get_u16(LAST_BATCH_HEAD);
        self.put(state_offset(head) + NEXT, &last.to_ne_bytes());
        self.put(LAST_BATCH_HEAD, &head.to_ne_bytes());
    }

    /// The used index, now `used_idx`, covers that chain.
    pub(crate) fn finished(&mut self, head: u16, used_idx: u16) {
        self.put(state_offset(head) + INFLIGHT, &[0]);
        self.put(USED_IDX, &used_idx.to_ne_bytes());
    }

    /// An error if the record's memory was taken away.
    pub(crate) fn check(&self) -> Result<(), RingError> {
        match self.window.is_poisoned() {
            true => Err(RingError::MemoryLost),
            false => Ok(()),
        }
    }

    fn fill_in(&mut self, used_idx: u16) {
        self.put(DESC_NUM, &self.size.to_ne_bytes());
        self.put(USED_IDX, &used_idx.to_ne_bytes());
        self.put(VERSION, &CURRENT_VERSION.to_ne_bytes());
    }

    /// Chains that reached the used ring just before the end are not in flight,
    /// whatever their states say.
    fn settle_last_batch(&mut self, used_idx: u16) {
        let batch = used_idx.wrapping_sub(self.get_u16(USED_IDX));
        let mut head = self.get_u16(LAST_BATCH_HEAD);
        for _ in 0..batch.min(self.size) {
            if head >= self.size {
                break;
            }
            self.put(state_offset(head) + INFLIGHT, &[0]);
            head = self.get_u16(state_offset(head) + NEXT);
        }
        self.put(USED_IDX, &used_idx.to_ne_bytes());
    }

    fn is_inflight(&self, head: u16) -> bool {
        let mut flag = [0];
        self.window.read(state_offset(head) + INFLIGHT, &mut flag) && flag == [1]
    }

    fn get_u16(&self, offset: usize) -> u16 {
        let mut bytes = [0; 2];
        self.window.read(offset, &mut bytes);
        u16::from_ne_bytes(bytes)
    }

    fn get_u64(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.window.read(offset, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    fn put(&self, offset: usize, bytes: &[u8]) {
        compiler_fence(Ordering::SeqCst);
        self.window.write(offset, bytes);
        compiler_fence(Ordering::SeqCst);
    }
}

fn state_offset(head: u16) -> usize {
    HEADER_BYTES + usize::from(head) * STATE_BYTES
}
