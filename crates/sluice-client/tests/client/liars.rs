//! Servers that lie, stop, or never listen.

use crate::server::{Script, options, over, receive};
use sluice_client::{
    Client, ConnectOptions, Dialect, Errno, Error, Lock, LockKind, LockRange, LockStyle, Lost,
    OpenFlags, Violation,
};
use sluice_proto::p9::wire::*;
use std::io::{BufRead, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Long enough for a server that means well on a machine with other work.
const SHORT: Duration = Duration::from_secs(3);

fn hasty() -> ConnectOptions {
    ConnectOptions {
        time_limit: Some(SHORT),
        ..options()
    }
}

/// What reading 2000 bytes comes to, where `answer` says what the server sends.
fn read(answer: impl FnOnce(&mut Script, u16) + Send + 'static) -> (Result<usize, Error>, Client) {
    let client = Script::client(&options(), |server| {
        server.let_open();
        let tag = server.next().tag;
        answer(server, tag);
        server.ignore_all();
    });
    let file = client.open("f", OpenFlags::READ).unwrap();
    let outcome = file.read_at(&mut [0; 2000], 0);
    drop(file);
    (outcome, client)
}

fn data(server: &mut Script, tag: u16, len: usize) {
    let data = Payload { len };
    server.reply(tag, &Reply::Read { data }, Dialect::Linux, &vec![1; len]);
}

#[test]
fn more_than_was_asked_for_is_an_error_of_that_request() {
    let (outcome, client) = read(|server, tag| {
        data(server, tag, 2001);
        assert_eq!(server.next().kind, 120);
        let tag = server.next().tag;
        server.refuse(tag, Errno::EACCES);
    });
    let excess = Violation::Excess {
        what: "bytes",
        asked: 2000,
        got: 2001,
    };
    assert_eq!(outcome, Err(Error::Violation(excess)));
    // The stream is not lost.
    let next = client.statfs("/");
    assert_eq!(next.unwrap_err(), Error::Refused(Errno::EACCES));
}

#[test]
fn a_short_payload_is_a_short_read() {
    assert_eq!(read(|server, tag| data(server, tag, 1999)).0, Ok(1999));
    assert_eq!(read(|server, tag| data(server, tag, 0)).0, Ok(0));
}

#[test]
fn a_count_that_is_not_what_follows_is_an_error_of_that_request() {
    let (outcome, _) = read(|server, tag| {
        let mut message = [15, 0, 0, 0, 117, 0, 0, 5, 0, 0, 0, 1, 2, 3, 4];
        message[5..7].copy_from_slice(&tag.to_le_bytes());
        server.stream.write_all(&message).unwrap();
    });
    assert!(
        matches!(outcome, Err(Error::Violation(Violation::Malformed(_)))),
        "{outcome:?}"
    );
}

#[test]
fn replies_that_can_be_nobodys_end_the_connection() {
    let header = |size: u32, kind: u8, tag: u16| {
        let mut message = size.to_le_bytes().to_vec();
        message.push(kind);
        message.extend(tag.to_le_bytes());
        message.resize((size as usize).clamp(7, 64), 0);
        message
    };
    for (what, size, kind, wrong_tag) in [
        ("another kind", 24, 13, false),
        ("no kind at all", 7, 255, false),
        ("a request", 7, 116, false),
        ("another tag", 11, 117, true),
        ("too short", 6, 117, false),
        ("too long", u32::MAX, 117, false),
        ("an endless string", 200_000, 107, false),
    ] {
        let (outcome, client) = read(move |server, tag| {
            let tag = if wrong_tag { tag + 77 } else { tag };
            let _ = server.stream.write_all(&header(size, kind, tag));
        });
        let lost = outcome.unwrap_err();
        assert!(
            matches!(lost, Error::Lost(Lost::Violation(_))),
            "{what}: {lost}"
        );
        assert_eq!(
            client.metadata("x").unwrap_err(),
            lost,
            "{what}: it stays lost"
        );
    }
}

#[test]
fn a_reply_that_comes_twice_ends_the_connection() {
    let (outcome, client) = read(|server, tag| {
        data(server, tag, 10);
        data(server, tag, 10);
    });
    assert_eq!(outcome, Ok(10));
    let lost = client.metadata("x").unwrap_err();
    assert!(
        matches!(lost, Error::Lost(Lost::Violation(Violation::Tag(_)))),
        "{lost}"
    );
}

#[test]
fn counts_and_qids_beyond_what_was_asked_are_errors() {
    let client = Script::client(&options(), |server| {
        let walk = server.next();
        let qids = [Qid::default().to_bytes(); 2];
        server.answer(walk.tag, &Reply::Walk { qids: Qids(&qids) });
        server.take_clunk();
        server.let_open();
        let write = server.next();
        server.answer(write.tag, &Reply::Write { count: 4 });
        server.ignore_all();
    });
    let open = || client.open("f", OpenFlags::WRITE);
    let error = open().map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Violation(Violation::Excess { what: "qids", .. })
        ),
        "{error}"
    );
    let error = open().unwrap().write_at(b"abc", 0).unwrap_err();
    assert_eq!(error.errno(), Errno::EPROTO);
}

