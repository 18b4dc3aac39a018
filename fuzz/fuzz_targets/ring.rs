//! A virtqueue in memory that is noise.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sluice_virtio::fuzz::fuzz_ring(data));
