//! What goes to stderr, or to the system's log: diagnostics, and the few lines
//! that are meant for the user.

mod syslog;
mod virtiofsd_lines;

use crate::failure::one_line;
use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::sync::OnceLock;
use syslog::{Severity, Syslog};
use tracing_subscriber::EnvFilter;
use virtiofsd_lines::VirtiofsdLines;

/// Where lines go, and what they look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stderr,
    /// Stderr, with lines as virtiofsd writes them.
    VirtiofsdStderr,
    /// The system's log; as before if there is none.
    Syslog,
}

/// Set where lines go to the system's log.
static SYSLOG: OnceLock<Syslog> = OnceLock::new();

/// Set when lines are to look like virtiofsd's.
static AS_VIRTIOFSD: OnceLock<()> = OnceLock::new();

/// What this program was called.
static OWN_NAME: OnceLock<&str> = OnceLock::new();

/// Lines for the user begin with `name` from now on, instead of `sluice`.
pub(crate) fn set_own_name(name: &'static str) {
    let _ = OWN_NAME.set(name);
}

/// What this program was called.
pub(crate) fn own_name() -> &'static str {
    OWN_NAME.get().copied().unwrap_or("sluice")
}

/// Sends what `RUST_LOG` asks for to `destination`; `level` unless it is set.
pub(crate) fn init(level: &str, destination: Destination) {
    let unavailable = match destination {
        Destination::Syslog => Syslog::connect().map(|syslog| _ = SYSLOG.set(syslog)).err(),
        _ => None,
    };
    if destination != Destination::Stderr {
        let _ = AS_VIRTIOFSD.set(());
    }
    let builder = tracing_subscriber::fmt().with_env_filter(filter(level));
    // A second call (tests that run commands in one process) keeps the first.
    let _ = match SYSLOG.get() {
        Some(syslog) => builder
            .without_time()
            .with_ansi(false)
            .with_writer(syslog)
            .try_init(),
        None if AS_VIRTIOFSD.get().is_some() => builder
            .with_ansi(false)
            .event_format(VirtiofsdLines)
            .with_writer(stderr)
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

fn filter(level: &str) -> EnvFilter {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    if asked.trim().is_empty() {
        return EnvFilter::new(level);
    }
    EnvFilter::try_new(in_own_names(&asked)).unwrap_or_else(|error| {
        say(format_args!(
            "RUST_LOG='{asked}' makes no sense ({error}), so it is '{level}' that is logged"
        ));
        EnvFilter::new(level)
    })
}

/// Filters that name virtiofsd mean what stands for it here.
fn in_own_names(asked: &str) -> String {
    let directive = |directive: &str| match directive.trim().strip_prefix("virtiofsd") {
        Some(rest) if rest.is_empty() || rest.starts_with('=') => format!("sluice{rest}"),
        _ => directive.to_owned(),
    };
    asked
        .split(',')
        .map(directive)
        .collect::<Vec<_>>()
        .join(",")
}

/// Prints `sluice: LINE`. Nobody listening is no reason to fail.
pub(crate) fn say(line: impl Display) {
    let line = one_line(&line.to_string());
    let _ = match SYSLOG.get() {
        Some(syslog) => return syslog.send(Severity::Error, line.as_bytes()),
        None if AS_VIRTIOFSD.get().is_some() => {
            writeln!(stderr(), "{}{line}", virtiofsd_lines::head("ERROR"))
        }
        None => writeln!(stderr(), "{}: {line}", own_name()),
    };
}

#[cfg(test)]
mod tests {
    use super::in_own_names;

    #[test]
    fn filters_for_virtiofsd_are_for_all_of_this() {
        for (asked, expected) in [
            ("info", "info"),
            ("virtiofsd=debug", "sluice=debug"),
            ("warn, virtiofsd", "warn,sluice"),
            (
                "virtiofsd::x=debug,sluicefs=trace",
                "virtiofsd::x=debug,sluicefs=trace",
            ),
        ] {
            assert_eq!(in_own_names(asked), expected);
        }
    }
}
