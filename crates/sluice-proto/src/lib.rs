//! The wire protocols of Sluice: codecs for both directions and sessions that
//! do no I/O of their own.
//!
//! Bytes come in, calls on [`sluice_vfs::Session`] and bytes for the peer go
//! out. There is no socket, no clock and no guest memory in here: a transport
//! brings those, and implements the traits that each protocol defines for it.
#![forbid(unsafe_code)]

pub mod codec;
pub mod fuse;
pub mod p9;

mod parked;
