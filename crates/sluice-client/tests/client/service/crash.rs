//! The connection ends at each message of a sequence in turn: nothing that was
//! acknowledged is lost, nothing is done twice, and only what cannot be asked
//! again fails.

use super::cuts::Cuts;
use super::{At, BOTH, ROOT, attach, ctx, hard, word};
use crate::server::{PATIENCE, options};
use sluice_client::{ConnectOptions, Dialect, Persistence, ServiceOptions};
use sluice_vfs::{
    AttrMask, Created, DirEntry, DirSink, DirWant, Errno, Lookup, NewNode, NodeId, OpenFlags,
    RenameFlags, Result, SetAttr,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_connection_may_end_anywhere() {
    for dialect in [Dialect::Sluice, Dialect::Linux] {
        let mut cut = 2;
        loop {
            let cuts = Cuts::new(Some(cut));
            let options = ConnectOptions {
                dialects: vec![dialect],
                ..options()
            };
            // Before it is attached there is nothing to go on with.
            let service = sluice_client::RemoteService::over(
                {
                    let cuts = Arc::clone(&cuts);
                    move || cuts.connect()
                },
                hard(options),
            );
            if let (Ok(attached), events) = attach(&service) {
                let session = attached.session;
                run(&At {
                    session,
                    events,
                    service,
                });
            }
            // What is let go at the end may or may not be cut.
            if cuts.passed() < cut {
                break;
            }
            cut += 1;
        }
        assert!(cut > 40, "{dialect:?}: only {cut} messages");
    }
}

/// What becomes of something that must not be done twice: done, or not known;
/// then `is_done` tells, and it is done now if it was not.
fn once(what: &str, mut act: impl FnMut() -> Result<()>, is_done: impl Fn() -> bool) {
    match act() {
        Ok(()) => {}
        Err(error) => {
            assert_eq!(error, Errno::EIO, "{what}");
            if !is_done() {
                assert_eq!(act(), Ok(()), "{what}, which was not done");
            }
        }
    }
    assert!(is_done(), "{what}");
}

/// What can be looked for afterwards is done, whatever became of its answer.
fn surely(what: &str, mut act: impl FnMut() -> Result<()>, is_done: impl Fn() -> bool) {
    assert_eq!(act(), Ok(()), "{what}");
    assert!(is_done(), "{what}");
}

fn run(at: &At) {
    let session = &at.session;
    once(
        "mkdir",
        || {
            let new = NewNode::with_perm(0o755);
            session.mkdir(&ctx(), ROOT, word("d"), &new).map(drop)
        },
        || found(at, ROOT, "d").is_some(),
    );
    let dir = found(at, ROOT, "d").unwrap();
    let file = at.create(dir, "f", BOTH).unwrap();
    assert_eq!(at.write(&file, 0, b"hello, world"), Ok(12));
    assert_eq!(at.write(&file, 7, b"there"), Ok(5));
    assert_eq!(at.read(&file, 0, 100), Ok(b"hello, there".to_vec()));

    let log = at.create(dir, "log", BOTH | OpenFlags::APPEND).unwrap();
    let mut sure = 0;
    let mut unsure = 0;
    for _ in 0..3 {
        match at.write(&log, 0, b"x") {
            Ok(1) => sure += 1,
            Err(Errno::EIO) => unsure += 1,
            other => panic!("appending: {other:?}"),
        }
    }
    let len = at.read(&log, 0, 100).unwrap().len();
    assert!(
        (sure..=sure + unsure).contains(&len),
        "{sure} to {unsure} more: {len}"
    );
    assert!(unsure <= 1);

    once(
        "exclusive create",
        || at.create(dir, "new", BOTH | OpenFlags::EXCLUSIVE).map(drop),
        || found(at, dir, "new").is_some(),
    );
    surely(
        "rename",
        || {
            let (old, new) = ((dir, word("f")), (dir, word("g")));
            let moved = session.rename(&ctx(), old, new, RenameFlags::empty());
            moved.map(drop)
        },
        || found(at, dir, "g").is_some() && found(at, dir, "f").is_none(),
    );
    surely(
        "link",
        || {
            session
                .link(&ctx(), file.entry.node, dir, word("h"))
                .map(drop)
        },
        || found(at, dir, "h").is_some(),
    );
    let changes = SetAttr {
        perm: Some(0o600),
        size: Some(5),
        ..SetAttr::default()
    };
    let node = file.entry.node;
    let stat = session.setattr(&ctx(), node, None, &changes).unwrap();
    assert_eq!((stat.attr.mode.perm(), stat.attr.size), (0o600, 5));
    assert_eq!(at.read(&file, 0, 100), Ok(b"hello".to_vec()));
    surely(
        "unlink",
        || session.unlink(&ctx(), dir, word("h")).map(drop),
        || found(at, dir, "h").is_none(),
    );
    let gone = session.unlink(&ctx(), dir, word("h")).map(drop);
    assert_eq!(gone, Err(Errno::ENOENT), "it was there once");
    let handle = Some(file.opened.handle);
    session.fsync(&ctx(), node, handle, false).unwrap();
    let stat = session.getattr(&ctx(), node, handle, AttrMask::BASIC);
    assert_eq!(stat.unwrap().attr.nlink, 1);
    let names = ["g", "log", "new"].map(String::from);
    assert_eq!(listed(at, dir), BTreeSet::from(names));
    // Whether a server had more to say to what was written is not known if it
    // could not be asked.
    let closed = at.close(&file);
    assert!(matches!(closed, Ok(()) | Err(Errno::EIO)), "{closed:?}");
    assert_eq!(found(at, dir, "g"), Some(node), "it still is the same file");
}

fn found(at: &At, dir: NodeId, name: &str) -> Option<NodeId> {
    match at.session.lookup(&ctx(), dir, word(name)).unwrap() {
        Lookup::Found(entry) => Some(entry.node),
        Lookup::Missing { .. } => None,
    }
}

#[derive(Default)]
struct Names(BTreeSet<String>);

impl DirSink for Names {
    fn fits(&self, _: usize) -> bool {
        true
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        if !matches!(&name[..], "." | "..") {
            assert!(self.0.insert(name), "listed twice");
        }
    }
}

fn listed(at: &At, dir: NodeId) -> BTreeSet<String> {
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let opened = at.session.open(&ctx(), dir, flags).unwrap();
    let mut names = Names::default();
    let handle = Some(opened.handle);
    at.session
        .readdir(&ctx(), dir, handle, 0, DirWant::Names, &mut names)
        .unwrap();
    names.0
}

fn reopen(cuts: &Cuts) {
    cuts.shut();
    cuts.open();
}

#[test]
fn a_file_without_a_name_is_lost_with_its_connection() {
    let cuts = Cuts::new(None);
    let at = At::over(&cuts);
    let file = at.create(ROOT, "f", BOTH).unwrap();
    at.write(&file, 0, b"content").unwrap();
    at.session.unlink(&ctx(), ROOT, word("f")).unwrap();
    assert_eq!(at.read(&file, 0, 100), Ok(b"content".to_vec()));
    reopen(&cuts);
    assert_eq!(at.read(&file, 0, 100), Err(Errno::ESTALE));
    // Another file of that name is not taken for it.
    at.create(ROOT, "f", BOTH).unwrap();
    assert_eq!(at.read(&file, 0, 100), Err(Errno::ESTALE));
    assert_eq!(cuts.connections(), 2);
}

#[test]
fn a_file_that_was_moved_meanwhile_is_not_mistaken() {
    let cuts = Cuts::new(None);
    let (at, other) = (At::over(&cuts), At::over(&cuts));
    let file: Created = at.create(ROOT, "f", BOTH).unwrap();
    at.write(&file, 0, b"old").unwrap();
    let moved = other.session.rename(
        &ctx(),
        (ROOT, word("f")),
        (ROOT, word("g")),
        RenameFlags::empty(),
    );
    moved.unwrap();
    let new = other.create(ROOT, "f", BOTH).unwrap();
    other.write(&new, 0, b"new").unwrap();
    assert_eq!(at.read(&file, 0, 9), Ok(b"old".to_vec()));
    reopen(&cuts);
    assert_eq!(at.read(&file, 0, 9), Err(Errno::ESTALE));
    // It is found again where it is now.
    assert_eq!(found(&at, ROOT, "g"), Some(file.entry.node));
    assert_eq!(at.read(&file, 0, 9), Ok(b"old".to_vec()));
}

#[test]
fn a_server_that_stays_away_is_waited_for_as_long_as_was_said() {
    let cuts = Cuts::new(None);
    let soft = ServiceOptions {
        persistence: Persistence::Soft(Duration::from_millis(50)),
        ..hard(options())
    };
    let meter = Arc::clone(&soft.connect.meter);
    let at = At::with(&cuts, soft);
    let file = at.create(ROOT, "f", BOTH).unwrap();
    cuts.shut();
    assert_eq!(at.read(&file, 0, 1), Err(Errno::EIO));
    let seen = meter.read();
    let for_replies = Duration::from_micros(seen.delays.sum + seen.delays.count());
    assert!(seen.waited > for_replies, "{seen:?}");
    assert_eq!(at.write(&file, 0, b"x"), Err(Errno::EIO));
    cuts.open();
    // It is looked for again now and then.
    let deadline = Instant::now() + PATIENCE;
    while at.write(&file, 0, b"x") != Ok(1) {
        assert!(Instant::now() < deadline, "the server is not found again");
        std::thread::yield_now();
    }
}

#[test]
fn whoever_waits_for_a_server_can_give_up() {
    let cuts = Cuts::new(None);
    let at = At::over(&cuts);
    cuts.shut();
    let cancel = sluice_vfs::Cancel::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let ctx = ctx().with_cancel(&cancel);
            at.session.lookup(&ctx, ROOT, word("f"))
        });
        cancel.cancel();
        assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
    });
}

/// Not as if each of its files were missing, which a kernel believes.
#[test]
fn a_root_that_is_gone_when_the_server_is_back_is_stale() {
    let cuts = Cuts::new(None);
    let other = At::over(&cuts);
    let make = || {
        let new = NewNode::with_perm(0o755);
        other.session.mkdir(&ctx(), ROOT, word("d"), &new).unwrap();
    };
    make();
    for dialect in [Dialect::Sluice, Dialect::Plan9] {
        let within = ConnectOptions {
            dir: "d".into(),
            dialects: vec![dialect],
            ..options()
        };
        let at = At::with(&cuts, hard(within));
        let lookup = || at.session.lookup(&ctx(), ROOT, word("f")).map(drop);
        lookup().unwrap();
        other.session.rmdir(&ctx(), ROOT, word("d")).unwrap();
        reopen(&cuts);
        assert_eq!(lookup(), Err(Errno::ESTALE), "{dialect:?}");
        // Another directory in its place is not taken for it.
        make();
        assert_eq!(lookup(), Err(Errno::ESTALE), "{dialect:?}");
    }
}
