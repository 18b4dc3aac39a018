//! The fuzz target's corpus, replayed; and sequences of any messages.

use proptest::collection::vec;
use proptest::prelude::*;
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_proto::p9::fuzz::fuzz_session;
use std::path::Path;
use std::sync::Arc;

fn run(data: &[u8]) {
    let service = Arc::new(ModelService::new(ModelOptions {
        capacity_bytes: 1 << 20,
        inodes: 64,
        read_only: false,
    }));
    fuzz_session(service.clone(), data);
    assert_eq!(service.session_count(), 0, "what it held outlives it");
}

#[test]
fn the_corpus_of_sessions_is_harmless() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sluice-proto/corpus/p9_session"
    );
    let files = Path::new(folder).read_dir().expect("the corpus is there");
    let mut count = 0;
    for file in files {
        let data = std::fs::read(file.unwrap().path()).unwrap();
        run(&data);
        for len in (0..data.len()).step_by(7) {
            run(&data[..len]);
        }
        count += 1;
    }
    assert!(count >= 20);
}

fn step(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, 0];
    out.extend((body.len() as u16).to_le_bytes());
    out.extend(body);
    out
}

proptest! {
    #[test]
    fn any_sequence_of_messages_is_harmless(
        dialect in 0_u8..4,
        steps in vec(
            (prop_oneof![8 => 4_u8..64, 1 => 80_u8..84], vec(prop_oneof![4 => Just(0_u8), 2 => 0..5_u8, 1 => any::<u8>()], 0..40)),
            0..40,
        ),
    ) {
        let mut data = vec![dialect];
        for (kind, body) in steps {
            data.extend(step(kind * 2, &body));
        }
        run(&data);
    }
}
