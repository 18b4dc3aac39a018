//! What becomes of a message.

use super::exchange::Exchange;
use super::server::Job;
use crate::p9::wire::Malformed;

/// Why a connection must be closed: an answer would not be understood, or
/// would be taken for that of another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// A message is shorter than its header or longer than it may be.
    #[error("a message of {0} bytes")]
    Size(u32),
    /// The message is not one.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The tag is that of a request under way.
    #[error("tag {0} is in use")]
    Tag(u16),
    /// Something comes before Tversion.
    #[error("a message of type {0} before a version is agreed on")]
    NoVersion(u8),
    /// The connection was closed at this end.
    #[error("the connection is closed")]
    Closed,
}

/// A message that cannot be admitted.
pub struct Refused<E> {
    /// Why.
    pub why: Close,
    /// The request, unanswered.
    pub exchange: Box<E>,
}

impl<E> Refused<E> {
    /// A request that was refused.
    pub fn new(why: Close, exchange: E) -> Self {
        let exchange = Box::new(exchange);
        Refused { why, exchange }
    }
}

/// What became of a message.
pub enum Admission<E: Exchange> {
    /// To be run, on any thread.
    Run(Job<E>),
    /// It waits for others, or for memory, and comes out of [`Server::next_ready`].
    Waiting,
    /// It was answered, or needs no answer.
    Over,
}
