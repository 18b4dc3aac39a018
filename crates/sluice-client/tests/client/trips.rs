//! How often the server is asked.

use crate::server::{Script, client, only, options, over, receive};
use sluice_client::{Client, ConnectOptions, Dialect, Errno, OpenFlags, XattrFlags};
use sluice_proto::p9::wire::*;
use std::thread::JoinHandle;

fn sent<T>(client: &Client, action: impl FnOnce() -> T) -> u64 {
    let before = client.counts().sent;
    action();
    client.counts().sent - before
}

#[test]
fn an_open_file_costs_two_messages_and_closing_it_no_wait() {
    for dialect in [Dialect::Linux, Dialect::Unix, Dialect::Plan9] {
        let client = client(&only(dialect));
        client.create_dir("d", 0o755).unwrap();
        client.create("d/f", OpenFlags::WRITE, 0o644).unwrap();
        let open = || client.open("d/f", OpenFlags::READ).unwrap();
        let before = client.counts();
        let file = open();
        let after = client.counts();
        assert_eq!(after.sent - before.sent, 2);
        assert_eq!(sent(&client, || client.metadata("d/f").unwrap()), 3);
        let before = client.counts();
        file.close().unwrap();
        let after = client.counts();
        assert_eq!(after.sent - before.sent, 1);
        assert_eq!(after.waits - before.waits, 0, "nobody waits for that");
    }
}

#[test]
fn with_our_server_each_of_them_is_one_message() {
    let client = client(&options());
    assert_eq!(client.dialect(), Dialect::Sluice);
    client.create_dir("d", 0o755).unwrap();
    let made = || drop(client.create("d/f", OpenFlags::WRITE, 0o644).unwrap());
    // And the one that closes it.
    assert_eq!(sent(&client, made), 2);
    assert_eq!(sent(&client, || client.metadata("d/f").unwrap()), 1);
    let file = client.open("d/f", OpenFlags::READ).unwrap();
    assert_eq!(
        sent(&client, || client
            .open("d/f", OpenFlags::READ)
            .unwrap()
            .close()),
        2
    );
    assert_eq!(sent(&client, || file.close().unwrap()), 1);
    assert_eq!(
        sent(&client, || client.metadata("d/missing").unwrap_err()),
        1
    );
}

/// A client of a server that echoes the version: one may do so with any that begins
/// like one of its own.
fn client_of_echo(script: impl FnOnce(&mut Script) + Send + 'static) -> (Client, JoinHandle<()>) {
    let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        let version = receive(&mut theirs).unwrap();
        let mut server = Script { stream: theirs };
        let mut echo = version;
        echo[4] = 101;
        std::io::Write::write_all(&mut server.stream, &echo).unwrap();
        let qid = Qid::default();
        let tag = server.next().tag;
        server.answer(tag, &Reply::Attach { qid });
        script(&mut server);
    });
    let client = over(ours, &options()).unwrap();
    assert_eq!(client.dialect(), Dialect::Sluice);
    (client, server)
}

#[test]
fn a_server_that_only_says_it_has_them_is_asked_as_others_are() {
    let (client, server) = client_of_echo(|server| {
        let fused = server.next();
        assert_eq!(fused.kind, 160);
        server.refuse(fused.tag, Errno::EOPNOTSUPP);
        server.let_open();
        assert_eq!(server.next().kind, 120);
        server.let_open();
        server.ignore_all();
    });
    client.open("f", OpenFlags::READ).unwrap().close().unwrap();
    drop(client.open("f", OpenFlags::READ).unwrap());
    drop(client);
    server.join().unwrap();
}

/// It would take the attribute away.
#[test]
fn a_server_that_only_says_it_has_them_is_sent_no_empty_value() {
    let (client, server) = client_of_echo(|server| {
        let walk = server.next();
        let qids = [Qid::default().to_bytes()];
        server.answer(walk.tag, &Reply::Walk { qids: Qids(&qids) });
        let fused = server.next();
        assert_eq!(fused.kind, 164);
        server.refuse(fused.tag, Errno::EOPNOTSUPP);
        while let Some(next) = server.next_or_end() {
            assert_ne!(next.kind, 32, "Txattrcreate");
        }
    });
    let set = client.set_xattr("f", b"user.a", b"", XattrFlags::empty());
    assert_eq!(set.unwrap_err().errno(), Errno::EINVAL);
    drop(client);
    server.join().unwrap();
}

fn orderly() -> ConnectOptions {
    ConnectOptions {
        is_orderly: true,
        ..options()
    }
}

#[test]
fn with_an_orderly_server_both_messages_are_sent_before_the_first_is_answered() {
    let client = Script::client(&orderly(), |server| {
        let qid = Qid::default();
        let qids = [qid.to_bytes()];
        let attr = Attr {
            mode: 0o100_644,
            ..Attr::default()
        };
        let answers = [Reply::Lopen { qid, iounit: 0 }, Reply::Getattr { attr }];
        for answer in answers {
            let (walk, then) = (server.next(), server.next());
            assert_eq!((walk.kind, then.kind), (110, answer.kind() as u8));
            server.answer(walk.tag, &Reply::Walk { qids: Qids(&qids) });
            server.answer(then.tag, &answer);
        }
        server.ignore_all();
    });
    let file = client.open("f", OpenFlags::READ).unwrap();
    client.metadata("f").unwrap();
    drop(file);
}

#[test]
fn a_walk_that_fails_is_the_error_and_the_open_behind_it_is_none() {
    let client = Script::client(&orderly(), |server| {
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

#[test]
fn sixteen_names_are_one_message() {
    for (dialect, names, messages) in [
        (Dialect::Sluice, 16, 1),
        // The way, the question, and the fid goes back.
        (Dialect::Linux, 16, 3),
        (Dialect::Linux, 17, 4),
        (Dialect::Linux, 32, 4),
        (Dialect::Linux, 33, 5),
    ] {
        let client = client(&only(dialect));
        let mut path = String::new();
        for name in 0..names {
            path.push_str(&format!("/{name}"));
            client.create_dir(&path, 0o755).unwrap();
        }
        let sent = sent(&client, || client.metadata(&path).unwrap());
        assert_eq!(sent, messages, "{dialect:?}, {names} names");
    }
}
