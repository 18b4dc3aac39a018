//! The conformance cases over every path that needs neither a mount nor a guest.

use sluice_lab::conformance::paths::{ExportPath, ModelPath};
use sluice_lab::conformance::{Path, all_cases, run};
use std::path::PathBuf;
use std::sync::Arc;

#[test]
fn the_model_conforms() {
    conforms(ModelPath, 580);
}

#[test]
fn the_export_engine_conforms_on_the_disk() {
    let path = ExportPath::below("the disk", std::env::temp_dir());
    conforms(path.expect("a temporary directory"), 560);
}

#[test]
fn the_export_engine_conforms_on_a_tmpfs() {
    let path = ExportPath::below("a tmpfs", PathBuf::from("/dev/shm"));
    conforms(path.expect("a shared memory file system"), 560);
}

/// Runs all cases; at least `expected` of them have to be expressible, so
/// that a path can't lose cases unnoticed.
fn conforms(path: impl Path + 'static, expected: usize) {
    let path: Arc<dyn Path> = Arc::new(path);
    let filter = std::env::var("CASES").unwrap_or_default();
    let report = run(&path, &all_cases(), &filter);
    println!("{report}");
    assert!(
        report.failed.is_empty(),
        "{} cases failed",
        report.failed.len()
    );
    if filter.is_empty() {
        let passed = report.passed.len();
        assert!(passed >= expected, "only {passed} of {expected} cases ran");
    }
}
