//! Serving: 9P messages in, calls on a [`sluice_vfs::Session`], messages out.
//!
//! A transport makes one [`Server`] per connection. It hands over each message
//! in the order of arrival ([`Server::admit`]) and runs the [`Job`] that it
//! gets, on any thread; what has to wait for others comes out of
//! [`Server::next_ready`] later, after [`Link::ready`] was called. A request
//! that waits for a lock is parked and answered when the service settles it.
//!
//! | module | duty |
//! |---|---|
//! | `server` | the connection: versions, who runs what when |
//! | `shared` | what its threads share |
//! | `admission` | what becomes of a message: tags, memory, Tflush |
//! | `pending` | requests that must be answered |
//! | `waits` | those that wait for locks |
//! | `schedule` | which requests depend on which |
//! | `claims` | what a request does with fids |
//! | `fids` | what fids stand for |
//! | `quota` | how many things connections may hold |
//! | `users` | who attaches, and as whom that counts |
//! | `dispatch` | message to service call, on one page |
//! | `ops` | arguments and results, translated |
//! | `answer` | replies in the making |
//! | `exchange` | what a transport implements |
//!
//! Lock order: the schedule, the connection slot, the list of trees, the table
//! of fids, a table of parked locks: one at a time, none inside another, but for the
//! place of a fid inside the table of fids. None is
//! held while a service is called or a reply is sent, but for `Listing`, which
//! is held while its directory is read. The schedule is held while an exchange is
//! asked to set memory aside.

mod admission;
mod answer;
mod claims;
mod config;
mod connection;
mod dispatch;
mod exchange;
mod fids;
mod ops;
mod pending;
mod quota;
mod schedule;
mod server;
mod shared;
mod translate;
mod users;
mod waits;

pub use crate::parked::PARKED_MAX;
pub use admission::{Admission, Close, Refused};
pub use config::{Bounds, QidVersion, ServeOptions, ServerConfig, UnknownQidVersion};
pub use exchange::{Exchange, Link, Parked};
pub use pending::Job;
pub use quota::CommonBounds;
pub use server::{PREFIX_MAX, Server};
pub use users::{NumericUsers, Squash, UnknownSquash, User, Users};
