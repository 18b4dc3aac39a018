//! 9P sessions, asked in their bytes: what the conformance cases, which know
//! only what all protocols share, don't ask.

mod corpus;
mod fids;
mod fused;
mod harness;
mod hostile;
mod listings;
mod locks;
mod order;
mod plan9;
mod users;
mod versions;
