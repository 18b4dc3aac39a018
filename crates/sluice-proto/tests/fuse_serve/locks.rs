//! Locks: at once, parked, granted, taken back, and left behind.

use crate::harness::{Harness, outcome};
use crate::recorder::Script;
use sluice_proto::fuse::loopback::Ticket;
use sluice_proto::fuse::serve::PARKED_MAX;
use sluice_proto::fuse::wire::*;
use sluice_vfs::{Errno, Event};
use zerocopy::IntoBytes;

fn lock(kind: u32, lk_flags: LkFlags) -> LkIn {
    LkIn {
        fh: 0x31,
        owner: 0x41,
        lk: FileLock {
            start: 10,
            end: 19,
            kind,
            pid: 1234,
        },
        lk_flags,
        padding: 0,
    }
}

fn setlkw() -> Operation<'static> {
    Operation::Setlkw {
        args: lock(FileLock::WRITE, LkFlags::empty()),
    }
}

fn interrupt(unique: u64) -> Operation<'static> {
    Operation::Interrupt {
        args: InterruptIn { unique },
    }
}

/// A connection on which a lock is held by someone else.
fn contended() -> Harness {
    let harness = Harness::new();
    harness.service.script(held());
    harness
}

fn held() -> Script {
    Script {
        lock_error: Some(Errno::EAGAIN),
        ..Script::default()
    }
}

/// The outcome of a lock request, if it is there.
fn settled(ticket: &Ticket) -> Option<Result<(), Errno>> {
    let message = ticket.poll()?;
    let reply = decode_reply(Opcode::Setlkw, &message).unwrap();
    Some(reply.result.map(drop))
}

#[test]
fn a_lock_that_is_free_is_taken_at_once() {
    let harness = Harness::new();
    assert_eq!(harness.call(&setlkw()), Some(Ok(vec![])));
    let calls = harness.service.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(calls[0].contains("waits false owner 0x41"), "{calls:?}");
}

#[test]
fn a_lock_that_is_held_parks_its_request_until_it_is_granted() {
    let harness = contended();
    let ticket = harness.send(42, &setlkw());
    assert_eq!(settled(&ticket), None);
    let wait = harness.service.last_wait();
    // Others are served meanwhile.
    assert!(harness.call(&Operation::Statfs {}).unwrap().is_ok());
    harness.service.publish(&Event::LockSettled {
        wait,
        result: Ok(()),
    });
    let message = ticket.wait().unwrap();
    assert_eq!(outcome(Opcode::Setlkw, &message), Ok(vec![]));
    // A second event for the same wait finds nobody.
    harness.service.publish(&Event::LockSettled {
        wait,
        result: Ok(()),
    });
}

#[test]
fn a_grant_that_overtakes_the_call_is_not_lost() {
    let harness = contended();
    harness.service.script(Script {
        grants_at_once: true,
        ..held()
    });
    let ticket = harness.send(42, &setlkw());
    assert_eq!(settled(&ticket), Some(Ok(())));
}

#[test]
fn a_service_that_refuses_to_wait_is_believed() {
    let harness = contended();
    harness.service.script(Script {
        wait_error: Some(Errno::EDEADLK),
        ..held()
    });
    let ticket = harness.send(42, &setlkw());
    assert_eq!(settled(&ticket), Some(Err(Errno::EDEADLK)));
}

#[test]
fn an_interrupt_takes_a_waiting_lock_back() {
    let harness = contended();
    let ticket = harness.send(42, &setlkw());
    let other = harness.send(43, &setlkw());
    assert_eq!(harness.call(&interrupt(42)), None);
    assert_eq!(settled(&ticket), Some(Err(Errno::EINTR)));
    assert_eq!(settled(&other), None);
    // Interrupts of what is not there are ignored.
    assert_eq!(harness.call(&interrupt(42)), None);
    assert_eq!(harness.call(&interrupt(77)), None);
    assert_eq!(settled(&other), None);
}

#[test]
fn an_interrupt_that_overtakes_its_request_is_kept() {
    let harness = contended();
    assert_eq!(harness.call(&interrupt(42)), None);
    let ticket = harness.send(42, &setlkw());
    assert_eq!(settled(&ticket), Some(Err(Errno::EINTR)));
}

#[test]
fn waiting_locks_are_bounded() {
    let harness = contended();
    let waiting: Vec<_> = (0..PARKED_MAX as u64)
        .map(|unique| harness.send(1000 + unique, &setlkw()))
        .collect();
    assert!(waiting.iter().all(|ticket| settled(ticket).is_none()));
    let over = harness.send(42, &setlkw());
    assert_eq!(settled(&over), Some(Err(Errno::ENOLCK)));
    // One that goes makes room for another.
    harness.call(&interrupt(1000));
    assert_eq!(settled(&waiting[0]), Some(Err(Errno::EINTR)));
    assert_eq!(settled(&harness.send(43, &setlkw())), None);
}

#[test]
fn waiting_locks_end_with_their_session() {
    let harness = contended();
    let ticket = harness.send(42, &setlkw());
    let wait = harness.service.last_wait();
    harness.call(&Operation::Destroy {});
    assert_eq!(settled(&ticket), Some(Err(Errno::ENOTCONN)));
    harness.service.publish(&Event::LockSettled {
        wait,
        result: Ok(()),
    });
    assert_eq!(settled(&ticket), None, "it was answered twice");
}

#[test]
fn flocks_cover_the_file_and_ranges_end_at_the_end() {
    let harness = Harness::new();
    let flock = Operation::Setlk {
        args: lock(FileLock::READ, LkFlags::FLOCK),
    };
    assert_eq!(harness.call(&flock), Some(Ok(vec![])));
    let calls = harness.service.calls();
    assert!(calls[0].contains("style: Flock, kind: Read"), "{calls:?}");
    assert!(
        calls[0].contains("start: 0, end: 9223372036854775807"),
        "{calls:?}"
    );
    let mut endless = lock(FileLock::UNLOCK, LkFlags::empty());
    endless.lk.end = u64::MAX;
    assert_eq!(
        harness.call(&Operation::Setlk { args: endless }),
        Some(Ok(vec![]))
    );
    let calls = harness.service.calls();
    assert!(
        calls[0].contains("style: Posix, kind: Unlock")
            && calls[0].contains("start: 10, end: 9223372036854775807"),
        "{calls:?}"
    );
    endless.lk.start = 1 << 63;
    assert_eq!(
        harness.error(&Operation::Setlk { args: endless }),
        Errno::EINVAL
    );
}

#[test]
fn getlk_tells_what_is_in_the_way() {
    let harness = Harness::new();
    let ask = |kind| {
        let args = lock(kind, LkFlags::empty());
        let body = harness.call(&Operation::Getlk { args }).unwrap().unwrap();
        let message = [OutHeader::success(1, body.len()).as_bytes(), &body].concat();
        match decode_reply(Opcode::Getlk, &message).unwrap().result {
            Ok(Reply::Getlk { lock }) => lock.lk,
            other => panic!("{other:?}"),
        }
    };
    let in_the_way = ask(FileLock::WRITE);
    assert_eq!((in_the_way.kind, in_the_way.pid), (FileLock::READ, 55));
    assert_eq!(ask(FileLock::READ).kind, FileLock::UNLOCK);
}
