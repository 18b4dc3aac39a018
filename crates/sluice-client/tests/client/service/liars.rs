//! Servers that lie to a session.

use super::{At, BOTH, ROOT, ctx, hard, word};
use crate::server::{PATIENCE, Script, options};
use sluice_client::{
    ConnectOptions, Dialect, Persistence, RemoteService, ServiceOptions, Socket, Transport,
};
use sluice_proto::p9::wire::{
    Attr, GetattrMask, NOTAG, Payload, Qid, QidType, Qids, Reply, Str, Type,
};
use sluice_vfs::{AttrMask, Created, DirEntry, DirSink, DirWant, Errno, OpenFlags};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const FILE: Qid = Qid {
    kind: QidType::empty(),
    version: 0,
    path: 7,
};

/// A session on servers that follow `script` once they have told of their root,
/// which gets the number of the connection; and how many there were.
fn with(
    options: ServiceOptions,
    script: impl Fn(&mut Script, usize) + Send + Sync + 'static,
) -> (At, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let (script, counter) = (Arc::new(script), Arc::clone(&count));
    let connect = move || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let number = counter.fetch_add(1, Ordering::SeqCst);
        let script = Arc::clone(&script);
        thread::spawn(move || {
            let mut server = Script { stream: theirs };
            begin(&mut server, 1);
            script(&mut server, number);
        });
        Ok(Box::new(Socket::new(ours.into())?) as Box<dyn Transport>)
    };
    let connect_options = ConnectOptions {
        dialects: vec![Dialect::Linux],
        ..options.connect.clone()
    };
    let options = ServiceOptions {
        connect: connect_options,
        ..options
    };
    (At::of(RemoteService::over(connect, options)), count)
}

/// Until a session is attached to an export whose root has this number.
fn begin(server: &mut Script, path: u64) {
    let dialect = Dialect::Linux;
    server.next();
    let version = Reply::Version {
        msize: 1 << 16,
        version: Str(dialect.version()),
    };
    server.reply(NOTAG, &version, dialect, &[]);
    let tag = server.next().tag;
    let root = Qid {
        kind: QidType::DIR,
        version: 0,
        path,
    };
    server.answer(tag, &Reply::Attach { qid: root });
    let tag = server.next().tag;
    server.answer(tag, &attr(root, 0o040_755));
}

fn attr(qid: Qid, mode: u32) -> Reply<'static> {
    Reply::Getattr {
        attr: Attr {
            valid: GetattrMask::BASIC,
            qid,
            mode,
            nlink: 1,
            ..Attr::default()
        },
    }
}

/// Answers the messages of a creation.
fn let_create(server: &mut Script) {
    let (qid, iounit) = (FILE, 0);
    let found = [qid.to_bytes()];
    let replies = [
        Reply::Walk { qids: Qids(&[]) },
        Reply::Lcreate { qid, iounit },
        Reply::Walk { qids: Qids(&found) },
        attr(qid, 0o100_644),
    ];
    for reply in replies {
        let request = server.next();
        assert_eq!(request.kind, reply.kind() as u8);
        server.answer(request.tag, &reply);
    }
}

fn created(at: &At) -> Created {
    at.create(ROOT, "f", BOTH).unwrap()
}

#[test]
fn a_fid_that_is_another_file_now_is_stale() {
    let (at, _) = with(hard(options()), |server, _| {
        let_create(server);
        let tag = server.next().tag;
        let other = Qid { path: 8, ..FILE };
        server.answer(tag, &attr(other, 0o100_644));
        server.ignore_all();
    });
    let node = created(&at).entry.node;
    let stat = at.session.getattr(&ctx(), node, None, AttrMask::BASIC);
    assert_eq!(stat, Err(Errno::ESTALE));
}

#[test]
fn more_data_or_a_larger_count_than_was_asked_for_is_an_error() {
    let (at, count) = with(hard(options()), |server, _| {
        let_create(server);
        let tag = server.next().tag;
        let data = Payload { len: 11 };
        server.reply(tag, &Reply::Read { data }, Dialect::Linux, &[1; 11]);
        let tag = server.next().tag;
        server.answer(tag, &Reply::Write { count: 4 });
        server.ignore_all();
    });
    let file = created(&at);
    assert_eq!(at.read(&file, 0, 10), Err(Errno::EPROTO));
    assert_eq!(at.write(&file, 0, b"abc"), Err(Errno::EPROTO));
    assert_eq!(count.load(Ordering::SeqCst), 1, "the stream was not lost");
}

/// `ENOSYS` would have a kernel never ask again.
#[test]
fn numbers_that_mean_something_else_to_a_kernel_are_not_passed_on() {
    let (at, _) = with(hard(options()), |server, _| {
        let_create(server);
        for errno in [Errno::ENOSYS, Errno::from_raw(512), Errno::EDQUOT] {
            let tag = server.next().tag;
            server.refuse(tag, errno);
        }
        server.ignore_all();
    });
    let file = created(&at);
    for errno in [Errno::EOPNOTSUPP, Errno::EIO, Errno::EDQUOT] {
        assert_eq!(at.write(&file, 0, b"abc"), Err(errno));
    }
}

