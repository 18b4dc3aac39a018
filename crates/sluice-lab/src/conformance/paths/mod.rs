//! The ways to a tree that cases run over.

mod export;
mod fuse;
mod host;
mod model;

pub use export::ExportPath;
pub use fuse::{FusePath, RingPath};
pub use model::ModelPath;
