//! How often the server is asked.

use crate::server::{Script, client, options};
use sluice_client::{Client, Errno, OpenFlags};
use sluice_proto::p9::wire::*;

fn sent<T>(client: &Client, action: impl FnOnce() -> T) -> u64 {
    let before = client.counts().sent;
    action();
    client.counts().sent - before
}

#[test]
fn an_open_file_costs_two_messages_in_one_trip_and_closing_it_none() {
    let client = client(&options());
    client.create_dir("d", 0o755).unwrap();
    client.create("d/f", OpenFlags::WRITE, 0o644).unwrap();
    let open = || client.open("d/f", OpenFlags::READ).unwrap();
    assert_eq!(sent(&client, || open().close().unwrap()), 3);
    assert_eq!(sent(&client, || client.metadata("d/f").unwrap()), 3);
}

#[test]
fn both_messages_are_sent_before_the_first_is_answered() {
    let client = Script::client(&options(), |server| {
        let (walk, open) = (server.next(), server.next());
        assert_eq!((walk.kind, open.kind), (110, 12));
        let qid = Qid::default();
        let qids = [qid.to_bytes()];
        server.answer(walk.tag, &Reply::Walk { qids: Qids(&qids) });
        server.answer(open.tag, &Reply::Lopen { qid, iounit: 0 });
        server.ignore_all();
    });
    client.open("f", OpenFlags::READ).unwrap();
}

#[test]
fn a_walk_that_fails_is_the_error_and_the_open_behind_it_is_none() {
    let client = Script::client(&options(), |server| {
        for first_to_answer in [0, 1] {
            let tags = [server.next().tag, server.next().tag];
            let errnos = [Errno::EACCES, Errno::EBADF];
            for at in [first_to_answer, 1 - first_to_answer] {
                server.refuse(tags[at], errnos[at]);
            }
        }
        server.ignore_all();
    });
    for _ in 0..2 {
        let error = client.open("f", OpenFlags::READ).map(drop).unwrap_err();
        assert_eq!(error.errno(), Errno::EACCES);
    }
}

/// A server that runs the two side by side may open before it walked.
#[test]
fn a_server_without_order_is_asked_again_and_not_hurried_any_more() {
    let client = Script::client(&options(), |server| {
        let qid = Qid::default();
        let qids = [qid.to_bytes()];
        let walked = Reply::Walk { qids: Qids(&qids) };
        let (walk, open) = (server.next(), server.next());
        server.refuse(open.tag, Errno::EBADF);
        server.answer(walk.tag, &walked);
        let again = server.next();
        assert_eq!(again.kind, 12);
        server.answer(again.tag, &Reply::Lopen { qid, iounit: 0 });
        assert_eq!(server.next().kind, 120);
        // From now on one by one, or this waits for ever.
        let walk = server.next();
        server.answer(walk.tag, &walked);
        let open = server.next();
        server.answer(open.tag, &Reply::Lopen { qid, iounit: 0 });
        server.ignore_all();
    });
    client.open("f", OpenFlags::READ).unwrap().close().unwrap();
    client.open("f", OpenFlags::READ).unwrap();
}

#[test]
fn a_file_that_was_written_is_closed_with_its_error() {
    let client = Script::client(&options(), |server| {
        server.let_open();
        let write = server.next();
        server.answer(write.tag, &Reply::Write { count: 1 });
        let clunk = server.next();
        assert_eq!(clunk.kind, 120);
        server.refuse(clunk.tag, Errno::EDQUOT);
    });
    let file = client.open("f", OpenFlags::WRITE).unwrap();
    assert_eq!(file.write_at(b"x", 0), Ok(1));
    assert_eq!(file.close().unwrap_err().errno(), Errno::EDQUOT);
}
