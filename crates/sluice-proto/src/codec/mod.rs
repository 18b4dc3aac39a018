//! What the codecs of both protocols have in common.

mod error;
mod output;

pub use error::{BufferTooSmall, Malformed};
pub(crate) use output::Output;
