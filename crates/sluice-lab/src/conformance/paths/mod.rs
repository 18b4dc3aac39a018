//! The ways to a tree that cases run over.

mod daemon;
mod export;
mod failing;
mod faulty;
mod fuse;
mod host;
mod model;
mod p9;
mod remote;

pub use daemon::{DaemonPath, Speech};
pub use export::ExportPath;
pub use failing::{AtTheNeck, Failed, FailingPath, Faulty, OnTheDisk};
pub use faulty::TroubledPath;
pub use fuse::{FusePath, RingPath};
pub use model::ModelPath;
pub use p9::{P9Path, P9RingPath};
pub use remote::RemotePath;
