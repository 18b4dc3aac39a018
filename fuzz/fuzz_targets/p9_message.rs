//! Any bytes as any 9P message: decoding, and encoding again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| sluice_proto::p9::fuzz::fuzz_message(data));
