//! Memory for payloads, and who waits for some.

use super::buffer::{self, Held};
use super::connection::Connection;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What payloads may take in all, and the connections that wait for some of it.
pub(super) struct Memory {
    /// Bytes.
    max: usize,
    starved: Mutex<HashMap<u64, Weak<Connection>>>,
    /// There are some.
    is_starved: AtomicBool,
    /// Who watches for shortages need not be told of this one.
    is_shortage_told: AtomicBool,
}

impl Memory {
    pub(super) fn new(max: usize) -> Self {
        Memory {
            max,
            starved: Mutex::default(),
            is_starved: AtomicBool::new(false),
            is_shortage_told: AtomicBool::new(false),
        }
    }

    /// Whether payloads take as much as they may.
    pub(super) fn is_short(&self) -> bool {
        buffer::held_bytes() >= self.max
    }

    /// The same, if nobody was told so since [`Memory::watch`].
    pub(super) fn is_newly_short(&self) -> bool {
        self.is_short() && !self.is_shortage_told.swap(true, Ordering::SeqCst)
    }

    /// Whether payloads take as much as they may, or connections wait although they don't:
    /// for who sleeps otherwise until somebody says that they do.
    pub(super) fn watch(&self) -> bool {
        self.is_shortage_told.store(false, Ordering::SeqCst);
        self.is_short() || self.is_starved()
    }

    /// Some for a payload.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Held> {
        Held::below(self.max, bytes)
    }

    /// The connection is poked by [`Memory::feed`]. Some memory may have come back before
    /// that was known: to be tried again afterwards. Whether it is the first that waits.
    pub(super) fn await_some(&self, connection: &Arc<Connection>) -> bool {
        let me = Arc::downgrade(connection);
        self.lock().insert(connection.token, me);
        !self.is_starved.swap(true, Ordering::SeqCst)
    }

    /// Goes on with connections that waited, if there is some.
    pub(super) fn feed(&self) {
        if self.is_starved() && !self.is_short() {
            self.is_starved.store(false, Ordering::SeqCst);
            let waiting = std::mem::take(&mut *self.lock());
            let waiting = waiting.values().filter_map(Weak::upgrade);
            waiting.for_each(|connection| connection.poke());
        }
    }

    fn is_starved(&self) -> bool {
        self.is_starved.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<Connection>>> {
        self.starved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
