//! 9P on sockets: a real `sluice serve --9p`, and peers that speak bytes.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod blocked;
mod commands;
mod exports;
mod hostile;
mod many;
mod peer;
mod requests;
mod server;
