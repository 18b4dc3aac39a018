//! Cases that every path through Sluice has to pass, from one source.
//!
//! A case is written against [`Client`], a thin hand on a
//! [`Session`](sluice_vfs::Session), and says what it [`Needs`] of the path it
//! runs on. A [`Path`] is some way to get at a fresh tree: the model itself,
//! an engine over a directory, FUSE bytes, a ring. What a path can't express
//! is reported as such; it never counts as passed.

mod cases;
mod client;
mod harness;
mod needs;
pub mod paths;
mod recorder;

pub use cases::all as all_cases;
pub use client::{Client, File, Listed};
pub(crate) use harness::caught;
pub use harness::{Case, Fresh, Path, Report, World, not_expressible, run};
pub use needs::Needs;
pub use recorder::{Recorder, Said};
