//! What keeps a measurement from being made.

use std::fmt::{self, Display};

/// One line that says what went wrong.
#[derive(Debug)]
pub struct BenchError(String);

impl BenchError {
    /// With this text.
    pub fn new(message: impl Into<String>) -> Self {
        BenchError(message.into())
    }
}

impl Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BenchError {}

impl From<std::io::Error> for BenchError {
    fn from(error: std::io::Error) -> Self {
        BenchError(error.to_string())
    }
}

impl From<rustix::io::Errno> for BenchError {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}

/// Says what was tried when it failed.
pub trait Context<T> {
    /// Puts `what` in front of the error's text.
    ///
    /// # Errors
    /// The same, with more text.
    fn context(self, what: impl Display) -> Result<T, BenchError>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, BenchError> {
        self.map_err(|error| BenchError(format!("{what}: {error}")))
    }
}
