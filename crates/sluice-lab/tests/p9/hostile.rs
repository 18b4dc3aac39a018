//! What a peer should not send.

use crate::harness::{Conn, decoded, export};
use sluice_proto::p9::serve::Close;
use sluice_proto::p9::wire::*;
use sluice_vfs::Errno;
use std::os::unix::fs::symlink;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = ((HEADER_LEN + body.len()) as u32).to_le_bytes().to_vec();
    out.push(kind);
    out.extend(1_u16.to_le_bytes());
    out.extend(body);
    out
}

#[test]
fn malformed_messages_are_answered_and_others_go_on() {
    let conn = Conn::new(Dialect::Linux);
    for (kind, body) in [
        (110, &b""[..]),                            // Twalk without anything
        (110, b"\0\0\0\0\x01\0\0\0\x11\0"),         // 17 names
        (110, b"\0\0\0\0\x01\0\0\0\x01\0\xff\xff"), // a name beyond the message
        (120, b"\0\0\0\0\0"),                       // a byte too many
        (72, b"\0\0\0\0\x05\0ab"),                  // a name cut short
    ] {
        assert_eq!(
            conn.error_for(&message(kind, body)),
            Errno::EINVAL,
            "{kind}"
        );
    }
    // Unknown, Tlerror, Terror, Topen, and replies.
    for kind in [0, 6, 7, 106, 107, 112, 113, 121, 255] {
        assert_eq!(
            conn.error_for(&message(kind, b"\0\0\0\0")),
            Errno::EOPNOTSUPP
        );
    }
    assert!(conn.getattr(0).is_ok());
}

#[test]
fn sizes_that_lie_end_the_connection() {
    let conn = Conn::new(Dialect::Linux);
    let mut lying = message(120, b"\0\0\0\0");
    for size in [0_u32, 6, 8193, u32::MAX, 12] {
        lying[..4].copy_from_slice(&size.to_le_bytes());
        let sent = conn.peer.send_bytes(&lying, b"");
        assert!(matches!(sent.map(drop), Err(Close::Size(_))), "{size}");
    }
    assert!(conn.peer.send_bytes(b"\x07\0\0\0", b"").is_err());
}

#[test]
fn no_reply_is_longer_than_was_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    symlink("t".repeat(4090), dir.path().join("link")).unwrap();
    for (msize, expected) in [(4096, Err(Errno::EMSGSIZE)), (8192, Ok(()))] {
        let conn = Conn::over(export(&dir), Dialect::Linux, |_| {});
        conn.version(msize).unwrap();
        conn.attach(0, 0).unwrap();
        conn.walk(0, 1, &["link"]).unwrap();
        let answer = conn.call(&Request::Readlink { fid: 1 });
        assert_eq!(answer.map(drop), expected, "{msize}");
        let conn = Conn::over(export(&dir), Dialect::Unix, |_| {});
        conn.version(msize).unwrap();
        conn.attach(0, 0).unwrap();
        conn.walk(0, 1, &["link"]).unwrap();
        let answer = conn.call(&Request::Stat { fid: 1 });
        assert_eq!(answer.map(drop), expected, "{msize}");
    }
}

