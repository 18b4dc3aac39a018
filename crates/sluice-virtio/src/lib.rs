//! vhost-user devices, split virtqueues and guest memory.
//!
//! # Map
//!
//! - [`memory`]: the guest's memory: mapped regions, address translation, copies in
//!   and out, iovecs for the kernel, and surviving memory that is taken away.
//! - [`queue`]: split rings from the device's side; a request is a [`queue::Chain`].
//! - [`vhost_user`]: the protocol; a [`vhost_user::Backend`] serves a
//!   [`vhost_user::Device`] to one front-end after the other.
//! - [`driver`]: the other end of all that, for tests, benches and tools.
//! - [`fs`]: what a virtio-fs device's configuration space looks like.
//!
//! # Threads
//!
//! A connection is served by the thread that calls [`vhost_user::Backend::serve`];
//! every ring that runs has a crew of threads (`sluice-crew`), one of which takes chains
//! and calls [`vhost_user::Device::process`]; another takes over when that blocks. A
//! chain may be completed on any thread.
//!
//! A front-end may give pipes or sockets where others give eventfds. SIGPIPE must be ignored, as it
//! is in a Rust program unless that changes it, because writing to one that nobody
//! reads any more raises it.
//!
//! # Lock order
//!
//! There are three locks and nobody holds two: the state of a ring (`queue::ring`), held
//! for a few loads and stores, never across a system call or a callback; who is told of
//! a ring's first error (`vhost_user::ring_crew`); and the first error of a connection
//! (`vhost_user::session`). No method of a device is called with a lock held, so a
//! device may complete chains under locks of its own.
//!
//! # Why guest memory cannot hurt
//!
//! A guest and its VMM may do anything to the shared memory at any time.
//!
//! - *No references.* Guest memory is never a Rust slice. It is reached through
//!   `HostSlice`s: pointers that borrow their mapping, checked against its bounds once,
//!   and used for volatile copies, atomics on ring indices, and system calls.
//! - *Lifetimes.* A memory table is immutable and behind an `Arc`; a chain in flight
//!   holds the one it was found in. A region is unmapped when the last holder is gone.
//! - *Values.* Every number that comes from a ring or a message is copied out once and
//!   checked before use: indices against sizes, addresses against the table, lengths
//!   with checked arithmetic. A chain that breaks the rules is returned unused; a ring
//!   or a message that does closes the connection.
//! - *Disappearance.* A file that shrinks under its mapping raises SIGBUS. A handler for
//!   the whole process puts anonymous memory over the page and marks the region; the
//!   ring sees the mark before it takes the next chain and the connection is closed.
//!   System calls on such memory fail with `EFAULT`.
//!
//! Unsafe code is in `memory` alone.
#![deny(unsafe_code)]

pub mod driver;
pub mod fs;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod memory;
mod notify;
pub mod queue;
pub mod vhost_user;
