//! The connections that there are.

use super::connection::Connection;
use super::watch::FIRST_TOKEN;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All connections, by their tokens.
pub(super) struct Registry {
    state: Mutex<State>,
    /// Most of them at a time.
    max: usize,
}

struct State {
    connections: HashMap<u64, Arc<Connection>>,
    next_token: u64,
}

impl Registry {
    /// For up to `max`; the first `taken` tokens are somebody else's.
    pub(super) fn new(max: usize, taken: usize) -> Self {
        let state = State {
            connections: HashMap::new(),
            next_token: FIRST_TOKEN + taken as u64,
        };
        Registry {
            state: Mutex::new(state),
            max,
        }
    }

    /// A token that no other ever has.
    pub(super) fn token(&self) -> u64 {
        let mut state = self.lock();
        state.next_token += 1;
        state.next_token - 1
    }

    pub(super) fn add(&self, connection: &Arc<Connection>) {
        let connection = Arc::clone(connection);
        self.lock().connections.insert(connection.token, connection);
    }

    /// Whether none is left.
    pub(super) fn remove(&self, token: u64) -> bool {
        let mut state = self.lock();
        let removed = state.connections.remove(&token);
        let is_last = state.connections.is_empty();
        drop(state);
        drop(removed); // outside the lock: it may be the last reference
        is_last
    }

    pub(super) fn get(&self, token: u64) -> Option<Arc<Connection>> {
        self.lock().connections.get(&token).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        self.lock().connections.values().cloned().collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.lock().connections.len() >= self.max
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
