//! Servers that mean well and have less than 9P2000.L has, or another idea of it.

use crate::server::{Script, options, over};
use sluice_client::{Client, Dialect, Errno, OpenFlags};
use sluice_proto::p9::wire::*;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

/// What a client asked for.
type Asked = Arc<Mutex<Vec<Type>>>;

/// A client of a server that answers each kind of message as `answer` says; the
/// usual way where that returns false.
fn client_of(
    mut answer: impl FnMut(&mut Script, Header, Type) -> bool + Send + 'static,
) -> (Client, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let client = Script::client(&options(), move |server| {
        while let Some(header) = server.next_or_end() {
            let kind = Type::from_raw(header.kind).unwrap();
            noted.lock().unwrap().push(kind);
            if !answer(server, header, kind) {
                usual(server, header, kind);
            }
        }
    });
    (client, asked)
}

/// Everything is there and a file.
fn usual(server: &mut Script, header: Header, kind: Type) {
    let (tag, qids) = (header.tag, [Qid::default().to_bytes()]);
    // Without names, or with one.
    let count = usize::from(header.size > 17);
    let qid = Qid::default();
    let attr = Attr {
        mode: 0o100_644,
        ..Attr::default()
    };
    match kind {
        Type::Walk => {
            let qids = Qids(&qids[..count]);
            server.answer(tag, &Reply::Walk { qids });
        }
        Type::Getattr => server.answer(tag, &Reply::Getattr { attr }),
        Type::Lopen => server.answer(tag, &Reply::Lopen { qid, iounit: 0 }),
        Type::Clunk => server.answer(tag, &Reply::Clunk {}),
        Type::Remove => server.answer(tag, &Reply::Remove {}),
        Type::Rename => server.answer(tag, &Reply::Rename {}),
        other => panic!("an answer to {other:?}"),
    }
}

fn times(asked: &Asked, kind: Type) -> usize {
    asked
        .lock()
        .unwrap()
        .iter()
        .filter(|it| **it == kind)
        .count()
}

#[test]
fn a_server_without_the_messages_by_name_is_asked_by_fid() {
    for errno in [Errno::EOPNOTSUPP, Errno::ENOSYS] {
        let (client, asked) = client_of(move |server, header, kind| {
            let is_by_name = matches!(kind, Type::Unlinkat | Type::Renameat);
            if is_by_name {
                server.refuse(header.tag, errno);
            }
            is_by_name
        });
        client.remove_file("old").unwrap();
        assert_eq!(times(&asked, Type::Remove), 1, "{errno}");
        client.rename("old", "new").unwrap();
        assert_eq!(times(&asked, Type::Rename), 1, "{errno}");
    }
}

#[test]
fn a_server_that_makes_only_what_is_new_is_asked_to_open_the_rest() {
    let (client, asked) = client_of(|server, header, kind| {
        let is_create = kind == Type::Lcreate;
        if is_create {
            server.refuse(header.tag, Errno::EEXIST);
        }
        is_create
    });
    let flags = OpenFlags::WRITE | OpenFlags::TRUNCATE;
    client.create("there", flags, 0o644).unwrap();
    assert_eq!(times(&asked, Type::Lopen), 1);
    let only_new = client.create("there", flags | OpenFlags::EXCLUSIVE, 0o644);
    assert_eq!(only_new.map(drop).unwrap_err().errno(), Errno::EEXIST);
    assert_eq!(times(&asked, Type::Lopen), 1);
}

