//! What all connections may take together.

use sluice_proto::p9::serve::CommonBounds;
use std::sync::Arc;
use std::time::Duration;

/// What all connections may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Connections at a time; others wait to be let in.
    pub connections: usize,
    /// Bytes of payloads in use at a time, in buffers and pipes, and of requests and
    /// replies that wait. Beyond it requests that need more than a small buffer wait, and
    /// few that wait for others are taken in.
    pub held_bytes: usize,
    /// Fids; beyond: `ENFILE`. Every connection can have a few all the same.
    pub fids: usize,
    /// Bytes in values of extended attributes that fids hold; beyond: `ENOMEM`. Every
    /// connection can have one value all the same.
    pub xattr_bytes: usize,
    /// A peer that has taken no reply, or sent less than a small buffer of a message, for
    /// so long may be sent away while memory is short.
    pub stuck: Duration,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits {
            connections: 4096,
            held_bytes: 256 << 20,
            fids: CommonBounds::FIDS,
            xattr_bytes: CommonBounds::XATTR_BYTES,
            stuck: Duration::from_secs(10),
        }
    }
}

impl HubLimits {
    /// Those of them that are for sessions, on whatever transport.
    pub(in crate::serve) fn common(&self) -> Arc<CommonBounds> {
        Arc::new(CommonBounds::new(self.fids, self.xattr_bytes))
    }
}
