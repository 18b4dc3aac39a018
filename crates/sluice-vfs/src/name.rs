//! Names, checked once where they enter.

use crate::limits::{NAME_MAX, XATTR_NAME_MAX};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// One path component: 1 to 255 bytes, no `/`, no NUL, neither `.` nor `..`.
///
/// It is the only form in which a name reaches a service, so a service can't
/// be made to leave a directory by what a peer sends. Bytes need not be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// Checks `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, InvalidName> {
        match bytes {
            b"" => Err(InvalidName::Empty),
            b"." | b".." => Err(InvalidName::Dots),
            _ if bytes.len() > NAME_MAX => Err(InvalidName::TooLong),
            _ if bytes.contains(&b'/') => Err(InvalidName::Slash),
            _ if bytes.contains(&0) => Err(InvalidName::Nul),
            _ => Ok(Name(bytes)),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The name as the standard library's type, for system calls.
    pub fn as_os_str(self) -> &'a OsStr {
        OsStr::from_bytes(self.0)
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<'a> TryFrom<&'a str> for Name<'a> {
    type Error = InvalidName;

    fn try_from(name: &'a str) -> Result<Self, InvalidName> {
        Name::new(name.as_bytes())
    }
}

/// Name of an extended attribute: 1 to 255 bytes without NUL.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// Checks `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, InvalidName> {
        match bytes {
            b"" => Err(InvalidName::Empty),
            _ if bytes.len() > XATTR_NAME_MAX => Err(InvalidName::TooLong),
            _ if bytes.contains(&0) => Err(InvalidName::Nul),
            _ => Ok(XattrName(bytes)),
        }
    }

    /// The bytes of the name.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Debug for XattrName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// Why bytes are not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// No bytes at all.
    #[error("the name is empty")]
    Empty,
    /// `.` or `..`.
    #[error("the name is `.` or `..`")]
    Dots,
    /// More bytes than a name may have.
    #[error("the name is longer than {NAME_MAX} bytes")]
    TooLong,
    /// A path where a name is due.
    #[error("the name contains a slash")]
    Slash,
    /// An inner NUL.
    #[error("the name contains a NUL byte")]
    Nul,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_component() {
        for (bytes, why) in [
            (&b""[..], InvalidName::Empty),
            (b".", InvalidName::Dots),
            (b"..", InvalidName::Dots),
            (b"/", InvalidName::Slash),
            (b"a/b", InvalidName::Slash),
            (b"../x", InvalidName::Slash),
            (b"a\0b", InvalidName::Nul),
            (&[b'a'; 256], InvalidName::TooLong),
        ] {
            assert_eq!(Name::new(bytes), Err(why), "{}", bytes.escape_ascii());
        }
        for bytes in [
            &b"a"[..],
            b"...",
            b".a",
            b"a..",
            b"\xff\xfe",
            b" ",
            &[b'a'; 255],
        ] {
            assert_eq!(Name::new(bytes).map(Name::as_bytes), Ok(bytes));
        }
    }

    #[test]
    fn xattr_names_may_hold_slashes() {
        assert!(XattrName::new(b"user.a/b").is_ok());
        assert_eq!(XattrName::new(b""), Err(InvalidName::Empty));
        assert_eq!(XattrName::new(b"user.a\0"), Err(InvalidName::Nul));
        assert_eq!(XattrName::new(&[b'a'; 256]), Err(InvalidName::TooLong));
    }
}
