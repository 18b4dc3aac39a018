//! Locks that are had or refused at once.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{Errno, HandleId, Lock, LockKind, LockRange, LockStyle, OpenFlags, Release};

const LOCKS: Needs = Needs::LOCKS;
const SHARED: Needs = LOCKS.union(Needs::SESSIONS);

pub(super) const CASES: &[Case] = &[
    case!(a_write_lock_keeps_others_out, LOCKS),
    case!(read_locks_are_shared, LOCKS),
    case!(an_owner_is_never_in_its_own_way, LOCKS),
    case!(ranges_apart_do_not_conflict, LOCKS),
    case!(ranges_that_touch_do_not_conflict, LOCKS),
    case!(unlocking_lets_others_in, LOCKS),
    case!(unlocking_what_is_not_held_is_no_error, LOCKS),
    case!(unlocking_the_middle_splits_a_lock, LOCKS),
    case!(a_lock_to_the_end_reaches_beyond_it, LOCKS),
    case!(a_lock_on_the_last_byte, LOCKS),
    case!(a_lock_is_made_stronger, LOCKS),
    case!(a_lock_is_made_weaker, LOCKS),
    case!(a_lock_is_not_made_stronger_beside_others, LOCKS),
    case!(part_of_a_lock_is_made_weaker, LOCKS),
    case!(locks_of_one_owner_overlap_and_merge, LOCKS),
    case!(a_backward_range_is_einval, LOCKS),
    case!(a_lock_in_the_way_is_told, LOCKS),
    case!(no_lock_in_the_way_is_told, LOCKS),
    case!(asking_takes_no_lock, LOCKS),
    case!(a_write_lock_needs_a_handle_that_writes, LOCKS),
    case!(a_read_lock_needs_a_handle_that_reads, LOCKS),
    case!(locking_an_unknown_handle_is_ebadf, LOCKS),
    case!(files_are_locked_apart, LOCKS),
    case!(links_are_locked_together, LOCKS),
    case!(closing_gives_the_owners_locks_up, LOCKS),
    case!(closing_any_handle_gives_the_owners_locks_up, LOCKS),
    case!(closing_leaves_the_locks_of_others, LOCKS),
    case!(locks_go_with_the_handle_last_used, LOCKS),
    case!(locks_outlive_unlinking, LOCKS),
    case!(locks_keep_nobody_from_writing, LOCKS),
    case!(a_flock_keeps_others_out, LOCKS),
    case!(shared_flocks_are_shared, LOCKS),
    case!(a_flock_changes_its_kind, LOCKS),
    case!(a_flock_needs_no_particular_handle, LOCKS),
    case!(a_flock_goes_with_its_handle, LOCKS),
    case!(a_flock_outlives_flush, LOCKS),
    case!(a_flock_and_a_posix_lock_do_not_meet, LOCKS),
    case!(a_flock_can_be_asked_about, LOCKS.union(Needs::FLOCK_TEST)),
    case!(sessions_see_each_others_locks, SHARED),
    case!(sessions_see_each_others_flocks, SHARED),
    case!(owners_of_two_sessions_are_two_owners, SHARED),
    case!(a_dropped_session_gives_its_locks_up, SHARED),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const ALL: std::ops::Range<u64> = 0..u64::MAX;

/// A file, opened twice for two owners.
fn two_owners(w: &World) -> ((Client, File), (Client, File)) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123456789");
    let (a, b) = (c.as_owner(1), c.as_owner(2));
    let first = a.open(node, READ_WRITE).unwrap();
    let second = b.open(node, READ_WRITE).unwrap();
    ((a, first), (b, second))
}

fn a_write_lock_keeps_others_out(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    fails(b.lock(second, LockKind::Write, 5..6), Errno::EAGAIN);
    fails(b.lock(second, LockKind::Read, 0..1), Errno::EAGAIN);
    fails(b.lock(second, LockKind::Read, ALL), Errno::EAGAIN);
}

fn read_locks_are_shared(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Read, 0..10).unwrap();
    b.lock(second, LockKind::Read, 5..20).unwrap();
    fails(b.lock(second, LockKind::Write, 9..10), Errno::EAGAIN);
    fails(a.lock(first, LockKind::Write, 5..6), Errno::EAGAIN);
}

fn an_owner_is_never_in_its_own_way(w: &World) {
    let ((a, first), _) = two_owners(w);
    let again = a.open(first.node, READ_WRITE).unwrap();
    a.lock(first, LockKind::Write, 0..10).unwrap();
    a.lock(again, LockKind::Write, 0..10).unwrap();
    a.lock(again, LockKind::Read, 5..15).unwrap();
    assert_eq!(a.getlk(again, LockKind::Write, ALL), Ok(None));
}

