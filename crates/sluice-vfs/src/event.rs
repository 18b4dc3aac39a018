//! What a service says of its own accord.

use crate::Result;
use crate::ids::{BackingId, NodeId, WaitId};
use crate::name::Name;
use std::ops::Range;

/// Something that a session's peer should know. Node ids are the session's own.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Attributes changed, and content within `data` (bytes) if given.
    InodeChanged {
        /// The node.
        node: NodeId,
        /// The bytes whose content changed.
        data: Option<Range<u64>>,
    },
    /// A name came, went, or leads elsewhere.
    EntryChanged {
        /// The directory.
        parent: NodeId,
        /// The name in it.
        name: Name<'a>,
    },
    /// Anything may have changed: nothing cached before is to be trusted.
    EpochMoved,
    /// A descriptor from [`Session::backing`](crate::Session::backing) must no
    /// longer be used.
    BackingRevoked {
        /// The loan.
        id: BackingId,
    },
    /// A lock request that had to wait is settled: granted, or failed with
    /// `EINTR` when cancelled.
    LockSettled {
        /// The request.
        wait: WaitId,
        /// How it ended.
        result: Result<()>,
    },
}

/// Takes a session's events. Called from any thread, possibly while an
/// operation of the same session runs, never with a service's lock held. It
/// must not block and must not call back into the session.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn publish(&self, event: &Event<'_>);
}

/// For peers that cache nothing and wait for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn publish(&self, _: &Event<'_>) {}
}
