//! What a session may hold at a time.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, Needs, World};
use sluice_vfs::{Errno, FileType, LockKind, LockOutcome, OpenFlags, SessionLimits, WaitId};

const LIMITS: Needs = Needs::LIMITS;

pub(super) const CASES: &[Case] = &[
    case!(nodes_end_in_enomem, LIMITS),
    case!(known_nodes_work_on_at_the_limit, LIMITS),
    case!(forgetting_makes_room, LIMITS),
    case!(what_cannot_be_handed_out_is_not_made, LIMITS),
    case!(handles_end_in_enfile, LIMITS),
    case!(open_files_work_on_at_the_limit, LIMITS),
    case!(closing_makes_room, LIMITS),
    case!(directories_count_as_handles, LIMITS),
    case!(creating_at_the_limit_of_handles_leaks_nothing, LIMITS),
    case!(refusals_at_the_limit_leak_nothing, LIMITS),
    case!(lock_owners_end_in_enolck, LIMITS.union(Needs::LOCKS)),
    case!(lock_ranges_end_in_enolck, LIMITS.union(Needs::LOCKS)),
    case!(closing_makes_room_for_owners, LIMITS.union(Needs::LOCKS)),
    case!(lock_waits_end_in_enolck, LIMITS.union(Needs::LOCK_WAITS)),
    case!(a_cancelled_wait_makes_room, LIMITS.union(Needs::LOCK_WAITS)),
    case!(
        the_limit_of_one_session_is_not_anothers,
        LIMITS.union(Needs::SESSIONS)
    ),
];

fn with_nodes(w: &World, nodes: u32) -> Client {
    w.limited_client(SessionLimits {
        nodes,
        ..SessionLimits::default()
    })
}

fn with_handles(w: &World, handles: u32) -> Client {
    w.limited_client(SessionLimits {
        handles,
        ..SessionLimits::default()
    })
}

/// Names that a session without limits makes.
fn files(w: &World, count: usize) -> Vec<String> {
    let c = w.client();
    let names: Vec<String> = (0..count).map(|index| format!("f{index}")).collect();
    for name in &names {
        c.file(ROOT, name, b"content");
    }
    names
}

fn nodes_end_in_enomem(w: &World) {
    let names = files(w, 20);
    let c = with_nodes(w, 8);
    let outcomes = names.iter().map(|name| c.lookup(ROOT, name));
    let (found, refused): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
    // Whether the root counts is the service's affair.
    assert!((7..=8).contains(&found.len()), "{} were found", found.len());
    for outcome in refused {
        fails(outcome, Errno::ENOMEM);
    }
}

fn known_nodes_work_on_at_the_limit(w: &World) {
    let names = files(w, 20);
    let c = with_nodes(w, 8);
    let node = c.lookup(ROOT, &names[0]).unwrap().node;
    for name in &names {
        let _ = c.lookup(ROOT, name);
    }
    assert_eq!(c.content(node), b"content");
    assert_eq!(c.lookup(ROOT, &names[0]).unwrap().node, node);
    c.rename((ROOT, &names[0]), (ROOT, "moved")).unwrap();
    c.unlink(ROOT, &names[1]).unwrap();
    assert_eq!(c.names(ROOT).len(), 19);
}

fn forgetting_makes_room(w: &World) {
    let names = files(w, 50);
    let c = with_nodes(w, 4);
    for name in &names {
        let found = c.lookup(ROOT, name).unwrap();
        assert_eq!(c.content(found.node), b"content");
        c.forget(found.node, 1);
    }
}

fn what_cannot_be_handed_out_is_not_made(w: &World) {
    let c = with_nodes(w, 4);
    let mut made = 0;
    while c.mkdir(ROOT, format!("d{made}"), 0o755).is_ok() {
        made += 1;
        assert!(made < 10, "there is no limit");
    }
    let left = c.names(ROOT);
    fails(c.mkdir(ROOT, "d", 0o755), Errno::ENOMEM);
    fails(c.create(ROOT, "f", 0o644), Errno::ENOMEM);
    fails(c.symlink(ROOT, "l", "x"), Errno::ENOMEM);
    fails(c.mknod(ROOT, "p", FileType::Fifo, 0o600), Errno::ENOMEM);
    assert_eq!(c.names(ROOT), left);
}

fn handles_end_in_enfile(w: &World) {
    let c = with_handles(w, 8);
    let node = c.mknod(ROOT, "f", FileType::Regular, 0o644).unwrap().node;
    for _ in 0..8 {
        c.open(node, OpenFlags::READ).unwrap();
    }
    for _ in 0..8 {
        fails(c.open(node, OpenFlags::READ), Errno::ENFILE);
    }
}

fn open_files_work_on_at_the_limit(w: &World) {
    let c = with_handles(w, 2);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let dir = c.opendir(ROOT).unwrap();
    fails(c.open(file.node, OpenFlags::READ), Errno::ENFILE);
    c.write(file, 0, b"content").unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"content");
    let listed = c.list(dir, sluice_vfs::DirWant::Names).unwrap();
    assert!(listed.iter().any(|entry| entry.name == b"f"));
    assert_eq!(c.getattr(file.node).unwrap().size, 7);
}

