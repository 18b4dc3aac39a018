//! Tversion.

use crate::harness::{Conn, model};
use sluice_proto::p9::serve::Close;
use sluice_proto::p9::wire::*;
use sluice_vfs::Errno;

#[test]
fn a_version_is_answered_with_the_dialect_that_is_spoken() {
    for (asked, answered) in [
        ("9P2000.L", "9P2000.L"),
        ("9P2000.L.Google.7", "9P2000.L"),
        ("9P2000.u", "9P2000.u"),
        ("9P2000", "9P2000"),
        ("9P2000.fancy", "9P2000"),
    ] {
        let conn = Conn::cold(model(), Dialect::Plan9, |_| {});
        let (msize, version) = conn.version_of(8192, asked.as_bytes()).unwrap();
        assert_eq!(
            (msize, &version[..]),
            (8192, answered.as_bytes()),
            "{asked}"
        );
    }
}

#[test]
fn an_unknown_version_leaves_the_connection_to_another_try() {
    let conn = Conn::cold(model(), Dialect::Linux, |_| {});
    for asked in ["9P2001", "", "8P"] {
        let unknown = (8192, b"unknown".to_vec());
        assert_eq!(conn.version_of(8192, asked.as_bytes()), Ok(unknown));
    }
    assert!(conn.version(8192).is_ok());
    assert!(conn.attach(0, 0).is_ok());
}

#[test]
fn the_smaller_msize_counts_and_has_a_floor() {
    let conn = Conn::cold(model(), Dialect::Linux, |config| {
        config.bounds.msize = 65_536;
    });
    let msize = |asked| conn.version(asked).map(|(msize, _)| msize);
    assert_eq!(msize(u32::MAX), Ok(65_536));
    assert_eq!(msize(65_535), Ok(65_535));
    assert_eq!(msize(4096), Ok(4096));
    assert_eq!(msize(4095), Err(Errno::EINVAL));
    // Without a version there is nothing to be asked.
    let walk = Request::Clunk { fid: 0 };
    let refused = conn.peer.send(1, &walk, Dialect::Linux, b"");
    assert_eq!(refused.map(drop), Err(Close::NoVersion(120)));
}

#[test]
fn a_version_drops_all_fids() {
    let conn = Conn::new(Dialect::Linux);
    conn.lcreate(1, "f", b"abc");
    conn.version(8192).unwrap();
    assert_eq!(conn.read(1, 0, 3), Err(Errno::EBADF));
    assert_eq!(conn.clunk(0), Err(Errno::EBADF));
    conn.attach(0, 0).unwrap();
    conn.walk(0, 1, &["f"]).unwrap();
}

#[test]
fn messages_are_as_long_as_agreed() {
    let conn = Conn::new(Dialect::Linux);
    let server = conn.peer.server();
    assert_eq!(server.size_max(), 8192);
    let header = |size, kind| Header { size, kind, tag: 1 };
    for (size, kind, is_sound) in [
        (7, 108, true),
        (6, 108, false),
        (0, 108, false),
        (8192, 118, true),
        (8193, 118, false),
        (u32::MAX, 118, false),
    ] {
        let checked = server.check_header(&header(size, kind));
        assert_eq!(checked.is_ok(), is_sound, "{size}");
    }
    conn.version(1 << 20).unwrap();
    // Long messages are writes; nobody has names that long.
    assert!(server.check_header(&header(1 << 20, 118)).is_ok());
    assert!(server.check_header(&header(1 << 20, 110)).is_err());
}

#[test]
fn nobody_needs_to_authenticate() {
    for dialect in Dialect::ALL {
        let conn = Conn::new(dialect);
        let auth = Request::Auth {
            afid: 5,
            uname: Str(b"me"),
            aname: Str(b""),
            n_uname: Extended(UnixId::NONE),
        };
        assert_eq!(conn.call(&auth).map(drop), Err(Errno::ENOENT));
        let attach = Request::Attach {
            fid: 1,
            afid: 5,
            uname: Str(b"0"),
            aname: Str(b""),
            n_uname: Extended(UnixId(0)),
        };
        assert_eq!(conn.call(&attach).map(drop), Err(Errno::EBADF));
    }
}
