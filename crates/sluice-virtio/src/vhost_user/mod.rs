//! The vhost-user protocol: the device's end.
//!
//! [`Backend`] waits for front-ends and serves them a [`Device`]. `session` handles the
//! messages of one connection, `vring` holds what they set up for each ring, and
//! `ring_crew` is the thread that serves one. `socket_file` is what a listener leaves in
//! the file system. [`message`] and [`channel`] are the wire, also for the driver's end
//! in [`crate::driver`].

mod backend;
pub mod channel;
mod device;
mod error;
mod inflight_area;
pub mod message;
mod ring_crew;
mod session;
mod socket_file;
mod vring;

pub use backend::{Backend, Listener, Running, Stopper};
pub use device::Device;
pub use error::Error;
pub use session::Served;