fn closing_makes_room(w: &World) {
    let c = with_handles(w, 2);
    let node = c.file(ROOT, "f", b"content");
    for _ in 0..50 {
        let a = c.open(node, OpenFlags::READ).unwrap();
        let b = c.opendir(ROOT).unwrap();
        fails(c.open(node, OpenFlags::READ), Errno::ENFILE);
        c.close(a).unwrap();
        c.close(b).unwrap();
    }
}

fn directories_count_as_handles(w: &World) {
    let c = with_handles(w, 3);
    for _ in 0..3 {
        c.opendir(ROOT).unwrap();
    }
    fails(c.opendir(ROOT), Errno::ENFILE);
}

fn creating_at_the_limit_of_handles_leaks_nothing(w: &World) {
    let c = with_handles(w, 1);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for _ in 0..10 {
        fails(c.create(ROOT, "g", 0o644), Errno::ENFILE);
    }
    c.close(file).unwrap();
    assert_eq!(c.names(ROOT), ["f"]);
    let file = c.create(ROOT, "g", 0o644).unwrap();
    c.close(file).unwrap();
}

fn refusals_at_the_limit_leak_nothing(w: &World) {
    let names = files(w, 6);
    let c = with_nodes(w, 4);
    for _ in 0..100 {
        let mut held = Vec::new();
        for name in &names {
            held.extend(c.lookup(ROOT, name).map(|entry| entry.node));
        }
        assert!((3..=4).contains(&held.len()), "{} are held", held.len());
        for node in held {
            c.forget(node, 1);
        }
    }
}

fn with_locks(w: &World, lock_owners: u32) -> Client {
    w.limited_client(SessionLimits {
        lock_owners,
        lock_waits: 2,
        ..SessionLimits::default()
    })
}

fn lock_owners_end_in_enolck(w: &World) {
    let c = with_locks(w, 3);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for owner in 0..3 {
        let c = c.as_owner(owner);
        c.lock(file, LockKind::Write, owner * 10..owner * 10 + 5)
            .unwrap();
    }
    let fourth = c.as_owner(3);
    fails(fourth.lock(file, LockKind::Write, 90..91), Errno::ENOLCK);
    // Those that hold locks already may hold more.
    c.as_owner(0).lock(file, LockKind::Write, 80..85).unwrap();
}

/// However they come about: one by one, or by cutting one up.
fn lock_ranges_end_in_enolck(w: &World) {
    let c = w.limited_client(SessionLimits {
        lock_ranges: 6,
        ..SessionLimits::default()
    });
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for start in [0, 100, 200, 300, 400] {
        c.lock(file, LockKind::Write, start..start + 10).unwrap();
    }
    fails(c.lock(file, LockKind::Write, 500..501), Errno::ENOLCK);
    c.lock(file, LockKind::Unlock, 5..6).unwrap();
    fails(c.lock(file, LockKind::Unlock, 105..106), Errno::ENOLCK);
    let other = c.as_owner(1);
    fails(other.lock(file, LockKind::Read, 600..601), Errno::ENOLCK);
    // What leaves no more than before is always granted.
    c.lock(file, LockKind::Unlock, 105..500).unwrap();
    c.lock(file, LockKind::Read, 0..50).unwrap();
    other.lock(file, LockKind::Read, 0..50).unwrap();
    c.lock(file, LockKind::Unlock, 0..500).unwrap();
    other.lock(file, LockKind::Write, 0..500).unwrap();
}

fn closing_makes_room_for_owners(w: &World) {
    let c = with_locks(w, 3);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for owner in 0..20 {
        let c = c.as_owner(owner);
        c.lock(file, LockKind::Write, 0..5).unwrap();
        c.flush(file).unwrap();
    }
}

/// A session with as many waiting requests as it may have, numbered from 0.
fn waiting(w: &World) -> (Client, crate::conformance::File) {
    let c = with_locks(w, 100);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.lock(file, LockKind::Write, 0..10).unwrap();
    for wait in 0..2 {
        let other = c.as_owner(10 + wait);
        let outcome = other.lock_wait(file, LockKind::Write, 0..10, wait);
        assert_eq!(outcome, Ok(LockOutcome::Waiting));
    }
    (c, file)
}

fn lock_waits_end_in_enolck(w: &World) {
    let (c, file) = waiting(w);
    let third = c.as_owner(12);
    let outcome = third.lock_wait(file, LockKind::Write, 0..10, 2);
    fails(outcome, Errno::ENOLCK);
    assert_eq!(c.events.said(), []);
}

fn a_cancelled_wait_makes_room(w: &World) {
    let (c, file) = waiting(w);
    c.cancel_wait(0);
    assert_eq!(c.events.settled(WaitId(0)), Err(Errno::EINTR));
    let third = c.as_owner(12);
    let outcome = third.lock_wait(file, LockKind::Write, 0..10, 2);
    assert_eq!(outcome, Ok(LockOutcome::Waiting));
}

fn the_limit_of_one_session_is_not_anothers(w: &World) {
    let names = files(w, 20);
    let small = w.limited_client(SessionLimits {
        nodes: 4,
        handles: 1,
        ..SessionLimits::default()
    });
    let other = w.client();
    for name in &names {
        let _ = small.lookup(ROOT, name);
        let node = other.lookup(ROOT, name).unwrap().node;
        other.open(node, OpenFlags::READ).unwrap();
    }
}