fn ranges_apart_do_not_conflict(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    b.lock(second, LockKind::Write, 20..30).unwrap();
    fails(a.lock(first, LockKind::Write, 29..40), Errno::EAGAIN);
}

fn ranges_that_touch_do_not_conflict(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 10..20).unwrap();
    b.lock(second, LockKind::Write, 0..10).unwrap();
    b.lock(second, LockKind::Write, 20..30).unwrap();
}

fn unlocking_lets_others_in(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    fails(b.lock(second, LockKind::Write, ALL), Errno::EAGAIN);
    a.lock(first, LockKind::Unlock, ALL).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn unlocking_what_is_not_held_is_no_error(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Unlock, ALL).unwrap();
    b.lock(second, LockKind::Write, 0..10).unwrap();
    a.lock(first, LockKind::Unlock, 0..10).unwrap();
    fails(a.lock(first, LockKind::Write, 0..10), Errno::EAGAIN);
}

fn unlocking_the_middle_splits_a_lock(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..30).unwrap();
    a.lock(first, LockKind::Unlock, 10..20).unwrap();
    b.lock(second, LockKind::Write, 10..20).unwrap();
    fails(b.lock(second, LockKind::Write, 9..10), Errno::EAGAIN);
    fails(b.lock(second, LockKind::Write, 20..21), Errno::EAGAIN);
}

fn a_lock_to_the_end_reaches_beyond_it(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 5..u64::MAX).unwrap();
    b.lock(second, LockKind::Write, 0..5).unwrap();
    fails(
        b.lock(second, LockKind::Write, 1 << 40..(1 << 40) + 1),
        Errno::EAGAIN,
    );
}

fn a_lock_on_the_last_byte(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    let last = i64::MAX as u64;
    a.lock(first, LockKind::Write, last..last + 1).unwrap();
    b.lock(second, LockKind::Write, 0..last).unwrap();
    fails(b.lock(second, LockKind::Read, ALL), Errno::EAGAIN);
}

fn a_lock_is_made_stronger(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Read, 0..10).unwrap();
    a.lock(first, LockKind::Write, 0..10).unwrap();
    fails(b.lock(second, LockKind::Read, 0..10), Errno::EAGAIN);
}

fn a_lock_is_made_weaker(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    a.lock(first, LockKind::Read, 0..10).unwrap();
    b.lock(second, LockKind::Read, 0..10).unwrap();
    fails(b.lock(second, LockKind::Write, 0..10), Errno::EAGAIN);
}

fn a_lock_is_not_made_stronger_beside_others(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Read, 0..10).unwrap();
    b.lock(second, LockKind::Read, 0..10).unwrap();
    fails(a.lock(first, LockKind::Write, 0..10), Errno::EAGAIN);
    // What was held is held on.
    b.lock(second, LockKind::Unlock, ALL).unwrap();
    fails(b.lock(second, LockKind::Write, 0..10), Errno::EAGAIN);
}

fn part_of_a_lock_is_made_weaker(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..30).unwrap();
    a.lock(first, LockKind::Read, 10..20).unwrap();
    b.lock(second, LockKind::Read, 10..20).unwrap();
    fails(b.lock(second, LockKind::Read, 0..1), Errno::EAGAIN);
    fails(b.lock(second, LockKind::Read, 29..30), Errno::EAGAIN);
}

fn locks_of_one_owner_overlap_and_merge(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    for start in [0, 5, 10, 12, 30] {
        a.lock(first, LockKind::Write, start..start + 8).unwrap();
    }
    let found = b.getlk(second, LockKind::Read, ALL).unwrap().unwrap();
    assert_eq!(found.range, LockRange { start: 0, end: 19 });
    a.lock(first, LockKind::Unlock, 0..20).unwrap();
    let found = b.getlk(second, LockKind::Read, ALL).unwrap().unwrap();
    assert_eq!(found.range, LockRange { start: 30, end: 37 });
}

fn a_backward_range_is_einval(w: &World) {
    let ((a, first), _) = two_owners(w);
    let backward = LockRange { start: 10, end: 5 };
    let lock = Lock {
        style: LockStyle::Posix,
        kind: LockKind::Write,
        range: backward,
        pid: 1,
    };
    let set = a
        .session()
        .setlk(&a.ctx(), first.node, first.handle, &lock, None);
    fails(set, Errno::EINVAL);
    let get = a.session().getlk(&a.ctx(), first.node, first.handle, &lock);
    fails(get, Errno::EINVAL);
}

