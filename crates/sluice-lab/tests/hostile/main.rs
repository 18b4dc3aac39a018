//! A guest that means harm, or a monitor that does, in front of a real `sluice serve`.
//!
//! Whatever is sent gets an error, or its connection is closed; the daemon lives and
//! serves the next one; nothing beside the share is made, changed or read. All of it
//! in every sandbox that there is.
//!
//! | module | who means harm, and how |
//! |---|---|
//! | `scene` | the share, what lies around it, and how that is watched |
//! | `names` | names that are no names, in every request that has one |
//! | `messages` | lengths, reply buffers, opcodes, order, numbers of requests |
//! | `values` | offsets, lengths, times, sizes and flags at their edges |
//! | `objects` | nodes and handles that are unknown, foreign or gone; too many of them |
//! | `files` | symbolic links, devices, pipes, set-id bits; a host that swaps them |
//! | `rings` | descriptors and indices |
//! | `monitor` | vhost-user messages, descriptors and memory tables |
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod files;
mod messages;
mod monitor;
mod names;
mod objects;
mod rings;
mod scene;
mod values;
