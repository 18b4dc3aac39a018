//! What connections may hold: each by itself, and all of a process together.

use sluice_vfs::{Errno, Result, XATTR_VALUE_MAX};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Fids that every connection can have, whatever others hold.
const FIDS_ASSURED: usize = 64;

/// Bytes of attributes that every connection can have: one value.
const XATTR_BYTES_ASSURED: usize = XATTR_VALUE_MAX;

/// What all connections of a process may hold together, in the [`ServerConfig`] of
/// each. What is assured to each does not count.
///
/// [`ServerConfig`]: super::ServerConfig
pub struct CommonBounds {
    fids: Arc<Pool>,
    xattr_bytes: Arc<Pool>,
}

impl Default for CommonBounds {
    /// Enough for eight connections that hold all they may.
    fn default() -> Self {
        CommonBounds::new(CommonBounds::FIDS, CommonBounds::XATTR_BYTES)
    }
}

impl CommonBounds {
    /// Fids, unless something else is asked for.
    pub const FIDS: usize = 1 << 19;

    /// Bytes in values of extended attributes, unless something else is asked for.
    pub const XATTR_BYTES: usize = 32 << 20;

    /// So many fids, and so many bytes in values of extended attributes; beyond them
    /// it is the same errors as beyond a connection's own [`Bounds`](super::Bounds).
    pub fn new(fids: usize, xattr_bytes: usize) -> Self {
        CommonBounds {
            fids: Pool::new(fids),
            xattr_bytes: Pool::new(xattr_bytes),
        }
    }

    /// For a connection's fids, of which it may have `max`.
    pub(super) fn fids(&self, max: usize) -> Quota {
        Quota::new(&self.fids, FIDS_ASSURED, max)
    }

    /// For its attributes, of which it may have `max` bytes.
    pub(super) fn xattr_bytes(&self, max: usize) -> Arc<Budget> {
        let quota = Quota::new(&self.xattr_bytes, XATTR_BYTES_ASSURED, max);
        Arc::new(Budget(Mutex::new(quota)))
    }
}

/// How much is left for all.
struct Pool(AtomicUsize);

impl Pool {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Pool(AtomicUsize::new(size)))
    }

    fn take(&self, count: usize) -> bool {
        // Most take only of what is assured to them: all threads share this.
        if count == 0 {
            return true;
        }
        let take = |left: usize| left.checked_sub(count);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn give_back(&self, count: usize) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// What one connection holds. Given back when it is dropped.
pub(super) struct Quota {
    pool: Arc<Pool>,
    assured: usize,
    max: usize,
    used: usize,
}

impl Quota {
    fn new(pool: &Arc<Pool>, assured: usize, max: usize) -> Self {
        Quota {
            pool: Arc::clone(pool),
            assured,
            max,
            used: 0,
        }
    }

    /// Takes some, unless there are too few.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let used = self.used.saturating_add(count);
        let can_take =
            used <= self.max && self.pool.take(self.shared(used) - self.shared(self.used));
        if can_take {
            self.used = used;
        }
        can_take
    }

    pub(super) fn give_back(&mut self, count: usize) {
        let used = self.used.saturating_sub(count);
        self.pool
            .give_back(self.shared(self.used) - self.shared(used));
        self.used = used;
    }

    /// How many of so many count for all.
    fn shared(&self, used: usize) -> usize {
        used.saturating_sub(self.assured)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.give_back(self.used);
    }
}

/// Memory for values of extended attributes, which fids hold.
pub(super) struct Budget(Mutex<Quota>);

impl Budget {
    /// Takes some; `ENOMEM` if there are too few.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<Room> {
        match self.with(|quota| quota.take(bytes)) {
            true => Ok(Room {
                budget: Arc::clone(self),
                bytes,
            }),
            false => Err(Errno::ENOMEM),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Quota) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes of a budget, until dropped.
pub(super) struct Room {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.with(|quota| quota.give_back(self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assured_to_each_is_there_when_all_else_is_gone() {
        let pool = Pool::new(5);
        let mut one = Quota::new(&pool, 2, 100);
        let mut other = Quota::new(&pool, 2, 100);
        assert!(one.take(7) && !one.take(1));
        assert!(other.take(2) && !other.take(1));
        one.give_back(1);
        assert!(other.take(1) && !one.take(1));
        // All comes back, and no more.
        drop(other);
        assert!(one.take(1) && !one.take(1));
        drop(one);
        assert_eq!(pool.0.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn nobody_has_more_than_its_own_limit() {
        let pool = Pool::new(100);
        let mut quota = Quota::new(&pool, 2, 4);
        assert!(!quota.take(5) && !quota.take(usize::MAX));
        assert!(quota.take(4) && !quota.take(1));
    }

    #[test]
    fn bytes_are_given_back_when_their_value_goes() {
        let budget = CommonBounds::new(0, 10).xattr_bytes(usize::MAX);
        let room = budget.take(XATTR_BYTES_ASSURED + 10).unwrap();
        assert!(matches!(budget.take(1), Err(Errno::ENOMEM)));
        drop(room);
        assert!(budget.take(XATTR_BYTES_ASSURED + 10).is_ok());
    }
}