fn a_lock_in_the_way_is_told(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Read, 3..8).unwrap();
    let found = b.getlk(second, LockKind::Write, 5..100).unwrap().unwrap();
    assert_eq!(
        (found.style, found.kind),
        (LockStyle::Posix, LockKind::Read)
    );
    assert_eq!(found.range, LockRange { start: 3, end: 7 });
    assert!(found.pid == 4711 || found.pid == 0, "{}", found.pid);
}

fn no_lock_in_the_way_is_told(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    assert_eq!(b.getlk(second, LockKind::Write, ALL), Ok(None));
    a.lock(first, LockKind::Read, 0..10).unwrap();
    assert_eq!(b.getlk(second, LockKind::Read, ALL), Ok(None));
    assert_eq!(b.getlk(second, LockKind::Write, 10..20), Ok(None));
    assert_eq!(a.getlk(first, LockKind::Write, ALL), Ok(None));
}

fn asking_takes_no_lock(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    assert_eq!(a.getlk(first, LockKind::Write, ALL), Ok(None));
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn a_write_lock_needs_a_handle_that_writes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fails(c.lock(file, LockKind::Write, ALL), Errno::EBADF);
    c.lock(file, LockKind::Read, ALL).unwrap();
}

fn a_read_lock_needs_a_handle_that_reads(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    fails(c.lock(file, LockKind::Read, ALL), Errno::EBADF);
    c.lock(file, LockKind::Write, ALL).unwrap();
}

fn locking_an_unknown_handle_is_ebadf(w: &World) {
    let ((a, first), _) = two_owners(w);
    let unknown = File {
        handle: HandleId(0xdead_beef),
        ..first
    };
    fails(a.lock(unknown, LockKind::Read, ALL), Errno::EBADF);
    fails(a.flock(unknown, LockKind::Read), Errno::EBADF);
    fails(a.getlk(unknown, LockKind::Read, ALL), Errno::EBADF);
}

