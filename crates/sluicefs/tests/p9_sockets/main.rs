//! 9P on sockets: a real `sluice serve --9p`, and peers that speak bytes.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod blocked;
mod commands;
mod exports;
mod here;
mod hostile;
mod limits;
mod many;
mod peer;
mod requests;
mod server;
