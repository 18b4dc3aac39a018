//! 9P, the file protocol of Plan 9, in its three dialects.
//!
//! - [`wire`] is the codec: every message, both directions, from one table.
//! - [`fuzz`] is what fuzz targets run.

pub mod fuzz;
pub mod wire;
