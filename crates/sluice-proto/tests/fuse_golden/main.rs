//! Every FUSE message, byte for byte, in both directions.
//!
//! The bytes are written down by hand from Linux's `include/uapi/linux/fuse.h`
//! (7.45), field by field, for a little-endian machine; no encoder made them.
#![cfg(target_endian = "little")]

mod notifications;
mod replies;
mod requests;
mod requests_files;

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

/// The bytes of an annotated text: hexadecimal digits up to a `|` on each line.
/// `HEAD`, `HEAD+2`, `HEAD+8` and `ATTR` stand for the blocks above.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let digits = line.split('|').next().unwrap_or("").trim();
        match digits {
            "HEAD" => out.extend(bytes(HEAD)),
            "HEAD+2" => out.extend(bytes(HEAD_EXT2)),
            "HEAD+8" => out.extend(bytes(HEAD_EXT8)),
            "ATTR" => out.extend(bytes(ATTR)),
            _ => {
                let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
                assert!(digits.len().is_multiple_of(2), "odd digits in `{line}`");
                out.extend(digits.chunks(2).map(|pair| {
                    u8::from_str_radix(&pair.iter().collect::<String>(), 16)
                        .unwrap_or_else(|_| panic!("not hexadecimal: `{line}`"))
                }));
            }
        }
    }
    out
}

/// Runs `encode` into buffers filled with two patterns and compares what it
/// wrote: a byte that it leaves alone shows, and so does one too many.
fn assert_encodes(
    name: &str,
    golden: &[u8],
    encode: impl Fn(&mut [u8]) -> Result<usize, sluice_proto::fuse::wire::BufferTooSmall>,
) {
    for fill in [0xaa, 0x55] {
        let mut buf = vec![fill; golden.len() + 8];
        assert_eq!(encode(&mut buf), Ok(golden.len()), "{name}: length");
        assert_eq!(&buf[..golden.len()], golden, "{name}: bytes");
        assert!(
            buf[golden.len()..].iter().all(|&byte| byte == fill),
            "{name}: writes behind its end"
        );
    }
    for short in 0..golden.len() {
        assert!(encode(&mut vec![0; short]).is_err(), "{name}: fits {short}");
    }
}