fn files_are_locked_apart(w: &World) {
    let ((a, first), (b, _)) = two_owners(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    let other = b.create(ROOT, "other", 0o644).unwrap();
    b.lock(other, LockKind::Write, ALL).unwrap();
}

fn links_are_locked_together(w: &World) {
    let ((a, first), (b, _)) = two_owners(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    let link = b.link(first.node, ROOT, "link").unwrap().node;
    let other = b.open(link, READ_WRITE).unwrap();
    fails(b.lock(other, LockKind::Write, ALL), Errno::EAGAIN);
}

fn closing_gives_the_owners_locks_up(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    a.lock(first, LockKind::Write, 20..30).unwrap();
    a.close(first).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn closing_any_handle_gives_the_owners_locks_up(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    // POSIX gives a process's locks up when it closes any descriptor of the file.
    let another = a.open(first.node, OpenFlags::READ).unwrap();
    a.flush(another).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn closing_leaves_the_locks_of_others(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    b.lock(second, LockKind::Write, 10..20).unwrap();
    b.close(second).unwrap();
    let c = b.as_owner(3);
    let third = c.open(first.node, READ_WRITE).unwrap();
    fails(c.lock(third, LockKind::Write, 0..10), Errno::EAGAIN);
    c.lock(third, LockKind::Write, 10..20).unwrap();
}

/// An owner that is an open file description (`F_OFD_SETLK`) flushes nothing.
fn locks_go_with_the_handle_last_used(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    let again = a.open(first.node, READ_WRITE).unwrap();
    a.lock(first, LockKind::Write, 0..10).unwrap();
    a.lock(again, LockKind::Write, 20..30).unwrap();
    a.release(first, Release::default()).unwrap();
    fails(b.lock(second, LockKind::Write, 0..10), Errno::EAGAIN);
    a.release(again, Release::default()).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn locks_outlive_unlinking(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    a.unlink(ROOT, "f").unwrap();
    fails(b.lock(second, LockKind::Read, 0..1), Errno::EAGAIN);
    a.lock(first, LockKind::Unlock, ALL).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn locks_keep_nobody_from_writing(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    assert_eq!(b.write(second, 0, b"X"), Ok(1));
    assert_eq!(a.read(first, 0, 3).unwrap(), b"X12");
}

fn a_flock_keeps_others_out(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Write).unwrap();
    fails(b.flock(second, LockKind::Write), Errno::EAGAIN);
    fails(b.flock(second, LockKind::Read), Errno::EAGAIN);
    a.flock(first, LockKind::Unlock).unwrap();
    b.flock(second, LockKind::Write).unwrap();
}

fn shared_flocks_are_shared(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Read).unwrap();
    b.flock(second, LockKind::Read).unwrap();
    fails(a.flock(first, LockKind::Write), Errno::EAGAIN);
}

fn a_flock_changes_its_kind(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Read).unwrap();
    a.flock(first, LockKind::Write).unwrap();
    fails(b.flock(second, LockKind::Read), Errno::EAGAIN);
    a.flock(first, LockKind::Read).unwrap();
    b.flock(second, LockKind::Read).unwrap();
}

fn a_flock_needs_no_particular_handle(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    let reads = a.as_owner(11).open(first.node, OpenFlags::READ).unwrap();
    a.as_owner(11).flock(reads, LockKind::Write).unwrap();
    fails(b.flock(second, LockKind::Read), Errno::EAGAIN);
    a.as_owner(11).flock(reads, LockKind::Unlock).unwrap();
    let writes = a.as_owner(12).open(first.node, OpenFlags::WRITE).unwrap();
    a.as_owner(12).flock(writes, LockKind::Read).unwrap();
    fails(b.flock(second, LockKind::Write), Errno::EAGAIN);
}

fn a_flock_goes_with_its_handle(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Write).unwrap();
    let how = Release {
        unlock_flock: true,
        flush: false,
    };
    a.release(first, how).unwrap();
    b.flock(second, LockKind::Write).unwrap();
}

fn a_flock_outlives_flush(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Write).unwrap();
    a.flush(first).unwrap();
    fails(b.flock(second, LockKind::Write), Errno::EAGAIN);
}

fn a_flock_and_a_posix_lock_do_not_meet(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    a.flock(first, LockKind::Write).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
    fails(b.flock(second, LockKind::Write), Errno::EAGAIN);
    fails(a.lock(first, LockKind::Write, ALL), Errno::EAGAIN);
    a.flush(first).unwrap();
    fails(b.flock(second, LockKind::Write), Errno::EAGAIN);
}

fn a_flock_can_be_asked_about(w: &World) {
    let ((a, first), (b, second)) = two_owners(w);
    let ask = |kind| {
        let lock = Lock {
            style: LockStyle::Flock,
            kind,
            range: LockRange::ALL,
            pid: 1,
        };
        let found = b
            .session()
            .getlk(&b.ctx(), second.node, second.handle, &lock);
        found.unwrap().map(|lock| (lock.style, lock.kind))
    };
    assert_eq!(ask(LockKind::Write), None);
    a.flock(first, LockKind::Read).unwrap();
    assert_eq!(ask(LockKind::Read), None);
    let held = Some((LockStyle::Flock, LockKind::Read));
    assert_eq!(ask(LockKind::Write), held);
}

/// A file opened in two sessions, by lock owners with the same token.
fn two_sessions(w: &World) -> ((Client, File), (Client, File)) {
    let (a, b) = (w.client(), w.client());
    let node = a.file(ROOT, "f", b"0123456789");
    let seen = b.lookup(ROOT, "f").unwrap().node;
    let first = a.open(node, READ_WRITE).unwrap();
    let second = b.open(seen, READ_WRITE).unwrap();
    ((a, first), (b, second))
}

fn sessions_see_each_others_locks(w: &World) {
    let ((a, first), (b, second)) = two_sessions(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    fails(b.lock(second, LockKind::Read, 9..20), Errno::EAGAIN);
    let found = b.getlk(second, LockKind::Read, ALL).unwrap().unwrap();
    assert_eq!(found.range, LockRange { start: 0, end: 9 });
    assert_eq!(
        found.pid, 0,
        "a process id means nothing in another session"
    );
    a.lock(first, LockKind::Unlock, 0..10).unwrap();
    b.lock(second, LockKind::Write, ALL).unwrap();
}

fn sessions_see_each_others_flocks(w: &World) {
    let ((a, first), (b, second)) = two_sessions(w);
    a.flock(first, LockKind::Write).unwrap();
    fails(b.flock(second, LockKind::Read), Errno::EAGAIN);
    a.close(first).unwrap();
    b.flock(second, LockKind::Write).unwrap();
}

fn owners_of_two_sessions_are_two_owners(w: &World) {
    let ((a, first), (b, second)) = two_sessions(w);
    a.lock(first, LockKind::Write, 0..10).unwrap();
    fails(b.lock(second, LockKind::Write, 0..10), Errno::EAGAIN);
    b.lock(second, LockKind::Unlock, ALL).unwrap();
    b.flush(second).unwrap();
    fails(b.lock(second, LockKind::Write, 0..10), Errno::EAGAIN);
}

fn a_dropped_session_gives_its_locks_up(w: &World) {
    let ((a, first), (b, second)) = two_sessions(w);
    a.lock(first, LockKind::Write, ALL).unwrap();
    a.flock(first, LockKind::Write).unwrap();
    fails(b.lock(second, LockKind::Write, ALL), Errno::EAGAIN);
    drop(a);
    b.lock(second, LockKind::Write, ALL).unwrap();
    b.flock(second, LockKind::Write).unwrap();
}
