//! Another path's service under conditions that it has to cope with.

use crate::conformance::{Fresh, Needs, Path};
use crate::faults::{FaultyService, Plan, Transfers};
use std::sync::Arc;

/// A path whose payloads move in small pieces, with a signal before each.
pub struct ChoppyPath<P> {
    inner: P,
    name: String,
}

impl<P: Path> ChoppyPath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P) -> Self {
        let name = format!("{} in small pieces", inner.name());
        ChoppyPath { inner, name }
    }
}

impl<P: Path> Path for ChoppyPath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let plan = Plan::default();
        plan.set_transfers(Transfers {
            max_bytes: 1000,
            are_interrupted: true,
        });
        Fresh {
            service: Arc::new(FaultyService::new(fresh.service, Arc::new(plan))),
            ..fresh
        }
    }
}