/// The rest of the way says why a walk is short; one that has no rest does not.
#[test]
fn a_walk_that_gets_nowhere_is_an_error_and_is_not_asked_about() {
    let client = Script::client(&options(), |server| {
        for _ in 0..2 {
            let walk = server.next();
            server.answer(walk.tag, &Reply::Walk { qids: Qids(&[]) });
            server.take_clunk();
        }
        server.ignore_all();
    });
    for path in ["f", "d/f"] {
        let error = client.metadata(path).unwrap_err();
        assert!(matches!(error, Error::Violation(_)), "{path}: {error}");
    }
}

/// What may have been made is given back, so that its number can be used again.
#[test]
fn a_fid_that_an_unclear_answer_may_have_made_is_given_back() {
    let client = Script::client(&hasty(), |server| {
        // A reply that cannot be taken apart.
        let walk = server.next();
        let [t0, t1] = walk.tag.to_le_bytes();
        let message = [8, 0, 0, 0, 111, t0, t1, 9];
        server.stream.write_all(&message).unwrap();
        server.take_clunk();
        // None at all.
        let walk = server.next();
        let flush = server.next();
        assert_eq!((walk.kind, flush.kind), (110, 108));
        server.answer(flush.tag, &Reply::Flush {});
        server.take_clunk();
        // One that says no.
        let walk = server.next();
        server.refuse(walk.tag, Errno::EACCES);
        server.let_open();
        server.ignore_all();
    });
    let opened = [(); 4].map(|()| client.open("f", OpenFlags::READ).map(drop).err());
    assert!(
        matches!(
            opened,
            [
                Some(Error::Violation(_)),
                Some(Error::TimedOut(_)),
                Some(Error::Refused(Errno::EACCES)),
                None
            ]
        ),
        "{opened:?}"
    );
}

#[test]
fn names_that_are_paths_do_not_come_out_of_a_listing() {
    for name in ["a/b", "/", ""] {
        let client = Script::client(&options(), move |server| {
            server.let_open();
            let mut entries = vec![0; 200];
            let dirent = Dirent {
                qid: Qid::default(),
                offset: 1,
                kind: 8,
                name: Str(name.as_bytes()),
            };
            let len = encode_dirent(&dirent, &mut entries).unwrap();
            let tag = server.next().tag;
            let entries = &entries[..len];
            let data = Payload { len };
            server.reply(
                tag,
                &Reply::Readdir { entries: data },
                Dialect::Linux,
                entries,
            );
            server.ignore_all();
        });
        let listed: Vec<_> = client.read_dir("d").unwrap().collect();
        assert_eq!(listed.len(), 1);
        assert!(matches!(listed[0], Err(Error::Violation(_))));
    }
}