#[test]
fn a_server_that_answers_with_wrong_tags_each_time_is_given_up() {
    let (at, count) = with(hard(options()), |server, _| {
        if let Some(request) = server.next_or_end() {
            server.answer(request.tag + 77, &Reply::Clunk {});
        }
        server.ignore_all();
    });
    let found = at.session.lookup(&ctx(), ROOT, word("f"));
    assert_eq!(found, Err(Errno::EPROTO));
    assert!(
        count.load(Ordering::SeqCst) >= 3,
        "another connection was tried"
    );
}

#[test]
fn a_server_that_answers_wrong_once_costs_a_connection() {
    let (at, count) = with(hard(options()), |server, number| {
        while let Some(request) = server.next_or_end() {
            match number {
                0 => {
                    server.answer(request.tag + 77, &Reply::Clunk {});
                    return server.ignore_all();
                }
                _ => server.refuse(request.tag, Errno::EACCES),
            }
        }
    });
    let found = at.session.lookup(&ctx(), ROOT, word("f"));
    assert_eq!(found, Err(Errno::EACCES));
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_server_that_never_answers_is_an_error_in_the_end() {
    let hasty = ConnectOptions {
        time_limit: Some(Duration::from_millis(40)),
        ..options()
    };
    let soft = ServiceOptions {
        persistence: Persistence::Soft(PATIENCE),
        ..hard(hasty)
    };
    let (at, count) = with(soft, |server, _| server.ignore_all());
    let found = at.session.lookup(&ctx(), ROOT, word("f"));
    assert_eq!(found, Err(Errno::EIO));
    assert!(
        count.load(Ordering::SeqCst) >= 3,
        "another connection was tried"
    );
}

/// Another export in the place of the one that is known.
#[test]
fn files_of_another_export_are_not_taken_for_those_that_are_known() {
    let counter = AtomicUsize::new(0);
    let service = RemoteService::over(
        move || {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let number = counter.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let mut server = Script { stream: theirs };
                begin(&mut server, 1 + number as u64);
                match number {
                    0 => let_create(&mut server),
                    _ => server.ignore_all(),
                }
            });
            Ok(Box::new(Socket::new(ours.into())?) as Box<dyn Transport>)
        },
        ServiceOptions {
            connect: ConnectOptions {
                dialects: vec![Dialect::Linux],
                ..options()
            },
            ..hard(options())
        },
    );
    let at = At::of(service);
    let file = created(&at);
    assert_eq!(at.read(&file, 0, 10), Err(Errno::ESTALE));
}

/// Takes names, and how many have attributes.
#[derive(Default)]
struct Listed(Vec<(Vec<u8>, bool)>);

impl DirSink for Listed {
    fn fits(&self, _: usize) -> bool {
        true
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        self.0.push((entry.name.to_vec(), entry.entry.is_some()));
    }
}

#[test]
fn a_name_whose_attributes_are_refused_is_listed_without_them() {
    let (at, _) = with(hard(options()), |server, _| {
        let mut walks = 0;
        let mut listings = 0;
        while let Some(request) = server.next_or_end() {
            match Type::from_raw(request.kind).unwrap() {
                Type::Walk if walks == 0 => {
                    walks = 1;
                    server.answer(request.tag, &Reply::Walk { qids: Qids(&[]) });
                }
                Type::Lopen => {
                    let qid = Qid {
                        kind: QidType::DIR,
                        version: 0,
                        path: 1,
                    };
                    server.answer(request.tag, &Reply::Lopen { qid, iounit: 0 });
                }
                Type::Readdir => {
                    listings += 1;
                    let mut page = Vec::new();
                    if listings == 1 {
                        page.extend(FILE.to_bytes());
                        page.extend(1_u64.to_le_bytes());
                        page.extend([8, 1, 0, b'f']);
                    }
                    let data = Payload { len: page.len() };
                    let reply = Reply::Readdir { entries: data };
                    server.reply(request.tag, &reply, Dialect::Linux, &page);
                }
                // Nobody waits for the answer.
                Type::Clunk => {}
                _ => server.refuse(request.tag, Errno::EACCES),
            }
        }
    });
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let opened = at.session.open(&ctx(), ROOT, flags).unwrap();
    let mut listed = Listed::default();
    let want = DirWant::Entries(AttrMask::BASIC);
    let outcome = at
        .session
        .readdir(&ctx(), ROOT, Some(opened.handle), 0, want, &mut listed);
    outcome.unwrap();
    assert_eq!(listed.0, [(b"f".to_vec(), false)]);
}
