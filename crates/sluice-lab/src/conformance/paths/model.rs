//! The model itself.

use crate::conformance::{Fresh, Needs, Path};
use crate::model::{ModelOptions, ModelService};
use std::sync::Arc;

/// The model, asked directly.
pub struct ModelPath;

impl Path for ModelPath {
    fn name(&self) -> &str {
        "model"
    }

    /// Everything but a directory of this machine.
    fn has(&self) -> Needs {
        Needs::all() - Needs::HOST
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        Fresh {
            service: Arc::new(ModelService::new(model_options(needs))),
            host_dir: None,
            keep: Box::new(()),
        }
    }
}

/// A model of the kind that `needs` asks for.
pub(super) fn model_options(needs: Needs) -> ModelOptions {
    let mut options = ModelOptions {
        read_only: needs.contains(Needs::READ_ONLY_TREE),
        ..ModelOptions::default()
    };
    if needs.contains(Needs::SMALL_TREE) {
        options.capacity_bytes = SMALL_BYTES;
    }
    options
}

/// What a small tree holds, in bytes.
const SMALL_BYTES: u64 = 1 << 20;
