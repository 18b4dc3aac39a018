//! FUSE, the protocol between Linux and a file server: on `/dev/fuse`, and on
//! a virtqueue as virtio-fs.
//!
//! - [`wire`] is the codec: every message, both directions, from one table.

pub mod wire;
