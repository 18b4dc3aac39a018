//! Another path's service under conditions that it has to cope with.

use crate::conformance::{Fresh, Needs, Path};
use crate::faults::{FaultyService, Plan, Transfers};
use std::sync::Arc;
use std::time::Duration;

/// A path whose calls all meet the same trouble.
pub struct TroubledPath<P> {
    inner: P,
    name: String,
    trouble: fn(&Plan),
}

impl<P: Path> TroubledPath<P> {
    /// Over what `inner` offers, with payloads that move in small pieces, a signal
    /// before each.
    pub fn choppy(inner: P) -> Self {
        TroubledPath {
            name: format!("{} in small pieces", inner.name()),
            inner,
            trouble: |plan| {
                plan.set_transfers(Transfers {
                    max_bytes: 1000,
                    are_interrupted: true,
                });
            },
        }
    }

    /// Over what `inner` offers, with some calls that take their time.
    pub fn slow(inner: P) -> Self {
        TroubledPath {
            name: format!("{} with delays", inner.name()),
            inner,
            trouble: |plan| plan.delay(5, Duration::from_millis(3)),
        }
    }
}

impl<P: Path> Path for TroubledPath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let plan = Plan::default();
        (self.trouble)(&plan);
        Fresh {
            service: Arc::new(FaultyService::new(fresh.service, Arc::new(plan))),
            ..fresh
        }
    }
}
