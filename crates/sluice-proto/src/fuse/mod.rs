//! FUSE, the protocol between Linux and a file server: on `/dev/fuse`, and on
//! a virtqueue as virtio-fs.
//!
//! - [`wire`] is the codec: every message, both directions, from one table.
//! - [`serve`] answers requests from a [`sluice_vfs::FileService`].
//! - [`loopback`] is a peer in the same process, [`fuzz`] what fuzz targets run.

pub mod fuzz;
pub mod loopback;
pub mod serve;
pub mod wire;
