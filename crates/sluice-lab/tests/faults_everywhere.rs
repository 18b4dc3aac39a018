//! The conformance cases, each over and over, with another of its calls failing: the
//! error reaches whoever asked, nobody panics, nothing is left behind.

mod common;

use sluice_lab::conformance::paths::{AtTheNeck, FailingPath, Faulty, ModelPath, OnTheDisk};
use sluice_lab::conformance::{Case, Needs, Path, Report, all_cases, run};
use sluice_vfs::Errno;
use std::env;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What disks, quotas, signals and memory fail with, in turn.
const ERRNOS: [Errno; 5] = [
    Errno::EIO,
    Errno::ENOSPC,
    Errno::EDQUOT,
    Errno::EINTR,
    Errno::ENOMEM,
];

/// One at a time: they look at what the process has open.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn every_call_to_the_service_may_fail() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let model: Arc<dyn Faulty> = Arc::new(AtTheNeck(ModelPath));
    let mut calls = 0;
    for case in cases() {
        // Each of the first, and fewer and fewer of those of a case that makes hundreds.
        let mut nth = 0;
        while let Some(failure) = Failure::of(&model, &case, nth) {
            failure.assert_harmless();
            // Whoever closes a file has no use for an error, so FUSE has none reported.
            if failure.operation() != "release" {
                failure.assert_told();
            }
            calls += 1;
            nth += 1 + nth / 24;
        }
    }
    println!("{calls} calls failed in turn");
    assert!(calls >= 5000 || is_filtered(), "only {calls} calls");
}

/// Of the requests that the engine's system calls are for a mounted file system, some
/// fail. What only looked may have been of no importance; what was to change something
/// was not.
#[test]
fn any_system_call_of_the_engine_may_fail() {
    const CHANGES: [&str; 15] = [
        "setattr",
        "setxattr",
        "removexattr",
        "mkdir",
        "mknod",
        "symlink",
        "link",
        "unlink",
        "rmdir",
        "rename",
        "create",
        "tmpfile",
        "write",
        "fsync",
        "fallocate",
    ];
    const OF_EACH_CASE: u64 = 4;
    if !rustix::process::geteuid().is_root() {
        return common::skip("mounting for others needs root");
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    sluice_lab::own_mounts().unwrap();
    let disk: Arc<dyn Faulty> = match OnTheDisk::new() {
        Ok(disk) => Arc::new(disk),
        Err(why) => return common::skip(&why),
    };
    let (mut calls, mut told) = (0, 0);
    for (number, case) in (0..).zip(cases()) {
        let whole = FailingPath::new(Arc::clone(&disk), u64::MAX, Errno::EIO);
        let whole = Arc::new(whole);
        let report = run(&(Arc::clone(&whole) as Arc<dyn Path>), &[case], "");
        if report.passed.is_empty() {
            continue; // a file system in user space is not like any other
        }
        let open = open_files();
        for nth in 0..OF_EACH_CASE {
            let all = whole.spared();
            let nth = (nth * all + number % all.max(1)) / OF_EACH_CASE;
            let Some(failure) = Failure::of(&disk, &case, nth) else {
                continue;
            };
            failure.assert_harmless();
            wait_until(
                || open_files() <= open,
                &failure.what,
                "files are left open",
            );
            // A signal is reason to try again, and the host's own changes are the host's.
            let is_signal = failure.errno == Errno::EINTR;
            let is_hosts = case.needs.contains(Needs::HOST);
            if CHANGES.contains(&failure.operation()) && !is_signal && !is_hosts {
                failure.assert_told();
                told += 1;
            }
            calls += 1;
        }
    }
    println!("{calls} calls failed, {told} of them changes");
    assert!(
        (calls >= 1500 && told >= 120) || is_filtered(),
        "{calls}, {told}"
    );
}

/// The variable `CASES` picks those whose names contain it.
fn cases() -> Vec<Case> {
    let filter = env::var("CASES").unwrap_or_default();
    let mut cases = all_cases();
    cases.retain(|case| case.name.contains(&filter));
    cases
}

fn is_filtered() -> bool {
    env::var_os("CASES").is_some()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A case that was run with a call that failed.
struct Failure {
    path: Arc<FailingPath>,
    report: Report,
    errno: Errno,
    what: String,
}

impl Failure {
    /// `None` if the case has not so many calls.
    fn of(faulty: &Arc<dyn Faulty>, case: &Case, nth: u64) -> Option<Failure> {
        let errno = ERRNOS[nth as usize % ERRNOS.len()];
        let path = Arc::new(FailingPath::new(Arc::clone(faulty), nth, errno));
        let report = run(&(Arc::clone(&path) as Arc<dyn Path>), &[*case], "");
        let mut what = format!("{} with call {nth} failing with {errno}", case.name);
        match path.failed() {
            Some(failed) => what += &format!(" ({})", failed.operation),
            // Without a fault the cases are right.
            None => assert!(report.failed.is_empty(), "{what}: {report}"),
        }
        path.failed()?;
        Some(Failure {
            path,
            report,
            errno,
            what,
        })
    }

    fn operation(&self) -> &'static str {
        self.path.failed().map_or("", |failed| failed.operation)
    }

    /// A case that was told of an error may end there; nobody else may.
    #[track_caller]
    fn assert_harmless(&self) {
        for (_, why) in &self.report.failed {
            let is_the_cases = why.contains("sluice-lab/src/conformance/");
            assert!(is_the_cases, "{}: {why}", self.what);
        }
        wait_until(
            || self.path.sessions() == 0,
            &self.what,
            "a session is left",
        );
    }

    #[track_caller]
    fn assert_told(&self) {
        let was_told = self.path.failed().is_some_and(|failed| failed.was_told);
        assert!(was_told, "{}: the error is lost", self.what);
    }
}

/// What a session held goes with its last thread.
#[track_caller]
fn wait_until(is_so: impl Fn() -> bool, what: &str, why: &str) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}: {why}");
        std::thread::yield_now();
    }
}
