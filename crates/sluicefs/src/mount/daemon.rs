//! Going to the background once the mount is usable.
//!
//! The background process is this program started again, not a fork: threads
//! and locks need no care that way. It reports over its standard output: one
//! empty line when the mount is usable, or one line that says why not.

use crate::failure::Failure;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

/// The hidden flag that makes the program the background process.
pub(crate) const DAEMON_FLAG: &str = "report-on-stdout";

/// Starts this program again with `words` (its name, a command and arguments) in
/// the background, and returns once it has mounted.
pub(crate) fn start(words: Vec<OsString>) -> Result<(), Failure> {
    let mut arguments = words.into_iter();
    let own_name = arguments.next().unwrap_or_else(|| "sluice".into());
    let mut arguments: Vec<_> = arguments.collect();
    // In front of the positional arguments and a possible `--`.
    let after_command = arguments.len().min(1);
    arguments.insert(after_command, format!("--{DAEMON_FLAG}").into());
    let mut child = Command::new("/proc/self/exe")
        .arg0(own_name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start the background process: {error}")))?;
    match child.stdout.take().map(read_report) {
        Some(Ok(Some(report))) if report.is_empty() => Ok(()),
        Some(Ok(Some(report))) => {
            let _ = child.wait();
            Err(Failure::new(report))
        }
        _ => Err(died(child.wait())),
    }
}

/// Leaves the terminal's session, so that its end is not the mount's.
pub(super) fn detach() {
    // Fails only for a process group leader, which a child is not.
    let _ = rustix::process::setsid();
}

/// Tells the waiting parent how mounting went, and lets go of its descriptors.
pub(super) fn report<T>(outcome: &Result<T, Failure>) {
    let line = match outcome {
        Ok(_) => "\n".to_owned(),
        Err(failure) => format!("{failure}\n"),
    };
    // A parent that was killed meanwhile does not end the mount.
    let _ = io::stdout().write_all(line.as_bytes());
    let _ = io::stdout().flush();
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let _ = rustix::stdio::dup2_stdout(&null);
    if std::env::var_os("RUST_LOG").is_none() {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let _ = rustix::process::chdir("/");
}

fn read_report(stdout: ChildStdout) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    BufReader::new(stdout).read_until(b'\n', &mut line)?;
    let report = line.strip_suffix(b"\n");
    Ok(report.map(|report| String::from_utf8_lossy(report).into_owned()))
}

fn died(status: io::Result<ExitStatus>) -> Failure {
    let how = match status.map(|status| (status.signal(), status.code())) {
        Ok((Some(signal), _)) => format!("signal {signal} ended it"),
        Ok((None, Some(code))) => format!("it exited with status {code}"),
        _ => "it is gone".to_owned(),
    };
    Failure::new(format!("the background process did not mount: {how}"))
        .advise("try --foreground to see more")
}
