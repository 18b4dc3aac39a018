//! The dialects, and how a peer asks for one.

/// A dialect of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `9P2000`, as in section 5 of the Plan 9 manual.
    Plan9,
    /// `9P2000.u`, which adds numbers to names and what Unix has besides files.
    Unix,
    /// `9P2000.L`, Linux's own calls in place of open, create, stat and wstat.
    Linux,
    /// `9P2000.L.sluice`: 9P2000.L, and messages that do what takes it several
    /// (docs/9p-extension.md).
    Sluice,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 4] = [
        Dialect::Plan9,
        Dialect::Unix,
        Dialect::Linux,
        Dialect::Sluice,
    ];

    /// The dialect to answer a version string with, if it is one of 9P2000.
    /// What follows `9P2000.L` and `9P2000.u` is the peer's own affair
    /// (`9P2000.L.Google.7`); what else follows a dot is not known, and left
    /// off as version(5) has it.
    pub fn of_version(version: &[u8]) -> Option<Self> {
        if version == Dialect::Sluice.version() {
            return Some(Dialect::Sluice);
        }
        let extension = version.strip_prefix(b"9P2000")?;
        match extension.split(|&byte| byte == b'.').nth(1) {
            _ if extension.is_empty() => Some(Dialect::Plan9),
            None => None,
            Some(_) if !extension.starts_with(b".") => None,
            Some(b"L") => Some(Dialect::Linux),
            Some(b"u") => Some(Dialect::Unix),
            Some(_) => Some(Dialect::Plan9),
        }
    }

    /// The version string that stands for it.
    pub const fn version(self) -> &'static [u8] {
        match self {
            Dialect::Plan9 => b"9P2000",
            Dialect::Unix => b"9P2000.u",
            Dialect::Linux => b"9P2000.L",
            Dialect::Sluice => b"9P2000.L.sluice",
        }
    }

    /// Whether Linux's calls are spoken.
    pub const fn is_linux(self) -> bool {
        matches!(self, Dialect::Linux | Dialect::Sluice)
    }

    /// Whether messages have the fields that 9P2000.u added.
    pub(super) const fn is_extended(self) -> bool {
        !matches!(self, Dialect::Plan9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_by_what_they_begin_with() {
        for (version, dialect) in [
            ("9P2000", Some(Dialect::Plan9)),
            ("9P2000.u", Some(Dialect::Unix)),
            ("9P2000.L", Some(Dialect::Linux)),
            ("9P2000.L.Google.7", Some(Dialect::Linux)),
            ("9P2000.L.sluice", Some(Dialect::Sluice)),
            ("9P2000.L.sluice.2", Some(Dialect::Linux)),
            ("9P2000.L.slui", Some(Dialect::Linux)),
            ("9P2000.x", Some(Dialect::Plan9)),
            ("9P2000.", Some(Dialect::Plan9)),
            ("9P2001", None),
            ("9P20000.L", None),
            ("9P", None),
            ("", None),
            ("unknown", None),
        ] {
            assert_eq!(
                Dialect::of_version(version.as_bytes()),
                dialect,
                "{version}"
            );
        }
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::of_version(dialect.version()), Some(dialect));
        }
    }
}
