//! `serve` behind rings that a driver in this process fills: what a guest does,
//! and what a broken or hostile one does.

use sluice_lab::raw_guest::{Guest, HEADER_LEN, OpenFile, ROOM, ROOT, write};
use sluice_proto::fuse::serve::ServeOptions;
use sluice_proto::fuse::wire::{
    BatchForgetIn, CBytes, Counted, Direntpluses, FileLock, ForgetIn, ForgetOne, InHeader, LkFlags,
    LkIn, Operation, ReadIn, Reply,
};
use sluice_vfs::{AttachOptions, Attached, Errno, FileService};
use sluice_virtio::driver::{Driver, Options};
use sluicefs::serve::{Serving, Tag};
use sluicefs::share::{self, SharePolicy};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use zerocopy::IntoBytes;

/// A directory behind a socket.
struct Share {
    _serving: Serving,
    dir: TempDir,
    root: PathBuf,
    socket: PathBuf,
}

fn share() -> Share {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let policy = SharePolicy::default();
    let service = share::open(&root, &policy).unwrap();
    let socket = dir.path().join("socket");
    let serving = serve(service, &socket, policy.fuse_options());
    Share {
        _serving: serving,
        dir,
        root,
        socket,
    }
}

fn serve(
    service: Arc<dyn FileService>,
    socket: &std::path::Path,
    options: ServeOptions,
) -> Serving {
    let tag: Tag = "test".parse().unwrap();
    Serving::start(service, socket, &tag, options).unwrap()
}

#[test]
fn the_configuration_names_tag_and_queues_in_pieces_too() {
    let share = share();
    let driver = Driver::connect(&share.socket, Options::default()).unwrap();
    let whole = driver.config(0, 40).unwrap().unwrap();
    assert_eq!(&whole[..5], b"test\0");
    let queues = u32::from_le_bytes(whole[36..40].try_into().unwrap());
    assert!((1..=8).contains(&queues), "{queues}");
    // As user-mode Linux reads it.
    for (offset, byte) in whole.iter().enumerate() {
        assert_eq!(driver.config(offset as u32, 1).unwrap().unwrap(), [*byte]);
    }
}

#[test]
fn files_are_made_written_read_and_listed() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    fs::write(share.root.join("host"), "from the host").unwrap();
    let node = guest.lookup(ROOT, b"host").unwrap();
    assert_eq!(guest.getattr(node), Ok(13));
    assert_eq!(
        guest.lookup(ROOT, b"missing").map(|node| node != 0),
        Ok(false)
    );

    let file = guest.create(ROOT, b"file").unwrap();
    let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    assert_eq!(guest.write(file, 7, &data), Ok(200_000));
    assert_eq!(&fs::read(share.root.join("file")).unwrap()[7..], data);
    assert_eq!(guest.read(file, 7, 200_000).unwrap(), data);
    assert_eq!(guest.read(file, 200_000, 4096).unwrap(), data[199_993..]);
    assert_eq!(guest.read(file, 1 << 40, 4096).unwrap(), b"");

    let open = Operation::Opendir {
        args: Default::default(),
    };
    let fh = guest.ask(ROOT, &open, &[], |reply| match reply {
        Reply::Opendir { open } => open.fh,
        other => panic!("{other:?}"),
    });
    let args = ReadIn {
        fh: fh.unwrap(),
        size: 4096,
        ..ReadIn::default()
    };
    let entries = guest
        .call(ROOT, &Operation::Readdirplus { args }, &[])
        .unwrap();
    let mut names: Vec<_> = Direntpluses(&entries)
        .map(|record| record.unwrap().name.to_vec())
        .collect();
    names.sort();
    assert_eq!(names, [&b"."[..], b"..", b"file", b"host"]);
}

#[test]
fn forgetting_has_no_reply_and_the_root_stays() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    fs::write(share.root.join("a"), "").unwrap();
    let node = guest.lookup(ROOT, b"a").unwrap();
    let all = u64::MAX;
    let some = [
        ForgetOne {
            nodeid: ROOT,
            nlookup: all,
        },
        ForgetOne {
            nodeid: 77,
            nlookup: 1,
        },
    ];
    for (nodeid, operation) in [
        (
            node,
            Operation::Forget {
                args: ForgetIn { nlookup: 1 },
            },
        ),
        (
            ROOT,
            Operation::Forget {
                args: ForgetIn { nlookup: all },
            },
        ),
        (
            0,
            Operation::BatchForget {
                nodes: Counted::<BatchForgetIn, _>::new(&some),
            },
        ),
    ] {
        let (_, bytes) = guest.encode(nodeid, &operation);
        let completion = guest.hiprio.roundtrip(&[&bytes], &[]).unwrap();
        assert_eq!(completion.written, 0);
    }
    assert_eq!(guest.getattr(node), Err(Errno::ESTALE));
    assert!(guest.getattr(ROOT).is_ok());
}

