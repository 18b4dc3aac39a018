//! Requests that block, over a service of this process.

use crate::here::Here;
use crate::peer::Peer;
use sluice_lab::faults::Gate;
use sluice_proto::p9::wire::*;
use sluicefs::serve::copied_bytes;
use std::sync::Arc;

fn read(offset: u64) -> Request<'static> {
    let (fid, count) = (1, 1000);
    Request::Read { fid, offset, count }
}

#[test]
fn reads_that_block_overlap_and_others_are_served() {
    let here = Here::start();
    let (mut peer, bytes) = here.reader();
    let gates: Vec<Arc<Gate>> = (0..32).map(|_| here.plan.stall("read")).collect();
    for tag in 0..32 {
        peer.send(tag, &read(u64::from(tag) * 1000), &[]);
    }
    // All at once: no gate has been opened.
    gates.iter().for_each(|gate| gate.wait_until_reached());
    let mut other = here.peer();
    for fid in 10..20 {
        other.walk(0, fid, &[b"file"]).unwrap();
    }
    gates.iter().for_each(|gate| gate.open());
    for _ in 0..32 {
        let answer = peer.receive();
        let at = usize::from(answer.tag()) * 1000;
        assert_eq!(answer.data(), &bytes[at..at + 1000]);
    }
}

/// Connections whose requests block take all threads but a few, of which one that has a
/// request running already may not have another.
#[test]
fn who_was_held_up_by_others_goes_on_when_they_are_done() {
    const OTHERS: usize = 188;
    let here = Here::start();
    let (mut peer, bytes) = here.reader();
    let mut others: Vec<Peer> = (0..OTHERS).map(|_| here.peer()).collect();
    let own = here.plan.stall("read");
    peer.send(1, &read(0), &[]);
    own.wait_until_reached();
    let gates: Vec<Arc<Gate>> = (0..OTHERS).map(|_| here.plan.stall("read")).collect();
    for other in &mut others {
        other.open(1, b"file", LopenFlags::empty()).unwrap();
        other.send(1, &read(0), &[]);
    }
    gates.iter().for_each(|gate| gate.wait_until_reached());
    peer.send(2, &read(1000), &[]);
    // Others that come later are served: it has had its turn.
    let mut late = here.peer();
    for fid in 1..20 {
        late.walk(0, fid, &[b"file"]).unwrap();
    }
    gates.iter().for_each(|gate| gate.open());
    let answer = peer.receive();
    assert_eq!(answer.tag(), 2, "before the one that blocks");
    assert!(answer.data() == &bytes[1000..2000]);
    own.open();
    assert_eq!(peer.receive().tag(), 1);
}

#[test]
fn a_flush_is_answered_after_what_it_is_about() {
    let here = Here::start();
    let (mut peer, _) = here.reader();
    let gate = here.plan.stall("read");
    peer.send(7, &read(0), &[]);
    gate.wait_until_reached();
    peer.send(8, &Request::Flush { oldtag: 7 }, &[]);
    // One that is not known is answered at once: so the other one waits.
    peer.send(9, &Request::Flush { oldtag: 99 }, &[]);
    assert_eq!(peer.receive().tag(), 9);
    gate.open();
    let tags = [peer.receive().tag(), peer.receive().tag()];
    assert_eq!(tags, [7, 8]);
    // The tag is free again.
    peer.send(7, &read(0), &[]);
    assert_eq!(peer.receive().tag(), 7);
}

#[test]
fn what_has_not_begun_is_taken_back() {
    let here = Here::start();
    let (mut peer, _) = here.reader();
    let gate = here.plan.stall("read");
    peer.send(7, &read(0), &[]);
    gate.wait_until_reached();
    peer.send(8, &Request::Clunk { fid: 1 }, &[]);
    peer.send(9, &read(0), &[]);
    peer.send(10, &Request::Flush { oldtag: 8 }, &[]);
    assert_eq!(peer.receive().tag(), 10);
    gate.open();
    let mut tags = [peer.receive().tag(), peer.receive().tag()];
    tags.sort_unstable();
    assert_eq!(tags, [7, 9], "the fid was not clunked");
}

#[test]
fn a_peer_that_leaves_while_its_request_blocks_leaves_nothing() {
    let here = Here::start();
    let (mut peer, _) = here.reader();
    let gate = here.plan.stall("read");
    peer.send(7, &read(0), &[]);
    gate.wait_until_reached();
    drop(peer);
    let mut other = here.peer();
    other.walk(0, 5, &[b"file"]).unwrap();
    gate.open();
    drop(other);
    here.wait_for_sessions(0);
}

/// A layer may give less of what was read, whose bytes are in a pipe or a buffer by then.
#[test]
fn the_reply_to_a_read_has_as_many_bytes_as_it_says() {
    let here = Here::start();
    let (mut peer, bytes) = here.reader();
    for (count, max) in [(90_000, 70_000), (90_000, 1), (90_000, 0), (10_000, 100)] {
        here.plan.misreport_reads(Some(max));
        assert!(peer.read(1, 3, count).unwrap() == bytes[3..3 + max]);
        // Nothing of the rest is left in what others read.
        here.plan.misreport_reads(None);
        assert!(peer.read(1, 7, count).unwrap() == bytes[7..7 + count as usize]);
    }
    // Or promise more than there is.
    for count in [90_000, 100] {
        here.plan.misreport_reads(Some(95_000));
        assert!(peer.read(1, 3, count).unwrap() == bytes[3..3 + count as usize]);
    }
}

#[test]
fn the_content_of_files_is_not_copied_and_listings_are() {
    let here = Here::start();
    let (mut peer, bytes) = here.reader();
    for count in [1, 1000, 20_000, 90_000] {
        assert_eq!(
            peer.read(1, 5, count).unwrap(),
            bytes[5..5 + count as usize]
        );
        let piece = &bytes[..count as usize];
        assert_eq!(peer.write(1, 0, piece).unwrap(), count);
    }
    let before = copied_bytes();
    peer.read(1, 5, 90_000).unwrap();
    peer.write(1, 0, &bytes).unwrap();
    assert_eq!(copied_bytes(), before);
    peer.walk(0, 2, &[]).unwrap();
    let (fid, flags) = (2, LopenFlags::empty());
    peer.call(&Request::Lopen { fid, flags }).get();
    let (offset, count) = (0, 1000);
    peer.call(&Request::Readdir { fid, offset, count }).get();
    assert!(copied_bytes() > before);
}
