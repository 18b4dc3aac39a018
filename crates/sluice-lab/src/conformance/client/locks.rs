//! Advisory locks.

use super::{Client, File};
use sluice_vfs::{Lock, LockKind, LockOutcome, LockRange, LockStyle, Result, WaitId};
use std::ops::Range;

impl Client {
    /// A lock in the way.
    pub fn getlk(&self, file: File, kind: LockKind, range: Range<u64>) -> Result<Option<Lock>> {
        let lock = posix(kind, range);
        self.session
            .getlk(&self.ctx(), file.node, file.handle, &lock)
    }

    /// Takes or gives up a POSIX lock of `range`, without waiting.
    pub fn lock(&self, file: File, kind: LockKind, range: Range<u64>) -> Result<()> {
        self.setlk(file, &posix(kind, range), None).map(drop)
    }

    /// Takes a POSIX lock of `range`, waiting if need be.
    pub fn lock_wait(
        &self,
        file: File,
        kind: LockKind,
        range: Range<u64>,
        wait: u64,
    ) -> Result<LockOutcome> {
        self.setlk(file, &posix(kind, range), Some(WaitId(wait)))
    }

    /// Takes or gives up a flock, without waiting.
    pub fn flock(&self, file: File, kind: LockKind) -> Result<()> {
        self.setlk(file, &flock(kind), None).map(drop)
    }

    /// Takes a flock, waiting if need be.
    pub fn flock_wait(&self, file: File, kind: LockKind, wait: u64) -> Result<LockOutcome> {
        self.setlk(file, &flock(kind), Some(WaitId(wait)))
    }

    /// Takes a waiting request back.
    pub fn cancel_wait(&self, wait: u64) {
        self.session.cancel_wait(WaitId(wait));
    }

    fn setlk(&self, file: File, lock: &Lock, wait: Option<WaitId>) -> Result<LockOutcome> {
        self.session
            .setlk(&self.ctx(), file.node, file.handle, lock, wait)
    }
}

fn posix(kind: LockKind, range: Range<u64>) -> Lock {
    let end = if range.end == u64::MAX {
        LockRange::EOF
    } else {
        range.end.saturating_sub(1)
    };
    Lock {
        style: LockStyle::Posix,
        kind,
        range: LockRange {
            start: range.start,
            end,
        },
        pid: 4711,
    }
}

fn flock(kind: LockKind) -> Lock {
    Lock {
        style: LockStyle::Flock,
        kind,
        range: LockRange::ALL,
        pid: 4711,
    }
}
