//! Split virtqueues, the device's side.
//!
//! `split` is the ring itself, `walk` goes from a head to buffers, `ring` adds what
//! several threads share, and [`Chain`] is one request with its [`Reader`] and
//! [`Writer`].

mod chain;
mod inflight;
mod io;
pub mod layout;
mod ring;
mod split;
mod walk;

pub use chain::Chain;
pub use inflight::InflightError;
pub(crate) use inflight::{InflightRecord, record_bytes};
pub use io::{Exhausted, Reader, Writer};
pub(crate) use ring::Ring;
pub(crate) use split::SplitQueue;
pub use split::{RingError, RingLayout};
pub use walk::ChainError;

#[cfg(test)]
mod tests;
