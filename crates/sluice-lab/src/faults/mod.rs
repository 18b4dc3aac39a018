//! Faults on demand: a layer that fails, stalls and cuts calls short.
//!
//! | module | duty |
//! |---|---|
//! | `plan` | which call goes wrong, and how |
//! | `layer` | the service and session that go wrong |
//! | `transfer` | payload ends that move little at a time |

mod layer;
mod plan;
mod transfer;

pub use layer::FaultyService;
pub use plan::{Gate, Plan};
pub use transfer::Transfers;
