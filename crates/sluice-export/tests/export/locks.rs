//! Locks: between owners, sessions and the host; waiting, cancelling, ending.

use crate::harness::*;
use sluice_export::{Export, ExportOptions};
use sluice_vfs::*;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const HEAD: LockRange = LockRange { start: 0, end: 99 };
const WAIT: WaitId = WaitId(7);

/// Sends what settles.
struct Settled(mpsc::Sender<(WaitId, Result<()>)>);

impl EventSink for Settled {
    fn publish(&self, event: &Event<'_>) {
        if let Event::LockSettled { wait, result } = event {
            let _ = self.0.send((*wait, *result));
        }
    }
}

/// A session with one file that is open for reading and writing.
struct Guest {
    session: Arc<dyn Session>,
    node: NodeId,
    handle: HandleId,
    settled: mpsc::Receiver<(WaitId, Result<()>)>,
}

impl Guest {
    fn attach(export: &Export, limits: SessionLimits) -> Guest {
        let (sender, settled) = mpsc::channel();
        let options = AttachOptions {
            peer: Peer {
                label: "test".into(),
                checks: AccessChecks::Peer,
            },
            export: b"",
            events: Arc::new(Settled(sender)),
            limits,
        };
        let session = export.attach(options).unwrap().session;
        let node = session.lookup(&ROOT, NodeId::ROOT, name("file"));
        let node = node.and_then(Lookup::found).unwrap().node;
        let handle = session.open(&ROOT, node, RDWR).unwrap().handle;
        Guest {
            session,
            node,
            handle,
            settled,
        }
    }

    fn set(&self, owner: u64, lock: Lock, wait: Option<WaitId>) -> Result<LockOutcome> {
        let ctx = ROOT.with_lock_owner(LockOwner(owner));
        self.session
            .setlk(&ctx, self.node, self.handle, &lock, wait)
    }

    fn conflict(&self, owner: u64, lock: Lock) -> Result<Option<Lock>> {
        let ctx = ROOT.with_lock_owner(LockOwner(owner));
        self.session.getlk(&ctx, self.node, self.handle, &lock)
    }

    fn next_settled(&self) -> (WaitId, Result<()>) {
        self.settled.recv().unwrap()
    }
}

fn posix(kind: LockKind, range: LockRange) -> Lock {
    Lock {
        style: LockStyle::Posix,
        kind,
        range,
        pid: 42,
    }
}

fn flock(kind: LockKind) -> Lock {
    Lock {
        style: LockStyle::Flock,
        kind,
        range: LockRange::ALL,
        pid: 42,
    }
}

/// An exported directory with an empty `file`, which is open on the host too.
fn share() -> (tempfile::TempDir, Export, File) {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create_new(dir.path().join("file")).unwrap();
    let export = Export::open(dir.path(), ExportOptions::default()).unwrap();
    (dir, export, file)
}

fn guest(export: &Export) -> Guest {
    Guest::attach(export, SessionLimits::default())
}