/// Each gets an errno or no reply; afterwards the same connection works on.
#[test]
fn malformed_requests_are_answered_and_survived() {
    let share = share();
    fs::write(share.dir.path().join("outside"), "untouched").unwrap();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"file").unwrap();
    guest.write(file, 0, b"content").unwrap();

    let reply_room = [HEADER_LEN, ROOM];
    let mut check = |what: &str, readable: &[&[u8]], writable: &[u32], expected: Option<Errno>| {
        let completion = guest.requests.roundtrip(readable, writable).unwrap();
        match expected {
            Some(errno) => assert_eq!(guest.errno(&completion), errno.raw(), "{what}"),
            None => assert_eq!(completion.written, 0, "{what}"),
        }
        assert_eq!(
            guest.read(file, 0, 100).unwrap(),
            b"content",
            "after {what}"
        );
    };

    let lookup = |name: &[u8]| raw(1, ROOT, name);
    let longer = with_len(lookup(b"file\0"), 400);
    let shorter = with_len(lookup(b"file\0"), 42);
    let unterminated = lookup(b"file");
    check(
        "a length beyond the chain",
        &[&longer],
        &reply_room,
        Some(Errno::EINVAL),
    );
    check(
        "a length short of the chain",
        &[&shorter],
        &reply_room,
        Some(Errno::EINVAL),
    );
    check(
        "a name without end",
        &[&unterminated],
        &reply_room,
        Some(Errno::EINVAL),
    );
    for name in [&b"\0"[..], b"../outside\0", b"a/b\0", b"/\0", b"a\0b\0"] {
        let what = format!("LOOKUP {}", name.escape_ascii());
        check(&what, &[&lookup(name)], &reply_room, Some(Errno::EINVAL));
    }
    for (opcode, name) in [(10, &b"../outside\0"[..]), (11, b"..\0"), (10, b"\0")] {
        let what = format!("opcode {opcode} {}", name.escape_ascii());
        check(
            &what,
            &[&raw(opcode, ROOT, name)],
            &reply_room,
            Some(Errno::EINVAL),
        );
    }
    let mkdir = [&0o777u32.to_ne_bytes()[..], &[0; 4], b"../x\0"].concat();
    check(
        "MKDIR ../x",
        &[&raw(9, ROOT, &mkdir)],
        &reply_room,
        Some(Errno::EINVAL),
    );
    let long_name = [&[b'n'; 256][..], b"\0"].concat();
    check(
        "a long name",
        &[&lookup(&long_name)],
        &reply_room,
        Some(Errno::ENAMETOOLONG),
    );

    check(
        "an unknown opcode",
        &[&raw(4000, ROOT, b"")],
        &reply_room,
        Some(Errno::ENOSYS),
    );
    check("a header cut short", &[&[0; 39]], &reply_room, None);
    check("no request at all", &[], &reply_room, None);
    check("no room for a reply", &[&lookup(b"file\0")], &[], None);
    check("a reply of 8 bytes", &[&lookup(b"file\0")], &[8], None);
    check(
        "a reply of a header",
        &[&lookup(b"file\0")],
        &[HEADER_LEN],
        Some(Errno::EINVAL),
    );

    let getattr = raw(3, 0xdead_beef, &[0; 16]);
    check(
        "an unknown node",
        &[&getattr],
        &reply_room,
        Some(Errno::ESTALE),
    );
    let nobody = OpenFile { fh: 0xdead, ..file };
    let read = |file: OpenFile, offset: u64, size: u32| {
        let args = ReadIn {
            fh: file.fh,
            offset,
            size,
            ..ReadIn::default()
        };
        raw(15, file.node, args.as_bytes())
    };
    check(
        "an unknown handle",
        &[&read(nobody, 0, 10)],
        &reply_room,
        Some(Errno::EBADF),
    );
    check(
        "READ of 4 GiB",
        &[&read(file, 0, u32::MAX)],
        &reply_room,
        Some(Errno::EINVAL),
    );
    check(
        "READ at 2^63",
        &[&read(file, 1 << 63, 10)],
        &reply_room,
        Some(Errno::EINVAL),
    );
    let beyond = raw_write(file, 1 << 63, 4, b"data");
    check(
        "WRITE at 2^63",
        &[&beyond],
        &reply_room,
        Some(Errno::EINVAL),
    );
    let liar = raw_write(file, 0, 4_000_000, b"data");
    check(
        "WRITE of more than it brings",
        &[&liar],
        &reply_room,
        Some(Errno::EINVAL),
    );
    let huge_count = raw(
        42,
        0,
        BatchForgetIn {
            count: u32::MAX,
            dummy: 0,
        }
        .as_bytes(),
    );
    check("BATCH_FORGET of 2^32", &[&huge_count], &[], None);

    assert_eq!(
        fs::read(share.dir.path().join("outside")).unwrap(),
        b"untouched"
    );
    assert_eq!(
        fs::read_dir(share.dir.path()).unwrap().count(),
        3,
        "root, socket, outside"
    );
}

