//! Another path's service behind 9P.

use crate::conformance::{Fresh, Needs, Path};
use crate::p9_client::{InProcessConnector, P9Service};
use crate::ring::RingConnector;
use sluice_proto::p9::serve::ServeOptions;
use std::sync::Arc;

/// 9P2000.L bytes, served in this process from what another path offers.
pub struct P9Path<P> {
    inner: P,
    name: String,
}

impl<P: Path> P9Path<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P) -> Self {
        let name = format!("9P2000.L bytes over {}", inner.name());
        P9Path { inner, name }
    }
}

impl<P: Path> Path for P9Path<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_9p()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let connector = InProcessConnector::new(fresh.service, ServeOptions::default());
        Fresh {
            service: Arc::new(P9Service::new(connector)),
            ..fresh
        }
    }
}

/// A virtio-9p device in this process, driven through its ring.
pub struct P9RingPath<P> {
    inner: P,
    name: String,
}

impl<P: Path> P9RingPath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P) -> Self {
        let name = format!("a 9P ring over {}", inner.name());
        P9RingPath { inner, name }
    }
}

impl<P: Path> Path for P9RingPath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_a_9p_ring()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let connector = RingConnector::new(fresh.service, ServeOptions::default());
        Fresh {
            service: Arc::new(P9Service::new(connector)),
            ..fresh
        }
    }
}

/// The same, and: the device sets the limits itself, leaves permissions to the
/// guest's kernel, knows nothing of a user's groups, and may be slow to answer
/// one request while it answers others.
pub(super) fn not_in_a_9p_ring() -> Needs {
    not_in_9p()
        | Needs::LIMITS
        | Needs::SERVICE_CHECKS
        | Needs::GROUPS
        | Needs::MAKERS_GROUPS
        | Needs::PROMPT_LOCKS
}

/// What the protocol has no words for and no single message shows.
pub(super) fn not_in_9p() -> Needs {
    Needs::STAMPS
        | Needs::EVENTS
        | Needs::NO_OPEN
        | Needs::LOOKUP_OPEN
        | Needs::IS_NEW
        | Needs::TMPFILE
        | Needs::CANCEL
        | Needs::FLOCK_TEST
}
