//! The ways to a tree that cases run over.

mod daemon;
mod export;
mod faulty;
mod fuse;
mod host;
mod model;

pub use daemon::DaemonPath;
pub use export::ExportPath;
pub use faulty::TroubledPath;
pub use fuse::{FusePath, RingPath};
pub use model::ModelPath;
