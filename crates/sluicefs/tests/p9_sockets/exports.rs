//! Several shares on one address, and who clients are.

use crate::common::serving::announced;
use crate::common::{skip, sluice, text};
use crate::peer::Peer;
use crate::server::Server;
use sluice_proto::p9::wire::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const ENOENT: u32 = 2;
const EACCES: u32 = 13;
const EROFS: u32 = 30;

#[test]
fn shares_on_one_address_are_told_apart_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("whose"), name).unwrap();
    }
    let socket = dir.path().join("socket");
    let address = format!("unix:{}", text(&socket));
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    let arguments = [
        "serve",
        text(&a),
        "--9p",
        &address,
        "--aname",
        "first",
        "--and",
        text(&b),
        "--9p",
        &address,
        "--read-only",
    ];
    let (_daemon, said) = announced(&mut sluice(&arguments), 2);
    assert!(said[0].ends_with(&format!("as 9P export first on {address}")));

    let mut peer = Peer::unix(&socket);
    peer.version(8192);
    let path = text(&b).as_bytes().to_vec();
    for (fid, aname, whose) in [
        (0, &b""[..], b"a"),
        (10, b"/", b"a"),
        (20, b"first", b"a"),
        (30, text(&a).as_bytes(), b"a"),
        (40, &path, b"b"),
    ] {
        peer.attach(fid, 0, aname).unwrap();
        peer.walk(fid, fid + 1, &[b"whose"]).unwrap();
        let (fid, flags) = (fid + 1, LopenFlags::empty());
        peer.call(&Request::Lopen { fid, flags }).get();
        assert_eq!(peer.read(fid, 0, 10).unwrap(), whose);
    }
    assert_eq!(peer.attach(50, 0, b"other"), Err(ENOENT));
    let (fid, flags) = (42, LopenFlags::RDWR);
    peer.walk(40, fid, &[b"whose"]).unwrap();
    let refused = peer.call(&Request::Lopen { fid, flags });
    assert_eq!(refused.result().unwrap_err(), EROFS);
}

/// As one that may be changed, and as one that may not.
#[test]
fn a_directory_may_have_two_names() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let socket = dir.path().join("socket");
    let share = text(dir.path());
    let address = format!("unix:{}", text(&socket));
    let here = [share, "--9p", &address, "--aname"];
    let arguments = [
        &["serve"],
        &here[..],
        &["rw", "--and"],
        &here,
        &["ro", "--read-only"],
    ];
    let (_daemon, _) = announced(&mut sluice(&arguments.concat()), 2);
    let mut peer = Peer::unix(&socket);
    peer.version(8192);
    for (fid, aname, expected) in [
        (0, &b"rw"[..], Ok(())),
        (10, b"ro", Err(EROFS)),
        (20, share.as_bytes(), Ok(())), // the first that goes by it
    ] {
        peer.attach(fid, 0, aname).unwrap();
        peer.walk(fid, fid + 1, &[b"file"]).unwrap();
        let (fid, flags) = (fid + 1, LopenFlags::RDWR);
        let answer = peer.call(&Request::Lopen { fid, flags });
        assert_eq!(answer.result().map(drop), expected, "{aname:?}");
    }
}

/// A file for its owner alone, in a directory for all.
fn share_of_several() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    fs::create_dir(&share).unwrap();
    let mode = fs::Permissions::from_mode;
    fs::set_permissions(&share, mode(0o777)).unwrap();
    fs::set_permissions(dir.path(), mode(0o755)).unwrap();
    fs::write(share.join("secret"), "x").unwrap();
    fs::set_permissions(share.join("secret"), mode(0o600)).unwrap();
    dir
}

/// Whether this user reads root's file, and whose a file is that it makes.
fn powers(server: &Server, uid: u32) -> (Result<(), u32>, u32) {
    let mut peer = server.stranger();
    peer.version(8192);
    peer.attach(0, uid, b"").unwrap();
    let secret = peer.open(1, b"secret", LopenFlags::empty());
    let name = format!("made-{uid}");
    peer.create(2, name.as_bytes()).unwrap();
    let owner = fs::metadata(server.share().join(&name)).unwrap().uid();
    (secret, owner)
}

#[test]
fn requests_count_as_whom_the_options_say() {
    if !rustix::process::geteuid().is_root() {
        return skip("acting for others needs root");
    }
    for (options, uid, expected) in [
        (&[][..], 0, (Ok(()), 0)),
        (&[], 12345, (Err(EACCES), 12345)),
        (&["--access=client"], 12345, (Ok(()), 12345)),
        (&["--access=any"], 12345, (Ok(()), 0)),
        (
            &["--access=any", "--squash=all:77:77"],
            0,
            (Err(EACCES), 77),
        ),
        (&["--squash=root"], 0, (Err(EACCES), 65534)),
        (&["--squash=root"], 12345, (Err(EACCES), 12345)),
        (&["--squash=all:55:55"], 0, (Err(EACCES), 55)),
    ] {
        let server = Server::in_dir(share_of_several(), options);
        assert_eq!(powers(&server, uid), expected, "{options:?} as {uid}");
    }
}

#[test]
fn a_share_is_served_from_within_a_chroot() {
    if !rustix::process::geteuid().is_root() {
        return skip("chroot(2) needs root");
    }
    let server = Server::start(&["--sandbox=chroot"]);
    let root = fs::read_link(format!("/proc/{}/root", server.daemon.0.id())).unwrap();
    assert_eq!(root, server.share().canonicalize().unwrap());
    fs::write(server.share().join("file"), "content").unwrap();
    let mut peer = server.peer();
    peer.open(1, b"file", LopenFlags::empty()).unwrap();
    assert_eq!(peer.read(1, 0, 100).unwrap(), b"content");
    peer.create(2, b"made").unwrap();
    assert_eq!(peer.write(2, 0, b"by the peer"), Ok(11));
    let made = fs::read(server.share().join("made")).unwrap();
    assert_eq!(made, b"by the peer");
    // The share's path is its name still.
    let path = server.share().into_os_string().into_encoded_bytes();
    peer.attach(10, 0, &path).unwrap();
    drop(peer);
    server.stop();
}
