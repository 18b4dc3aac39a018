//! Locks.

use super::field::{Str, structures};
use super::flags::LockFlags;

structures! {
    /// Arguments of Tlock behind the fid.
    struct LockArgs<'a> {
        /// `LockArgs::READ`, `WRITE` or `UNLOCK`.
        kind: u8,
        /// Whether to wait.
        flags: LockFlags,
        /// First byte.
        start: u64,
        /// Bytes; 0 reaches to the end of the file.
        length: u64,
        /// Process, in the peer's numbering.
        proc_id: u32,
        /// Name of the peer.
        client_id: Str<'a>,
    }

    /// Arguments of Tgetlock behind the fid, and the body of Rgetlock.
    struct Getlock<'a> {
        /// `LockArgs::READ`, `WRITE` or `UNLOCK`.
        kind: u8,
        /// First byte.
        start: u64,
        /// Bytes; 0 reaches to the end of the file.
        length: u64,
        /// Process, in the peer's numbering.
        proc_id: u32,
        /// Name of the peer.
        client_id: Str<'a>,
    }
}

impl LockArgs<'_> {
    /// Others may read-lock too.
    pub const READ: u8 = 0;
    /// Nobody else may lock.
    pub const WRITE: u8 = 1;
    /// Gives up what is held.
    pub const UNLOCK: u8 = 2;

    /// Status of Rlock: it is held, or given up.
    pub const SUCCESS: u8 = 0;
    /// Status of Rlock: someone else holds it.
    pub const BLOCKED: u8 = 1;
    /// Status of Rlock: it can't be had.
    pub const ERROR: u8 = 2;
    /// Status of Rlock: the server is starting.
    pub const GRACE: u8 = 3;
}
