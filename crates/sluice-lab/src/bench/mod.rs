//! Measurements, side by side with peers: `make bench`.
//!
//! Nothing here decides whether a test passes. What is measured:
//!
//! - [`raw`]: FUSE requests over a ring, by a driver of our own, on
//!   `sluice serve` and virtiofsd;
//! - [`p9`]: 9P messages over sockets, by a driver of our own, on `sluice serve`,
//!   diod and the [`null`] server; and our own client as a library;
//! - [`mounted`]: system calls on FUSE mounts of `sluice mount` and libfuse's
//!   examples;
//! - [`guest`]: system calls and programs in a user-mode Linux guest, on
//!   `sluice serve`, virtiofsd and the [`null`] server over virtio-fs, and on
//!   `sluice serve`, diod and the null server over 9P, by Linux's client and by
//!   `sluice mount`;
//! - [`qemu`]: system calls in a guest under QEMU, on 9P mounts over virtio of
//!   `sluice serve` and of QEMU's own server.
//!
//! [`contest`] says how: interleaved short bursts, medians and spreads, and the
//! same server under two names to show what a difference is worth.

pub mod contest;
pub mod error;
pub mod fixture;
pub mod guest;
pub mod interrupt;
pub mod machine;
pub mod mounted;
pub mod null;
pub mod p9;
pub mod priority;
pub mod programs;
pub mod qemu;
pub mod raw;
pub mod report;
pub mod server;
pub mod stats;
pub mod syscalls;
