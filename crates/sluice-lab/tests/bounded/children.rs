//! Tests in processes of their own, with few descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What tells a test that it runs in a process that was made for it.
const IN_CHILD: &str = "SLUICE_BOUNDED_TEST_CHILD";

/// An ordinary user.
const NOBODY: u32 = 65_534;

/// Whether this is such a process; if so, it may have `count` descriptors from
/// now on. If not, the test `name` is run in such processes: as this user, and
/// as an ordinary one.
pub(crate) fn with_descriptors(count: u64, name: &str) -> bool {
    if std::env::var_os(IN_CHILD).is_some() {
        let limit = Rlimit {
            current: Some(count),
            maximum: Some(count),
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, Some(count));
        return true;
    }
    run(name, |_| {});
    if rustix::process::geteuid().is_root() {
        run(name, |command| {
            command.uid(NOBODY).gid(NOBODY);
        });
    } else {
        eprintln!("SKIPPED: {name} as root");
    }
    false
}

fn run(name: &str, prepare: impl FnOnce(&mut Command)) {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, "1")
        .current_dir("/");
    prepare(&mut command);
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}\n{stderr}"
    );
    eprint!("{stderr}");
}
