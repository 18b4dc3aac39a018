//! What the threads of a connection share: its schedule, and what it is now.

use super::config::ServerConfig;
use super::connection::Connection;
use super::exchange::Exchange;
use super::schedule::{Schedule, Ticket};
use crate::p9::wire::Dialect;
use sluice_vfs::FileService;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// What a request's thread and whoever answers it later have in common.
pub(super) struct Core<E: Exchange> {
    pub(super) service: Arc<dyn FileService>,
    pub(super) config: ServerConfig,
    schedule: Mutex<Schedule<Kept<E>>>,
    connection: RwLock<Slot>,
    /// Nothing may wait for a lock.
    pub(super) are_waits_stopped: AtomicBool,
}

/// The connection, between Tversion and the end.
pub(super) enum Slot {
    /// No version is agreed on.
    Cold,
    Live(Arc<Connection>),
    /// Closed for good.
    Closed,
}

/// A request, and its message where that is needed beyond the call that
/// brought it.
pub(super) struct Kept<E> {
    pub(super) tag: u16,
    pub(super) exchange: E,
    pub(super) message: Option<Box<[u8]>>,
    /// Most bytes of its reply's payload.
    pub(super) payload: usize,
}

impl<E: Exchange> Kept<E> {
    /// A request; with its message if it has to wait.
    pub(super) fn new(tag: u16, mut exchange: E, message: Option<&[u8]>, payload: usize) -> Self {
        if let Some(message) = message {
            exchange.keep(message.len());
        }
        Kept {
            tag,
            exchange,
            message: message.map(Box::from),
            payload,
        }
    }
}

impl<E: Exchange> Core<E> {
    /// Of a connection that waits for its Tversion.
    pub(super) fn new(service: Arc<dyn FileService>, config: ServerConfig) -> Self {
        Core {
            service,
            config,
            schedule: Mutex::default(),
            connection: RwLock::new(Slot::Cold),
            are_waits_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn live(&self) -> Option<Arc<Connection>> {
        match &*self.slot() {
            Slot::Live(connection) => Some(Arc::clone(connection)),
            Slot::Cold | Slot::Closed => None,
        }
    }

    /// Plan 9's own until a version is agreed on.
    pub(super) fn dialect(&self) -> Dialect {
        self.live().map_or(Dialect::Plan9, |live| live.dialect)
    }

    pub(super) fn slot(&self) -> RwLockReadGuard<'_, Slot> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What was there goes outside the lock. What is closed stays so.
    pub(super) fn replace(&self, slot: Slot) -> Slot {
        let mut place = self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match *place {
            Slot::Closed => Slot::Closed,
            Slot::Cold | Slot::Live(_) => std::mem::replace(&mut *place, slot),
        }
    }

    pub(super) fn schedule(&self) -> MutexGuard<'_, Schedule<Kept<E>>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_room(&self, schedule: &Schedule<Kept<E>>) -> bool {
        let bounds = &self.config.bounds;
        schedule.len() < bounds.requests && schedule.bytes() < bounds.bytes
    }

    /// A request is over; others may run for it, or be admitted.
    pub(super) fn remove(&self, ticket: Ticket) {
        self.reschedule(|schedule| {
            let was_full = !self.has_room(schedule);
            schedule.remove(ticket) || was_full
        });
    }

    /// Changes the schedule; others may run for it.
    pub(super) fn reschedule(&self, change: impl FnOnce(&mut Schedule<Kept<E>>) -> bool) {
        let is_ready = change(&mut self.schedule());
        if is_ready {
            self.config.link.ready();
        }
    }
}
