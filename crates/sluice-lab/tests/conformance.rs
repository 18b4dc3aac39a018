//! The conformance cases over every path that needs neither a mount nor a guest.

use sluice_client::Dialect;
use sluice_lab::conformance::paths::{
    ExportPath, FusePath, ModelPath, P9Path, P9RingPath, RemotePath, RingPath, TroubledPath,
};
use sluice_lab::conformance::{Path, all_cases, run};
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn the_model_conforms() {
    conforms(ModelPath, 585);
}

#[test]
fn the_export_engine_conforms_on_the_disk() {
    conforms(on_disk(), by_user(580, 500));
}

#[test]
fn the_export_engine_conforms_on_a_tmpfs() {
    let shm = PathBuf::from("/dev/shm");
    match ExportPath::below("a tmpfs", shm) {
        Ok(path) => conforms(path, by_user(580, 500)),
        Err(error) => skip(&format!("/dev/shm: {error}")),
    }
}

#[test]
fn fuse_bytes_conform_over_the_model() {
    conforms(FusePath::over(ModelPath), 570);
}

#[test]
fn fuse_bytes_conform_over_the_export_engine() {
    conforms(FusePath::over(on_disk()), by_user(570, 490));
}

#[test]
fn p9_bytes_conform_over_the_model() {
    conforms(P9Path::over(ModelPath), 440);
}

#[test]
fn p9_bytes_conform_over_the_export_engine() {
    conforms(P9Path::over(on_disk()), by_user(460, 380));
}

#[test]
fn a_ring_conforms_over_the_model() {
    conforms(RingPath::over(ModelPath), 510);
}

#[test]
fn a_ring_conforms_over_the_export_engine() {
    conforms(RingPath::over(on_disk()), by_user(520, 470));
}

#[test]
fn a_9p_ring_conforms_over_the_model() {
    conforms(P9RingPath::over(ModelPath), 390);
}

#[test]
fn a_9p_ring_conforms_over_the_export_engine() {
    conforms(P9RingPath::over(on_disk()), by_user(400, 340));
}

#[test]
fn the_client_conforms_over_the_model() {
    conforms(RemotePath::over(ModelPath, Dialect::Sluice), 410);
}

#[test]
fn the_client_conforms_in_linuxs_dialect() {
    conforms(RemotePath::over(ModelPath, Dialect::Linux), 410);
}

#[test]
fn the_client_conforms_in_9p2000_u() {
    conforms(RemotePath::over(ModelPath, Dialect::Unix), 220);
}

#[test]
fn the_client_conforms_in_9p2000() {
    conforms(RemotePath::over(ModelPath, Dialect::Plan9), 150);
}

#[test]
fn the_client_conforms_over_the_export_engine() {
    conforms(
        RemotePath::over(on_disk(), Dialect::Sluice),
        by_user(430, 370),
    );
}

#[test]
fn the_export_engine_conforms_when_calls_are_cut_short() {
    conforms(TroubledPath::choppy(on_disk()), by_user(580, 500));
}

#[test]
fn a_ring_conforms_when_some_calls_take_long() {
    let slow = TroubledPath::slow(on_disk());
    conforms(RingPath::over(slow), by_user(520, 470));
}

fn on_disk() -> ExportPath {
    ExportPath::below("the disk", env::temp_dir()).expect("a temporary directory")
}

/// What only root can be expected to run.
fn by_user(as_root: usize, as_another: usize) -> usize {
    match rustix::process::geteuid().is_root() {
        true => as_root,
        false => as_another,
    }
}

/// Says that something was not tested, which CI does not accept.
fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert_ne!(env::var("CI").as_deref(), Ok("true"), "{why}");
}

/// Runs all cases; at least `expected` of them have to be expressible, so
/// that a path can't lose cases unnoticed. The variable `CASES` picks those
/// whose names contain it.
fn conforms(path: impl Path + 'static, expected: usize) {
    let path: Arc<dyn Path> = Arc::new(path);
    let filter = env::var("CASES").unwrap_or_default();
    let report = run(&path, &all_cases(), &filter);
    println!("{report}");
    let failed = report.failed.len();
    assert_eq!(failed, 0, "cases failed over {}", report.path);
    if filter.is_empty() {
        let passed = report.passed.len();
        assert!(passed >= expected, "only {passed} of {expected} cases ran");
    }
}
