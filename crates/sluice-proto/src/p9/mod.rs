//! 9P, the file protocol of Plan 9, in its three dialects, and one of our own.
//!
//! - [`wire`] is the codec: every message, both directions, from one table.
//! - [`serve`] answers messages from a [`sluice_vfs::FileService`].
//! - [`loopback`] is a peer in the same process, [`fuzz`] what fuzz targets run.

pub mod fuzz;
pub mod loopback;
pub mod serve;
pub mod wire;
