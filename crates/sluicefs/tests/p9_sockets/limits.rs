//! What all connections of a process may take together.

use crate::here::{Here, wait_until};
use crate::peer::Peer;
use crate::server::{pattern, write_pattern};
use sluice_lab::faults::Gate;
use sluice_proto::p9::wire::*;
use sluicefs::serve::{HubLimits, held_bytes};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MIB: usize = 1 << 20;

const ENOMEM: u32 = 12;
const ENFILE: u32 = 23;

/// Held by who counts the memory of this process.
static MEMORY: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server whose peers are sent away after `stuck` when there is no memory left.
fn small(held_bytes: usize, stuck: Duration) -> Here {
    let here = Here::within(HubLimits {
        held_bytes,
        stuck,
        ..HubLimits::default()
    });
    write_pattern(&here.share().join("big"), MIB);
    here
}

const NEVER: Duration = Duration::from_secs(3600);

/// Those who will ask for much.
fn gluttons(here: &Here, count: usize) -> Vec<Peer> {
    let glutton = |_| {
        let mut peer = here.peer();
        peer.open(1, b"big", LopenFlags::empty()).unwrap();
        peer
    };
    (0..count).map(glutton).collect()
}

/// They do, so often each, and read none of it.
fn ask(gluttons: &mut [Peer], reads: u16) {
    for peer in gluttons {
        for tag in 0..reads {
            let (fid, offset, count) = (1, 0, MIB as u32);
            peer.send(tag, &Request::Read { fid, offset, count }, &[]);
        }
    }
}

/// Announces a long message and stops in the middle of it.
fn staller(here: &Here, number: usize) -> Peer {
    let mut peer = here.peer();
    peer.create(1, format!("stalled{number}").as_bytes())
        .unwrap();
    let data = Payload { len: MIB - 100 };
    let (fid, offset) = (1, 0);
    peer.send(1, &Request::Write { fid, offset, data }, &[b'x'; 30_000]);
    peer
}

/// Somebody who asks for little at a time is served.
fn is_served(here: &Here) {
    let mut peer = here.peer();
    peer.open(1, b"big", LopenFlags::empty()).unwrap();
    for round in 0..20 {
        assert_eq!(peer.read(1, round * 100, 1000).unwrap().len(), 1000);
    }
}

/// More than a small buffer holds, and less than a socket takes.
const LONG: usize = 100_000;

/// Somebody who asks for much is, too.
fn is_served_well(here: &Here) {
    let mut peer = gluttons(here, 1).remove(0);
    for _ in 0..3 {
        assert_eq!(peer.read(1, 0, LONG as u32).unwrap().len(), LONG);
    }
}

#[test]
fn replies_that_nobody_takes_are_bounded_for_all_peers_together() {
    let _alone = alone();
    let here = small(8 * MIB, NEVER);
    let reads = 2;
    let mut gluttons = gluttons(&here, 160);
    ask(&mut gluttons, reads);
    wait_until("the limit is reached", || held_bytes() >= 8 * MIB);
    // Who reads gets all that it asked for, and nobody holds more meanwhile.
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for mut peer in gluttons {
            let most = &most;
            scope.spawn(move || {
                for _ in 0..reads {
                    assert!(peer.receive().data().len() > MIB / 2);
                    most.fetch_max(held_bytes(), Ordering::Relaxed);
                }
            });
        }
    });
    let most = most.into_inner();
    // Some threads may have begun before there was too little.
    assert!(most < 80 * MIB, "{most}");
}

/// Peers that hold all memory there is, until they are dropped.
fn hoarders(here: &Here, limit: usize) -> Vec<Peer> {
    let mut hoarders = gluttons(here, 2 * limit.div_ceil(MIB));
    ask(&mut hoarders, 2);
    wait_until("the limit is reached", || held_bytes() >= limit);
    hoarders
}

fn long_read(count: usize) -> Request<'static> {
    let (fid, offset, count) = (1, 0, count as u32);
    Request::Read { fid, offset, count }
}

/// Requests of all kinds that need no memory.
fn ask_for_little(peer: &mut Peer) {
    let mask = GetattrMask::BASIC;
    peer.call(&Request::Getattr { fid: 1, mask }).get();
    peer.walk(0, 2, &[b"big"]).unwrap();
    assert_eq!(peer.read(1, 5, 1000).unwrap().len(), 1000);
    peer.call(&Request::Flush { oldtag: 999 }).get();
    peer.call(&Request::Clunk { fid: 2 }).get();
}

