//! What goes to stderr: diagnostics, and the few lines that are meant for the user.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use tracing_subscriber::EnvFilter;

/// Sends what `RUST_LOG` asks for to stderr; only errors unless it is set.
pub(crate) fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    // A second call (tests that run commands in one process) keeps the first.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .try_init();
}

/// Prints `sluice: LINE`. Nobody listening is no reason to fail.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(stderr(), "sluice: {line}");
}
