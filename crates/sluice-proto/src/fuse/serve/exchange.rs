//! What a transport implements.

use crate::fuse::wire::{Notification, OutHeader};
use sluice_vfs::{Errno, ReadSink, WriteSource};

/// One request in the hands of its transport, until it is answered.
///
/// The transport has copied the header and the arguments out
/// ([`prefix_len`](crate::fuse::wire::prefix_len) says how much that is); a
/// payload stays with it and is taken through [`Exchange::source`].
///
/// A reply is put together in any order: its body goes into [`Exchange::sink`],
/// then [`Exchange::finish`] brings the header and sends both. Failing to send
/// is the transport's own affair; nobody waits to hear of it.
pub trait Exchange {
    /// The payload: every byte of the request behind the prefix.
    fn source(&mut self) -> &mut dyn WriteSource;

    /// Where the body of the reply goes: the room for the reply from its 17th
    /// byte on, behind the header.
    fn sink(&mut self) -> &mut dyn ReadSink;

    /// Sends the reply: `header`, and behind it as many bytes from the start
    /// of the sink as `header.len` counts besides its own. If the peer left no
    /// room for a header, the request ends with no reply.
    fn finish(self, header: OutHeader)
    where
        Self: Sized;

    /// Ends a request that gets no reply.
    fn discard(self)
    where
        Self: Sized;

    /// Puts the request aside, to be answered later from any thread by a
    /// header alone.
    fn park(self) -> Box<dyn Parked>
    where
        Self: Sized;
}

/// A request that waits for its answer. Dropped without one (when its
/// connection ends), the transport releases what it holds.
pub trait Parked: Send {
    /// Sends the reply, which is only a header. Must not block for long.
    fn finish(self: Box<Self>, header: OutHeader);
}

/// Takes notifications to the peer.
///
/// It is called from threads that serve requests, and sending one from there
/// can deadlock with the peer's kernel: so an implementation queues them for a
/// thread of its own, and bounds that queue.
pub trait Notifier: Send + Sync {
    /// Queues a notification.
    fn notify(&self, notification: &Notification<'_>);
}

/// An exchange that is answered by `EIO` if nothing else answers it, be it
/// that a service panics.
pub(super) struct Pending<E: Exchange> {
    exchange: Option<E>,
    unique: u64,
}

impl<E: Exchange> Pending<E> {
    /// Watches over `exchange`, whose request is named `unique`.
    pub(super) fn new(exchange: E, unique: u64) -> Self {
        Pending {
            exchange: Some(exchange),
            unique,
        }
    }

    /// The exchange itself; `None` once it was answered.
    pub(super) fn get(&mut self) -> Option<&mut E> {
        self.exchange.as_mut()
    }

    /// Answers: with the `body_len` bytes that are in the sink, or an error.
    pub(super) fn answer(mut self, result: Result<usize, Errno>) {
        if let Some(exchange) = self.exchange.take() {
            exchange.finish(header(self.unique, result));
        }
    }

    /// Ends it with no reply.
    pub(super) fn discard(mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.discard();
        }
    }

    /// Puts it aside.
    pub(super) fn park(mut self) -> Option<Box<dyn Parked>> {
        self.exchange.take().map(Exchange::park)
    }
}

impl<E: Exchange> Drop for Pending<E> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.finish(OutHeader::failure(self.unique, Errno::EIO));
        }
    }
}

/// The header for an outcome.
pub(super) fn header(unique: u64, result: Result<usize, Errno>) -> OutHeader {
    match result {
        Ok(body_len) => OutHeader::success(unique, body_len),
        Err(error) => OutHeader::failure(unique, error),
    }
}
