//! The client against a server that means well, and against one that does not.

mod files;
mod liars;
mod many;
mod names;
mod others;
mod server;
mod service;
mod trips;
