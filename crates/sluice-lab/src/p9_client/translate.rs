//! Wire words to neutral words, where a test asks more of them than a client does.

use sluice_client::translate;
use sluice_proto::p9::wire::{Attr as WireAttr, GetattrMask, Getlock, LockArgs};
use sluice_vfs::{Attr, Errno, Lock, Result};

pub(super) use sluice_client::translate::{lock_kind, lock_length, lopen_flags, setattr, statfs};

/// Attributes.
pub(super) fn attr(attr: &WireAttr) -> Attr {
    assert!(attr.valid.contains(GetattrMask::BASIC), "all was asked for");
    assert_ne!(attr.qid.version, 0, "Linux would not cache it");
    translate::attr(attr)
}

/// A lock that is in the way.
pub(super) fn held_lock(lock: &Getlock<'_>) -> Option<Lock> {
    translate::held_lock(lock).expect("a kind of lock")
}

/// Status of an Rlock, as Linux takes it.
pub(super) fn lock_status(status: u8) -> Result<()> {
    match status {
        LockArgs::SUCCESS => Ok(()),
        LockArgs::BLOCKED => Err(Errno::EAGAIN),
        LockArgs::ERROR | LockArgs::GRACE => Err(Errno::ENOLCK),
        other => panic!("an Rlock with status {other}"),
    }
}
