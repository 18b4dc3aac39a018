//! The conformance cases through rings and sockets of real, isolated processes: what
//! isolation takes away must be nothing that an operation needs.

mod common;

use common::skip;
use sluice_lab::conformance::paths::{DaemonPath, ExportPath, Speech};
use sluice_lab::conformance::{Path, Report, all_cases, run};
use std::env;
use std::sync::Arc;

/// Everything on that is off unless asked for.
const ALL: &[&str] = &["--posix-acl", "--security-label"];

/// The rights beyond what serving needs. 9P has no message that makes a directory
/// and holds on to it, so that the host may move it before it is looked up: by its
/// handle it is found all the same.
fn rights(speech: Speech) -> &'static str {
    match speech {
        Speech::Fuse => "--modcaps=+sys_admin",
        Speech::P9 | Speech::P9OnSocket => "--modcaps=+sys_admin:+dac_read_search",
    }
}

#[test]
fn in_name_spaces() {
    conforms(&["--sandbox=namespace"], 470);
}

#[test]
fn with_another_root() {
    conforms(&["--sandbox=chroot"], 470);
}

#[test]
fn without_a_sandbox() {
    conforms(&["--sandbox=none"], 470);
}

#[test]
fn with_nothing_cached() {
    let options = ["--cache=never", "--allow-direct-io", "--preserve-noatime"];
    conforms(&options, 470);
}

#[test]
fn with_everything_cached() {
    conforms(&["--cache=always", "--locks=host"], 470);
}

#[test]
fn over_9p_in_name_spaces() {
    conforms_in(Speech::P9, &["--sandbox=namespace"], 400);
}

#[test]
fn over_9p_without_a_sandbox() {
    conforms_in(Speech::P9, &["--sandbox=none"], 400);
}

/// With all reads through a pipe, however small.
#[test]
fn over_9p_on_a_socket() {
    conforms_in(Speech::P9OnSocket, &["--zero-copy=1"], 400);
}

fn conforms(options: &[&str], expected: usize) {
    conforms_in(Speech::Fuse, options, expected);
}

/// Runs all cases that an isolated daemon can do, with system calls filtered.
fn conforms_in(speech: Speech, options: &[&str], expected: usize) {
    if !rustix::process::geteuid().is_root() {
        return skip("name spaces and another root need root");
    }
    let report = report(speech, &[options, &["--seccomp=kill"]].concat());
    println!("{report}");
    assert_eq!(report.failed.len(), 0, "cases failed over {}", report.path);
    if env::var("CASES").is_err() {
        let passed = report.passed.len();
        assert!(passed >= expected, "only {passed} of {expected} cases ran");
    }
}

/// The variable `CASES` picks those cases whose names contain it.
fn report(speech: Speech, options: &[&str]) -> Report {
    let export = ExportPath::below("the disk", env::temp_dir()).expect("a temporary directory");
    let options = [ALL, &[rights(speech)], options].concat();
    let path = DaemonPath::over(export, speech, env!("CARGO_BIN_EXE_sluice-here"), &options);
    let path: Arc<dyn Path> = Arc::new(path);
    let filter = env::var("CASES").unwrap_or_default();
    run(&path, &all_cases(), &filter)
}
