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
//! | `xattrs` | attributes of the host, maps of names, capabilities of files |
//! | `read_only` | changes, where there are to be none |
//! | `rings` | descriptors and indices |
//! | `monitor` | vhost-user messages, descriptors and memory tables |
//!
//! What was found in other servers, and where it is tried here:
//!
//! | found in | what | tried in |
//! |---|---|---|
//! | virtiofsd 1.14 without a sandbox | names with `/` in MKDIR, RMDIR, SYMLINK and others (as CVE-2026-47243) | `names` |
//! | QEMU's 9pfs | paths through links that a host process lays meanwhile (CVE-2016-9602) | `files` |
//! | QEMU's virtiofsd | devices are opened (CVE-2020-35517) | `files` |
//! | QEMU's 9pfs | special files are opened (CVE-2023-2861) | `files` |
//! | QEMU's virtiofsd | set-group-id of foreign groups (CVE-2022-0358) | `files` |
//! | QEMU's virtiofsd | descriptors run out for good (CVE-2020-10717) | `objects` |
//! | QEMU's virtiofsd | FORGET frees what another request uses | `objects` |
//! | small servers in VMMs | sizes of SETXATTR and GETXATTR, SETUPMAPPING without a handle | `values`, `objects` |
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
mod files;
mod memory;
mod messages;
mod monitor;
mod names;
mod objects;
mod read_only;
mod rings;
mod scene;
mod values;
mod xattrs;
