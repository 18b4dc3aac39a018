//! Many connections.

use crate::server::{Server, write_pattern};
use sluice_proto::p9::wire::*;
use std::fs;

/// Of the process that serves: it is the child of the one that was started.
fn status_of(server: &Server, field: &str) -> u64 {
    let outside = server.daemon.0.id();
    let children = format!("/proc/{outside}/task/{outside}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    let pid = children.split_whitespace().next().map(str::to_owned);
    let pid = pid.unwrap_or_else(|| outside.to_string());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

#[test]
fn a_thousand_idle_connections_take_little() {
    let server = Server::start(&[]);
    write_pattern(&server.share().join("file"), 10_000);
    let mut peers = Vec::new();
    for _ in 0..1000 {
        let mut peer = server.peer();
        peer.open(1, b"file", LopenFlags::empty()).unwrap();
        assert_eq!(peer.read(1, 0, 10_000).unwrap().len(), 10_000);
        peers.push(peer);
    }
    let rss_kib = status_of(&server, "VmRSS:");
    let threads = status_of(&server, "Threads:");
    println!("1000 connections: {rss_kib} KiB, {threads} threads");
    assert!(rss_kib <= 32 * 1024, "{rss_kib} KiB");
    assert!(threads <= 16, "{threads} threads");
    drop(peers);
    server.stop();
}

#[test]
fn busy_connections_all_get_their_answers() {
    let server = Server::start(&[]);
    let bytes = write_pattern(&server.share().join("file"), 1 << 20);
    std::thread::scope(|scope| {
        for number in 0..64_u64 {
            let mut peer = server.peer();
            let bytes = &bytes;
            scope.spawn(move || {
                peer.open(1, b"file", LopenFlags::empty()).unwrap();
                for round in 0..100 {
                    let at = (number * 1000 + round * 37) % 1_000_000;
                    let read = peer.read(1, at, 8192).unwrap();
                    assert!(read == bytes[at as usize..at as usize + 8192]);
                }
            });
        }
    });
    server.stop();
}