/// A request by hand, its length as it should be.
fn raw(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32,
        opcode,
        unique: 99,
        nodeid: node,
        ..InHeader::default()
    };
    [header.as_bytes(), body].concat()
}

fn with_len(mut request: Vec<u8>, len: u32) -> Vec<u8> {
    request[..4].copy_from_slice(&len.to_ne_bytes());
    request
}

fn raw_write(file: OpenFile, offset: u64, stated: u32, data: &[u8]) -> Vec<u8> {
    let Operation::Write { mut args, .. } = write(file, offset, data) else {
        unreachable!("write() makes writes");
    };
    args.size = stated;
    raw(16, file.node, &[args.as_bytes(), data].concat())
}

#[test]
fn nothing_but_init_is_answered_before_init() {
    let share = share();
    let mut guest = Guest::connect(&share.socket);
    assert_eq!(guest.getattr(ROOT), Err(Errno::ENOTCONN));
    assert_eq!(guest.lookup(ROOT, b"x"), Err(Errno::ENOTCONN));
    guest.init().unwrap();
    assert!(guest.getattr(ROOT).is_ok());
    guest.call(0, &Operation::Destroy {}, &[]).unwrap();
    assert_eq!(guest.getattr(ROOT), Err(Errno::ENOTCONN));
    guest.init().unwrap();
    assert!(guest.getattr(ROOT).is_ok());
}

/// A remount sends INIT on running rings (a reboot too, without a disconnect).
#[test]
fn a_new_init_starts_with_nothing_of_the_old_session() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"file").unwrap();
    guest.write(file, 0, b"content").unwrap();
    guest.init().unwrap();
    assert_eq!(guest.read(file, 0, 10), Err(Errno::EBADF));
    assert_eq!(guest.getattr(file.node), Err(Errno::ESTALE));
    let node = guest.lookup(ROOT, b"file").unwrap();
    assert_eq!(guest.getattr(node), Ok(7));
}

#[test]
fn rings_stop_and_start_again_within_a_session() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"file").unwrap();
    guest.write(file, 0, b"content").unwrap();
    for _ in 0..3 {
        let base = guest.driver.stop(1).unwrap();
        guest.driver.start(&guest.requests, base).unwrap();
        // A pause of the machine is not the end of what it holds.
        assert_eq!(guest.read(file, 0, 10).unwrap(), b"content");
    }
}

#[test]
fn clients_come_one_after_the_other() {
    let share = share();
    for round in 0..5u8 {
        let mut guest = Guest::mounted(&share.socket);
        let name = [b'f', b'0' + round];
        let file = guest.create(ROOT, &name).unwrap();
        guest.write(file, 0, &[round]).unwrap();
        for earlier in 0..round {
            let node = guest.lookup(ROOT, &[b'f', b'0' + earlier]).unwrap();
            assert_eq!(guest.getattr(node), Ok(1));
        }
    }
}

/// What was acknowledged is in the file, however the client ends.
#[test]
fn a_client_killed_in_the_middle_of_writes_loses_nothing_acknowledged() {
    const BLOCK: usize = 4096;
    let share = share();
    let mut acknowledged = 0u64;
    for _ in 0..5 {
        let mut guest = Guest::mounted(&share.socket);
        let name = b"file";
        let file = match guest.create(ROOT, name) {
            Ok(file) => file,
            Err(error) => panic!("{error}"),
        };
        for _ in 0..50 {
            let data = [acknowledged as u8; BLOCK];
            assert_eq!(
                guest.write(file, acknowledged * BLOCK as u64, &data),
                Ok(BLOCK as u32)
            );
            acknowledged += 1;
        }
        // More are under way when it goes.
        for ahead in 0..8 {
            let data = [0xff; BLOCK];
            guest.send(
                file.node,
                &write(file, (acknowledged + ahead) * BLOCK as u64, &data),
                &data,
            );
        }
        drop(guest);
    }
    let file = fs::File::open(share.root.join("file")).unwrap();
    let mut block = [0; BLOCK];
    for index in 0..acknowledged {
        file.read_exact_at(&mut block, index * BLOCK as u64)
            .unwrap();
        assert!(block == [index as u8; BLOCK], "block {index}");
    }
}

