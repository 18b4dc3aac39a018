//! One request on a ring.

use super::io::{Reader, Writer};
use super::ring::Ring;
use crate::memory::Segments;
use std::sync::Arc;

/// A descriptor chain: the buffers of one request, and the duty to answer it.
///
/// It may be kept and completed later, from any thread. A chain that is dropped is
/// completed with 0 bytes written, so that the driver gets its descriptors back;
/// drivers may take that for an empty success, so answer what needs an error.
///
/// Stopping a ring waits for its chains: see [`Device::ring_stopped`].
///
/// [`Device::ring_stopped`]: crate::vhost_user::Device::ring_stopped
#[derive(Debug)]
pub struct Chain {
    ring: Arc<Ring>,
    head: u16,
    number: u64,
    /// `None` once completed.
    segments: Option<Segments>,
}

impl Chain {
    pub(super) fn new(ring: Arc<Ring>, head: u16, number: u64, segments: Segments) -> Self {
        Chain {
            ring,
            head,
            number,
            segments: Some(segments),
        }
    }

    /// Index of the queue that the chain came from.
    pub fn queue(&self) -> u16 {
        self.ring.index()
    }

    /// Descriptors of that queue: as many chains can be in flight.
    pub fn queue_size(&self) -> u16 {
        self.ring.size()
    }

    /// How many chains were taken from the ring before this one, since it started.
    /// Several threads may take chains; this is the order in which they came.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What the driver sent.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.segments.as_ref().map(Segments::readable))
    }

    /// Room for the answer.
    pub fn writer(&self) -> Writer<'_> {
        Writer::new(self.segments.as_ref().map(Segments::writable))
    }

    /// Answers: `written` bytes, counted from the start of the writable part, hold
    /// the reply (more than there is room for counts as all of it).
    pub fn complete(mut self, written: usize) {
        self.finish(written);
    }

    /// Gives it back unused, and ends the ring: what the driver sent cannot be answered
    /// at all. The front-end is told of `why` as of a ring that is malformed.
    pub fn break_ring(self, why: &'static str) {
        self.ring.fail(why);
    }

    fn finish(&mut self, written: usize) {
        if let Some(segments) = self.segments.take() {
            let len = written.min(segments.writable().left());
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            self.ring.complete(self.head, len, segments);
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.finish(0);
    }
}
