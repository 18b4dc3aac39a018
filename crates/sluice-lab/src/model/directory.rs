//! Names of a directory, with cookies that survive changes.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Cookie behind `.`.
pub(super) const COOKIE_DOT: u64 = 1;
/// Cookie behind `..`.
pub(super) const COOKIE_DOT_DOT: u64 = 2;

/// A directory's names. Every name gets a cookie when it is made and keeps it
/// until it goes, so a listing that goes on from a cookie neither repeats nor
/// misses a name that was there throughout.
pub(super) struct Directory {
    /// Inode of the directory above.
    pub(super) parent: u64,
    names: BTreeMap<Vec<u8>, Slot>,
    by_cookie: BTreeMap<u64, Vec<u8>>,
    next_cookie: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    ino: u64,
    cookie: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        Directory {
            parent,
            names: BTreeMap::new(),
            by_cookie: BTreeMap::new(),
            next_cookie: COOKIE_DOT_DOT + 1,
        }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|slot| slot.ino)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Lets `name` lead to `ino`, whatever it led to before.
    pub(super) fn set(&mut self, name: &[u8], ino: u64) {
        if let Some(slot) = self.names.get_mut(name) {
            slot.ino = ino;
            return;
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.names.insert(name.to_vec(), Slot { ino, cookie });
        self.by_cookie.insert(cookie, name.to_vec());
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(slot) = self.names.remove(name) {
            self.by_cookie.remove(&slot.cookie);
        }
    }

    /// Cookie, name and inode of the first name behind `cookie`.
    pub(super) fn after(&self, cookie: u64) -> Option<(u64, &[u8], u64)> {
        let (&cookie, name) = self
            .by_cookie
            .range((Bound::Excluded(cookie), Bound::Unbounded))
            .next()?;
        let slot = self.names.get(name)?;
        Some((cookie, name, slot.ino))
    }
}
