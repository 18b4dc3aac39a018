//! FUSE requests against a service that records how it is called.

mod content;
mod corpus;
#[path = "../common/corpus.rs"]
mod corpus_files;
mod harness;
mod locks;
mod nodes;
mod open;
mod recorded;
mod recorder;
mod sessions;
