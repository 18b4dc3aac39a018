//! Peers that mean harm, or are broken.

use crate::peer::Peer;
use crate::server::{Server, write_pattern};
use sluice_proto::p9::wire::*;

/// Another peer works, and the server ends well.
fn others_are_well(server: Server) {
    write_pattern(&server.share().join("well"), 100);
    let mut peer = server.peer();
    peer.open(1, b"well", LopenFlags::empty()).unwrap();
    assert_eq!(peer.read(1, 0, 1000).unwrap().len(), 100);
    drop(peer);
    server.stop();
}

#[test]
fn nonsense_costs_its_connection_and_nothing_else() {
    let server = Server::start(&[]);
    let version = crate::peer::encoded(
        NOTAG,
        &Request::Version {
            msize: 8192,
            version: Str(b"9P2000.L"),
        },
        Dialect::Linux,
    );
    let sized = |size: u32, kind: u8| {
        let mut bytes = size.to_le_bytes().to_vec();
        bytes.extend([kind, 1, 0]);
        bytes
    };
    let junk: Vec<u8> = (0..100_000_u32).map(|at| (at * 31 / 7) as u8).collect();
    for bytes in [
        sized(0, 100),
        sized(6, 100),
        sized(u32::MAX, 100),
        sized(8193, 110),
        [version.clone(), sized(8193, 110)].concat(),
        [version.clone(), sized(u32::MAX, 118)].concat(),
        [sized(19, 110), vec![0; 12]].concat(),
        junk,
    ] {
        let mut peer = server.stranger();
        // It may close before all has come.
        let _ = peer.socket.write_all(&bytes);
        peer.wait_closed();
    }
    others_are_well(server);
}

#[test]
fn half_a_message_and_silence_hold_up_nobody() {
    let server = Server::start(&[]);
    let mut silent = Vec::new();
    for len in [1, 4, 6, 7, 11, 22, 23, 24, 5000, 60_000] {
        let mut peer = server.peer();
        peer.create(1, format!("file{len}").as_bytes()).unwrap();
        let data = Payload { len: 100_000 };
        let request = Request::Write {
            fid: 1,
            offset: 0,
            data,
        };
        let mut message = crate::peer::encoded(1, &request, Dialect::Linux);
        message.resize(len, b'x');
        peer.socket.write_all(&message).unwrap();
        silent.push(peer);
    }
    others_are_well(server);
    for peer in silent {
        peer.wait_closed();
    }
}

/// Asks for far more than a socket holds, without reading any of it.
fn glutton(server: &Server) -> Peer {
    let mut peer = server.peer();
    peer.open(1, b"big", LopenFlags::empty()).unwrap();
    for tag in 0..64 {
        let request = Request::Read {
            fid: 1,
            offset: 0,
            count: 1 << 20,
        };
        peer.send(tag, &request, &[]);
    }
    peer
}

#[test]
fn a_peer_that_does_not_read_hurts_itself_only() {
    let server = Server::start(&[]);
    let bytes = write_pattern(&server.share().join("big"), 1 << 20);
    let mut gluttons: Vec<Peer> = (0..40).map(|_| glutton(&server)).collect();
    let mut peer = server.peer();
    peer.open(1, b"big", LopenFlags::empty()).unwrap();
    for _ in 0..20 {
        assert!(peer.read(1, 0, 500_000).unwrap() == bytes[..500_000]);
    }
    // One that reads in the end gets all that it asked for.
    let mut late = gluttons.pop().unwrap();
    for _ in 0..64 {
        let answer = late.receive();
        assert!(answer.data() == &bytes[..answer.data().len()]);
    }
    drop(gluttons);
    others_are_well(server);
}

/// Together they have begun more than the server has memory for.
#[test]
fn messages_that_come_in_halves_do_not_wait_for_each_other() {
    const PEERS: usize = 300;
    const LEN: usize = 1_000_000;
    let server = Server::start(&[]);
    write_pattern(&server.share().join("file"), 1);
    let data = Payload { len: LEN };
    let write = Request::Write {
        fid: 1,
        offset: 0,
        data,
    };
    let mut message = crate::peer::encoded(1, &write, Dialect::Linux);
    message.resize(message.len() + LEN, b'x');
    // A socket holds as much, whether or not it is read.
    let (begin, rest) = message.split_at(100_000);
    let opened = || {
        let mut peer = server.peer();
        peer.open(1, b"file", LopenFlags::RDWR).unwrap();
        peer
    };
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| opened()).collect();
    for peer in &mut peers {
        peer.socket.write_all(begin).unwrap();
    }
    for mut peer in peers {
        peer.socket.write_all(rest).unwrap();
        match peer.receive().get() {
            Reply::Write { count } => assert_eq!(count as usize, LEN),
            other => panic!("{other:?}"),
        }
    }
    others_are_well(server);
}

const EINVAL: u32 = 22;

