//! Threads that connections keep busy, and those that wait for others to let go of some.

use super::connection::Connection;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Most threads; most of them only exist while others wait for a disk.
pub(super) const THREADS_MAX: usize = 192;

/// Most threads that one connection can have run its requests.
const THREADS_OF_ONE: usize = 32;

/// How many threads are busy, and which connections were held up for that.
#[derive(Default)]
pub(super) struct Threads {
    /// Those that have a connection's turn, or run what came of it.
    busy: AtomicUsize,
    /// By how many of its requests run, and its token: who has the fewest goes on first.
    held_up: Mutex<BTreeMap<(usize, u64), Weak<Connection>>>,
    /// There are some.
    is_awaited: AtomicBool,
}

impl Threads {
    /// A thread takes a connection's turn.
    pub(super) fn begin(&self) {
        self.busy.fetch_add(1, Ordering::SeqCst);
    }

    /// It is done with that, and with what came of it. If that lets a connection go on,
    /// one of them does; when its turn ends, the next.
    pub(super) fn end(&self) {
        self.busy.fetch_sub(1, Ordering::SeqCst);
        while let Some(waiting) = self.next() {
            let connection = waiting.upgrade();
            if connection.is_some_and(|connection| connection.poke_unless_over()) {
                return;
            }
        }
    }

    /// Whether a connection whose turn a thread has, and of which so many requests run,
    /// may have another one run.
    pub(super) fn may_have_more(&self, running: usize) -> bool {
        let busy_with_others = self.busy.load(Ordering::SeqCst).saturating_sub(1);
        running < share(busy_with_others)
    }

    /// If not, and others could change that, it is poked when they have. That may be so
    /// before this was known: to be asked again afterwards.
    pub(super) fn await_more(&self, connection: &Arc<Connection>, running: usize) {
        if running < THREADS_OF_ONE && !self.may_have_more(running) {
            let mut held_up = self.lock();
            held_up.insert((running, connection.token), Arc::downgrade(connection));
            self.is_awaited.store(true, Ordering::SeqCst);
        }
    }

    /// One that may go on now.
    fn next(&self) -> Option<Weak<Connection>> {
        if !self.is_awaited.load(Ordering::SeqCst) {
            return None;
        }
        let mut held_up = self.lock();
        let first = held_up.first_entry()?;
        let (running, _) = *first.key();
        if running >= share(self.busy.load(Ordering::SeqCst)) {
            return None;
        }
        let connection = first.remove();
        self.is_awaited.store(!held_up.is_empty(), Ordering::SeqCst);
        Some(connection)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(usize, u64), Weak<Connection>>> {
        self.held_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most threads that one connection can have while so many are busy. However many others
/// hold the rest, some are left for those who come.
fn share(busy: usize) -> usize {
    let free = THREADS_MAX.saturating_sub(busy);
    THREADS_OF_ONE.min(free / 2).max(1)
}
