//! What requests do, whatever sizes they come in.

use crate::server::{Server, pattern, write_pattern};
use sluice_proto::p9::wire::*;
use std::fs;

#[test]
fn content_comes_and_goes_in_all_sizes() {
    for zero_copy in ["auto", "never", "1"] {
        whole_content(Server::start(&["--zero-copy", zero_copy]));
    }
}

fn whole_content(server: Server) {
    let bytes = write_pattern(&server.share().join("file"), 3_000_000);
    let mut peer = server.peer();
    peer.open(1, b"file", LopenFlags::RDWR).unwrap();
    let most = (1 << 20) - IO_HEADER_LEN;
    for count in [
        1, 100, 4096, 16_383, 16_384, 16_385, 65_536, 131_073, 500_001, most,
    ] {
        for offset in [0, 1, 4095, 1_000_003] {
            let read = peer.read(1, offset as u64, count).unwrap();
            assert!(read == bytes[offset..offset + count as usize]);
        }
    }
    assert_eq!(peer.read(1, 2_999_999, most).unwrap(), bytes[2_999_999..]);
    assert!(peer.read(1, 3_000_000, most).unwrap().is_empty());

    peer.create(2, b"copy").unwrap();
    let mut at = 0;
    for count in [
        1,
        100,
        4096,
        16_361,
        16_362,
        65_536,
        131_073,
        500_001,
        most as usize,
    ] {
        let piece = &bytes[at..at + count];
        assert_eq!(peer.write(2, at as u64, piece).unwrap() as usize, count);
        at += count;
    }
    assert!(fs::read(server.share().join("copy")).unwrap() == bytes[..at]);
    server.stop();
}

#[test]
fn requests_may_come_in_any_pieces() {
    let server = Server::start(&[]);
    let mut peer = server.peer();
    peer.create(1, b"file").unwrap();
    let bytes = pattern(50_000);
    let data = Payload { len: bytes.len() };
    let request = Request::Write {
        fid: 1,
        offset: 0,
        data,
    };
    let mut message = crate::peer::encoded(7, &request, Dialect::Linux);
    message.extend_from_slice(&bytes);
    // Byte by byte where something ends, and across the ends of messages.
    let twice = [message.clone(), message].concat();
    let mut rest = &twice[..];
    for step in [
        1, 1, 2, 3, 1, 15, 1, 1, 16_384, 20_000, 13_000, 600, 15, 7, 40_000, 5_000,
    ] {
        let (now, later) = rest.split_at(step);
        peer.socket.write_all(now).unwrap();
        rest = later;
        if rest.len() == twice.len() / 2 {
            panic!("the messages are not cut at their end");
        }
    }
    // The first is answered before the tag comes again.
    assert_eq!(peer.receive().tag(), 7);
    peer.socket.write_all(rest).unwrap();
    assert_eq!(peer.receive().tag(), 7);
    assert!(fs::read(server.share().join("file")).unwrap() == bytes);
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let server = Server::start(&[]);
    let bytes = write_pattern(&server.share().join("file"), 1 << 20);
    let mut peer = server.peer();
    peer.open(1, b"file", LopenFlags::empty()).unwrap();
    let mut all = Vec::new();
    for tag in 0..100_u16 {
        let (offset, count) = (u64::from(tag) * 10_000, 10_000);
        let request = Request::Read {
            fid: 1,
            offset,
            count,
        };
        all.extend(crate::peer::encoded(tag, &request, Dialect::Linux));
    }
    peer.socket.write_all(&all).unwrap();
    let mut seen = [false; 100];
    for _ in 0..100 {
        let answer = peer.receive();
        let at = usize::from(answer.tag()) * 10_000;
        assert_eq!(answer.data(), &bytes[at..(at + 10_000).min(bytes.len())]);
        assert!(!std::mem::replace(
            &mut seen[usize::from(answer.tag())],
            true
        ));
    }
}

/// However much of a large read has come when a file loses its end, the reply is
/// as long as it says.
#[test]
fn a_file_that_shrinks_does_not_shift_what_follows() {
    let server = Server::start(&[]);
    let path = server.share().join("file");
    let bytes = write_pattern(&path, 1 << 20);
    let mut peer = server.peer();
    peer.open(1, b"file", LopenFlags::empty()).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for round in 0..100_u64 {
        let (offset, count) = (round * 11, 1 << 20);
        let request = Request::Read {
            fid: 1,
            offset,
            count,
        };
        peer.send(1, &request, &[]);
        peer.send(2, &request, &[]);
        file.set_len(round * 3001 % 600_000).unwrap();
        file.set_len(1 << 20).unwrap();
        for _ in 0..2 {
            let answer = peer.receive();
            let data = answer.data();
            let at = offset as usize;
            let mut both = data.iter().zip(&bytes[at..]);
            assert!(both.all(|(got, put)| got == put || *got == 0));
        }
        if round % 10 == 0 {
            fs::write(&path, &bytes).unwrap();
        }
    }
    server.stop();
}
