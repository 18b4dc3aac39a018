//! Services behind virtio devices: FUSE and 9P on virtqueues.
//!
//! [`Device`] is what both have in common: one connection at a time, whose
//! chains it hands to a [`Connection`]. `fs` and `p9` are the two kinds.
//! `chain` is a request's two ends in the guest's memory, `slot` keeps those
//! that wait for a lock, `turnstile` lets requests in one after the other.
//!
//! Lock order: a device's connection slot, then its parked chains, then one
//! chain's own. None is held while a protocol's server is called, but for the
//! turnstile, which admission of a 9P message is all about.

mod backlog;
mod chain;
mod fs;
mod p9;
mod slot;
mod tag;
mod turnstile;

use crate::panics;
pub(super) use fs::FsFrontend;
pub use p9::P9DeviceOptions;
pub(super) use p9::P9Frontend;
use sluice_crew::Polling;
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user;
use std::borrow::Cow;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
pub use tag::Tag;

/// A protocol on virtqueues.
pub(super) trait Frontend: Send + Sync + 'static {
    /// What lasts from a monitor's coming to its going, or to a reset.
    type Connection: Connection;

    /// Feature bits of the device type.
    fn features(&self) -> u64 {
        0
    }

    /// The configuration space.
    fn config_space(&self) -> &[u8];

    /// Number of queues.
    fn queues(&self) -> u16;

    /// How a queue's threads look for requests before they sleep.
    fn polling(&self, queue: u16) -> Polling;

    /// The peer's name in messages.
    fn label(&self) -> &str;

    /// A new connection.
    fn connect(&self) -> io::Result<Self::Connection>;
}

/// A peer that was let in. What it held goes when it is dropped.
pub(super) trait Connection: Send + Sync + 'static {
    /// Serves a request; called by any thread of its queue.
    fn serve(self: &Arc<Self>, chain: Chain);

    /// A queue starts.
    fn queue_started(&self, _queue: u16) {}

    /// A queue stops: what waits on it must be answered now.
    fn queue_stopped(&self, queue: u16);

    /// It is over; requests that are being worked on may still end.
    fn end(&self);
}

/// A [`Frontend`] as a vhost-user device.
pub(super) struct Device<F: Frontend> {
    frontend: F,
    connection: RwLock<Option<Arc<F::Connection>>>,
}

impl<F: Frontend> Device<F> {
    pub(super) fn new(frontend: F) -> Self {
        Device {
            frontend,
            connection: RwLock::new(None),
        }
    }

    fn connection(&self) -> Option<Arc<F::Connection>> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn connect(&self) {
        let made = self.frontend.connect().map(Arc::new);
        if let Err(error) = &made {
            tracing::error!(peer = self.frontend.label(), %error, "cannot serve a connection");
        }
        self.replace_connection(made.ok());
    }

    fn replace_connection(&self, connection: Option<Arc<F::Connection>>) {
        let mut slot = self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::replace(&mut *slot, connection);
        drop(slot);
        if let Some(ended) = ended {
            ended.end();
        }
    }
}

impl<F: Frontend> vhost_user::Device for Device<F> {
    fn features(&self) -> u64 {
        self.frontend.features()
    }

    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.frontend.config_space())
    }

    fn queues(&self) -> u16 {
        self.frontend.queues()
    }

    fn connected(&self) {
        tracing::info!(peer = self.frontend.label(), "connected");
        self.connect();
    }

    fn polling(&self, queue: u16) -> Polling {
        self.frontend.polling(queue)
    }

    fn process(&self, _: u16, chain: Chain) {
        if let Some(connection) = self.connection() {
            panics::contain(|| connection.serve(chain));
        }
    }

    fn ring_started(&self, queue: u16) {
        if let Some(connection) = self.connection() {
            connection.queue_started(queue);
        }
    }

    fn ring_stopped(&self, queue: u16) {
        if let Some(connection) = self.connection() {
            connection.queue_stopped(queue);
        }
    }

    fn reset(&self) {
        self.connect();
    }

    fn disconnected(&self) {
        tracing::info!(peer = self.frontend.label(), "disconnected");
        self.replace_connection(None);
    }
}