/// `EINVAL` for whatever is wrong, and a list that begins with no name.
#[test]
fn an_attribute_that_is_not_listed_is_none() {
    const LIST: &[u8] = b"\0user.bad\0";
    let (client, _) = client_of(|server, header, kind| {
        match kind {
            // No name is 8 bytes shorter than any of the names.
            Type::Xattrwalk if header.size > 17 => server.refuse(header.tag, Errno::EINVAL),
            Type::Xattrwalk => {
                let size = LIST.len() as u64;
                server.answer(header.tag, &Reply::Xattrwalk { size });
            }
            Type::Read => {
                let data = Payload { len: LIST.len() };
                server.reply(header.tag, &Reply::Read { data }, Dialect::Linux, LIST);
            }
            _ => return false,
        }
        true
    });
    let errno = |name: &str| client.xattr("f", name.as_bytes()).unwrap_err().errno();
    assert_eq!(errno("user.none"), Errno::ENODATA);
    assert_eq!(errno("user.bad"), Errno::EINVAL);
    assert_eq!(client.xattr_names("f"), Ok(vec![b"user.bad".to_vec()]));
}

/// How much of a file should be read at a time says nothing about listings.
#[test]
fn a_listing_is_not_asked_for_in_small_pieces() {
    let (client, _) = client_of(|server, header, kind| {
        let qid = Qid::default();
        match kind {
            Type::Lopen => server.answer(header.tag, &Reply::Lopen { qid, iounit: 4096 }),
            // More than that comes at once: this server forgets what does not fit.
            Type::Readdir => {
                let mut entries = vec![0; 8000];
                let mut len = 0;
                for offset in 1..=150 {
                    let dirent = Dirent {
                        qid,
                        offset,
                        kind: 8,
                        name: Str(b"a name of some length"),
                    };
                    len += encode_dirent(&dirent, &mut entries[len..]).unwrap();
                }
                server.reply(
                    header.tag,
                    &Reply::Readdir {
                        entries: Payload { len },
                    },
                    Dialect::Linux,
                    &entries[..len],
                );
            }
            _ => return false,
        }
        true
    });
    let entries = client.read_dir("d").unwrap().take(150);
    assert_eq!(entries.filter(Result::is_ok).count(), 150);
}

/// Some servers number a file anew when it is opened.
#[test]
fn a_file_with_another_number_when_it_is_open_is_not_opened_again() {
    let qid = Qid {
        path: 5,
        ..Qid::default()
    };
    let (client, asked) = client_of(move |server, header, kind| {
        if kind == Type::Lopen {
            server.answer(header.tag, &Reply::Lopen { qid, iounit: 0 });
        }
        kind == Type::Lopen
    });
    client.open("f", OpenFlags::READ).unwrap();
    assert_eq!(times(&asked, Type::Lopen), 1);
}

/// A server may run what it is asked side by side, and diod ends the connection that
/// asks two things about one fid at a time.
#[test]
fn nothing_is_asked_of_a_fid_before_it_is_made() {
    let (client, asked) = client_of(|server, header, kind| {
        if kind == Type::Walk {
            // Nothing comes before the answer.
            server.stream.set_nonblocking(true).unwrap();
            let peeked = server.stream.read(&mut [0; 1]).unwrap_err();
            assert_eq!(peeked.kind(), ErrorKind::WouldBlock);
            server.stream.set_nonblocking(false).unwrap();
            usual(server, header, kind);
        }
        kind == Type::Walk
    });
    client.metadata("f").unwrap();
    client.open("f", OpenFlags::READ).unwrap();
    assert_eq!(times(&asked, Type::Walk), 2);
}

#[test]
fn a_server_that_answers_an_offer_with_an_error_is_offered_less() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = thread::spawn(move || {
        let mut server = Script { stream: theirs };
        let tag = server.next().tag;
        server.refuse(tag, Errno::EIO);
        let tag = server.next().tag;
        let (msize, version) = (8192, Str(Dialect::Linux.version()));
        server.answer(tag, &Reply::Version { msize, version });
        let qid = Qid::default();
        let tag = server.next().tag;
        server.answer(tag, &Reply::Attach { qid });
        server.ignore_all();
    });
    let client = over(ours, &options()).unwrap();
    assert_eq!(client.dialect(), Dialect::Linux);
    drop(client);
    server.join().unwrap();
}