#[test]
fn a_listing_that_does_not_go_on_ends() {
    let client = Script::client(&options(), |server| {
        server.let_open();
        let mut entries = vec![0; 200];
        let dirent = Dirent {
            qid: Qid::default(),
            offset: 0,
            kind: 8,
            name: Str(b"again"),
        };
        let len = encode_dirent(&dirent, &mut entries).unwrap();
        let tag = server.next().tag;
        let data = Payload { len };
        server.reply(
            tag,
            &Reply::Readdir { entries: data },
            Dialect::Linux,
            &entries[..len],
        );
        server.ignore_all();
    });
    assert_eq!(
        client
            .read_dir("d")
            .unwrap()
            .take(3)
            .filter(Result::is_err)
            .count(),
        1
    );
}

#[test]
fn a_server_that_takes_too_long_is_told_so_and_goes_on() {
    let client = Script::client(&hasty(), |server| {
        server.let_open();
        let read = server.next();
        let flush = server.next();
        assert_eq!((read.kind, flush.kind), (116, 108));
        server.answer(flush.tag, &Reply::Flush {});
        let read = server.next();
        let flush = server.next();
        // Too late, but before the Rflush.
        data(server, read.tag, 5);
        server.answer(flush.tag, &Reply::Flush {});
        let read = server.next();
        data(server, read.tag, 6);
        server.ignore_all();
    });
    let file = client.open("f", OpenFlags::READ).unwrap();
    let mut buf = [0; 9];
    assert_eq!(file.read_at(&mut buf, 0), Err(Error::TimedOut(SHORT)));
    assert_eq!(file.read_at(&mut buf, 0), Ok(5));
    assert_eq!(file.read_at(&mut buf, 0), Ok(6));
}

#[test]
fn a_server_that_hangs_is_given_up() {
    let hang = |script: fn(&mut Script)| {
        let client = Script::client(&hasty(), move |server| {
            server.let_open();
            script(server);
            server.ignore_all();
        });
        let file = client.open("f", OpenFlags::READ).unwrap();
        file.read_at(&mut [0; 5000], 0).unwrap_err()
    };
    let cases: [fn(&mut Script); 3] = [
        // Silence.
        |_| {},
        // Half a header.
        |server| server.stream.write_all(&[11, 0]).unwrap(),
        // Half a payload.
        |server| {
            let [t0, t1] = server.next().tag.to_le_bytes();
            let message = [0, 1, 0, 0, 117, t0, t1, 245, 0, 0, 0, 9, 9, 9];
            server.stream.write_all(&message).unwrap();
        },
    ];
    std::thread::scope(|scope| {
        let waiting = cases.map(|script| scope.spawn(move || hang(script)));
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Error::Lost(Lost::Stalled));
        }
    });
}

#[test]
fn a_server_that_takes_nothing_in_is_given_up() {
    let client = Script::client(&hasty(), |server| {
        server.let_open();
        // Open until the client is gone, and nothing is read.
        let mut polled = [rustix::event::PollFd::new(
            &server.stream,
            rustix::event::PollFlags::empty(),
        )];
        rustix::event::poll(&mut polled, None).unwrap();
    });
    let file = client.open("f", OpenFlags::WRITE).unwrap();
    let error = file.write_at(&vec![0; 16 << 20], 0).unwrap_err();
    assert_eq!(error, Error::Lost(Lost::Stalled));
}

#[test]
fn everybody_who_waits_learns_that_the_server_is_gone() {
    let client = Script::client(&options(), |server| {
        server.let_open();
        for _ in 0..9 {
            server.next();
        }
    });
    let file = client.open("f", OpenFlags::READ).unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| file.read_at(&mut [0; 4096], 0)))
            .collect();
        let mut stream = file.reader(0);
        let error = stream.fill_buf().map(drop).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Err(Error::Lost(Lost::Closed)));
        }
    });
}

