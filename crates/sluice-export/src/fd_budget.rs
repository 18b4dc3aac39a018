//! How many descriptors each session of this process may hold.
//!
//! Some can be taken away at any time: the cached `O_PATH` descriptors of nodes
//! ([`FdCache`]). Others are held as long as the peer wants: those of open
//! files, of locks, and of nodes that could not be found again. For these the
//! rule is that a session never holds more than it leaves to all others, so
//! that whatever one does, the next finds some.

use crate::fd_cache::FdCache;
use rustix::process::{Resource, getrlimit};
use sluice_vfs::{Errno, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The budget of this process.
pub(crate) static PROCESS: Budget = Budget::new();

/// Descriptors of a process.
pub(crate) struct Budget {
    /// What all sessions may hold together.
    total: AtomicU32,
    /// Descriptors that can't be taken away.
    held: AtomicU32,
    /// Descriptors in caches.
    cached: AtomicU32,
    sessions: AtomicU32,
    caches: Mutex<Vec<Weak<FdCache>>>,
}

/// Descriptors that are left to everything but sessions, at least: sockets,
/// memory, rings, and what requests open for a moment.
const RESERVE: u64 = 128;

/// Most cached descriptors of a session, since each keeps an inode in the
/// kernel's memory.
const CACHED_MAX: u32 = 16_384;

/// What a session may cache however little there is.
const CACHED_MIN: u32 = 8;

impl Budget {
    const fn new() -> Self {
        Budget {
            total: AtomicU32::new(0),
            held: AtomicU32::new(0),
            cached: AtomicU32::new(0),
            sessions: AtomicU32::new(0),
            caches: Mutex::new(Vec::new()),
        }
    }

    /// A new session's part, by the limit of this moment (`RLIMIT_NOFILE`).
    pub(crate) fn share(&'static self) -> Arc<Share> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let reserve = (RESERVE + limit / 8).min(limit / 2);
        let total = u32::try_from(limit - reserve).unwrap_or(u32::MAX);
        self.total.store(total, Ordering::Relaxed);
        self.sessions.fetch_add(1, Ordering::Relaxed);
        Arc::new(Share {
            budget: self,
            held: AtomicU32::new(0),
        })
    }

    /// Makes `cache` give descriptors back when others need them.
    pub(crate) fn watch(&self, cache: &Arc<FdCache>) {
        let mut caches = self.caches();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(cache));
    }

    fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    fn cached_max(&self) -> u32 {
        let free = self
            .total()
            .saturating_sub(self.held.load(Ordering::Relaxed));
        let each = free / 2 / self.sessions.load(Ordering::Relaxed).max(1);
        each.clamp(CACHED_MIN, CACHED_MAX)
    }

    /// Has the caches shrink if they are in the way of what is held.
    fn make_room(&self) {
        let used = |count: &AtomicU32| count.load(Ordering::Relaxed);
        if used(&self.held).saturating_add(used(&self.cached)) <= self.total() {
            return;
        }
        let caches: Vec<_> = self.caches().iter().filter_map(Weak::upgrade).collect();
        caches.iter().for_each(|cache| cache.trim());
    }

    fn caches(&self) -> MutexGuard<'_, Vec<Weak<FdCache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session holds of the budget.
pub(crate) struct Share {
    budget: &'static Budget,
    held: AtomicU32,
}

impl Share {
    /// Counts `count` descriptors that the peer may hold as long as it likes;
    /// `ENFILE` if the session would then hold more than is left to others.
    pub(crate) fn hold(self: &Arc<Self>, count: u32) -> Result<Held> {
        let own = self.held.fetch_add(count, Ordering::Relaxed) + count;
        let all = self.budget.held.fetch_add(count, Ordering::Relaxed) + count;
        let held = Held {
            share: self.clone(),
            count,
        };
        match self.budget.total().checked_sub(all) {
            Some(left) if own <= left => {
                self.budget.make_room();
                Ok(held)
            }
            _ => Err(Errno::ENFILE),
        }
    }

    /// How many descriptors the session may cache.
    pub(crate) fn cached_max(&self) -> u32 {
        self.budget.cached_max()
    }

    /// Counts cached descriptors.
    pub(crate) fn count_cached(&self, more: u32, fewer: u32) {
        self.budget.cached.fetch_add(more, Ordering::Relaxed);
        self.budget.cached.fetch_sub(fewer, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Descriptors that count as held until this is dropped.
pub(crate) struct Held {
    share: Arc<Share>,
    count: u32,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.share.held.fetch_sub(self.count, Ordering::Relaxed);
        self.share
            .budget
            .held
            .fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of its own, and so many sessions.
    fn budget(total: u32, sessions: usize) -> (&'static Budget, Vec<Arc<Share>>) {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new()));
        let shares = (0..sessions).map(|_| budget.share()).collect();
        budget.total.store(total, Ordering::Relaxed);
        (budget, shares)
    }

    /// Takes all that the session gets, one at a time.
    fn take_all(share: &Arc<Share>) -> Vec<Held> {
        std::iter::from_fn(|| share.hold(1).ok()).collect()
    }

    #[test]
    fn whoever_takes_all_leaves_as_much() {
        let (budget, shares) = budget(1000, 4);
        let held: Vec<_> = shares.iter().map(take_all).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [500, 250, 125, 62]);
        drop(held);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert!(shares[3].hold(500).is_ok());
        assert_eq!(shares[3].hold(501).err(), Some(Errno::ENFILE));
        assert_eq!(shares[3].held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_held_goes_before_what_is_cached() {
        let (budget, shares) = budget(1000, 2);
        assert_eq!(budget.cached_max(), 250);
        let _held = shares[0].hold(500).unwrap();
        assert_eq!(budget.cached_max(), 125);
        drop(shares);
        assert_eq!(budget.sessions.load(Ordering::Relaxed), 1, "one is held");
    }
}
