//! What can go wrong, in types.

use sluice_proto::codec::Malformed;
use sluice_proto::p9::wire::{Dialect, Failure, Type};
use sluice_vfs::{Errno, InvalidName};
use std::io;
use std::time::Duration;

/// Result of everything that a client does.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server refused it, with a number.
    #[error("{}", words(*.0))]
    Refused(Errno),
    /// The server refused it, in words (9P2000).
    #[error("{text}")]
    Told {
        /// What it said.
        text: String,
        /// The number that these words stand for, or else `EIO`.
        errno: Errno,
    },
    /// The reply was none that the request can have. The connection goes on.
    #[error("the server breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// The connection is over, and so is everything that went on in it.
    #[error("the connection is over: {0}")]
    Lost(#[from] Lost),
    /// The server did not answer in time, and took the request back.
    #[error("the server did not answer within {0:?}")]
    TimedOut(Duration),
    /// The dialect that the server speaks has no message for it.
    #[error("{dialect} has no message for {what}")]
    NotInDialect {
        /// What was asked for.
        what: &'static str,
        /// The dialect, as its version is written.
        dialect: &'static str,
    },
    /// A name that no file can have.
    #[error("{0}")]
    Name(#[from] InvalidName),
    /// A request that no message can carry.
    #[error("the request is too long for a message")]
    TooLong,
    /// Who answers speaks something else.
    #[error("no 9P server answers there{0}")]
    Foreign(String),
    /// No connection could be made.
    #[error("{0}")]
    Connect(String),
}

impl Error {
    /// The number by which a system call would tell it.
    pub fn errno(&self) -> Errno {
        match self {
            Error::Refused(errno) | Error::Told { errno, .. } => *errno,
            Error::Violation(_) | Error::Foreign(_) => Errno::EPROTO,
            Error::Lost(lost) => lost.errno(),
            Error::TimedOut(_) => Errno::ETIMEDOUT,
            Error::NotInDialect { .. } => Errno::EOPNOTSUPP,
            Error::Name(why) => Errno::from(*why),
            Error::TooLong => Errno::ENAMETOOLONG,
            Error::Connect(_) => Errno::ENOTCONN,
        }
    }

    /// Whether nothing more can be asked for over the connection.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Error::Lost(_) | Error::Connect(_) | Error::Foreign(_))
    }

    /// Whether the server has no such operation: servers say that with either number.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(self.errno(), Errno::EOPNOTSUPP | Errno::ENOSYS)
    }

    /// What a server answers with.
    pub(crate) fn refusal(failure: &Failure<'_>, dialect: Dialect) -> Self {
        let text = one_line(failure.ename.0);
        let errno = match failure.errno {
            0 if text.is_empty() => Errno::EIO,
            0 => errno_of_words(&text),
            number => Errno::from_raw(number.cast_signed()),
        };
        // What the number says is said in the user's language; keep other words.
        match dialect {
            Dialect::Plan9 if !text.is_empty() && words(errno) != text => {
                Error::Told { text, errno }
            }
            _ => Error::Refused(errno),
        }
    }

    /// That a dialect has no message for something.
    pub(crate) fn not_in(dialect: Dialect, what: &'static str) -> Self {
        let dialect = std::str::from_utf8(dialect.version()).unwrap_or("the dialect");
        Error::NotInDialect { what, dialect }
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        error.errno()
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::Refused(errno)
    }
}

impl From<Error> for io::Error {
    /// Keeps the words, and the kind that belongs to the number. Whoever is told that it
    /// was interrupted here asks again; a server's `EINTR` is an error like others.
    fn from(error: Error) -> Self {
        let kind = io::Error::from(error.errno()).kind();
        match error {
            _ if kind == io::ErrorKind::Interrupted => io::Error::other(error),
            Error::Refused(errno) => errno.into(),
            _ => io::Error::new(kind, error),
        }
    }
}

