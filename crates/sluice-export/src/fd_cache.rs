//! The `O_PATH` descriptors of a session's nodes that are kept while there is
//! room. One that was not used for long goes first (second chance).

use crate::fd_budget::Share;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sluice_sys::stamping_time;
use sluice_vfs::Timestamp;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An `O_PATH` descriptor of a node. Whoever is using it keeps it open.
pub(crate) struct PathFd {
    fd: OwnedFd,
    /// When its inode was made.
    btime: Option<Timestamp>,
    /// It was used since the cache last looked.
    is_used: AtomicBool,
    /// Where it is in the cache, or [`NO_SLOT`].
    slot: AtomicU32,
}

const NO_SLOT: u32 = u32::MAX;

impl PathFd {
    pub(crate) fn new(fd: OwnedFd, btime: Option<Timestamp>) -> Arc<Self> {
        Arc::new(PathFd {
            fd,
            btime,
            is_used: AtomicBool::new(false),
            slot: AtomicU32::new(NO_SLOT),
        })
    }

    /// Remembers that it is of use.
    pub(crate) fn touch(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

impl AsFd for PathFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether an inode that is made from `now` on could be taken for one that was
/// made at `btime`, under the same number. A birth that lies further ahead is
/// from before the clock was set back.
pub(crate) fn is_young(btime: Timestamp, now: Timestamp) -> bool {
    let soon = Timestamp {
        sec: now.sec.saturating_add(1),
        ..now
    };
    now <= btime && btime <= soon
}

/// How long to wait for the clock at a time, and how often.
const WAIT: Duration = Duration::from_millis(2);
const WAITS_MAX: u32 = 10;

/// Descriptors that are kept, in a ring.
pub(crate) struct FdCache {
    share: Arc<Share>,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    slots: Vec<Option<Arc<PathFd>>>,
    free: Vec<u32>,
    /// Where the search for the next to go begins.
    hand: usize,
}

impl FdCache {
    pub(crate) fn new(share: Arc<Share>) -> Self {
        FdCache {
            share,
            ring: Mutex::default(),
        }
    }

    /// Keeps `fd`, and lets go of others where there are too many. Who makes
    /// or finds so many new inodes at once that none can be let go of waits for
    /// the clock.
    pub(crate) fn keep(&self, fd: &Arc<PathFd>) {
        let max = self.share.cached_max();
        for _ in 0..WAITS_MAX {
            if self.ring().len() <= max {
                break;
            }
            std::thread::sleep(WAIT);
            self.trim();
        }
        let mut ring = self.ring();
        // Two for one, so that a limit that sank is reached in time.
        let gone = [ring.evict_beyond(max - 1), ring.evict_beyond(max - 1)];
        let has_added = ring.add(fd);
        drop(ring);
        self.share
            .count_cached(has_added.into(), gone.iter().flatten().count() as u32);
    }

    /// Lets go of `fd`.
    pub(crate) fn drop_fd(&self, fd: &Arc<PathFd>) {
        if self.ring().remove(fd) {
            self.share.count_cached(0, 1);
        }
    }

    /// Lets go of all that are too many.
    pub(crate) fn trim(&self) {
        let max = self.share.cached_max();
        loop {
            let gone = self.ring().evict_beyond(max);
            if gone.is_none() {
                return;
            }
            self.share.count_cached(0, 1);
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FdCache {
    fn drop(&mut self) {
        let count = self.ring().len();
        self.share.count_cached(0, count);
    }
}

impl Ring {
    fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Whether it wasn't in the ring.
    fn add(&mut self, fd: &Arc<PathFd>) -> bool {
        if fd.slot.load(Ordering::Relaxed) != NO_SLOT {
            return false;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return false;
        };
        fd.slot.store(slot, Ordering::Relaxed);
        *place = Some(fd.clone());
        true
    }

    fn remove(&mut self, fd: &Arc<PathFd>) -> bool {
        let slot = fd.slot.load(Ordering::Relaxed);
        let place = self.slots.get_mut(slot as usize);
        let Some(place) = place.filter(|place| place.is_some()) else {
            return false;
        };
        *place = None;
        self.free.push(slot);
        fd.slot.store(NO_SLOT, Ordering::Relaxed);
        true
    }

    /// Takes one out if there are more than `max`. One whose inode is so young
    /// that its numbers could be taken for another's must stay; those are few.
    fn evict_beyond(&mut self, max: u32) -> Option<Arc<PathFd>> {
        if self.len() <= max {
            return None;
        }
        let now = stamping_time();
        for _ in 0..2 * self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(Some(fd)) = self.slots.get(self.hand) else {
                continue;
            };
            let is_young = fd.btime.is_some_and(|btime| is_young(btime, now));
            if is_young || fd.is_used.swap(false, Ordering::Relaxed) {
                continue;
            }
            let gone = fd.clone();
            self.remove(&gone);
            return Some(gone);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd_budget::PROCESS;

    fn path_fd(btime: Option<Timestamp>) -> Arc<PathFd> {
        let flags = rustix::fs::OFlags::PATH;
        let fd = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).unwrap();
        PathFd::new(fd, btime)
    }

    fn ring_of(fds: &[&Arc<PathFd>]) -> Ring {
        let mut ring = Ring::default();
        for fd in fds {
            assert!(ring.add(fd));
        }
        ring
    }

    #[test]
    fn what_is_used_stays_longer() {
        let (a, b, c) = (path_fd(None), path_fd(None), path_fd(None));
        let mut ring = ring_of(&[&a, &b, &c]);
        assert!(ring.evict_beyond(3).is_none());
        b.touch();
        let gone = [ring.evict_beyond(1).unwrap(), ring.evict_beyond(1).unwrap()];
        assert!(gone.iter().all(|gone| !Arc::ptr_eq(gone, &b)));
        assert!(ring.evict_beyond(1).is_none());
        assert!(ring.evict_beyond(0).is_some());
    }

    #[test]
    fn the_young_are_not_let_go() {
        let mut soon = stamping_time();
        soon.sec += 1;
        let (young, old) = (path_fd(Some(soon)), path_fd(Some(Timestamp::default())));
        let mut ring = ring_of(&[&young, &old]);
        assert!(Arc::ptr_eq(&ring.evict_beyond(0).unwrap(), &old));
        assert!(is_young(soon, soon));
        assert!(ring.remove(&young) && !ring.remove(&young));
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn a_cache_keeps_within_its_share() {
        let cache = FdCache::new(PROCESS.share());
        let max = cache.share.cached_max().min(200);
        let fds: Vec<_> = (0..max).map(|_| path_fd(None)).collect();
        fds.iter().for_each(|fd| cache.keep(fd));
        cache.keep(&fds[0]);
        assert!(cache.ring().len() <= max);
        cache.drop_fd(&fds[0]);
        cache.drop_fd(&fds[0]);
        assert!(cache.ring().len() < max);
    }
}
