//! What goes to stderr or to the system's log: diagnostics, and the few lines
//! that are meant for the user.

mod syslog;

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::sync::OnceLock;
use syslog::{Severity, Syslog};
use tracing_subscriber::EnvFilter;

/// Where lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stderr,
    /// The system's log; stderr if there is none.
    Syslog,
}

/// Set where lines go to the system's log.
static SYSLOG: OnceLock<Syslog> = OnceLock::new();

/// Sends what `RUST_LOG` asks for to `destination`; `level` unless it is set.
pub(crate) fn init(level: &str, destination: Destination) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let unavailable = match destination {
        Destination::Stderr => None,
        Destination::Syslog => Syslog::connect().map(|syslog| _ = SYSLOG.set(syslog)).err(),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    // A second call (tests that run commands in one process) keeps the first.
    let _ = match SYSLOG.get() {
        Some(syslog) => builder
            .without_time()
            .with_ansi(false)
            .with_writer(syslog)
            .try_init(),
        None => builder
            .with_writer(stderr)
            .with_ansi(stderr().is_terminal())
            .try_init(),
    };
    if let Some(error) = unavailable {
        tracing::warn!(%error, "no system log, so to stderr");
    }
}

/// Prints `sluice: LINE`. Nobody listening is no reason to fail.
pub(crate) fn say(line: impl Display) {
    match SYSLOG.get() {
        Some(syslog) => syslog.send(Severity::Error, format!("{line}").as_bytes()),
        None => _ = writeln!(stderr(), "sluice: {line}"),
    }
}
