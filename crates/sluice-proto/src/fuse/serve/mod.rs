//! Serving: FUSE requests in, calls on a [`sluice_vfs::Session`], replies out.
//!
//! A transport makes one [`Server`] per connection and gives it each request
//! as an [`Exchange`]. `Server::handle` runs the request on the calling thread
//! and answers before it returns, but for locks that have to wait: those are
//! parked and answered when the service settles them.
//!
//! | module | duty |
//! |---|---|
//! | `server` | the connection: INIT, DESTROY, one session at a time |
//! | `negotiate` | which INIT flags are taken, and why |
//! | `options` | what a user may choose; cache modes |
//! | `dispatch` | operation to service call, on one page |
//! | `ops` | arguments and results, translated |
//! | `exchange` | what a transport implements |
//!
//! Lock order: the connection slot of `Server`, then the table of parked
//! locks. Neither is held while a service is called or a reply is sent.

mod dispatch;
mod exchange;
mod negotiate;
mod ops;
mod options;
mod server;
mod translate;

pub use crate::parked::PARKED_MAX;
pub use exchange::{Exchange, Notifier, Parked};
pub use negotiate::{MINOR_MIN, Negotiated, TransportLimits};
pub use options::{
    CacheMode, CachePolicy, Offer, ServeOptions, TIMEOUT_MAX, UnknownCacheMode, UnknownOffer,
};
pub use server::{Server, ServerConfig};
