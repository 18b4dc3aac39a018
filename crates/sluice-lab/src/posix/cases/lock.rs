//! Locks: flock(2), of open files; fcntl(2), of processes and of open files.

use super::fails;
use crate::posix::Place;
use crate::posix::helper::Helper;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use rustix::io::Errno;
use sluice_sys::lock::{ofd_conflict, ofd_lock};
use sluice_vfs::{LockKind, LockRange};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

cases!("lock":
    flock_excludes_other_opens,
    flock_is_shared_by_readers,
    flock_is_of_the_open_file,
    flock_changes_its_kind,
    flock_waits,
    posix_locks_exclude_other_processes,
    posix_locks_do_not_exclude_their_process,
    posix_locks_are_shared_by_readers,
    posix_locks_end_with_their_process,
    closing_any_descriptor_ends_posix_locks,
    posix_locks_wait,
    posix_and_flock_locks_are_apart,
    open_file_locks_exclude_other_opens,
    open_file_locks_have_ranges,
    open_file_locks_tell_who_is_in_the_way,
    open_file_and_posix_locks_exclude_each_other,
    write_locks_need_a_writer,
);

const TRY_EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
const TRY_SHARED: FlockOperation = FlockOperation::NonBlockingLockShared;

fn two(p: &Place) -> (OwnedFd, OwnedFd) {
    p.write("f", "content");
    (
        p.open("f", OFlags::RDWR).unwrap(),
        p.open("f", OFlags::RDWR).unwrap(),
    )
}

fn flock_excludes_other_opens(p: &Place) {
    let (one, two) = two(p);
    flock(&one, TRY_EXCLUSIVE).unwrap();
    fails(flock(&two, TRY_EXCLUSIVE), Errno::AGAIN);
    fails(flock(&two, TRY_SHARED), Errno::AGAIN);
    flock(&one, FlockOperation::Unlock).unwrap();
    flock(&two, TRY_EXCLUSIVE).unwrap();
}

fn flock_is_shared_by_readers(p: &Place) {
    let (one, two) = two(p);
    flock(&one, TRY_SHARED).unwrap();
    flock(&two, TRY_SHARED).unwrap();
    let three = p.open("f", OFlags::RDONLY).unwrap();
    fails(flock(&three, TRY_EXCLUSIVE), Errno::AGAIN);
}

fn flock_is_of_the_open_file(p: &Place) {
    let (one, two) = two(p);
    let duplicate = one.try_clone().unwrap();
    flock(&one, TRY_EXCLUSIVE).unwrap();
    drop(one);
    fails(flock(&two, TRY_EXCLUSIVE), Errno::AGAIN);
    flock(&duplicate, TRY_EXCLUSIVE).unwrap();
    drop(duplicate);
    flock(&two, FlockOperation::LockExclusive).unwrap();
}

fn flock_changes_its_kind(p: &Place) {
    let (one, two) = two(p);
    flock(&one, TRY_EXCLUSIVE).unwrap();
    flock(&one, TRY_SHARED).unwrap();
    flock(&two, TRY_SHARED).unwrap();
    fails(flock(&one, TRY_EXCLUSIVE), Errno::AGAIN);
}

fn flock_waits(p: &Place) {
    let (one, two) = two(p);
    flock(&one, TRY_EXCLUSIVE).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| flock(&two, FlockOperation::LockExclusive));
        assert!(!waiter.is_finished());
        rustix::io::pwrite(&one, b"locked!", 0).unwrap();
        flock(&one, FlockOperation::Unlock).unwrap();
        waiter.join().unwrap().unwrap();
    });
    fails(flock(&one, TRY_EXCLUSIVE), Errno::AGAIN);
}

fn posix_locks_exclude_other_processes(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    other.obey("write").unwrap();
    fails(fcntl_lock(&file, TRY_EXCLUSIVE), Errno::AGAIN);
    fails(fcntl_lock(&file, TRY_SHARED), Errno::AGAIN);
    other.obey("unlock").unwrap();
    fcntl_lock(&file, TRY_EXCLUSIVE).unwrap();
    fails(other.obey("read"), Errno::AGAIN);
    other.end();
}

fn posix_locks_do_not_exclude_their_process(p: &Place) {
    let (one, two) = two(p);
    fcntl_lock(&one, TRY_EXCLUSIVE).unwrap();
    fcntl_lock(&two, TRY_EXCLUSIVE).unwrap();
}