#[test]
fn small_requests_are_served_while_there_is_no_memory() {
    let _alone = alone();
    let here = small(4 * MIB, NEVER);
    let mut waiting = gluttons(&here, 1).remove(0);
    let hoarders = hoarders(&here, 4 * MIB);
    let mut other = here.peer();
    other.open(1, b"big", LopenFlags::empty()).unwrap();
    ask_for_little(&mut other);
    // On a connection on which a long read waits, too; but not what changes its fid.
    waiting.send(2000, &long_read(MIB), &[]);
    waiting.send(2001, &long_read(MIB), &[]);
    ask_for_little(&mut waiting);
    waiting.send(2002, &Request::Clunk { fid: 1 }, &[]);
    // What has not begun can be taken back, and is never answered.
    waiting.call(&Request::Flush { oldtag: 2000 }).get();
    drop(hoarders);
    let answer = waiting.receive();
    assert_eq!((answer.tag(), answer.data().len()), (2001, MIB - 11));
    assert_eq!(waiting.receive().tag(), 2002);
}

#[test]
fn long_writes_wait_for_memory_and_arrive_whole() {
    let _alone = alone();
    let here = small(4 * MIB, NEVER);
    let mut writers = Vec::new();
    for number in 0..4_usize {
        let mut peer = here.peer();
        peer.create(1, format!("written{number}").as_bytes())
            .unwrap();
        writers.push(peer);
    }
    let hoarders = hoarders(&here, 4 * MIB);
    let bytes = pattern(MIB - 100);
    std::thread::scope(|scope| {
        for mut peer in writers {
            let bytes = &bytes;
            scope.spawn(move || assert_eq!(peer.write(1, 0, bytes), Ok(bytes.len() as u32)));
        }
        let mut other = here.peer();
        other.open(1, b"big", LopenFlags::empty()).unwrap();
        ask_for_little(&mut other);
        drop(hoarders);
    });
    for number in 0..4 {
        let written = std::fs::read(here.share().join(format!("written{number}")));
        assert!(written.unwrap() == bytes);
    }
}

/// A long write that waits for a long read must not have the memory for which that waits.
#[test]
fn what_has_memory_waits_for_nothing_that_has_none() {
    let _alone = alone();
    let here = small(LONG, NEVER);
    let mut peers = gluttons(&here, 6);
    let hoarders = hoarders(&here, LONG);
    let bytes = pattern(LONG);
    std::thread::scope(|scope| {
        for peer in &mut peers {
            let bytes = &bytes;
            scope.spawn(move || {
                peer.walk(0, 2, &[]).unwrap();
                peer.send(2000, &long_read(LONG), &[]);
                peer.send(2001, &Request::Clunk { fid: 1 }, &[]);
                // It has no such fid before the Tclunk is done.
                let (fid, newfid) = (2, 1);
                let names = Names::new(&[], &mut []).unwrap();
                peer.send(2002, &Request::Walk { fid, newfid, names }, &[]);
                let data = Payload { len: bytes.len() };
                let (fid, offset) = (1, 0);
                peer.send(2003, &Request::Write { fid, offset, data }, bytes);
                let tags = [(); 4].map(|()| peer.receive().tag());
                assert_eq!(tags, [2000, 2001, 2002, 2003]);
            });
        }
        drop(hoarders);
    });
}

/// Requests of a round of [`work`].
const ROUND: u16 = 6;

/// Reads and writes of a file, with what makes some of them wait for others in between.
fn work(peer: &mut Peer, file: &[u8], rounds: u16, bytes: &[u8]) {
    let (fid, offset, data) = (1, 0, Payload { len: bytes.len() });
    let mut room = [0; 64];
    let names = Names::new(&[file], &mut room).unwrap();
    for round in 0..rounds {
        let requests: [Request<'_>; ROUND as usize] = [
            long_read(bytes.len()),
            Request::Clunk { fid },
            Request::Walk {
                fid: 0,
                newfid: fid,
                names,
            },
            Request::Lopen {
                fid,
                flags: LopenFlags::RDWR,
            },
            Request::Write { fid, offset, data },
            long_read(bytes.len()),
        ];
        for (tag, request) in (round * ROUND..).zip(&requests) {
            let is_write = matches!(request, Request::Write { .. });
            peer.send(tag, request, if is_write { bytes } else { &[] });
        }
    }
}