/// A server that cannot park locks is asked again, and one that can is waited for, until
/// the limit or until it is gone.
#[test]
fn who_waits_for_a_lock_learns_that_the_server_is_gone() {
    const BLOCKED: Reply<'_> = Reply::Lock { status: 1 };
    let (go, gone) = std::sync::mpsc::channel();
    let client = Script::client(&options(), move |server| {
        server.let_open();
        // Until the limit is over.
        let mut lock = server.next();
        while gone.try_recv().is_err() {
            server.answer(lock.tag, &BLOCKED);
            lock = server.next();
        }
        server.answer(lock.tag, &BLOCKED);
        assert_eq!(server.next().kind, 52);
    });
    let lock = Lock {
        style: LockStyle::Posix,
        kind: LockKind::Write,
        range: LockRange::ALL,
        pid: 1,
    };
    let file = client.open("f", OpenFlags::WRITE).unwrap();
    let limited = file.lock_within(b"me", &lock, Duration::from_millis(300));
    assert_eq!(limited.unwrap_err().errno(), Errno::EAGAIN);
    go.send(()).unwrap();
    let endless = file.lock(b"me", &lock);
    assert_eq!(endless, Err(Error::Lost(Lost::Closed)));
}

#[test]
fn a_server_that_speaks_something_else_is_said_to() {
    for (reply, expected) in [
        (
            &b"\x14\0\0\0\x65\xff\xff\0\x20\0\0\x07\0unknown"[..],
            "none of the dialects",
        ),
        (
            b"SSH-2.0-OpenSSH_9.2p1\r\n",
            "no 9P server answers there (it says \"SSH-2.0-OpenSSH_9.2p1\")",
        ),
        (
            b"\x16\x03\x01\0\x02\x02\x16\x03",
            "no 9P server answers there",
        ),
        (b"", "closed it"),
    ] {
        for end in [Shutdown::Write, Shutdown::Both] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&reply.repeat(4)).unwrap();
            theirs.shutdown(end).unwrap();
            let error = over(ours, &options()).map(drop).unwrap_err();
            assert!(error.to_string().contains(expected), "{end:?}: {error}");
        }
    }
}

/// A full disk takes in a part, and says why only when it is asked for more.
#[test]
fn what_a_server_took_in_a_part_of_is_asked_for_again() {
    const LEN: usize = 1000;
    let write = |by_stream: bool, rest: &'static [Result<u32, Errno>]| {
        let client = Script::client(&options(), move |server| {
            server.let_open();
            let mut at = 0;
            for answer in rest {
                let message = receive(&mut server.stream).unwrap();
                let (header, offset) = (Header::peek(&message).unwrap(), &message[11..19]);
                assert_eq!(offset, u64::to_le_bytes(at.into()));
                match *answer {
                    Ok(count) => server.answer(header.tag, &Reply::Write { count }),
                    Err(errno) => server.refuse(header.tag, errno),
                }
                at += answer.unwrap_or(0);
            }
            server.ignore_all();
        });
        let file = client.open("f", OpenFlags::WRITE).unwrap();
        if !by_stream {
            return file.write_all_at(&[7; LEN], 0);
        }
        let mut writer = file.writer(0);
        writer.write_all(&[7; LEN]).unwrap();
        writer.finish()
    };
    for by_stream in [false, true] {
        let full = write(by_stream, &[Ok(300), Err(Errno::ENOSPC)]);
        assert_eq!(full, Err(Error::Refused(Errno::ENOSPC)));
        assert_eq!(write(by_stream, &[Ok(300), Ok(600), Ok(100)]), Ok(()));
        let stuck = write(by_stream, &[Ok(300), Ok(0)]);
        assert_eq!(stuck, Err(Error::Refused(Errno::EIO)));
    }
}
