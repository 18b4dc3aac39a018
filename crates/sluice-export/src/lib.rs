//! A host directory as a [`FileService`](sluice_vfs::FileService).
//!
//! # Map
//!
//! - `export`: what is exported and how; attaching.
//! - `service`: one peer's session, with one line for each operation.
//! - `ops`: the operations, by family. They own no state.
//! - `inode_table`, `handle_table`: the nodes a peer knows and the files it has
//!   open, on `slab`; `lock_table`: the locks it holds
//!   and waits for (`waits`);
//!   `dir_cursor`: where a listing stands; `fd_cache`: the descriptors of nodes
//!   that are kept for a while. Each owns its lock.
//! - `fd_budget`: how many descriptors each session of the process may hold.
//! - `resolve`: the only place that opens anything below the root; `reach`: how
//!   nodes that are not open are found again.
//! - `attr`, `ino_map`, `idmap`: what statx(2) says in the peer's terms.
//! - `creds`: acting for a caller.
//!
//! # What a node is
//!
//! A node is an inode of the host, not a name: it survives renames, and an open
//! file that was unlinked is still it. An inode number says little (numbers are
//! used again, and each file system has its own). The numbers of mount, device
//! and inode together with the time of birth say all, once the clock that
//! inodes are stamped with has moved on since: whatever gets the same number
//! later was born later. So a name that is looked up is recognised, or becomes
//! known, with one statx(2). An inode that is younger, or has no time of birth,
//! is told by its numbers while an `O_PATH` descriptor of it is held.
//!
//! A node has a descriptor only when it is used for more than its attributes,
//! and loses it when others need one (`fd_cache`) unless it is open or could
//! not be found again. Then `reach` opens it by its name in the directory where
//! it was last seen, which is a node too, or else by its file handle, and
//! compares identities: `ESTALE` if it is another or none. What a session
//! renames stays found; what the host moves is found by handles only.
//!
//! # Stamps
//!
//! Every stamp is [`Stamp::NONE`](sluice_vfs::Stamp::NONE): the host may change
//! any file behind our back, and nothing watches it yet.
//!
//! # Lock order
//!
//! 1. `Handle::cursor`, and what a lock owner or a flock holds: the ones that are held
//!    across system calls;
//! 2. a shard of the inode table, an inode's state, the handle table, the lock
//!    table or its waits, the ring of an `FdCache`, the list of these in the budget, or the
//!    index of devices in `ino_map`: for a few memory accesses, one at a time,
//!    none inside another.
#![forbid(unsafe_code)]

mod attr;
mod creds;
mod dir_cursor;
mod export;
mod fd_budget;
mod fd_cache;
mod handle_table;
mod idmap;
mod ino_map;
mod inode;
mod inode_table;
mod lock_table;
mod ops;
mod reach;
mod resolve;
mod service;
mod slab;

pub use export::{Export, ExportOptions, OpenError};
pub use idmap::{Becomes, IdMap, IdRun};
