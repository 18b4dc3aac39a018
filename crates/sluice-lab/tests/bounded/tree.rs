//! A guest that knows more files than the daemon may have descriptors.

use crate::children::with_descriptors;
use sluice_export::{Export, ExportOptions};
use sluice_lab::conformance::Client;
use sluice_lab::fuse_client::{FuseService, InProcessConnector};
use sluice_proto::fuse::serve::{CacheMode, ServeOptions};
use sluice_vfs::{AccessChecks, NodeId, OpenFlags, SessionLimits};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

const DIRS: usize = 400;
const FILES_PER_DIR: usize = 500;

/// At how many known inodes the memory is looked at.
const MEASURED_AT: usize = 100_000;

/// Most bytes that these may take.
const MEMORY_MAX: usize = 64 << 20;

/// In memory where possible: disks take long to make so many files.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn dir_name(dir: usize) -> String {
    format!("directory-{dir}")
}

fn file_name(file: usize) -> String {
    format!("file-{file}.txt")
}

fn fill(root: &Path) {
    for dir in 0..DIRS {
        let dir: PathBuf = root.join(dir_name(dir));
        fs::create_dir(&dir).unwrap();
        for file in 0..FILES_PER_DIR {
            fs::File::create(dir.join(file_name(file))).unwrap();
        }
    }
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_tree_of_200_000_files_is_walked_with_1024_descriptors() {
    if !with_descriptors(
        1024,
        "tree::a_tree_of_200_000_files_is_walked_with_1024_descriptors",
    ) {
        return;
    }
    let root = folder();
    fill(root.path());
    let export = Export::open(root.path(), ExportOptions::default()).unwrap();
    let options = ServeOptions::new(CacheMode::Auto);
    let service = FuseService::new(InProcessConnector::new(Arc::new(export), options));
    let is_root = rustix::process::geteuid().is_root();
    let limits = SessionLimits::default();
    let guest = Client::attach(&service, AccessChecks::Peer, limits, is_root);

    let mut known: Vec<NodeId> = Vec::with_capacity(DIRS * (FILES_PER_DIR + 1));
    let before = resident_bytes();
    let start = Instant::now();
    for dir in 0..DIRS {
        let dir = guest.lookup(NodeId::ROOT, dir_name(dir)).unwrap().node;
        known.push(dir);
        for file in 0..FILES_PER_DIR {
            known.push(guest.lookup(dir, file_name(file)).unwrap().node);
            if known.len() == MEASURED_AT {
                let grown = resident_bytes().saturating_sub(before);
                eprintln!("{MEASURED_AT} known inodes: {} KiB", grown / 1024);
                assert!(grown <= MEMORY_MAX, "{grown} bytes");
            }
        }
    }
    for node in &known {
        guest.getattr(*node).unwrap();
    }
    for (at, node) in known.iter().enumerate().skip(1).step_by(7) {
        if at % (FILES_PER_DIR + 1) == 0 {
            continue;
        }
        let file = guest.open(*node, OpenFlags::READ).unwrap();
        assert_eq!(guest.read(file, 0, 10).unwrap(), b"");
        guest.close(file).unwrap();
    }
    let open: Vec<_> = known[1..101]
        .iter()
        .map(|node| guest.open(*node, OpenFlags::READ).unwrap())
        .collect();
    for node in known.iter().rev() {
        guest.getattr(*node).unwrap();
    }
    eprintln!(
        "{} nodes, {} descriptors, {} ms",
        known.len(),
        descriptors(),
        start.elapsed().as_millis()
    );
    assert!(descriptors() < 1024);
    for file in open {
        guest.close(file).unwrap();
    }
    for node in known {
        guest.forget(node, 1);
    }
    // The root, what is left of the budget's smallest part, and this process.
    assert!(descriptors() < 64, "{} descriptors", descriptors());
}
