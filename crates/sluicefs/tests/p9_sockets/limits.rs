//! What all connections of a process may take together.

use crate::here::{Here, wait_until};
use crate::peer::Peer;
use crate::server::write_pattern;
use sluice_proto::p9::wire::*;
use sluicefs::serve::{HubLimits, held_bytes};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MIB: usize = 1 << 20;

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

/// How often a glutton asks.
const READS: u16 = 2;

/// They do, and read none of it.
fn ask(gluttons: &mut [Peer]) {
    for peer in gluttons {
        for tag in 0..READS {
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

#[test]
fn replies_that_nobody_takes_are_bounded_for_all_peers_together() {
    let _alone = alone();
    let here = small(8 * MIB, NEVER);
    let mut gluttons = gluttons(&here, 160);
    ask(&mut gluttons);
    wait_until("the limit is reached", || held_bytes() >= 8 * MIB);
    // Who reads gets all that it asked for, and nobody holds more meanwhile.
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for mut peer in gluttons {
            let most = &most;
            scope.spawn(move || {
                for _ in 0..READS {
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

#[test]
fn who_does_not_read_is_sent_away_when_others_need_the_memory() {
    let _alone = alone();
    let here = small(8 * MIB, Duration::ZERO);
    let mut gluttons = gluttons(&here, 20);
    ask(&mut gluttons);
    is_served(&here);
    wait_until("memory comes back", || held_bytes() < 8 * MIB);
    assert!(here.plan.sessions() < 20, "some are gone");
    drop(gluttons);
    is_served(&here);
}

#[test]
fn who_stops_in_the_middle_of_messages_is_sent_away_when_others_need_the_memory() {
    let _alone = alone();
    let here = small(4 * MIB, Duration::ZERO);
    let stallers: Vec<Peer> = (0..20).map(|number| staller(&here, number)).collect();
    is_served(&here);
    wait_until("memory comes back", || held_bytes() < 4 * MIB);
    assert!(here.plan.sessions() < 20, "some are gone");
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
