//! Any bytes as any FUSE message: decoding, and encoding again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sluice_proto::fuse::fuzz::fuzz_request(data));