/// Peers that do such work and read slowly share memory for one payload of this length.
fn work_in_little_memory(len: usize, rounds: u16) {
    const PEERS: usize = 8;
    let here = small(len, NEVER);
    let bytes = &pattern(len);
    let started = |number: usize| {
        let file = format!("file{number}");
        std::fs::write(here.share().join(&file), bytes).unwrap();
        let (sender, receiver) = Peer::slow(&here.socket());
        let mut sender = sender.mounted(1 << 20);
        let file = file.into_bytes();
        sender.open(1, &file, LopenFlags::RDWR).unwrap();
        (sender, receiver, file)
    };
    let peers: Vec<_> = (0..PEERS).map(started).collect();
    std::thread::scope(|scope| {
        for (mut sender, mut receiver, file) in peers {
            scope.spawn(move || work(&mut sender, &file, rounds, bytes));
            scope.spawn(move || {
                let mut left: HashSet<u16> = (0..rounds * ROUND).collect();
                while !left.is_empty() {
                    let answer = receiver.receive();
                    assert!(left.remove(&answer.tag()));
                    match answer.get() {
                        Reply::Read { .. } => assert!(answer.data() == bytes),
                        Reply::Write { count } => assert_eq!(count as usize, len),
                        _ => {}
                    }
                }
            });
        }
    });
    wait_until("all memory is given back", || held_bytes() == 0);
}

/// Whatever has some of it must come to its end without what waits for some.
#[test]
fn long_reads_and_writes_of_slow_peers_all_come_to_an_end() {
    let _alone = alone();
    // Replies that fill the socket, and so keep their memory until they are read.
    work_in_little_memory(400_000, 6);
    // Memory that comes and goes all the time.
    work_in_little_memory(40_000, 60);
}

/// A connection that asks for a file to be opened, which blocks, and sends writes that wait
/// for that: each so short that it needs no more than small buffers.
fn hurrier(here: &Here, number: usize, writes: u16) -> (Arc<Gate>, Peer, Peer) {
    let (sender, receiver) = Peer::slow(&here.socket());
    let mut sender = sender.mounted(1 << 20);
    let name = format!("file{number}");
    std::fs::write(here.share().join(&name), b"").unwrap();
    sender.walk(0, 1, &[name.as_bytes()]).unwrap();
    let gate = here.plan.stall("open");
    let (fid, flags) = (1, LopenFlags::WRONLY);
    sender.send(writes, &Request::Lopen { fid, flags }, &[]);
    gate.wait_until_reached();
    (gate, sender, receiver)
}

#[test]
fn short_writes_that_wait_are_bounded_for_all_peers_together() {
    const LIMIT: usize = 2 * MIB;
    const WRITES: u16 = 100;
    let _alone = alone();
    let here = small(LIMIT, NEVER);
    let peers = (0..20).map(|number| hurrier(&here, number, WRITES));
    let peers: Vec<_> = peers.collect();
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for (gate, mut sender, receiver) in peers {
            waiting.push((gate, receiver));
            scope.spawn(move || {
                let (fid, offset, data) = (1, 0, Payload { len: 15_000 });
                for tag in 0..WRITES {
                    sender.send(tag, &Request::Write { fid, offset, data }, &[7; 15_000]);
                }
            });
        }
        wait_until("the limit is reached", || held_bytes() >= LIMIT);
        for _ in 0..20 {
            is_served(&here);
            assert!(held_bytes() < 2 * LIMIT, "{}", held_bytes());
        }
        for (gate, mut receiver) in waiting {
            gate.open();
            scope.spawn(move || {
                for _ in 0..=WRITES {
                    receiver.receive().get();
                }
            });
        }
    });
}

/// Each needs no more than a small buffer, and there are many.
#[test]
fn who_does_not_read_short_replies_is_sent_away_when_there_are_too_many() {
    const PEERS: usize = 4;
    const READS: usize = 32;
    let _alone = alone();
    let here = small(MIB / 2, Duration::ZERO);
    let mut peers = gluttons(&here, PEERS);
    let gates: Vec<_> = (0..PEERS * READS)
        .map(|_| here.plan.stall("read"))
        .collect();
    for peer in &mut peers {
        (0..READS as u16).for_each(|tag| peer.send(tag, &long_read(16_000), &[]));
    }
    gates.iter().for_each(|gate| gate.wait_until_reached());
    gates.iter().for_each(|gate| gate.open());
    wait_until("some are gone", || here.plan.sessions() < PEERS);
    drop(peers);
}

