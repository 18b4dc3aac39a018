//! Where the layers meet: the commands of the `sluice` binary.
//!
//! - [`cli`] parses the command line and turns every failure into one line and
//!   an exit status.
//! - [`serve`] puts a service behind a virtio-fs device on a vhost-user socket.
//! - [`mount`] puts a service under this machine's kernel through `/dev/fuse`.
//! - [`remote`] works with files on 9P servers.
//! - [`sandbox`] boots throw-away guests with such devices.
//! - [`isolation`] takes from a serving process what serving does not need.
//! - [`layers`] are services over services.
//! - [`share`] opens the host directory that both of them serve.
//!
//! Frontends know a [`FileService`](sluice_vfs::FileService) and nothing of
//! what is behind it; only [`share`] names the export engine.
#![forbid(unsafe_code)]

pub mod cli;
mod config;
mod failure;
pub mod isolation;
pub mod layers;
mod logging;
pub mod mount;
mod nearest;
mod panics;
pub mod remote;
pub mod sandbox;
pub mod serve;
pub mod share;
mod signals;
mod timeout;
mod translate;

pub use failure::Failure;
pub use sluice_client::{Address, ExportAddress};
pub use timeout::Timeout;
pub use translate::IdTranslation;
