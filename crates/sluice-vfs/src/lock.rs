//! Advisory locks.

/// An inclusive byte range; `end` [`LockRange::EOF`] reaches to the end
/// wherever that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
}

impl LockRange {
    /// "To the end of the file", the kernel's `OFFSET_MAX`.
    pub const EOF: u64 = i64::MAX as u64;

    /// The whole file.
    pub const ALL: LockRange = LockRange {
        start: 0,
        end: Self::EOF,
    };

    /// Whether two ranges share a byte.
    pub const fn overlaps(&self, other: &LockRange) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// What a lock allows others to hold beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Others may read-lock too.
    Read,
    /// Nobody else may lock.
    Write,
    /// Not a lock: gives up what is held in the range.
    Unlock,
}

/// The two families, which never see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStyle {
    /// Byte ranges owned by a process (fcntl(2)).
    Posix,
    /// The whole file, owned by an open file description (flock(2)).
    Flock,
}

/// A lock that is asked for, held or in the way. Its owner is the context's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Family.
    pub style: LockStyle,
    /// Kind.
    pub kind: LockKind,
    /// Range; [`LockRange::ALL`] for [`LockStyle::Flock`].
    pub range: LockRange,
    /// Who holds it, in the peer's numbering; 0 where that can't be told.
    pub pid: u32,
}

/// Outcome of asking for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// It is held (or given up).
    Done,
    /// It will be answered by [`Event::LockSettled`](crate::Event::LockSettled).
    Waiting,
}