#[test]
fn who_does_not_read_is_sent_away_when_others_need_the_memory() {
    let _alone = alone();
    let here = small(8 * MIB, Duration::ZERO);
    let mut gluttons = gluttons(&here, 20);
    ask(&mut gluttons, 1);
    is_served(&here);
    is_served_well(&here);
    wait_until("some are gone", || here.plan.sessions() < 20);
    drop(gluttons);
}

#[test]
fn who_stops_in_the_middle_of_messages_is_sent_away_when_others_need_the_memory() {
    let _alone = alone();
    let here = small(4 * MIB, Duration::ZERO);
    let stallers: Vec<Peer> = (0..20).map(|number| staller(&here, number)).collect();
    is_served(&here);
    is_served_well(&here);
    wait_until("some are gone", || here.plan.sessions() < 20);
    drop(stallers);
}

#[test]
fn others_wait_while_there_are_as_many_connections_as_may_be() {
    let here = Here::within(HubLimits {
        connections: 3,
        ..HubLimits::default()
    });
    let mut inside: Vec<Peer> = (0..3).map(|_| here.peer()).collect();
    here.wait_for_sessions(3);
    // It connects, and is not let in.
    let mut outside = here.stranger();
    let (msize, version) = (8192, Str(b"9P2000.L"));
    outside.send(NOTAG, &Request::Version { msize, version }, &[]);
    for peer in &mut inside {
        peer.walk(0, 1, &[]).unwrap();
    }
    assert_eq!(here.plan.sessions(), 3);
    drop(inside.pop());
    assert!(matches!(outside.receive().get(), Reply::Version { .. }));
    outside.attach(0, 0, b"").unwrap();
    here.wait_for_sessions(3);
}

/// Makes fids, from `first` on, until it gets no more; how many.
fn take_fids(peer: &mut Peer, first: u32) -> usize {
    let made = (first..first + 1000).map(|fid| peer.walk(0, fid, &[]));
    let made: Vec<_> = made.take_while(|made| *made != Err(ENFILE)).collect();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    made.len()
}

#[test]
fn fids_are_bounded_for_all_peers_together_and_each_can_have_some() {
    let here = Here::within(HubLimits {
        fids: 100,
        ..HubLimits::default()
    });
    let (mut greedy, mut other) = (here.peer(), here.peer());
    let assured = take_fids(&mut greedy, 1) - 100;
    assert_eq!(take_fids(&mut other, 1), assured);
    // What one gives back is there for anybody.
    greedy.call(&Request::Clunk { fid: 1 }).get();
    assert_eq!(take_fids(&mut other, 2000), 1);
    assert_eq!(take_fids(&mut greedy, 1), 0);
    // A Tversion gives all back, and so does the end.
    let greedy = greedy.mounted(1 << 20);
    assert_eq!(take_fids(&mut other, 3000), 99);
    drop((greedy, other));
    here.wait_for_sessions(0);
    assert_eq!(take_fids(&mut here.peer(), 1), assured + 100);
}

/// Makes fids that are to set attributes of 16 KiB, until it gets no more; how many.
fn take_values(peer: &mut Peer) -> usize {
    let announce = |fid| {
        peer.walk(0, fid, &[]).unwrap();
        let (name, size, flags) = (Str(b"user.a"), 16 << 10, 0);
        let request = Request::Xattrcreate {
            fid,
            name,
            size,
            flags,
        };
        peer.call(&request).result().map(drop)
    };
    let made: Vec<_> = (1..100).map(announce).collect();
    let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert!(refused.iter().all(|why| *why == Err(ENOMEM)), "{refused:?}");
    made.len()
}

#[test]
fn attributes_are_bounded_for_all_peers_together_and_each_can_have_one() {
    let here = Here::within(HubLimits {
        xattr_bytes: 160 << 10,
        ..HubLimits::default()
    });
    let (mut greedy, mut other) = (here.peer(), here.peer());
    let assured = take_values(&mut greedy) - 10;
    assert_eq!((assured, take_values(&mut other)), (4, 4));
    drop((greedy, other));
    here.wait_for_sessions(0);
    assert_eq!(take_values(&mut here.peer()), 14);
}
