//! The fuzz targets' corpus, replayed; and sequences of any requests.

use crate::corpus_files::corpus;
use crate::recorder::{Recorder, Script};
use proptest::collection::vec;
use proptest::prelude::*;
use sluice_proto::fuse::fuzz::{fuzz_request, fuzz_session};
use sluice_vfs::Errno;
use std::sync::Arc;

/// Runs a sequence with locks that are free, held, and that fail.
fn run_session(data: &[u8]) {
    for (lock_error, wait_error) in [
        (None, None),
        (Some(Errno::EAGAIN), None),
        (Some(Errno::EAGAIN), Some(Errno::EDEADLK)),
    ] {
        let service = Recorder::new();
        service.script(Script {
            lock_error,
            wait_error,
            ..Script::default()
        });
        fuzz_session(Arc::new(service), data);
    }
}

#[test]
fn the_corpus_of_requests_is_harmless() {
    for data in corpus("fuse_request") {
        fuzz_request(&data);
        for len in 0..data.len() {
            fuzz_request(&data[..len]);
        }
    }
}

#[test]
fn the_corpus_of_sessions_is_harmless() {
    for data in corpus("fuse_session") {
        run_session(&data);
        for len in (0..data.len()).step_by(3) {
            run_session(&data[..len]);
        }
    }
}

/// A step that begins a session, so that the others get beyond it.
fn init_step() -> Vec<u8> {
    let mut body = Vec::new();
    for word in [7_u32, 45, 0x2_0000, 0x7fff_ffff, 0x7ff] {
        body.extend(word.to_le_bytes());
    }
    body.resize(64, 0);
    step(26, 0, &body)
}

fn step(opcode: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![opcode, flags];
    out.extend((body.len() as u16).to_le_bytes());
    out.extend(body);
    out
}

proptest! {
    #[test]
    fn any_sequence_of_requests_is_harmless(
        steps in vec(
            (1_u8..54, any::<u8>(), vec(prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], 0..100)),
            0..40,
        ),
    ) {
        let mut data = init_step();
        for (opcode, flags, body) in steps {
            data.extend(step(opcode, flags, &body));
        }
        run_session(&data);
    }
}
