//! Identifiers that cross the neck.

use std::fmt;

/// A file-system object known to one session.
///
/// The low 32 bits are a slot and the high 32 bits the slot's generation, so
/// that an id which was forgotten and given out again never names the wrong
/// object. Peers treat it as opaque. An id lives as long as references to it
/// are held: each [`Entry`](crate::Entry) handed out is one reference, given
/// back by [`Session::forget`](crate::Session::forget).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root of the attached export. It can't be forgotten.
    pub const ROOT: NodeId = NodeId(1);

    /// Builds an id from a table slot and the generation of that slot.
    pub const fn new(slot: u32, generation: u32) -> Self {
        NodeId((generation as u64) << 32 | slot as u64)
    }

    /// The table slot.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// How often the slot had been reused when this id was made.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}.{}", self.slot(), self.generation())
    }
}

/// An open file or directory of one session: slot and generation, as in
/// [`NodeId`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleId(pub u64);

impl HandleId {
    /// Builds an id from a table slot and the generation of that slot.
    pub const fn new(slot: u32, generation: u32) -> Self {
        HandleId((generation as u64) << 32 | slot as u64)
    }

    /// The table slot.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// How often the slot had been reused when this id was made.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for HandleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handle {}.{}", self.slot(), self.generation())
    }
}

/// Names a lock request that may have to wait. The frontend chooses it, unique
/// among the session's waiting requests, and registers its parked reply under
/// it *before* it asks, so that the grant can't overtake the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u64);

/// Names a descriptor handed out by
/// [`Session::backing`](crate::Session::backing), unique within its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackingId(pub u64);

/// Version of a node, as of the reply it came with.
///
/// Two equal non-zero stamps of one node mean that nothing the service knows
/// of changed in between. [`Stamp::NONE`] means: don't cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// No version is known; what came with it must not be cached by version.
    pub const NONE: Stamp = Stamp(0);

    /// Whether a reply with this stamp may be cached by version.
    pub const fn is_cacheable(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_generation_share_the_id() {
        let id = NodeId::new(7, 3);
        assert_eq!((id.slot(), id.generation()), (7, 3));
        assert_eq!(id.0, 0x0000_0003_0000_0007);
        assert_eq!(NodeId::ROOT, NodeId::new(1, 0));
        let handle = HandleId::new(u32::MAX, u32::MAX);
        assert_eq!((handle.slot(), handle.generation()), (u32::MAX, u32::MAX));
    }
}
