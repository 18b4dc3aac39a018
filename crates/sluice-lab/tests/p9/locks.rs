//! Locks that wait, and what ends the waiting.

use crate::harness::{Conn, decoded};
use sluice_proto::p9::loopback::Ticket;
use sluice_proto::p9::serve::PARKED_MAX;
use sluice_proto::p9::wire::*;

fn conn_with_file() -> Conn {
    let conn = Conn::new(Dialect::Linux);
    conn.lcreate(1, "f", b"hello");
    conn
}

fn lock(kind: u8, flags: LockFlags, owner: u32) -> Request<'static> {
    Request::Lock {
        fid: 1,
        args: LockArgs {
            kind,
            flags,
            start: 0,
            length: 0,
            proc_id: owner,
            client_id: Str(b"host"),
        },
    }
}

fn status(message: &[u8], tag: u16) -> u8 {
    let reply = decoded(message, Dialect::Linux);
    assert_eq!(reply.tag, tag);
    match reply.result {
        Ok(Reply::Lock { status }) => status,
        other => panic!("{other:?} answers Tlock"),
    }
}

fn at_once(conn: &Conn, kind: u8, owner: u32) -> u8 {
    let ticket = conn.send(7, &lock(kind, LockFlags::empty(), owner));
    status(&ticket.wait().expect("a reply"), 7)
}

/// A lock that has to wait.
fn waiting(conn: &Conn, tag: u16, owner: u32) -> Ticket {
    let ticket = conn.send(tag, &lock(LockArgs::WRITE, LockFlags::BLOCK, owner));
    assert_eq!(ticket.poll(), None, "it waits");
    ticket
}

#[test]
fn a_lock_is_answered_when_it_is_granted() {
    let conn = conn_with_file();
    assert_eq!(at_once(&conn, LockArgs::WRITE, 1), LockArgs::SUCCESS);
    assert_eq!(at_once(&conn, LockArgs::READ, 2), LockArgs::BLOCKED);
    let ticket = waiting(&conn, 20, 2);
    assert_eq!(conn.read(1, 0, 5).unwrap(), b"hello", "others go on");
    assert_eq!(at_once(&conn, LockArgs::UNLOCK, 1), LockArgs::SUCCESS);
    let reply = ticket.wait().expect("a reply");
    assert_eq!(status(&reply, 20), LockArgs::SUCCESS);
    assert_eq!(at_once(&conn, LockArgs::READ, 1), LockArgs::BLOCKED);
}

#[test]
fn a_lock_that_is_taken_back_gets_no_answer_and_is_not_held() {
    let conn = conn_with_file();
    at_once(&conn, LockArgs::WRITE, 1);
    let ticket = waiting(&conn, 20, 2);
    conn.call(&Request::Flush { oldtag: 20 }).unwrap();
    assert_eq!(ticket.wait(), None, "only the flush is answered");
    assert_eq!(at_once(&conn, LockArgs::UNLOCK, 1), LockArgs::SUCCESS);
    assert_eq!(at_once(&conn, LockArgs::WRITE, 3), LockArgs::SUCCESS);
    // The tag is free.
    let again = waiting(&conn, 20, 2);
    drop(conn);
    assert!(again.wait().is_some(), "the end of the connection ends it");
}

#[test]
fn clunking_a_fid_ends_its_waiting() {
    let conn = conn_with_file();
    conn.walk(0, 2, &["f"]).unwrap();
    conn.lopen(2, LopenFlags::RDWR).unwrap();
    at_once(&conn, LockArgs::WRITE, 1);
    let mut request = lock(LockArgs::WRITE, LockFlags::BLOCK, 2);
    if let Request::Lock { fid, .. } = &mut request {
        *fid = 2;
    }
    let ticket = conn.send(20, &request);
    assert_eq!(ticket.poll(), None);
    conn.clunk(2).unwrap();
    let reply = ticket.wait().expect("a reply");
    assert!(decoded(&reply, Dialect::Linux).result.is_err());
    at_once(&conn, LockArgs::UNLOCK, 1);
    assert_eq!(at_once(&conn, LockArgs::WRITE, 3), LockArgs::SUCCESS);
}

#[test]
fn a_version_ends_all_waiting() {
    let conn = conn_with_file();
    at_once(&conn, LockArgs::WRITE, 1);
    let tickets: Vec<Ticket> = (0..4)
        .map(|n| waiting(&conn, 20 + n, 2 + u32::from(n)))
        .collect();
    conn.version(8192).unwrap();
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_some()));
    conn.attach(0, 0).unwrap();
    conn.walk(0, 1, &["f"]).unwrap();
    conn.lopen(1, LopenFlags::RDWR).unwrap();
    assert_eq!(at_once(&conn, LockArgs::WRITE, 9), LockArgs::SUCCESS);
}

#[test]
fn only_so_many_wait() {
    let conn = conn_with_file();
    at_once(&conn, LockArgs::WRITE, 1);
    let tickets: Vec<Ticket> = (0..PARKED_MAX as u16)
        .map(|n| waiting(&conn, 100 + n, 2))
        .collect();
    let beyond = conn.send(20, &lock(LockArgs::WRITE, LockFlags::BLOCK, 3));
    assert_eq!(status(&beyond.wait().unwrap(), 20), LockArgs::ERROR);
    drop(conn);
    for ticket in tickets {
        assert!(ticket.wait().is_some());
    }
}

#[test]
fn a_lock_in_the_way_is_told() {
    let conn = conn_with_file();
    let range = |kind, start, length, proc_id| Getlock {
        kind,
        start,
        length,
        proc_id,
        client_id: Str(b"host"),
    };
    let ask = |args| match conn.call(&Request::Getlock { fid: 1, args }).unwrap().get() {
        Reply::Getlock { lock } => (lock.kind, lock.start, lock.length, lock.proc_id),
        other => panic!("{other:?} answers Tgetlock"),
    };
    let free = range(LockArgs::WRITE, 5, 10, 2);
    assert_eq!(ask(free), (LockArgs::UNLOCK, 5, 10, 2));
    at_once(&conn, LockArgs::WRITE, 1);
    assert_eq!(ask(free), (LockArgs::WRITE, 0, 0, 1));
    let own = range(LockArgs::WRITE, 5, 10, 1);
    assert_eq!(ask(own).0, LockArgs::UNLOCK);
}
