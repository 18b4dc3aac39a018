//! Locks over connections that end.

use super::cuts::Cuts;
use super::{At, BOTH, ROOT, owner};
use crate::server::PATIENCE;
use sluice_vfs::{
    Created, Errno, Lock, LockKind, LockOutcome, LockRange, LockStyle, Result, WaitId,
};
use std::time::Instant;

fn lock(
    at: &At,
    file: &Created,
    who: u64,
    kind: LockKind,
    wait: Option<WaitId>,
) -> Result<LockOutcome> {
    lock_range(at, file, who, kind, LockRange { start: 0, end: 9 }, wait)
}

fn lock_range(
    at: &At,
    file: &Created,
    who: u64,
    kind: LockKind,
    range: LockRange,
    wait: Option<WaitId>,
) -> Result<LockOutcome> {
    let lock = Lock {
        style: LockStyle::Posix,
        kind,
        range,
        pid: 7,
    };
    let (node, handle) = (file.entry.node, file.opened.handle);
    at.session.setlk(&owner(who), node, handle, &lock, wait)
}

#[test]
fn a_lock_is_taken_again_before_anything_else_is_done() {
    let cuts = Cuts::new(None);
    let (at, other) = (At::over(&cuts), At::over(&cuts));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    let others = other.create(ROOT, "f", BOTH).unwrap();
    lock(&at, &file, 1, LockKind::Write, None).unwrap();
    cuts.shut();
    cuts.open();
    // Of another file's business: locks are had again all the same.
    at.create(ROOT, "g", BOTH).unwrap();
    let refused = lock(&other, &others, 2, LockKind::Write, None);
    assert_eq!(refused, Err(Errno::EAGAIN));
    assert_eq!(at.write(&file, 0, b"x"), Ok(1));
    lock(&at, &file, 1, LockKind::Unlock, None).unwrap();
    lock(&other, &others, 2, LockKind::Write, None).unwrap();
}

#[test]
fn a_lock_that_another_has_meanwhile_is_lost_and_that_is_said() {
    let cuts = Cuts::new(None);
    let (at, other) = (At::over(&cuts), At::over(&cuts));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    let others = other.create(ROOT, "f", BOTH).unwrap();
    lock(&at, &file, 1, LockKind::Write, None).unwrap();
    cuts.shut();
    cuts.open();
    let wait = WaitId(1);
    match lock(&other, &others, 2, LockKind::Write, Some(wait)).unwrap() {
        LockOutcome::Done => {}
        // The server has yet to notice the end.
        LockOutcome::Waiting => other.events.settled(wait).unwrap(),
    }
    assert_eq!(at.write(&file, 0, b"x"), Err(Errno::EIO));
    assert_eq!(at.read(&file, 0, 1), Err(Errno::EIO));
    at.close(&file).unwrap();
    // What is opened anew has nothing to do with it.
    let again = at.create(ROOT, "f", BOTH).unwrap();
    assert_eq!(at.write(&again, 0, b"x"), Ok(1));
}

#[test]
fn a_wait_outlives_its_connection_and_can_be_given_up() {
    let cuts = Cuts::new(None);
    let (at, other) = (At::over(&cuts), At::over(&cuts));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    let others = other.create(ROOT, "f", BOTH).unwrap();
    lock(&at, &file, 1, LockKind::Write, None).unwrap();
    let waits = [WaitId(1), WaitId(2)];
    for (who, wait) in [(2, waits[0]), (3, waits[1])] {
        let waiting = lock(&other, &others, who, LockKind::Write, Some(wait));
        assert_eq!(waiting, Ok(LockOutcome::Waiting));
    }
    other.session.cancel_wait(waits[1]);
    assert_eq!(other.events.settled(waits[1]), Err(Errno::EINTR));
    cuts.shut();
    cuts.open();
    // The one who had it has not come back.
    assert_eq!(other.events.settled(waits[0]), Ok(()));
    lock(&other, &others, 2, LockKind::Unlock, None).unwrap();
}

/// A server gets some time to notice the end of a connection, once.
#[test]
fn many_locks_that_are_lost_hold_nobody_up_for_long() {
    let cuts = Cuts::new(None);
    let (at, other) = (At::over(&cuts), At::over(&cuts));
    let file = at.create(ROOT, "f", BOTH).unwrap();
    let others = other.create(ROOT, "f", BOTH).unwrap();
    for nth in 0..100 {
        let (start, end) = (nth * 10, nth * 10 + 5);
        let range = LockRange { start, end };
        lock_range(&at, &file, 1, LockKind::Write, range, None).unwrap();
    }
    cuts.shut();
    cuts.open();
    let (wait, all) = (WaitId(1), LockRange::ALL);
    match lock_range(&other, &others, 2, LockKind::Write, all, Some(wait)).unwrap() {
        LockOutcome::Done => {}
        LockOutcome::Waiting => other.events.settled(wait).unwrap(),
    }
    let begin = Instant::now();
    assert_eq!(at.write(&file, 0, b"x"), Err(Errno::EIO));
    assert!(begin.elapsed() < PATIENCE);
}
