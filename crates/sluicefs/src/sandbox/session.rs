//! A guest on this process's own standard streams and signals.

use super::error::GuestError;
use super::guest::{Guest, GuestStdio};
use super::line::Control;
use super::running::GuestStopper;
use super::terminal::{self, RawTerminal};
use crate::failure::Failure;
use crate::logging;
use rustix::stdio;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

/// There is no exit status of the command's, as with env(1) and timeout(1).
const OWN_FAILURE: u8 = 125;

/// Runs the guest on this process's streams (and terminal, if there is one),
/// and returns what to exit with: the command's status, 125 if no guest could
/// be started or it failed, which is then told, or 128 and the number of the
/// signal that this process was sent.
pub fn run(guest: Guest) -> ExitCode {
    try_run(guest).unwrap_or_else(|failure| {
        logging::say(failure);
        ExitCode::from(OWN_FAILURE)
    })
}

fn try_run(mut guest: Guest) -> Result<ExitCode, Failure> {
    let is_interactive = terminal::is_interactive();
    if is_interactive {
        let term = std::env::var_os("TERM").unwrap_or_else(|| "linux".into());
        guest.environment.push(("TERM".into(), term));
    }
    let stdio = own_stdio(is_interactive)
        .map_err(|error| Failure::new(format!("cannot use the standard streams: {error}")))?;
    let mut running = guest.start(stdio)?;
    let signal = on_signals(running.stopper(), running.control())
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;
    let outcome = running.boot().and_then(|()| {
        // Until the guest is there, Ctrl-C is this process's.
        let _raw = is_interactive.then(RawTerminal::enter);
        running.wait()
    });
    match outcome {
        Ok(status) => Ok(ExitCode::from(status)),
        Err(GuestError::Stopped) => Ok(ExitCode::from(ended_by(signal.load(Ordering::Acquire)))),
        Err(GuestError::NotStarted(failure)) => Err(failure),
        Err(error) => {
            for line in error.console() {
                logging::say(format_args!("guest: {line}"));
            }
            logging::say(error);
            Ok(ExitCode::from(OWN_FAILURE))
        }
    }
}

/// As a shell reports a signal.
fn ended_by(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OWN_FAILURE, |signal| signal.saturating_add(128))
}

fn own_stdio(is_interactive: bool) -> io::Result<GuestStdio> {
    let stdin = Box::new(duplicate(stdio::stdin())?);
    let stdout = Box::new(duplicate(stdio::stdout())?);
    Ok(if is_interactive {
        GuestStdio::Terminal {
            keys: stdin,
            screen: stdout,
            window: terminal::window(),
        }
    } else {
        GuestStdio::Streams {
            stdin,
            stdout,
            stderr: Box::new(duplicate(stdio::stderr())?),
        }
    })
}

/// Without the buffers that the standard library puts before it.
fn duplicate(stream: BorrowedFd<'_>) -> io::Result<File> {
    let stream: OwnedFd = rustix::io::fcntl_dupfd_cloexec(stream, 3)?;
    Ok(stream.into())
}

/// SIGINT, SIGTERM and SIGHUP end the guest; a terminal's new size is passed
/// on. Returns where the number of the signal that ended it will be.
fn on_signals(stopper: GuestStopper, control: Control) -> io::Result<Arc<AtomicI32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGWINCH])?;
    let ended = Arc::new(AtomicI32::new(0));
    let first = ended.clone();
    let obey = move || {
        for signal in signals.forever() {
            if signal != SIGWINCH {
                let _ = first.compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
                stopper.stop();
            } else if let Some(window) = terminal::window() {
                control.resize(window);
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(obey)?;
    Ok(ended)
}
