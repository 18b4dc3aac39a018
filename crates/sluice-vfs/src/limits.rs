//! Limits of the vocabulary itself, and those that a session is held to.

/// Longest file name in bytes (Linux `NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Longest symlink target in bytes, without a terminator (Linux `PATH_MAX` − 1).
pub const SYMLINK_TARGET_MAX: usize = 4095;

/// Longest name of an extended attribute in bytes (Linux `XATTR_NAME_MAX`).
pub const XATTR_NAME_MAX: usize = 255;

/// Largest value of an extended attribute in bytes (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_MAX: usize = 65_536;

/// Largest list of extended attribute names in bytes (Linux `XATTR_LIST_MAX`).
pub const XATTR_LIST_MAX: usize = 65_536;

/// Most names in one walk (9P `MAXWELEM`).
pub const WALK_MAX: usize = 16;

/// What one session may hold at a time. A request beyond ends in the named
/// error for that session alone; no other session notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Known nodes; beyond: `ENOMEM`.
    pub nodes: u32,
    /// Open files and directories; beyond: `ENFILE`.
    pub handles: u32,
    /// Pairs of (file, lock owner) and open files that hold locks; beyond: `ENOLCK`.
    pub lock_owners: u32,
    /// Byte ranges that POSIX locks hold, in all; where a request could lead
    /// beyond: `ENOLCK`. The kernel keeps each, and finds it by going through
    /// those of the same file.
    pub lock_ranges: u32,
    /// Lock requests that wait; beyond: `ENOLCK`.
    pub lock_waits: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            nodes: 4_000_000,
            handles: 65_536,
            lock_owners: 16_384,
            lock_ranges: 16_384,
            lock_waits: 32,
        }
    }
}
