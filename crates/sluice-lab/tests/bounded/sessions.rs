//! One guest takes all that it can get; another of the same daemon goes on.

use crate::children::with_descriptors;
use sluice_export::{Export, ExportOptions};
use sluice_lab::conformance::Client;
use sluice_lab::fuse_client::{FuseService, InProcessConnector};
use sluice_proto::fuse::serve::{CacheMode, ServeOptions};
use sluice_vfs::{AccessChecks, Errno, LockKind, NodeId, OpenFlags, SessionLimits};
use std::fs;
use std::sync::Arc;

const RDWR: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

#[test]
fn a_guest_that_exhausts_everything_is_refused_alone() {
    if !with_descriptors(
        1024,
        "sessions::a_guest_that_exhausts_everything_is_refused_alone",
    ) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    for number in 0..200 {
        fs::write(root.path().join(format!("f{number}")), "abc").unwrap();
    }
    let export: Arc<Export> =
        Arc::new(Export::open(root.path(), ExportOptions::default()).unwrap());
    let options = ServeOptions::new(CacheMode::Auto);
    let service = FuseService::new(InProcessConnector::new(export, options));
    let is_root = rustix::process::geteuid().is_root();
    let attach = |limits| Client::attach(&service, AccessChecks::Peer, limits, is_root);
    let greedy = attach(SessionLimits {
        nodes: 100,
        ..SessionLimits::default()
    });
    let modest = attach(SessionLimits::default());
    let modest_file = {
        let node = modest.lookup(NodeId::ROOT, "f0").unwrap().node;
        modest.open(node, RDWR).unwrap()
    };

    let known: Vec<NodeId> = (0..100)
        .map(|number| {
            greedy
                .lookup(NodeId::ROOT, format!("f{number}"))
                .unwrap()
                .node
        })
        .collect();
    let outcome = greedy.lookup(NodeId::ROOT, "f100");
    assert_eq!(outcome.err(), Some(Errno::ENOMEM));

    let mut opened = Vec::new();
    let mut refused = 0;
    for number in 0..65_536 {
        match greedy.open(known[number % known.len()], RDWR) {
            Ok(file) => opened.push(file),
            Err(errno) => {
                assert_eq!(errno, Errno::ENFILE);
                refused += 1;
            }
        }
    }
    assert!(
        opened.len() >= 100 && refused > 0,
        "{} opened",
        opened.len()
    );
    let locked = opened
        .iter()
        .find_map(|file| greedy.lock(*file, LockKind::Write, 0..u64::MAX).err());
    assert_eq!(locked, Some(Errno::ENOLCK));

    // All that the other one may want.
    assert_eq!(modest.read(modest_file, 0, 10).unwrap(), b"abc");
    for number in 0..100 {
        let name = format!("f{}", 100 + number);
        let node = modest.lookup(NodeId::ROOT, &name).unwrap().node;
        let file = modest.open(node, RDWR).unwrap();
        modest.write(file, 0, b"xyz").unwrap();
        modest.lock(file, LockKind::Write, 0..u64::MAX).unwrap();
        if number >= 20 {
            modest.close(file).unwrap();
        }
    }
    let made = modest.create(NodeId::ROOT, "made", 0o644).unwrap();
    modest.unlink(NodeId::ROOT, "made").unwrap();
    assert_eq!(modest.getattr(made.node).unwrap().nlink, 0);

    // And the greedy one goes on as soon as it gives something back.
    for file in opened.drain(..50) {
        greedy.close(file).unwrap();
    }
    greedy.open(known[0], RDWR).unwrap();
}