#[test]
fn tags_and_fids_that_are_in_use_are_not_given_again() {
    let server = Server::start(&[]);
    let mut peer = server.peer();
    peer.create(1, b"file").unwrap();
    assert_eq!(peer.walk(0, 1, &[]), Err(9), "EBADF");
    assert!(peer.attach(0, 0, b"").is_err());
    // Two of one tag come together. The second comes after the first was answered,
    // or while it is under way: then the connection ends, maybe before the answer.
    let read = Request::Read {
        fid: 1,
        offset: 0,
        count: 10,
    };
    let twice = crate::peer::encoded(3, &read, Dialect::Linux).repeat(2);
    peer.socket.write_all(&twice).unwrap();
    if let Some(answer) = peer.receive_unless_closed() {
        assert_eq!(answer.tag(), 3);
    }
    drop(peer);

    let mut peer = server.stranger();
    let (msize, version) = (100, Str(b"9P2000.L"));
    peer.send(NOTAG, &Request::Version { msize, version }, &[]);
    assert!(peer.receive().result().is_err(), "an msize for nothing");
    let (msize, version) = (8192, Str(b"9P1999"));
    peer.dialect = Dialect::Plan9;
    peer.send(NOTAG, &Request::Version { msize, version }, &[]);
    match peer.receive().get() {
        Reply::Version { version, .. } => assert_eq!(version.0, b"unknown"),
        other => panic!("{other:?}"),
    }
    others_are_well(server);
}

#[test]
fn names_do_not_lead_out() {
    let server = Server::start(&[]);
    let share = server.share();
    std::fs::write(server.dir.path().join("outside"), "secret").unwrap();
    std::os::unix::fs::symlink("../outside", share.join("link")).unwrap();
    std::os::unix::fs::symlink("..", share.join("up")).unwrap();
    let mut peer = server.peer();
    for name in [&b"../outside"[..], b"a/b", b"/", b"", b"x\0y"] {
        assert!(peer.walk(0, 1, &[name]).is_err(), "{name:?}");
        assert_eq!(peer.create(2, name), Err(EINVAL), "{name:?}");
        let _ = peer.call(&Request::Clunk { fid: 2 });
    }
    // The top is its own parent.
    peer.walk(0, 3, &[b"..", b"..", b"link"]).unwrap();
    assert!(peer.walk(0, 4, &[b"up", b"outside"]).unwrap_or(0) < 2);
    let (fid, flags) = (3, LopenFlags::empty());
    let followed = peer.call(&Request::Lopen { fid, flags });
    assert!(followed.result().is_err(), "a symlink is not followed");
    others_are_well(server);
}

#[test]
fn pipes_and_devices_are_not_opened() {
    if !rustix::process::geteuid().is_root() {
        return crate::common::skip("making devices needs root");
    }
    let server = Server::start(&[]);
    let make = |name: &str, kind, device| {
        let path = server.share().join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device).unwrap();
    };
    make("pipe", rustix::fs::FileType::Fifo, 0);
    make(
        "zero",
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::makedev(1, 5),
    );
    let mut peer = server.peer();
    for (fid, name) in [(1, &b"pipe"[..]), (2, b"zero")] {
        assert!(peer.open(fid, name, LopenFlags::empty()).is_err());
        assert!(peer.read(fid, 0, 10).is_err());
    }
    others_are_well(server);
}

/// Set when it is dropped, also by a failure.
struct SetAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A directory that becomes a symlink and back while a peer goes through it.
#[test]
fn a_directory_that_is_swapped_for_a_symlink_does_not_lead_out() {
    let server = Server::start(&[]);
    let share = server.share();
    let outside = server.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "secret").unwrap();
    std::fs::create_dir(share.join("real")).unwrap();
    std::fs::write(share.join("real/file"), "inside").unwrap();
    std::os::unix::fs::symlink("../outside", share.join("link")).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = SetAtEnd(&is_over);
        scope.spawn(|| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let cwd = rustix::fs::CWD;
            let (real, link) = (share.join("real"), share.join("link"));
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::fs::renameat_with(cwd, &real, cwd, &link, flags).unwrap();
            }
        });
        let mut peer = server.peer();
        let mut found = 0;
        for round in 0..2000 {
            let fid = 10 + round;
            if peer.walk(0, fid, &[b"real", b"file"]) == Ok(2) {
                let flags = LopenFlags::empty();
                if peer.call(&Request::Lopen { fid, flags }).result().is_ok() {
                    assert_eq!(peer.read(fid, 0, 100).unwrap(), b"inside");
                    found += 1;
                }
            }
            let made = format!("made{round}");
            if peer.walk(0, 5, &[b"real"]) == Ok(1) {
                let _ = peer.call(&Request::Mkdir {
                    dfid: 5,
                    name: Str(made.as_bytes()),
                    mode: 0o755,
                    gid: 0,
                });
                peer.call(&Request::Clunk { fid: 5 }).get();
            }
        }
        assert!(found > 0, "the file is found now and then");
    });
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    others_are_well(server);
}
