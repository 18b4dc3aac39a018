//! FUSE requests against a service that records how it is called.

mod content;
mod corpus;
mod harness;
mod locks;
mod nodes;
mod open;
mod recorded;
mod recorder;
mod sessions;