/// What a server does that the protocol forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message smaller than its header, or larger than what was agreed on.
    #[error("a message of {0} bytes")]
    Size(u32),
    /// A reply to nothing that was asked.
    #[error("a reply with tag {0}, which no request has")]
    Tag(u16),
    /// A reply of another kind than the request.
    #[error("a message of type {got} in reply to {asked:?}")]
    Kind {
        /// What was asked.
        asked: Type,
        /// Number of the message that came.
        got: u8,
    },
    /// A reply that cannot be taken apart.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// More bytes, or other things, than were asked for.
    #[error("{got} {what} where {asked} were asked for")]
    Excess {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// How many came.
        got: u64,
    },
    /// Rversion says what was not offered.
    #[error("an Rversion with a version that was not offered")]
    Version,
    /// A value that makes no sense.
    #[error("{0} makes no sense")]
    Value(&'static str),
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The server closed it.
    #[error("the server closed it")]
    Closed,
    /// The transport failed.
    #[error("{}", words(*.0))]
    Io(Errno),
    /// Replies can no longer be told from each other.
    #[error("the server breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// The server stopped within a message, takes none in, or does not even
    /// answer that a request is taken back.
    #[error("the server hangs")]
    Stalled,
}

impl Lost {
    fn errno(self) -> Errno {
        match self {
            Lost::Closed => Errno::ENOTCONN,
            Lost::Io(errno) => errno,
            Lost::Violation(_) => Errno::EPROTO,
            Lost::Stalled => Errno::ETIMEDOUT,
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Lost::Io(Errno::from(error))
    }
}

/// The system's words, without Rust's ` (os error N)`.
pub(crate) fn words(errno: Errno) -> String {
    let text = errno.to_string();
    match text.find(" (os error") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// A server's words, whatever bytes they are; empty if there is nothing to see.
fn one_line(text: &[u8]) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = String::from_utf8_lossy(text).chars().map(shown).collect();
    line.trim().to_owned()
}

/// The number behind the words of an Rerror: those of strerror(3), or of Plan 9.
fn errno_of_words(text: &str) -> Errno {
    /// What servers in the tradition of Plan 9 say.
    const PLAN9: [(&str, Errno); 12] = [
        ("file does not exist", Errno::ENOENT),
        ("file not found", Errno::ENOENT),
        ("directory entry not found", Errno::ENOENT),
        ("does not exist", Errno::ENOENT),
        ("permission denied", Errno::EACCES),
        ("already exists", Errno::EEXIST),
        ("not a directory", Errno::ENOTDIR),
        ("is a directory", Errno::EISDIR),
        ("not empty", Errno::ENOTEMPTY),
        ("unknown fid", Errno::EBADF),
        ("bad fid", Errno::EBADF),
        ("no space", Errno::ENOSPC),
    ];
    let text = text.to_lowercase();
    let numbers = (1..134).map(Errno::from_raw);
    let spelled = |errno: &Errno| words(*errno).to_lowercase() == text;
    let known = PLAN9.iter().find(|(words, _)| text.contains(words));
    let mut numbers = numbers.filter(spelled);
    numbers
        .next()
        .or(known.map(|(_, errno)| *errno))
        .unwrap_or(Errno::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::p9::wire::Str;

    #[test]
    fn words_stand_for_numbers() {
        for (text, errno) in [
            ("No such file or directory", Errno::ENOENT),
            ("Directory not empty", Errno::ENOTEMPTY),
            ("file does not exist", Errno::ENOENT),
            ("'/x' file does not exist", Errno::ENOENT),
            ("unknown fid", Errno::EBADF),
            ("phase error", Errno::EIO),
        ] {
            assert_eq!(errno_of_words(text), errno, "{text}");
        }
    }

    #[test]
    fn there_always_is_something_to_tell() {
        let told = |words: &[u8]| {
            let (ename, errno) = (Str(words), 0);
            Error::refusal(&Failure { ename, errno }, Dialect::Plan9)
        };
        for nothing in [&b""[..], b" ", b"\n\0"] {
            assert_eq!(told(nothing), Error::Refused(Errno::EIO));
        }
        assert_eq!(told(b"no\nway ").to_string(), "no way");
    }

    #[test]
    fn an_error_keeps_its_number_and_its_words() {
        let refused = io::Error::from(Error::Refused(Errno::ENOSPC));
        assert_eq!(refused.raw_os_error(), Some(28));
        let interrupted = io::Error::from(Error::Refused(Errno::EINTR));
        assert_ne!(interrupted.kind(), io::ErrorKind::Interrupted);
        let lost = io::Error::from(Error::Lost(Lost::Closed));
        assert_eq!(lost.kind(), io::ErrorKind::NotConnected);
        assert!(lost.to_string().contains("the server closed it"));
        assert_eq!(Error::TooLong.errno(), Errno::ENAMETOOLONG);
    }
}
