//! Another path's service behind FUSE: through bytes, and through a ring.

use crate::conformance::{Fresh, Needs, Path};
use crate::fuse_client::{FuseService, InProcessConnector};
use crate::ring::RingConnector;
use sluice_proto::fuse::serve::{CacheMode, Offer, ServeOptions};
use std::sync::Arc;

/// FUSE bytes, served in this process from what another path offers.
pub struct FusePath<P> {
    inner: P,
    name: String,
}

impl<P: Path> FusePath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P) -> Self {
        let name = format!("FUSE bytes over {}", inner.name());
        FusePath { inner, name }
    }
}

impl<P: Path> Path for FusePath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_fuse()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let connector = InProcessConnector::new(fresh.service, options());
        Fresh {
            service: Arc::new(FuseService::new(connector)),
            ..fresh
        }
    }
}

/// A virtio-fs device in this process, driven through its rings.
pub struct RingPath<P> {
    inner: P,
    name: String,
}

impl<P: Path> RingPath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P) -> Self {
        let name = format!("a ring over {}", inner.name());
        RingPath { inner, name }
    }
}

impl<P: Path> Path for RingPath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_a_ring()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let connector = RingConnector::new(fresh.service, options());
        Fresh {
            service: Arc::new(FuseService::new(connector)),
            ..fresh
        }
    }
}

/// The same, and: the device sets the limits itself, leaves permissions to the
/// guest's kernel, has no queue for notifications, and may be slow to answer
/// one request while it answers others.
pub(super) fn not_in_a_ring() -> Needs {
    not_in_fuse() | Needs::LIMITS | Needs::SERVICE_CHECKS | Needs::EVENTS | Needs::PROMPT_LOCKS
}

/// What the protocol has no words for: versions, opening by name, using files
/// without a handle that were opened, whether CREATE made the file, all groups
/// of a caller; and what Linux never sends, so that servers refuse it.
pub(super) fn not_in_fuse() -> Needs {
    Needs::STAMPS
        | Needs::LOOKUP_OPEN
        | Needs::NO_OPEN
        | Needs::IS_NEW
        | Needs::GROUPS
        | Needs::CANCEL
}

/// Everything on that is off unless asked for.
pub(super) fn options() -> ServeOptions {
    ServeOptions {
        posix_acl: Offer::Auto,
        security_label: Offer::Auto,
        ..ServeOptions::new(CacheMode::Auto)
    }
}