#[test]
fn names_are_one_component_everywhere() {
    let conn = Conn::new(Dialect::Linux);
    conn.lcreate(1, "f", b"");
    conn.walk(0, 2, &["f"]).unwrap();
    for name in [&b"a/b"[..], b"..", b".", b"", b"a\0b", b"../x", b"/"] {
        let name = Str(name);
        let target = Str(b"t");
        let (dfid, fid, mode, gid, flags) = (0, 2, 0o644, 0, 0);
        let (major, minor) = (0, 0);
        for request in [
            Request::Mkdir {
                dfid,
                name,
                mode,
                gid,
            },
            Request::Mknod {
                dfid,
                name,
                mode,
                major,
                minor,
                gid,
            },
            Request::Symlink {
                fid: 0,
                name,
                target,
                gid,
            },
            Request::Lcreate {
                fid: 0,
                name,
                flags: LopenFlags::RDWR,
                mode,
                gid,
            },
            Request::Link { dfid, fid, name },
            Request::Unlinkat { dfid, name, flags },
            Request::Rename { fid, dfid, name },
            Request::Renameat {
                old_dfid: 0,
                old_name: name,
                new_dfid: 0,
                new_name: Str(b"g"),
            },
            Request::Renameat {
                old_dfid: 0,
                old_name: Str(b"f"),
                new_dfid: 0,
                new_name: name,
            },
        ] {
            assert_eq!(
                conn.call(&request).map(drop),
                Err(Errno::EINVAL),
                "{request:?}"
            );
        }
    }
    let (dfid, name, flags) = (0, Str(b"f"), 7);
    let unknown_flags = conn.call(&Request::Unlinkat { dfid, name, flags });
    assert_eq!(unknown_flags.map(drop), Err(Errno::EINVAL));
}

#[test]
fn symlinks_are_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    let dir = tempfile::tempdir().unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), dir.path().join("file")).unwrap();
    let conn = Conn::over(export(&dir), Dialect::Linux, |_| {});
    assert_eq!(conn.walk(0, 1, &["out", "secret"]).unwrap().len(), 1);
    conn.walk(0, 1, &["file"]).unwrap();
    assert_eq!(conn.lopen(1, LopenFlags::empty()), Err(Errno::ELOOP));
    let changes = SetAttr {
        valid: SetattrMask::SIZE,
        ..SetAttr::default()
    };
    assert!(conn.call(&Request::Setattr { fid: 1, changes }).is_err());
    let changes = SetAttr {
        valid: SetattrMask::MODE,
        mode: 0o777,
        ..SetAttr::default()
    };
    assert!(conn.call(&Request::Setattr { fid: 1, changes }).is_err());
    let secret = std::fs::read(outside.path().join("secret")).unwrap();
    assert_eq!(secret, b"x");
}

#[test]
fn a_write_brings_what_it_states() {
    let conn = Conn::new(Dialect::Linux);
    conn.lcreate(1, "f", b"");
    let data = Payload { len: 100 };
    let request = Request::Write {
        fid: 1,
        offset: 0,
        data,
    };
    let sent = conn.peer.send(1, &request, Dialect::Linux, b"too few");
    assert!(matches!(sent.map(drop), Err(Close::Size(_))));
    // The header is true, the count is not.
    let mut prefix = message(118, b"\x01\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff");
    prefix[0] += 4;
    let ticket = conn.peer.send_bytes(&prefix, b"four").unwrap();
    let reply = ticket.wait().expect("a reply");
    assert!(decoded(&reply, Dialect::Linux).result.is_err());
    assert_eq!(conn.getattr(1).unwrap().size, 0);
}

#[test]
fn special_files_are_not_opened() {
    let conn = Conn::new(Dialect::Linux);
    for (name, mode) in [("pipe", 0o010_644), ("null", 0o020_644)] {
        let made = conn.call(&Request::Mknod {
            dfid: 0,
            name: Str(name.as_bytes()),
            mode,
            major: 1,
            minor: 3,
            gid: 0,
        });
        made.unwrap();
        conn.walk(0, 1, &[name]).unwrap();
        for flags in [LopenFlags::empty(), LopenFlags::RDWR, LopenFlags::NONBLOCK] {
            assert_eq!(conn.lopen(1, flags), Err(Errno::EOPNOTSUPP));
        }
        conn.clunk(1).unwrap();
    }
    for mode in [0o040_755, 0o120_777, 0o150_000] {
        let made = conn.call(&Request::Mknod {
            dfid: 0,
            name: Str(b"no"),
            mode,
            major: 0,
            minor: 0,
            gid: 0,
        });
        assert_eq!(made.map(drop), Err(Errno::EINVAL));
    }
}
