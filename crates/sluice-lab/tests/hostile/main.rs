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
//! | `rings` | descriptors, tables of them, and indices |
//! | `memory` | memory that comes and goes while it is used |
//! | `monitor` | vhost-user messages, descriptors and memory tables |
//!
//! # What was found in other servers
//!
//! And where it is tried here, or why it cannot be.
//!
//! virtiofsd, QEMU's and the one in Rust, and what it stands on:
//!
//! | number | what | here |
//! |---|---|---|
//! | CVE-2026-47243 (GHSA-2gv2-cffp-j227) | names with `/` in MKDIR, RMDIR, SYMLINK and others, without a sandbox | `names` |
//! | CVE-2020-10717 | descriptors run out for good | `objects` |
//! | CVE-2020-35517 | devices are opened | `files` |
//! | CVE-2021-20263 | a map of attributes hides capabilities from the kernel that should drop them | `xattrs` |
//! | CVE-2022-0358 | set-group-id of foreign groups | `files` |
//! | – | FORGET frees what another request uses | `objects` |
//! | – | negative or huge lengths, chains and indices that lie | `messages`, `values`, `rings` |
//! | CVE-2020-13759 (vm-memory) | words of a ring that are read in halves | ring words are atomics here (`memory/window.rs` of `sluice-virtio`) |
//! | CVE-2023-41051 (vm-memory) | accesses beyond a region | another crate's; here: `rings`, `memory` |
//! | CVE-2023-50711 (vmm-sys-util) | lengths in what is deserialized | nothing is: there is no migration |
//! | QEMU issue 4403 (libvhost-user) | sizes of messages, indices of rings | `monitor` |
//!
//! QEMU's 9pfs. What is about the state of 9P (fids, their attributes' buffers, msize)
//! has no counterpart in FUSE, and is for the tests of a 9P server:
//!
//! | number | what | here |
//! |---|---|---|
//! | CVE-2016-7116 | `..` in names leads out | `names` |
//! | CVE-2016-8578 | empty names and strings without an end | `names` |
//! | CVE-2016-9602 | paths through links that somebody lays meanwhile | `files` |
//! | CVE-2016-9103, CVE-2017-15038 | bytes of the server's memory in attributes never set, or set meanwhile | a reply has what the kernel gave; `values`, `xattrs` |
//! | CVE-2016-9104 | offsets that wrap | `values`; attributes have no offsets in FUSE |
//! | CVE-2016-8577, -9102, -9105, -9106, CVE-2017-7377, -8086 | memory that requests leave behind | `objects` counts what a guest can hold; the tests `bounded` and `allocations` what requests do |
//! | CVE-2016-9913 to -9916 | the same when a device is taken away | the test `faults_everywhere`: sessions and descriptors end |
//! | CVE-2017-7471, -7493 | files of its own about the share's, in the share | there are none |
//! | CVE-2018-19364, -19489, CVE-2021-20181 | paths and fids that change while they are used | nodes are no paths (`files`: names that are swapped); `objects`: FORGET |
//! | CVE-2023-1386 | set-id bits outlive writes | `xattrs` for capabilities, conformance cases `ownership` for bits |
//! | CVE-2023-2861 | special files are opened | `files` |
//!
//! Others:
//!
//! | found in | what | here |
//! |---|---|---|
//! | crosvm (issue 508645172), libkrun (issue 329) | names that are paths | `names` |
//! | small servers in VMMs | sizes of SETXATTR and GETXATTR, SETUPMAPPING without a handle | `values`, `objects` |
//! | Kata (CVE-2020-28914), boxlite (GHSA-g6ww-w5j2-r7x3) | read-only left to the guest | `read_only` |
//! | Kata (CVE-2020-2024, -2026) | a host program follows the guest's links | not the server's doing; links have the guest's text (`names`) |
//! | Kata (GHSA-rr59-xxvx-96qr) | options of the daemon from strangers | whoever writes its command line decides what is shared |
//! | QEMU (CVE-2016-5403) | more requests than the ring has descriptors | `rings` |
//! | QEMU (CVE-2017-17381) | alignment of a ring set to 0 | split rings of version 1 have none; `monitor` |
//! | Linux (CVE-2018-13405, CVE-2021-4037) | set-group-id of what is made in a directory of others | `files` |
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
