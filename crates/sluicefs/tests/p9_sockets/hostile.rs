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
