//! Bodies of the fuzz targets: a client whose server says any bytes at all. Every input
//! must come through without a panic and without waiting for ever, what the client sends
//! must be in order, and what is read must be what was sent for that very request. Their
//! corpora in `corpus/` are replayed by the tests.
//!
//! The server is a real one over a service; its answers come in other orders, are changed,
//! withheld or repeated on the way ([`server`]), as the input says ([`script`]).

mod calls;
mod script;
mod server;

use crate::error::Result;
use crate::{Client, OpenFlags, RemoteService, ServiceOptions, XattrFlags};
use calls::Calls;
use script::{Script, Setup};
use server::Ground;
use sluice_proto::p9::wire::Dialect;
use sluice_vfs::FileService;
use std::sync::Arc;

/// Calls of a [`Client`]: `[setup, 6 bytes] [number of calls] [4 bytes for each call]
/// [script…]`.
pub fn fuzz_calls(service: Arc<dyn FileService>, data: &[u8]) {
    let Some((setup, rest)) = data.split_first_chunk() else {
        return;
    };
    let Some((count, rest)) = rest.split_first() else {
        return;
    };
    let (calls, script) = rest.split_at(rest.len().min(usize::from(*count) * 4));
    prepare(&service).expect("an honest server has room for a few files");
    let ground = Ground::new(service, Setup::of(*setup), Script::new(script));
    let connected = ground
        .connect()
        .and_then(|line| Client::over(line, &ground.setup.options()));
    let Ok(client) = connected else {
        return;
    };
    let mut calls_made = Calls::new(client, &ground);
    for call in calls.chunks_exact(4) {
        calls_made.make(call);
    }
}

/// FUSE requests to a [`RemoteService`]: `[setup, 6 bytes] [bytes of requests, 2 bytes]
/// [requests, as of sluice_proto::fuse::fuzz::fuzz_session…] [script…]`.
pub fn fuzz_service(service: Arc<dyn FileService>, data: &[u8]) {
    let Some((setup, rest)) = data.split_first_chunk() else {
        return;
    };
    let Some((len, rest)) = rest.split_first_chunk() else {
        return;
    };
    let len = usize::from(u16::from_le_bytes(*len));
    let (requests, script) = rest.split_at(rest.len().min(len));
    prepare(&service).expect("an honest server has room for a few files");
    let setup = Setup::of(*setup);
    let ground = Ground::new(service, setup, Script::new(script));
    let options = ServiceOptions {
        connect: setup.options(),
        access: setup.access,
        persistence: crate::Persistence::Soft(std::time::Duration::ZERO),
        posix_acl: setup.has_acls,
        is_being_killed: None,
    };
    let remote = RemoteService::over(move || ground.connect(), options);
    sluice_proto::fuse::fuzz::fuzz_session(Arc::new(remote), requests);
}

/// Files of every kind, under the names that calls know.
fn prepare(service: &Arc<dyn FileService>) -> Result<()> {
    let setup = Setup::of([3, 255, 8, 32, 0, 0]);
    let ground = Ground::new(Arc::clone(service), setup, Script::new(&[]));
    let client = Client::over(ground.connect()?, &setup.options())?;
    debug_assert_eq!(client.dialect(), Dialect::Sluice);
    client.create_dir("d", 0o755)?;
    for (name, len) in [("f", 9000), ("d/g", 10), ("d/empty", 0)] {
        let file = client.create(name, OpenFlags::WRITE, 0o644)?;
        file.write_all_at(&vec![b'f'; len], 0)?;
        file.close()?;
    }
    for name in 0..20 {
        client.create(format!("d/{name}"), OpenFlags::WRITE, 0o600)?;
    }
    client.symlink("d/g", "l")?;
    client.symlink("loop", "loop")?;
    client.symlink("/d", "d/up")?;
    client.set_xattr("f", b"user.a", &[7; 5000], XattrFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sluice_lab::model::{ModelOptions, ModelService};
    use std::path::Path;

    fn service() -> Arc<ModelService> {
        Arc::new(ModelService::new(ModelOptions {
            capacity_bytes: 1 << 20,
            inodes: 256,
            read_only: false,
        }))
    }

    fn replay(name: &str, body: fn(Arc<dyn FileService>, &[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut count = 0;
        for file in folder.read_dir().expect("the corpus is there") {
            let data = std::fs::read(file.unwrap().path()).unwrap();
            body(service(), &data);
            for len in (0..data.len()).step_by(17) {
                body(service(), &data[..len]);
            }
            count += 1;
        }
        assert!(count >= 10, "{count}");
    }

    #[test]
    fn the_corpus_of_calls_is_harmless() {
        replay("client_calls", fuzz_calls);
    }

    #[test]
    fn the_corpus_of_requests_is_harmless() {
        replay("client_service", fuzz_service);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_answers_are_harmless(
            setup in any::<[u8; Setup::LEN]>(),
            calls in vec(any::<[u8; 4]>(), 0..24),
            script in vec(prop_oneof![3 => 0..3_u8, 2 => any::<u8>()], 0..120),
        ) {
            let mut data = setup.to_vec();
            data.push(calls.len() as u8);
            data.extend(calls.as_flattened());
            data.extend(script);
            fuzz_calls(service(), &data);
        }
    }
}
