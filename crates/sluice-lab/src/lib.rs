//! What Sluice is tested with.
//!
//! - [`model`]: a file service in memory, the executable specification.
//! - [`conformance`]: cases that every path through Sluice has to pass.
//! - [`faults`]: a layer that fails, stalls and cuts calls short on demand.
//! - [`fuse_client`]: a session on the far side of FUSE bytes, or of a ring.
//! - [`p9_client`]: a session on the far side of 9P bytes, or of a ring.
//! - [`p9_stream`]: a 9P server on a stream in this process.
//! - [`posix`]: cases for directories, with a kernel's system calls.
//! - [`raw_guest`]: a virtio-fs driver with full control over bytes and descriptors.
//! - [`bench`]: measurements, side by side with peers.
//! - [`own_mounts()`]: mounts that nobody else holds on to.
//! - [`request_log`]: which requests a server gets.
//!
//! Nothing in here is part of a release.
#![forbid(unsafe_code)]

pub mod bench;
pub mod conformance;
pub mod diod;
pub mod faults;
pub mod fuse_client;
pub mod model;
pub mod p9_client;
pub mod p9_stream;
pub mod posix;
pub mod raw_guest;
pub mod request_log;
pub mod wire;

mod daemon;
mod own_mounts;
mod ring;
mod waits;

pub use own_mounts::own_mounts;
