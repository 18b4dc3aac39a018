//! The host's terminal, lent to the guest.

use rustix::stdio;
use rustix::termios::{self, OptionalActions, Termios};
use std::os::fd::{AsFd, OwnedFd};

/// A terminal in raw mode: every key goes to the guest, Ctrl-C too. Dropping
/// it restores the terminal.
pub(super) struct RawTerminal {
    terminal: OwnedFd,
    before: Termios,
}

impl RawTerminal {
    /// Makes the terminal behind standard input raw.
    pub(super) fn enter() -> rustix::io::Result<Self> {
        let terminal = rustix::io::fcntl_dupfd_cloexec(stdio::stdin(), 3)?;
        let before = termios::tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&terminal, OptionalActions::Drain, &raw)?;
        Ok(RawTerminal { terminal, before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&self.terminal, OptionalActions::Drain, &self.before);
    }
}

/// Whether someone sits at both standard input and standard output.
pub(crate) fn is_interactive() -> bool {
    termios::isatty(stdio::stdin()) && termios::isatty(stdio::stdout())
}

/// Rows and columns of the terminal on standard output.
pub(super) fn window() -> Option<(u16, u16)> {
    let size = termios::tcgetwinsize(stdio::stdout().as_fd()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
