//! A session on the far side of 9P: every operation is encoded as Linux would
//! send it (9P2000.L), served from its bytes, and its reply decoded.
//!
//! | module | duty |
//! |---|---|
//! | `transport` | what carries messages; servers in this process |
//! | `ring` | a virtqueue of a virtio-9p device |
//! | `socket` | a server on a unix socket |
//! | `client` | Tversion and Tattach, one request at a time |
//! | `nodes` | node ids for qids, and a fid of each for every user |
//! | `session` | operations to requests, replies to results |
//! | `listing` | Treaddir |
//! | `values` | extended attributes |
//! | `locks` | who holds a lock |
//! | `translate` | neutral words to wire words and back |
//!
//! What the protocol has no message for ends the conformance case that asks
//! for it as "not expressible". A reply that breaks the protocol is the
//! server's fault, and panics: what uses this client are tests.

mod client;
mod listing;
mod locks;
mod nodes;
mod ring;
mod session;
mod socket;
mod translate;
mod transport;
mod values;

pub use client::P9Client;
pub use ring::DaemonConnector;
pub use socket::SocketConnector;
pub use transport::{Connector, Done, InProcessConnector, Message, P9Transport};

use sluice_vfs::{AttachOptions, Attached, FileService, Result};
use std::sync::Arc;

/// A service whose sessions are connections that a [`Connector`] makes.
pub struct P9Service<C> {
    connector: C,
}

impl<C: Connector> P9Service<C> {
    /// Over connections of `connector`.
    pub fn new(connector: C) -> Self {
        P9Service { connector }
    }
}

impl<C: Connector> FileService for P9Service<C> {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let events = Arc::clone(&options.events);
        let export = options.export.to_vec();
        let transport = self.connector.connect(options)?;
        let client = P9Client::start(transport, export, events)?;
        let (root, features) = (client.root()?, client.features()?);
        Ok(Attached {
            session: Arc::new(client),
            root,
            features,
        })
    }
}
