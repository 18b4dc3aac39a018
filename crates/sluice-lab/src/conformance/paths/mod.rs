//! The ways to a tree that cases run over.

mod export;
mod host;
mod model;

pub use export::ExportPath;
pub use model::ModelPath;