fn flock_in_guest(file: OpenFile, kind: u32, waits: bool) -> Operation<'static> {
    let args = LkIn {
        fh: file.fh,
        owner: 5,
        lk: FileLock {
            start: 0,
            end: u64::MAX,
            kind,
            pid: 0,
        },
        lk_flags: LkFlags::FLOCK,
        ..LkIn::default()
    };
    match waits {
        true => Operation::Setlkw { args },
        false => Operation::Setlk { args },
    }
}

#[test]
fn a_waiting_lock_holds_up_nobody_and_is_granted_when_the_host_lets_go() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"lock").unwrap();
    let on_host = fs::File::open(share.root.join("lock")).unwrap();
    on_host.lock().unwrap();
    let exclusive = flock_in_guest(file, FileLock::WRITE, false);
    assert_eq!(guest.call(file.node, &exclusive, &[]), Err(Errno::EAGAIN));

    let waits = flock_in_guest(file, FileLock::WRITE, true);
    let waiting = guest.send(file.node, &waits, &[]);
    // The same ring goes on meanwhile.
    assert_eq!(guest.write(file, 0, b"meanwhile"), Ok(9));
    assert_eq!(guest.requests.in_flight(), 1);
    on_host.unlock().unwrap();
    let completion = guest.requests.wait().unwrap();
    assert_eq!(completion.token, waiting);
    assert_eq!(guest.errno(&completion), 0);
    assert!(on_host.try_lock().is_err(), "the guest holds it now");
}

#[test]
fn a_ring_stops_although_a_lock_waits_on_it() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"lock").unwrap();
    let on_host = fs::File::open(share.root.join("lock")).unwrap();
    on_host.lock().unwrap();
    let waiting = guest.send(file.node, &flock_in_guest(file, FileLock::WRITE, true), &[]);
    // Its turn has come when a later request is answered.
    guest.getattr(ROOT).unwrap();

    let base = guest.driver.stop(1).unwrap();
    let completion = guest.requests.wait().unwrap();
    assert_eq!(completion.token, waiting);
    assert_eq!(guest.errno(&completion), Errno::EINTR.raw());
    guest.driver.start(&guest.requests, base).unwrap();

    on_host.unlock().unwrap();
    on_host.try_lock().expect("nobody waits for it any more");
}

#[test]
fn a_client_that_goes_gives_its_locks_back() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"lock").unwrap();
    let on_host = fs::File::open(share.root.join("lock")).unwrap();
    guest
        .call(
            file.node,
            &flock_in_guest(file, FileLock::WRITE, false),
            &[],
        )
        .unwrap();
    assert!(on_host.try_lock().is_err());
    drop(guest);
    // Held for as long as it takes the server to notice.
    on_host.lock().unwrap();

    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"lock").unwrap();
    let waits = flock_in_guest(file, FileLock::WRITE, true);
    guest.send(file.node, &waits, &[]);
    guest.getattr(ROOT).unwrap();
    drop(guest);
    on_host.unlock().unwrap();
    // The next client is served, so the waiting one is gone with what it waited for.
    let mut guest = Guest::mounted(&share.socket);
    assert!(guest.lookup(ROOT, b"lock").is_ok());
    on_host.try_lock().expect("nobody holds it");
}

#[test]
fn the_server_ends_with_a_client_connected_and_takes_its_socket_along() {
    let share = share();
    let mut guest = Guest::mounted(&share.socket);
    let file = guest.create(ROOT, b"lock").unwrap();
    let on_host = fs::File::open(share.root.join("lock")).unwrap();
    on_host.lock().unwrap();
    guest.send(file.node, &flock_in_guest(file, FileLock::WRITE, true), &[]);
    guest.getattr(ROOT).unwrap();
    let Share {
        _serving,
        socket,
        dir,
        ..
    } = share;
    drop(_serving);
    assert!(!socket.exists());
    drop(dir);
}

struct Panics;

impl FileService for Panics {
    fn attach(&self, _: AttachOptions<'_>) -> sluice_vfs::Result<Attached> {
        panic!("as a test of what a bug does");
    }
}

#[test]
fn a_bug_costs_the_request_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let _serving = serve(Arc::new(Panics), &socket, ServeOptions::default());
    let mut guest = Guest::connect(&socket);
    for _ in 0..3 {
        assert_eq!(guest.init(), Err(Errno::EIO));
        let name = CBytes(b"x");
        assert_eq!(
            guest.call(ROOT, &Operation::Lookup { name }, &[]),
            Err(Errno::ENOTCONN)
        );
    }
}
