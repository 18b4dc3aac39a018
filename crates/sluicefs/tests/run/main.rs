//! Throw-away guests: real kernels, booted for each test.

mod command_line;
#[path = "../common/mod.rs"]
mod common;
mod guests;
mod lab;
mod terminal;