fn posix_locks_are_shared_by_readers(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    other.obey("read").unwrap();
    fcntl_lock(&file, TRY_SHARED).unwrap();
    fails(fcntl_lock(&file, TRY_EXCLUSIVE), Errno::AGAIN);
    fails(other.obey("write"), Errno::AGAIN);
    other.end();
}

fn posix_locks_end_with_their_process(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    other.obey("write").unwrap();
    fails(fcntl_lock(&file, TRY_SHARED), Errno::AGAIN);
    other.kill();
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
}

fn closing_any_descriptor_ends_posix_locks(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    other.obey("write").unwrap();
    other.obey("reopen").unwrap();
    fcntl_lock(&file, TRY_EXCLUSIVE).unwrap();
    other.end();
}

fn posix_locks_wait(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    fcntl_lock(&file, TRY_EXCLUSIVE).unwrap();
    other.order("wait");
    fcntl_lock(&file, FlockOperation::Unlock).unwrap();
    other.answer().unwrap();
    fails(fcntl_lock(&file, TRY_SHARED), Errno::AGAIN);
    other.end();
}

fn posix_and_flock_locks_are_apart(p: &Place) {
    let (file, _) = two(p);
    let mut other = Helper::start(p, "f");
    other.obey("write").unwrap();
    flock(&file, TRY_EXCLUSIVE).unwrap();
    other.end();
}

/// `len` bytes from `start`.
fn range(start: u64, len: u64) -> LockRange {
    LockRange {
        start,
        end: start + len - 1,
    }
}

fn try_lock(file: &OwnedFd, kind: LockKind, range: LockRange) -> Result<(), sluice_vfs::Errno> {
    ofd_lock(file.as_fd(), kind, range, false)
}

#[track_caller]
fn is_in_the_way(outcome: Result<(), sluice_vfs::Errno>) {
    assert_eq!(outcome, Err(sluice_vfs::Errno::EAGAIN));
}

fn open_file_locks_exclude_other_opens(p: &Place) {
    let (one, two) = two(p);
    try_lock(&one, LockKind::Write, range(0, 10)).unwrap();
    is_in_the_way(try_lock(&two, LockKind::Write, range(0, 10)));
    is_in_the_way(try_lock(&two, LockKind::Read, range(9, 10)));
    drop(one);
    // A remote server hears of the last close a little later.
    ofd_lock(two.as_fd(), LockKind::Write, range(0, 10), true).unwrap();
}

fn open_file_locks_have_ranges(p: &Place) {
    let (one, two) = two(p);
    try_lock(&one, LockKind::Write, range(100, 100)).unwrap();
    try_lock(&two, LockKind::Write, range(0, 100)).unwrap();
    try_lock(&two, LockKind::Write, range(200, 100)).unwrap();
    is_in_the_way(try_lock(&two, LockKind::Read, range(199, 1)));
    try_lock(&one, LockKind::Unlock, range(150, 10)).unwrap();
    try_lock(&two, LockKind::Read, range(150, 10)).unwrap();
    is_in_the_way(try_lock(&two, LockKind::Read, range(149, 1)));
    is_in_the_way(try_lock(&two, LockKind::Read, range(160, 1)));
}

fn open_file_locks_tell_who_is_in_the_way(p: &Place) {
    let (one, two) = two(p);
    let asked = || ofd_conflict(two.as_fd(), LockKind::Write, range(0, 1000)).unwrap();
    assert!(asked().is_none());
    try_lock(&one, LockKind::Read, range(100, 100)).unwrap();
    let found = asked().expect("a lock in the way");
    assert_eq!((found.kind, found.range), (LockKind::Read, range(100, 100)));
}

fn open_file_and_posix_locks_exclude_each_other(p: &Place) {
    let (file, _) = two(p);
    try_lock(&file, LockKind::Write, range(0, 10)).unwrap();
    let mut other = Helper::start(p, "f");
    fails(other.obey("write"), Errno::AGAIN);
    try_lock(&file, LockKind::Unlock, range(0, 10)).unwrap();
    other.obey("write").unwrap();
    is_in_the_way(try_lock(&file, LockKind::Read, range(0, 10)));
    other.end();
}

fn write_locks_need_a_writer(p: &Place) {
    p.write("f", "content");
    let reader = p.open("f", OFlags::RDONLY).unwrap();
    fails(fcntl_lock(&reader, TRY_EXCLUSIVE), Errno::BADF);
    fcntl_lock(&reader, TRY_SHARED).unwrap();
}
