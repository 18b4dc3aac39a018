//! A host directory as a [`FileService`](sluice_vfs::FileService).
//!
//! # Map
//!
//! - `export`: what is exported and how; attaching.
//! - `service`: one peer's session, with one line for each operation.
//! - `ops`: the operations, by family. They own no state.
//! - `inode_table`, `handle_table`: the nodes a peer knows and the files it has
//!   open, on `slab`; `lock_table`: the locks it holds and waits for;
//!   `dir_cursor`: where a listing stands. Each owns its lock.
//! - `resolve`: the only place that opens anything below the root.
//! - `attr`, `ino_map`, `idmap`: what statx(2) says in the peer's terms.
//! - `creds`: acting for a caller.
//!
//! # What a node is
//!
//! A node is an inode of the host, not a name: it survives renames, and an open
//! file that was unlinked is still it. An inode number says little (numbers are
//! used again, and each file system has its own), so a node holds an `O_PATH`
//! descriptor of its inode as long as the peer knows it. While that is held,
//! the numbers of mount, device and inode name this inode and no other, which
//! is how a name that is looked up again is recognised with one statx(2).
//!
//! # Stamps
//!
//! Every stamp is [`Stamp::NONE`](sluice_vfs::Stamp::NONE): the host may change
//! any file behind our back, and nothing watches it yet.
//!
//! # Lock order
//!
//! 1. `Handle::cursor`, the one lock that is held across system calls;
//! 2. a shard of the inode table, the handle table, the lock table, or the
//!    index of devices in `ino_map`: for a few memory accesses, one at a time,
//!    none inside another.
#![forbid(unsafe_code)]

mod attr;
mod creds;
mod dir_cursor;
mod export;
mod handle_table;
mod idmap;
mod ino_map;
mod inode_table;
mod lock_table;
mod ops;
mod resolve;
mod service;
mod slab;

pub use export::{Export, ExportOptions, OpenError};
pub use idmap::{IdMap, IdRange};
