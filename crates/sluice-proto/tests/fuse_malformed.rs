//! Messages that a peer should not send: each is told apart, none is taken.
#![cfg(target_endian = "little")]

use sluice_proto::fuse::wire::*;
use sluice_vfs::Errno;

/// A request with a true header around `body`.
fn request(opcode: u32, ext_units: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(((40 + body.len()) as u32).to_le_bytes());
    out.extend(opcode.to_le_bytes());
    out.extend(7_u64.to_le_bytes());
    out.extend(1_u64.to_le_bytes());
    out.extend([0; 12]);
    out.extend(ext_units.to_le_bytes());
    out.extend([0; 2]);
    out.extend(body);
    out
}

fn decode(opcode: Opcode, body: &[u8]) -> Result<(), Malformed> {
    let message = request(opcode as u32, 0, body);
    Request::decode(&message, 0, Dialect::default()).map(drop)
}

fn decode_with_extensions(main: &[u8], ext: &[u8]) -> Result<(), Malformed> {
    let body = [main, ext].concat();
    let message = request(Opcode::Mkdir as u32, (ext.len() / 8) as u16, &body);
    Request::decode(&message, 0, Dialect::default()).map(drop)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn headers_must_tell_the_true_length() {
    let whole = request(Opcode::Statfs as u32, 0, b"");
    assert!(Request::decode(&whole, 0, Dialect::default()).is_ok());
    for len in 0..40 {
        assert_eq!(
            Request::decode(&whole[..len], 0, Dialect::default()),
            Err(Malformed::ShortHeader {
                have: len,
                need: 40
            })
        );
    }
    for stated in [0, 39, 41, 4096, u32::MAX] {
        let mut message = whole.clone();
        message[..4].copy_from_slice(&stated.to_le_bytes());
        assert_eq!(
            Request::decode(&message, 0, Dialect::default()),
            Err(Malformed::Length { stated, have: 40 })
        );
    }
    assert!(matches!(
        Request::decode(&whole, usize::MAX, Dialect::default()),
        Err(Malformed::Length { .. })
    ));
}

#[test]
fn unknown_operations_are_not_implemented() {
    for code in [0, 7, 19, 54, 4095, 4096, u32::MAX] {
        let message = request(code, 0, b"");
        let why = Request::decode(&message, 0, Dialect::default()).unwrap_err();
        assert_eq!(why, Malformed::UnknownOpcode(code));
        assert_eq!(why.errno(), Errno::ENOSYS);
        assert_eq!(prefix_len(&message), Err(why));
    }
}

#[test]
fn the_other_byte_order_is_recognised_by_its_init() {
    // FUSE_INIT_BSWAP_RESERVED
    let message = request(436_207_616, 0, &[0; 64]);
    assert_eq!(
        Request::decode(&message, 0, Dialect::default()),
        Err(Malformed::ByteOrder)
    );
}

#[test]
fn every_operation_refuses_to_end_early_or_late() {
    for &opcode in Opcode::ALL {
        for len in 0..96 {
            // Zeros are valid values everywhere; they also are empty names.
            let is_good = decode(opcode, &vec![0; len]).is_ok();
            let could_be_good = match opcode {
                Opcode::Readlink | Opcode::Statfs | Opcode::Destroy => len == 0,
                Opcode::Lookup | Opcode::Unlink | Opcode::Rmdir | Opcode::Removexattr => len == 1,
                Opcode::Symlink => len == 2,
                Opcode::Forget | Opcode::Interrupt | Opcode::Syncfs => len == 8,
                Opcode::Open | Opcode::Opendir | Opcode::Listxattr | Opcode::Access => len == 8,
                Opcode::Link | Opcode::Mkdir | Opcode::Getxattr => len == 9,
                Opcode::Rename => len == 10,
                Opcode::Getattr | Opcode::Fsync | Opcode::Fsyncdir | Opcode::Bmap => len == 16,
                Opcode::Mknod | Opcode::Create | Opcode::Tmpfile | Opcode::Setxattr => len == 17,
                Opcode::Rename2 => len == 18,
                Opcode::Statx | Opcode::Release | Opcode::Releasedir => len == 24,
                Opcode::Flush | Opcode::Poll | Opcode::Lseek => len == 24,
                Opcode::Fallocate | Opcode::Ioctl => len == 32,
                Opcode::Read | Opcode::Readdir | Opcode::Readdirplus => len == 40,
                Opcode::Write | Opcode::NotifyReply | Opcode::Setupmapping => len == 40,
                Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => len == 48,
                Opcode::CopyFileRange | Opcode::CopyFileRange64 => len == 56,
                Opcode::Setattr => len == 88,
                // Counts of zero items.
                Opcode::BatchForget => len == 8,
                Opcode::Removemapping => len == 4,
                // Major version 0 has no known length.
                Opcode::Init => len >= 8,
            };
            assert_eq!(is_good, could_be_good, "{opcode:?} with {len} bytes");
        }
    }
}

#[test]
fn names_must_end_and_nothing_may_follow() {
    assert_eq!(
        decode(Opcode::Lookup, b"name"),
        Err(Malformed::Unterminated)
    );
    assert_eq!(decode(Opcode::Lookup, b""), Err(Malformed::Unterminated));
    assert_eq!(
        decode(Opcode::Lookup, b"na\0me\0"),
        Err(Malformed::Trailing { count: 3 })
    );
    assert_eq!(
        decode(Opcode::Rename, b"\0\0\0\0\0\0\0\0old\0new"),
        Err(Malformed::Unterminated)
    );
}

#[test]
fn counts_must_agree_with_what_follows() {
    let count_of = |result| match result {
        Err(Malformed::Count { stated, have, .. }) => Some((stated, have)),
        _ => None,
    };
    let mut forgets = words(&[0xffff_ffff, 0]);
    forgets.extend([0; 16]);
    assert_eq!(
        count_of(decode(Opcode::BatchForget, &forgets)),
        Some((0xffff_ffff, 1))
    );
    forgets.pop();
    forgets[..4].copy_from_slice(&1_u32.to_le_bytes());
    assert_eq!(
        count_of(decode(Opcode::BatchForget, &forgets)),
        Some((1, 0))
    );
    let mut value = words(&[4, 0, 0, 0]);
    value.extend(b"user.a\0xyz");
    assert_eq!(count_of(decode(Opcode::Setxattr, &value)), Some((4, 3)));
    let ioctl = words(&[0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(count_of(decode(Opcode::Ioctl, &ioctl)), Some((1, 0)));

    let write = request(Opcode::Write as u32, 0, &[0; 40]);
    let mut longer = write.clone();
    longer[0] = 81;
    assert_eq!(
        count_of(Request::decode(&longer, 1, Dialect::default()).map(drop)),
        Some((0, 1))
    );
}

#[test]
fn payloads_belong_to_writes_only() {
    let mut message = request(Opcode::Statfs as u32, 0, b"");
    message[0] = 44;
    assert_eq!(
        Request::decode(&message, 4, Dialect::default()),
        Err(Malformed::Trailing { count: 4 })
    );
    assert_eq!(prefix_len(&message), Ok(44));
    let mut write = request(Opcode::Write as u32, 0, &[0; 40]);
    write[..4].copy_from_slice(&0x0010_0050_u32.to_le_bytes());
    assert_eq!(prefix_len(&write), Ok(80));
    write[..4].copy_from_slice(&60_u32.to_le_bytes());
    assert_eq!(prefix_len(&write), Ok(60));
}

#[test]
fn unknown_flags_and_values_are_refused() {
    for (opcode, body, what) in [
        (Opcode::Getattr, words(&[2, 0, 0, 0]), "getattr_flags"),
        (Opcode::Open, words(&[0, 2]), "open_flags"),
        (Opcode::Release, words(&[0, 0, 0, 4, 0, 0]), "release_flags"),
        (Opcode::Fsync, words(&[0, 0, 2, 0]), "fsync_flags"),
        (Opcode::Access, words(&[8, 0]), "mask"),
        (Opcode::Poll, words(&[0, 0, 0, 0, 2, 0]), "flags"),
        (
            Opcode::Setlk,
            words(&[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]),
            "lk.kind",
        ),
        (
            Opcode::Setlk,
            words(&[0, 0, 0, 0, 9, 0, 8, 0, 1, 0, 0, 0]),
            "lk.end before lk.start",
        ),
        (
            Opcode::Setlk,
            words(&[0, 0, 0, 0, 0, 0, 8, 0, 1, 0, 2, 0]),
            "lk_flags",
        ),
    ] {
        let why = decode(opcode, &body).expect_err(what);
        assert!(
            matches!(
                why,
                Malformed::UnknownFlags { .. } | Malformed::Value { .. }
            ),
            "{what}: {why}"
        );
        assert_eq!(why.errno(), Errno::EINVAL);
    }
}

#[test]
fn extensions_must_add_up() {
    let mkdir = [0, 0, 0, 0, 0, 0, 0, 0, b'd', 0];
    let ok = |ext: &[u8]| decode_with_extensions(&mkdir, ext).is_ok();
    assert!(ok(&[]));
    assert!(ok(&words(&[8, 0])), "a header that counts no label");
    assert!(ok(&words(&[16, 32, 1, 10])), "one group");
    assert!(!ok(&words(&[0, 32, 1, 10])), "size 0 would never end");
    assert!(!ok(&words(&[4, 32])), "shorter than its header");
    assert!(!ok(&words(&[12, 32, 0, 0])), "not in units of 8 bytes");
    assert!(!ok(&words(&[24, 32, 1, 10])), "longer than the request");
    assert!(!ok(&words(&[16, 33, 0, 0])), "a type of the future");
    assert!(!ok(&words(&[16, 32, 2, 10])), "more groups than there are");
    assert!(!ok(&words(&[16, 32, u32::MAX, 10])), "very many groups");
    assert!(!ok(&words(&[24, 32, 1, 10, 0, 0])), "surplus behind groups");
    assert!(!ok(&words(&[16, 1, 4, 0])), "a label with no name");
    assert!(!ok(&words(&[8, 2])), "two labels");
    let mut label = words(&[24, 1, 5, 0]);
    label.extend(b"n\0valu\0\0");
    assert!(ok(&label), "a value of five bytes, `valu` and a NUL");
    label[8] = 7;
    assert!(!ok(&label), "a value that is longer than its block");

    let message = request(Opcode::Mkdir as u32, 3, &mkdir);
    assert_eq!(
        Request::decode(&message, 0, Dialect::default()),
        Err(Malformed::Extension("longer than the request"))
    );
    let message = request(Opcode::Statfs as u32, 1, &[0; 8]);
    assert_eq!(
        Request::decode(&message, 0, Dialect::default()),
        Err(Malformed::Trailing { count: 8 })
    );
}

#[test]
fn init_of_another_major_version_is_read_as_far_as_its_version() {
    for len in [8, 9, 16, 63, 64, 65, 200] {
        let mut body = words(&[8, 3]);
        body.resize(len, 0xff);
        assert_eq!(decode(Opcode::Init, &body), Ok(()), "{len} bytes");
    }
    for (len, is_good) in [(8, false), (16, true), (32, false), (64, true), (72, false)] {
        let mut body = words(&[7, 45]);
        body.resize(len, 0);
        assert_eq!(decode(Opcode::Init, &body).is_ok(), is_good, "{len} bytes");
    }
}
