//! Every FUSE message, byte for byte, in both directions.
//!
//! The bytes are written down by hand from Linux's `include/uapi/linux/fuse.h`
//! (7.45), field by field, for a little-endian machine; no encoder made them.
#![cfg(target_endian = "little")]

#[path = "../common/golden.rs"]
mod golden;
mod notifications;
mod replies;
mod requests;
mod requests_files;

use golden::assert_encodes;

/// Fields of a request's header behind length and opcode, as [`HEAD`] spells
/// them out: unique, nodeid, uid, gid and pid; no extensions.
const HEAD: &str = "08070605 04030201 | unique
     11000000 00000000 | nodeid
     e8030000 e9030000 d2040000 | uid 1000, gid 1001, pid 1234
     0000 0000 | total_extlen, padding";

/// The same with two units of extensions.
const HEAD_EXT2: &str = "08070605 04030201 | unique
     11000000 00000000 | nodeid
     e8030000 e9030000 d2040000 | uid 1000, gid 1001, pid 1234
     0200 0000 | total_extlen, padding";

/// The same with eight units of extensions.
const HEAD_EXT8: &str = "08070605 04030201 | unique
     11000000 00000000 | nodeid
     e8030000 e9030000 d2040000 | uid 1000, gid 1001, pid 1234
     0800 0000 | total_extlen, padding";

/// Attributes that stand in several replies.
const ATTR: &str = "21000000 00000000 | ino
     34120000 00000000 | size
     18000000 00000000 | blocks
     0100005f 00000000 | atime
     feffffff ffffffff | mtime, two seconds before 1970
     0300005f 00000000 | ctime
     01000000 02000000 ffc99a3b | atimensec, mtimensec, ctimensec 999999999
     a4810000 | mode 0100644
     02000000 | nlink
     e8030000 e9030000 | uid, gid
     11080000 | rdev 8:17
     00100000 | blksize
     01000000 | flags SUBMOUNT";

/// The bytes of an annotated text, in which the names of the blocks above may stand.
fn bytes(text: &str) -> Vec<u8> {
    let blocks = [
        ("HEAD", HEAD),
        ("HEAD+2", HEAD_EXT2),
        ("HEAD+8", HEAD_EXT8),
        ("ATTR", ATTR),
    ];
    golden::bytes_with(text, &blocks)
}
