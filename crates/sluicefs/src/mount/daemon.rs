//! Going to the background once the mount is usable.
//!
//! The background process is this program started again, not a fork: threads
//! and locks need no care that way. It reports over its standard output: one
//! empty line when the mount is usable, or one line that says why not.

use super::mount_table;
use crate::failure::Failure;
use crate::signals::{EndSignal, EndSignals, FROM_USERS, OnEndSignal};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};

/// The hidden flag that makes the program the background process.
pub(crate) const DAEMON_FLAG: &str = "report-on-stdout";

/// Starts this program again with `words` (its name, a command and arguments) in
/// the background, and returns once it has mounted. Of the descriptors of this process it
/// gets `socket` alone: whoever waits for the end of others does not wait for a mount's.
pub(crate) fn start(words: Vec<OsString>, socket: Option<i32>) -> Result<(), Failure> {
    let mut arguments = words.into_iter();
    let own_name = arguments.next().unwrap_or_else(|| "sluice".into());
    let mut arguments: Vec<_> = arguments.collect();
    // In front of the positional arguments and a possible `--`.
    let after_command = arguments.len().min(1);
    arguments.insert(after_command, format!("--{DAEMON_FLAG}").into());
    mount_table::check()?; // it is started through /proc
    let cannot = |error| Failure::new(format!("cannot start the background process: {error}"));
    let signals = EndSignals::register(FROM_USERS).map_err(cannot)?;
    // An old kernel does not, and that is no reason not to mount.
    let _ = sluice_sys::keep_descriptors(socket);
    let stdin = match socket {
        Some(0) => Stdio::inherit(),
        _ => Stdio::null(),
    };
    let mut child = Command::new("/proc/self/exe")
        .arg0(own_name)
        .args(arguments)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let interruption = Arc::new(OnceLock::new());
    let signals = end_with(signals, &child, &interruption).map_err(cannot)?;
    let report = child.stdout.take().map(read_report);
    drop(signals);
    if let Some(signal) = interruption.get() {
        let _ = child.wait();
        signal.end_process();
    }
    match report {
        Some(Ok(Some(report))) if report.is_empty() => Ok(()),
        Some(Ok(Some(report))) => {
            let _ = child.wait();
            Err(Failure::new(report))
        }
        _ => Err(died(child.wait())),
    }
}

/// Whoever interrupts this process means the background process.
fn end_with(
    signals: EndSignals,
    child: &Child,
    interruption: &Arc<OnceLock<EndSignal>>,
) -> io::Result<OnEndSignal> {
    let (pid, interruption) = (Pid::from_child(child), Arc::clone(interruption));
    signals.act(move |signal| {
        let _ = interruption.set(signal);
        // It is a child until it was waited for.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    })
}

/// Leaves the terminal's session, so that its end is not the mount's. The parent's is,
/// until it has been told: it cannot say any more that there is a mount.
pub(super) fn detach() {
    // Fails only for a process group leader, which a child is not.
    let _ = rustix::process::setsid();
    // It was started by a path that ends otherwise.
    let _ = rustix::thread::set_name(c"sluice");
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let looked = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    // It ended before that.
    if looked == Ok(1) {
        std::process::exit(1);
    }
}

/// Tells the waiting parent how mounting went, and lets go of its descriptors. Whether
/// somebody was told.
pub(super) fn report<T>(outcome: &Result<T, Failure>) -> bool {
    let line = match outcome {
        Ok(_) => "\n".to_owned(),
        Err(failure) => format!("{failure}\n"),
    };
    let _ = rustix::process::set_parent_process_death_signal(None);
    let mut stdout = io::stdout();
    let told = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::stdio::dup2_stdout(&null);
        if std::env::var_os("RUST_LOG").is_none() {
            let _ = rustix::stdio::dup2_stderr(&null);
        }
    }
    let _ = rustix::process::chdir("/");
    told.is_ok()
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