#[test]
fn owners_of_one_session_exclude_each_other() {
    let (_dir, export, _) = share();
    let guest = guest(&export);
    let write = posix(LockKind::Write, HEAD);
    assert_eq!(guest.set(1, write, None), Ok(LockOutcome::Done));
    assert_eq!(guest.set(2, write, None), Err(Errno::EAGAIN));
    assert_eq!(guest.set(1, write, None), Ok(LockOutcome::Done));
    let behind = LockRange {
        start: 100,
        end: 199,
    };
    assert_eq!(
        guest.set(2, posix(LockKind::Read, behind), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        guest.set(1, posix(LockKind::Unlock, HEAD), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(guest.set(2, write, None), Ok(LockOutcome::Done));
}

#[test]
fn what_is_in_the_way_is_told_with_its_process() {
    let (_dir, export, _) = share();
    let guest = guest(&export);
    assert_eq!(
        guest.set(1, posix(LockKind::Write, HEAD), None),
        Ok(LockOutcome::Done)
    );
    let asked = posix(LockKind::Read, LockRange::ALL);
    let found = guest.conflict(2, asked).unwrap().unwrap();
    assert_eq!(
        (found.kind, found.range, found.pid),
        (LockKind::Write, HEAD, 42)
    );
    assert_eq!(guest.conflict(1, asked), Ok(None));
    assert_eq!(
        guest.conflict(1, posix(LockKind::Unlock, HEAD)),
        Err(Errno::EINVAL)
    );
}

#[test]
fn sessions_and_the_host_meet_the_same_locks() {
    let (_dir, export, host) = share();
    let (first, second) = (guest(&export), guest(&export));
    let write = posix(LockKind::Write, HEAD);
    assert_eq!(first.set(1, write, None), Ok(LockOutcome::Done));
    // Equal owner numbers of two sessions are two owners.
    assert_eq!(second.set(1, write, None), Err(Errno::EAGAIN));
    let on_host = sluice_sys::lock::ofd_lock(host.as_fd(), LockKind::Write, HEAD, false);
    assert_eq!(on_host, Err(Errno::EAGAIN));
    let found = second.conflict(1, write).unwrap().unwrap();
    assert_eq!((found.range, found.pid), (HEAD, 0));
    drop(first);
    assert_eq!(
        sluice_sys::lock::ofd_lock(host.as_fd(), LockKind::Write, HEAD, false),
        Ok(())
    );
    assert_eq!(second.set(1, write, None), Err(Errno::EAGAIN));
}

#[test]
fn a_flock_belongs_to_the_handle_and_meets_the_hosts() {
    let (_dir, export, host) = share();
    let guest = guest(&export);
    assert_eq!(
        guest.set(1, flock(LockKind::Write), None),
        Ok(LockOutcome::Done)
    );
    assert!(host.try_lock().is_err());
    // The families don't see each other.
    assert_eq!(
        guest.set(2, posix(LockKind::Write, HEAD), None),
        Ok(LockOutcome::Done)
    );
    let how = Release {
        unlock_flock: true,
        flush: false,
    };
    let ctx = ROOT.with_lock_owner(LockOwner(1));
    guest
        .session
        .release(&ctx, guest.node, guest.handle, &how)
        .unwrap();
    host.try_lock().unwrap();
}

#[test]
fn a_wait_ends_when_the_lock_is_free() {
    let (_dir, export, _) = share();
    let (holder, waiter) = (guest(&export), guest(&export));
    for lock in [posix(LockKind::Write, HEAD), flock(LockKind::Write)] {
        assert_eq!(holder.set(1, lock, None), Ok(LockOutcome::Done));
        assert_eq!(waiter.set(1, lock, Some(WAIT)), Ok(LockOutcome::Waiting));
        // The same name can't stand for two waits.
        assert_eq!(waiter.set(2, lock, Some(WAIT)), Err(Errno::EINVAL));
        assert!(waiter.settled.try_recv().is_err());
        let unlock = Lock {
            kind: LockKind::Unlock,
            ..lock
        };
        assert_eq!(holder.set(1, unlock, None), Ok(LockOutcome::Done));
        assert_eq!(waiter.next_settled(), (WAIT, Ok(())));
        assert_eq!(holder.set(1, lock, None), Err(Errno::EAGAIN));
        assert_eq!(waiter.set(1, unlock, None), Ok(LockOutcome::Done));
    }
}

#[test]
fn a_wait_that_is_taken_back_settles_once_and_takes_nothing() {
    let (_dir, export, _) = share();
    let (holder, waiter) = (guest(&export), guest(&export));
    let lock = posix(LockKind::Write, HEAD);
    assert_eq!(holder.set(1, lock, None), Ok(LockOutcome::Done));
    for round in 0..20 {
        let wait = WaitId(round);
        assert_eq!(waiter.set(1, lock, Some(wait)), Ok(LockOutcome::Waiting));
        waiter.session.cancel_wait(wait);
        waiter.session.cancel_wait(wait);
        assert_eq!(waiter.next_settled(), (wait, Err(Errno::EINTR)));
    }
    waiter.session.cancel_wait(WaitId(1000));
    assert!(waiter.settled.try_recv().is_err());
    let unlock = posix(LockKind::Unlock, HEAD);
    assert_eq!(holder.set(1, unlock, None), Ok(LockOutcome::Done));
    assert_eq!(holder.conflict(1, lock), Ok(None));
}

#[test]
fn a_wait_gives_up_at_its_deadline() {
    let (_dir, export, _) = share();
    let (holder, waiter) = (guest(&export), guest(&export));
    let lock = posix(LockKind::Write, HEAD);
    assert_eq!(holder.set(1, lock, None), Ok(LockOutcome::Done));
    let ctx = Ctx {
        deadline: Some(Instant::now() + Duration::from_millis(1)),
        ..ROOT.with_lock_owner(LockOwner(1))
    };
    let outcome = waiter
        .session
        .setlk(&ctx, waiter.node, waiter.handle, &lock, Some(WAIT));
    assert_eq!(outcome, Ok(LockOutcome::Waiting));
    assert_eq!(waiter.next_settled(), (WAIT, Err(Errno::ETIMEDOUT)));
}

#[test]
fn waits_and_owners_are_bounded() {
    let (_dir, export, _) = share();
    let holder = guest(&export);
    let limits = SessionLimits {
        lock_owners: 3,
        lock_waits: 2,
        ..SessionLimits::default()
    };
    let waiter = Guest::attach(&export, limits);
    let lock = posix(LockKind::Write, HEAD);
    assert_eq!(holder.set(1, lock, None), Ok(LockOutcome::Done));
    assert_eq!(
        waiter.set(1, lock, Some(WaitId(1))),
        Ok(LockOutcome::Waiting)
    );
    assert_eq!(
        waiter.set(2, lock, Some(WaitId(2))),
        Ok(LockOutcome::Waiting)
    );
    assert_eq!(waiter.set(3, lock, Some(WaitId(3))), Err(Errno::ENOLCK));
    assert_eq!(waiter.set(4, lock, Some(WaitId(4))), Err(Errno::ENOLCK));
    waiter.session.cancel_wait(WaitId(1));
    assert_eq!(waiter.next_settled(), (WaitId(1), Err(Errno::EINTR)));
    assert_eq!(
        waiter.set(3, lock, Some(WaitId(3))),
        Ok(LockOutcome::Waiting)
    );
}

#[test]
fn the_end_of_a_session_ends_its_waits_and_its_locks() {
    let (_dir, export, _) = share();
    let (holder, waiter) = (guest(&export), guest(&export));
    let lock = posix(LockKind::Write, HEAD);
    let other = posix(
        LockKind::Write,
        LockRange {
            start: 200,
            end: 299,
        },
    );
    assert_eq!(holder.set(1, lock, None), Ok(LockOutcome::Done));
    assert_eq!(waiter.set(1, other, None), Ok(LockOutcome::Done));
    assert_eq!(waiter.set(1, lock, Some(WAIT)), Ok(LockOutcome::Waiting));
    let Guest {
        session, settled, ..
    } = waiter;
    drop(session);
    assert_eq!(settled.recv().unwrap(), (WAIT, Err(Errno::EINTR)));
    assert_eq!(holder.set(1, other, None), Ok(LockOutcome::Done));
}

#[test]
fn closing_gives_up_the_owners_locks_and_no_others() {
    let (_dir, export, _) = share();
    let guest = guest(&export);
    let behind = LockRange {
        start: 100,
        end: 199,
    };
    assert_eq!(
        guest.set(1, posix(LockKind::Write, HEAD), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        guest.set(2, posix(LockKind::Write, behind), None),
        Ok(LockOutcome::Done)
    );
    let ctx = ROOT.with_lock_owner(LockOwner(1));
    guest.session.flush(&ctx, guest.node, guest.handle).unwrap();
    let all = posix(LockKind::Write, LockRange::ALL);
    assert_eq!(guest.conflict(3, all).unwrap().unwrap().range, behind);
}

#[test]
fn a_lock_needs_a_handle_opened_for_its_kind() {
    let (_dir, export, _) = share();
    let guest = guest(&export);
    let reader = guest
        .session
        .open(&ROOT, guest.node, OpenFlags::READ)
        .unwrap()
        .handle;
    let set = |handle, kind| {
        let lock = posix(kind, HEAD);
        guest.session.setlk(&ROOT, guest.node, handle, &lock, None)
    };
    assert_eq!(set(reader, LockKind::Read), Ok(LockOutcome::Done));
    assert_eq!(set(reader, LockKind::Write), Err(Errno::EBADF));
    // The owner's locks stay together whichever handle they came through.
    assert_eq!(set(guest.handle, LockKind::Write), Ok(LockOutcome::Done));
    assert_eq!(set(HandleId(u64::MAX), LockKind::Unlock), Err(Errno::EBADF));
    let backwards = posix(LockKind::Read, LockRange { start: 9, end: 8 });
    assert_eq!(guest.set(1, backwards, None), Err(Errno::EINVAL));
}

/// One request of an owner waits while others of the same owner come and go: what is
/// told to be held is held.
#[test]
fn a_wait_beside_other_requests_of_its_owner() {
    let (_dir, export, _) = share();
    let (holder, waiter) = (guest(&export), guest(&export));
    let range = |start, end| LockRange { start, end };
    let lock = |range| posix(LockKind::Write, range);
    assert_eq!(holder.set(1, lock(HEAD), None), Ok(LockOutcome::Done));
    let wait = waiter.set(1, lock(range(50, 149)), Some(WAIT));
    assert_eq!(wait, Ok(LockOutcome::Waiting));
    assert_eq!(
        waiter.set(1, lock(range(120, 129)), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        waiter.set(1, posix(LockKind::Unlock, LockRange::ALL), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(
        holder.set(1, posix(LockKind::Unlock, LockRange::ALL), None),
        Ok(LockOutcome::Done)
    );
    assert_eq!(waiter.next_settled(), (WAIT, Ok(())));
    let found = holder.conflict(1, lock(LockRange::ALL)).unwrap().unwrap();
    assert_eq!(found.range, range(50, 149));
    // It is known to the session, too, with the process that asked.
    let found = waiter.conflict(2, lock(LockRange::ALL)).unwrap().unwrap();
    assert_eq!((found.range, found.pid), (range(50, 149), 42));
}
