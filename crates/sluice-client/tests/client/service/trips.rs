//! How often the server is asked, and what is copied.

use super::cuts::Cuts;
use super::{At, BOTH, ROOT, ctx, hard, word};
use crate::server::only;
use sluice_client::{Counts, Dialect};
use sluice_vfs::{AttrMask, DirEntry, DirSink, DirWant, OpenFlags, Release};

fn cost<T>(at: &At, act: impl FnOnce() -> T) -> (T, Counts) {
    let before = at.service.counts();
    let done = act();
    let after = at.service.counts();
    let spent = Counts {
        sent: after.sent - before.sent,
        received: after.received - before.received,
        copied: after.copied - before.copied,
        waits: after.waits - before.waits,
    };
    (done, spent)
}

#[test]
fn each_of_the_usual_operations_is_one_message() {
    let at = At::over(&Cuts::new(None));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    at.write(&file, 0, b"content").unwrap();
    at.close(&file).unwrap();
    let lookup = || at.session.lookup(&ctx(), ROOT, word("f")).unwrap();
    let (_, again) = cost(&at, lookup);
    assert_eq!(again.sent, 1, "a known name");
    let node = file.entry.node;
    let getattr = || at.session.getattr(&ctx(), node, None, AttrMask::BASIC);
    assert_eq!(cost(&at, getattr).1.sent, 1, "its attributes");
    let missing = || at.session.lookup(&ctx(), ROOT, word("g")).unwrap();
    assert_eq!(cost(&at, missing).1.sent, 1, "a missing name");
    let (opened, opening) = cost(&at, || {
        at.session.open(&ctx(), node, OpenFlags::READ).unwrap()
    });
    assert_eq!(opening.sent, 1, "opening it");
    let release = || {
        let how = Release {
            flush: true,
            ..Release::default()
        };
        at.session.release(&ctx(), node, opened.handle, &how)
    };
    let (closed, closing) = cost(&at, release);
    closed.unwrap();
    assert_eq!((closing.sent, closing.waits), (1, 0), "nobody waits for it");
}

#[test]
fn what_was_written_is_closed_when_the_server_says_so() {
    let at = At::over(&Cuts::new(None));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    at.write(&file, 0, b"content").unwrap();
    let (closed, closing) = cost(&at, || at.close(&file));
    closed.unwrap();
    assert_eq!((closing.sent, closing.received), (1, 1));
}

/// Thousands of fids that are given back are no more than a few messages ahead
/// of the server.
#[test]
fn what_is_forgotten_is_given_back_without_waiting_for_each() {
    const COUNT: usize = 3_000;
    let at = At::over(&Cuts::new(None));
    let nodes: Vec<_> = (0..COUNT)
        .map(|i| {
            let file = at.create(ROOT, &format!("f{i}"), BOTH).unwrap();
            at.close(&file).unwrap();
            file.entry.node
        })
        .collect();
    let (_, spent) = cost(&at, || {
        for node in nodes {
            at.session.forget(node, 1);
        }
    });
    assert_eq!(spent.sent, COUNT as u64);
    assert!(spent.received + 600 >= spent.sent, "{spent:?}");
}

#[test]
fn content_goes_straight_to_where_it_is_wanted() {
    let at = At::over(&Cuts::new(None));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    assert_eq!(at.write(&file, 0, &data), Ok(data.len()));
    for len in [4096, 100_000, 3_000_000] {
        let (read, spent) = cost(&at, || at.read(&file, 0, len).unwrap());
        assert!(read == data[..len], "what was written is read");
        assert_eq!(spent.copied, 0, "{len} bytes");
    }
}

/// Takes so many entries.
struct Taker {
    room: usize,
    cookie: u64,
    attributes: usize,
}

impl DirSink for Taker {
    fn fits(&self, _: usize) -> bool {
        self.room > 0
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        self.room -= 1;
        self.cookie = entry.next_cookie;
        self.attributes += usize::from(entry.entry.is_some());
    }
}

#[test]
fn attributes_of_a_listing_are_asked_for_at_once() {
    const FILES: usize = 20;
    for dialect in [Dialect::Sluice, Dialect::Linux] {
        let cuts = Cuts::new(None);
        let at = At::with(&cuts, hard(only(dialect)));
        for nth in 0..FILES {
            let file = at.create(ROOT, &format!("f{nth}"), BOTH).unwrap();
            at.close(&file).unwrap();
        }
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        let handle = Some(at.session.open(&ctx(), ROOT, flags).unwrap().handle);
        let mut taker = Taker {
            room: 1,
            cookie: 0,
            attributes: 0,
        };
        let mut list = |want| {
            let cookie = taker.cookie;
            let listed = at
                .session
                .readdir(&ctx(), ROOT, handle, cookie, want, &mut taker);
            listed.unwrap();
            taker.room = usize::MAX;
            taker.attributes
        };
        list(DirWant::Names);
        // In 9P2000.L these are the walks.
        cuts.hold_replies_until(FILES);
        let listed = list(DirWant::Entries(AttrMask::BASIC));
        assert_eq!(listed, FILES, "{dialect:?}");
    }
}
