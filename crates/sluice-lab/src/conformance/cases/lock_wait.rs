//! Locks that are waited for.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{Errno, LockKind, LockOutcome, OpenFlags, Result, WaitId};

const WAITS: Needs = Needs::LOCKS.union(Needs::LOCK_WAITS);

pub(super) const CASES: &[Case] = &[
    case!(
        a_free_lock_is_had_without_waiting,
        WAITS.union(Needs::PROMPT_LOCKS)
    ),
    case!(a_wait_ends_when_the_lock_is_given_up, WAITS),
    case!(a_wait_ends_when_the_holder_closes, WAITS),
    case!(a_wait_ends_when_part_is_given_up, WAITS),
    case!(a_wait_ends_when_the_lock_is_made_weaker, WAITS),
    case!(
        a_wait_ends_when_the_holders_session_does,
        WAITS.union(Needs::SESSIONS)
    ),
    case!(a_wait_goes_on_while_anyone_is_in_the_way, WAITS),
    case!(a_granted_lock_is_held, WAITS),
    case!(readers_that_wait_are_let_in_together, WAITS),
    case!(writers_that_wait_are_let_in_one_by_one, WAITS),
    case!(a_cancelled_wait_is_eintr, WAITS),
    case!(a_cancelled_wait_holds_nothing, WAITS),
    case!(cancelling_twice_settles_once, WAITS),
    case!(cancelling_what_does_not_wait_is_ignored, WAITS),
    case!(a_session_works_while_it_waits, WAITS),
    case!(a_session_ends_while_it_waits, WAITS.union(Needs::SESSIONS)),
    case!(waits_of_several_files, WAITS),
    case!(a_flock_is_waited_for, WAITS),
    case!(a_wait_for_a_flock_is_cancelled, WAITS),
    case!(a_flock_is_waited_for_until_the_handle_goes, WAITS),
    case!(
        a_wait_without_the_right_handle_is_ebadf,
        WAITS.union(Needs::PROMPT_LOCKS)
    ),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const ALL: std::ops::Range<u64> = 0..u64::MAX;
const WAITING: Result<LockOutcome> = Ok(LockOutcome::Waiting);

/// A file that owner 1 has locked as a whole.
fn locked(w: &World) -> (Client, File) {
    let holder = w.client().as_owner(1);
    holder.file(ROOT, "f", b"");
    let node = holder.lookup(ROOT, "f").unwrap().node;
    let file = holder.open(node, READ_WRITE).unwrap();
    holder.lock(file, LockKind::Write, ALL).unwrap();
    (holder, file)
}

/// Another owner of the same session, with a handle of its own.
fn another(holder: &Client, file: File, owner: u64) -> (Client, File) {
    let client = holder.as_owner(owner);
    let file = client.open(file.node, READ_WRITE).unwrap();
    (client, file)
}

fn a_free_lock_is_had_without_waiting(w: &World) {
    let (holder, file) = locked(w);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    let (b, second) = another(&holder, file, 2);
    let outcome = b.lock_wait(second, LockKind::Write, ALL, 1);
    assert_eq!(outcome, Ok(LockOutcome::Done));
    fails(holder.lock(file, LockKind::Write, ALL), Errno::EAGAIN);
    assert_eq!(b.events.settle_count(WaitId(1)), 0);
}

fn a_wait_ends_when_the_lock_is_given_up(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, 0..10, 7), WAITING);
    assert_eq!(b.events.settle_count(WaitId(7)), 0);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(7)), Ok(()));
}

fn a_wait_ends_when_the_holder_closes(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 1), WAITING);
    holder.close(file).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

fn a_wait_ends_when_part_is_given_up(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Read, 10..20, 1), WAITING);
    holder.lock(file, LockKind::Unlock, 5..30).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
    fails(b.lock(second, LockKind::Read, 0..5), Errno::EAGAIN);
}

fn a_wait_ends_when_the_lock_is_made_weaker(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Read, ALL, 1), WAITING);
    holder.lock(file, LockKind::Read, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

fn a_wait_ends_when_the_holders_session_does(w: &World) {
    let (holder, _file) = locked(w);
    let b = w.client();
    let node = b.lookup(ROOT, "f").unwrap().node;
    let second = b.open(node, READ_WRITE).unwrap();
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 1), WAITING);
    drop(holder);
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

fn a_wait_goes_on_while_anyone_is_in_the_way(w: &World) {
    let (holder, file) = locked(w);
    holder.lock(file, LockKind::Read, ALL).unwrap();
    let (b, second) = another(&holder, file, 2);
    let (c, third) = another(&holder, file, 3);
    b.lock(second, LockKind::Read, 0..10).unwrap();
    assert_eq!(c.lock_wait(third, LockKind::Write, 0..20, 1), WAITING);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    // Still held by the second reader, so nobody else may have it either.
    fails(c.lock(third, LockKind::Write, 0..10), Errno::EAGAIN);
    b.lock(second, LockKind::Unlock, ALL).unwrap();
    assert_eq!(c.events.settled(WaitId(1)), Ok(()));
}

fn a_granted_lock_is_held(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, 0..10, 1), WAITING);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
    fails(holder.lock(file, LockKind::Read, 0..10), Errno::EAGAIN);
    b.lock(second, LockKind::Unlock, ALL).unwrap();
    holder.lock(file, LockKind::Read, 0..10).unwrap();
}

fn readers_that_wait_are_let_in_together(w: &World) {
    let (holder, file) = locked(w);
    for owner in 2..6 {
        let (reader, mine) = another(&holder, file, owner);
        let outcome = reader.lock_wait(mine, LockKind::Read, ALL, owner);
        assert_eq!(outcome, WAITING);
    }
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    for owner in 2..6 {
        assert_eq!(holder.events.settled(WaitId(owner)), Ok(()));
    }
}

