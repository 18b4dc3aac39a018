//! Any bytes, with descriptors, on a vhost-user socket.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sluice_virtio::fuzz::fuzz_session(data));
