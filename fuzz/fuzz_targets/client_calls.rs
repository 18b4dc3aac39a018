//! Calls of a 9P client whose server, with a tree in memory behind it, says any bytes at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_lab::model::{ModelOptions, ModelService};
use std::sync::Arc;

/// Small enough to run full.
const LIMITS: ModelOptions = ModelOptions {
    capacity_bytes: 1 << 20,
    inodes: 256,
    read_only: false,
};

fuzz_target!(|data: &[u8]| {
    sluice_client::fuzz::fuzz_calls(Arc::new(ModelService::new(LIMITS)), data);
});