fn writers_that_wait_are_let_in_one_by_one(w: &World) {
    let (holder, file) = locked(w);
    let writers: Vec<_> = (2..6).map(|owner| another(&holder, file, owner)).collect();
    for (index, (writer, mine)) in writers.iter().enumerate() {
        let outcome = writer.lock_wait(*mine, LockKind::Write, ALL, index as u64);
        assert_eq!(outcome, WAITING);
    }
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    let mut left: Vec<u64> = (0..writers.len() as u64).collect();
    while !left.is_empty() {
        let settled = holder.events.wait_for("that lets a writer in", |said| {
            left.iter().any(|&wait| said.settles(WaitId(wait)))
        });
        let granted: Vec<u64> = left
            .iter()
            .copied()
            .filter(|&wait| holder.events.settle_count(WaitId(wait)) > 0)
            .collect();
        assert_eq!(granted.len(), 1, "{settled:?}, and one at a time");
        left.retain(|wait| !granted.contains(wait));
        let (writer, mine) = &writers[granted[0] as usize];
        writer.lock(*mine, LockKind::Unlock, ALL).unwrap();
    }
}

fn a_cancelled_wait_is_eintr(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 9), WAITING);
    b.cancel_wait(9);
    assert_eq!(b.events.settled(WaitId(9)), Err(Errno::EINTR));
}

fn a_cancelled_wait_holds_nothing(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    let (c, third) = another(&holder, file, 3);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 9), WAITING);
    b.cancel_wait(9);
    assert_eq!(b.events.settled(WaitId(9)), Err(Errno::EINTR));
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    c.lock(third, LockKind::Write, ALL).unwrap();
}

fn cancelling_twice_settles_once(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 9), WAITING);
    b.cancel_wait(9);
    b.cancel_wait(9);
    assert_eq!(b.events.settled(WaitId(9)), Err(Errno::EINTR));
    b.cancel_wait(9);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
    assert_eq!(b.events.settle_count(WaitId(9)), 1);
}

fn cancelling_what_does_not_wait_is_ignored(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    b.cancel_wait(1);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 2), WAITING);
    b.cancel_wait(3);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(2)), Ok(()));
    b.cancel_wait(2);
    fails(holder.lock(file, LockKind::Write, ALL), Errno::EAGAIN);
    assert_eq!(b.events.settle_count(WaitId(2)), 1);
}

fn a_session_works_while_it_waits(w: &World) {
    let (holder, file) = locked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 1), WAITING);
    b.write(second, 0, b"content").unwrap();
    assert_eq!(b.getattr(second.node).unwrap().size, 7);
    b.file(ROOT, "g", b"");
    assert_eq!(b.names(ROOT), ["f", "g"]);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

fn a_session_ends_while_it_waits(w: &World) {
    let (holder, file) = locked(w);
    let b = w.client();
    let node = b.lookup(ROOT, "f").unwrap().node;
    let second = b.open(node, READ_WRITE).unwrap();
    for wait in 0..4 {
        let b = b.as_owner(100 + wait);
        assert_eq!(b.lock_wait(second, LockKind::Write, ALL, wait), WAITING);
    }
    drop(b);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    let (c, third) = another(&holder, file, 3);
    c.lock(third, LockKind::Write, ALL).unwrap();
}

fn waits_of_several_files(w: &World) {
    let (holder, file) = locked(w);
    let other = holder.create(ROOT, "g", 0o644).unwrap();
    holder.lock(other, LockKind::Write, ALL).unwrap();
    let (b, first) = another(&holder, file, 2);
    let (_, second) = another(&holder, other, 2);
    assert_eq!(b.lock_wait(first, LockKind::Write, ALL, 1), WAITING);
    assert_eq!(b.lock_wait(second, LockKind::Write, ALL, 2), WAITING);
    holder.lock(other, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(2)), Ok(()));
    assert_eq!(b.events.settle_count(WaitId(1)), 0);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

/// A file that owner 1 has flocked.
fn flocked(w: &World) -> (Client, File) {
    let (holder, file) = locked(w);
    holder.lock(file, LockKind::Unlock, ALL).unwrap();
    holder.flock(file, LockKind::Write).unwrap();
    (holder, file)
}

fn a_flock_is_waited_for(w: &World) {
    let (holder, file) = flocked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.flock_wait(second, LockKind::Read, 1), WAITING);
    holder.flock(file, LockKind::Unlock).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
    fails(holder.flock(file, LockKind::Write), Errno::EAGAIN);
}

fn a_wait_for_a_flock_is_cancelled(w: &World) {
    let (holder, file) = flocked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.flock_wait(second, LockKind::Write, 1), WAITING);
    b.cancel_wait(1);
    assert_eq!(b.events.settled(WaitId(1)), Err(Errno::EINTR));
}

fn a_flock_is_waited_for_until_the_handle_goes(w: &World) {
    let (holder, file) = flocked(w);
    let (b, second) = another(&holder, file, 2);
    assert_eq!(b.flock_wait(second, LockKind::Write, 1), WAITING);
    holder.close(file).unwrap();
    assert_eq!(b.events.settled(WaitId(1)), Ok(()));
}

fn a_wait_without_the_right_handle_is_ebadf(w: &World) {
    let (holder, file) = locked(w);
    let b = holder.as_owner(2);
    let reads = b.open(file.node, OpenFlags::READ).unwrap();
    fails(b.lock_wait(reads, LockKind::Write, ALL, 1), Errno::EBADF);
    assert_eq!(b.events.settle_count(WaitId(1)), 0);
}
