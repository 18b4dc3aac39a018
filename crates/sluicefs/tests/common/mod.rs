//! What the tests of the binary share.
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of it")]

pub mod mount;
pub mod mounted_server;
pub mod serving;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::PidfdFlags;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Longest that anything here is waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A `sluice` command without the test's own environment for logs and systemd.
pub fn sluice(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    sluice(arguments).output().unwrap()
}

/// The status and the only line on stderr; more or fewer lines fail the test.
pub fn status_and_line(output: &Output) -> (i32, String) {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(stderr.lines().count(), 1, "one line, not {stderr:?}");
    (output.status.code().unwrap(), stderr.trim_end().to_owned())
}

/// Says why a test cannot run here. With `CI=true` that is a failure.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "CI runs every test, but: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// A child that is killed when the test ends early.
pub struct Daemon(pub Child);

impl Daemon {
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, within [`PATIENCE`].
    pub fn status(&mut self) -> i32 {
        self.wait_for_end();
        let status = self.0.wait().unwrap();
        status.code().expect("ended by a signal")
    }

    /// The same, however it ends.
    pub fn wait_for_end(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let timeout = Timespec::try_from(PATIENCE).unwrap();
        let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
        let count = rustix::event::poll(&mut ended, Some(&timeout)).unwrap();
        assert_eq!(count, 1, "the process does not end");
    }

    /// What it wrote to stderr; for after its end.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A path as the text that a command line takes.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
