//! Why a guest gave no exit status.

use crate::failure::Failure;
use std::time::Duration;
use thiserror::Error;

/// Why a guest gave no exit status.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GuestError {
    /// There was no guest: nothing ran.
    #[error("{0}")]
    NotStarted(#[from] Failure),
    /// It booted, but could not do as it was told.
    #[error("the guest {reason}")]
    Unable {
        /// In init's words.
        reason: String,
        /// What its kernel said last.
        console: Vec<String>,
    },
    /// It did not boot in time.
    #[error("the guest was not ready after {limit:?} ({machine})")]
    NotReady {
        /// How long it had.
        limit: Duration,
        /// What it ran on.
        machine: String,
        /// What its kernel said last.
        console: Vec<String>,
    },
    /// It ended without a report: a kernel panic, for instance.
    #[error("the guest died: {how} ({machine})")]
    Died {
        /// How its machine's process ended.
        how: String,
        /// What it ran on.
        machine: String,
        /// What its kernel said last.
        console: Vec<String>,
    },
    /// The command took too long.
    #[error("the guest was ended after {limit:?}")]
    TimeLimit {
        /// How long it had.
        limit: Duration,
        /// What its kernel said last.
        console: Vec<String>,
    },
    /// It was ended on this side.
    #[error("the guest was ended")]
    Stopped,
}

impl GuestError {
    /// What the guest's kernel said last, as far as it helps.
    pub fn console(&self) -> &[String] {
        match self {
            GuestError::NotStarted(_) | GuestError::Stopped => &[],
            GuestError::Unable { console, .. }
            | GuestError::NotReady { console, .. }
            | GuestError::Died { console, .. }
            | GuestError::TimeLimit { console, .. } => console,
        }
    }
}
