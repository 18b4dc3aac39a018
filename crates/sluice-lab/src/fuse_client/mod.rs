//! A session on the far side of FUSE: every operation is encoded as a kernel
//! would send it, served from its bytes, and its reply decoded.
//!
//! | module | duty |
//! |---|---|
//! | `transport` | what carries messages; servers in this process |
//! | `ring` | a virtqueue of a virtio-fs device |
//! | `client` | INIT and DESTROY, one request at a time |
//! | `session` | operations to requests, replies to results |
//! | `arguments` | what requests are made of |
//! | `translate` | neutral words to wire words and back |
//! | `listing` | READDIR and READDIRPLUS |
//!
//! A reply that breaks the protocol is the server's fault, and panics: what
//! uses this client are tests.

mod arguments;
mod client;
mod listing;
mod ring;
mod session;
mod translate;
mod transport;

pub use client::FuseClient;
pub use ring::DaemonConnector;
pub use transport::{Connector, Done, FuseTransport, InProcessConnector, Message};

use sluice_vfs::{AttachOptions, Attached, FileService, Result};
use std::sync::Arc;

/// A service whose sessions are connections that a [`Connector`] makes.
pub struct FuseService<C> {
    connector: C,
}

impl<C: Connector> FuseService<C> {
    /// Over connections of `connector`.
    pub fn new(connector: C) -> Self {
        FuseService { connector }
    }
}

impl<C: Connector> FileService for FuseService<C> {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let events = Arc::clone(&options.events);
        let transport = self.connector.connect(options)?;
        let client = FuseClient::start(transport, events)?;
        let (root, features) = (client.root()?, client.features());
        Ok(Attached {
            session: Arc::new(client),
            root,
            features,
        })
    }
}
