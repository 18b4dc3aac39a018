//! A sequence of 9P messages on one connection, with a tree in memory behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_lab::model::{ModelOptions, ModelService};
use std::sync::Arc;

/// Small enough to run full.
const LIMITS: ModelOptions = ModelOptions {
    capacity_bytes: 1 << 20,
    inodes: 64,
    read_only: false,
};

fuzz_target!(|data: &[u8]| {
    let service = Arc::new(ModelService::new(LIMITS));
    sluice_proto::p9::fuzz::fuzz_session(service.clone(), data);
    // Nothing that the connection held outlives it.
    assert_eq!(service.session_count(), 0);
});
