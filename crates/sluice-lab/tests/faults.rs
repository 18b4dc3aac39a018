//! Services that go wrong, behind FUSE: errors reach whoever asked, and no one else.

use sluice_lab::conformance::Client;
use sluice_lab::faults::{FaultyService, Plan};
use sluice_lab::fuse_client::{FuseService, InProcessConnector};
use sluice_lab::model::ModelService;
use sluice_lab::raw_guest::Guest;
use sluice_proto::fuse::serve::{CacheMode, ServeOptions};
use sluice_proto::fuse::wire::{Operation, ReadIn};
use sluice_vfs::{
    Access, AccessChecks, DirWant, Errno, FallocateMode, FileType, LockKind, NodeId, OpenFlags,
    Result, SessionLimits, SetAttr, Whence,
};
use sluicefs::serve::Serving;
use std::sync::Arc;
use std::thread;

const ROOT: NodeId = NodeId::ROOT;

/// A client of a model behind FUSE bytes, where calls go wrong by plan.
fn faulty() -> (Client, Arc<Plan>) {
    let plan = Arc::new(Plan::default());
    let model = Arc::new(ModelService::default());
    let service = FaultyService::new(model, Arc::clone(&plan));
    let options = ServeOptions::new(CacheMode::Auto);
    let connector = InProcessConnector::new(Arc::new(service), options);
    let service = FuseService::new(connector);
    let limits = SessionLimits::default();
    let client = Client::attach(&service, AccessChecks::Peer, limits, true);
    (client, plan)
}

/// What an operation ends in.
fn outcome<T>(result: Result<T>) -> Result<()> {
    result.map(drop)
}

#[test]
fn every_error_reaches_whoever_asked() {
    let (c, plan) = faulty();
    let node = c.file(ROOT, "f", b"0123456789");
    let link = c.symlink(ROOT, "l", "target").unwrap().node;
    let file = c.open(node, OpenFlags::READ | OpenFlags::WRITE).unwrap();
    let dir = c.opendir(ROOT).unwrap();
    let size = SetAttr {
        size: Some(10),
        ..SetAttr::default()
    };
    let operations: &[(&str, &dyn Fn() -> Result<()>)] = &[
        ("lookup", &|| outcome(c.lookup(ROOT, "f"))),
        ("parent", &|| outcome(c.parent(ROOT))),
        ("remember", &|| outcome(c.remember(node))),
        ("getattr", &|| outcome(c.getattr(node))),
        ("setattr", &|| outcome(c.setattr(node, size))),
        ("access", &|| outcome(c.access(node, Access::READ))),
        ("readlink", &|| outcome(c.readlink(link))),
        ("statfs", &|| outcome(c.statfs(ROOT))),
        ("setxattr", &|| outcome(c.setxattr(node, "user.a", b"x"))),
        ("getxattr", &|| outcome(c.getxattr(node, "user.a"))),
        ("listxattr", &|| outcome(c.listxattr(node))),
        ("removexattr", &|| outcome(c.removexattr(node, "user.a"))),
        ("mkdir", &|| outcome(c.mkdir(ROOT, "d", 0o755))),
        ("mknod", &|| {
            outcome(c.mknod(ROOT, "p", FileType::Fifo, 0o600))
        }),
        ("symlink", &|| outcome(c.symlink(ROOT, "m", "x"))),
        ("link", &|| outcome(c.link(node, ROOT, "g"))),
        ("rename", &|| outcome(c.rename((ROOT, "g"), (ROOT, "h")))),
        ("unlink", &|| outcome(c.unlink(ROOT, "h"))),
        ("rmdir", &|| outcome(c.rmdir(ROOT, "d"))),
        ("open", &|| outcome(c.open(node, OpenFlags::READ))),
        ("create", &|| outcome(c.create(ROOT, "new", 0o644))),
        ("tmpfile", &|| {
            outcome(c.tmpfile(ROOT, OpenFlags::WRITE, 0o600))
        }),
        ("read", &|| outcome(c.read(file, 0, 10))),
        ("write", &|| outcome(c.write(file, 0, b"x"))),
        ("readdir", &|| outcome(c.list(dir, DirWant::Names))),
        ("fsync", &|| outcome(c.fsync(file, false))),
        ("syncfs", &|| c.session().syncfs(&c.ctx(), node)),
        ("fallocate", &|| {
            outcome(c.fallocate(file, FallocateMode::empty(), 0..20))
        }),
        ("lseek", &|| outcome(c.lseek(file, 0, Whence::Data))),
        ("copy_range", &|| {
            outcome(c.copy_range((file, 0), (file, 50), 5))
        }),
        ("getlk", &|| outcome(c.getlk(file, LockKind::Write, 0..10))),
        ("setlk", &|| c.lock(file, LockKind::Write, 0..10)),
        ("flush", &|| c.flush(file)),
    ];
    for (name, operation) in operations {
        for errno in [Errno::EIO, Errno::ENOSPC, Errno::EDQUOT] {
            plan.fail(name, 0, 1, errno);
            assert_eq!(operation(), Err(errno), "{name}");
            assert_eq!(plan.pending(), 0, "{name} was asked");
        }
        assert_eq!(operation(), Ok(()), "{name} goes well again");
    }
}

#[test]
fn a_handle_is_gone_even_if_closing_it_fails() {
    let (c, plan) = faulty();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    plan.fail("flush", 0, 1, Errno::EIO);
    assert_eq!(c.flush(file), Err(Errno::EIO));
    assert_eq!(c.flush(file), Ok(()), "an error is reported once");
    c.close(file).unwrap();
    assert_eq!(c.read(file, 0, 1), Err(Errno::EBADF));
}

#[test]
fn what_was_written_before_space_ran_out_stays() {
    let (c, plan) = faulty();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    plan.fail("write", 2, 1, Errno::ENOSPC);
    let outcomes: Vec<_> = (0..4)
        .map(|at| c.write(file, at, &[b'0' + at as u8]))
        .collect();
    assert_eq!(outcomes, [Ok(1), Ok(1), Err(Errno::ENOSPC), Ok(1)]);
    assert_eq!(c.content(file.node), b"01\x003");
}

#[test]
fn a_large_write_that_fails_half_way_is_short() {
    let (c, plan) = faulty();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    plan.fail("write", 1, 1, Errno::ENOSPC);
    // Two messages: the second fails.
    let bytes = vec![7; (1 << 20) + 5];
    assert_eq!(c.write(file, 0, &bytes), Ok(1 << 20));
    assert_eq!(c.getattr(file.node).unwrap().size, 1 << 20);
}

#[test]
fn a_stalled_call_holds_nobody_else_up() {
    let (c, plan) = faulty();
    let node = c.file(ROOT, "f", b"content");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let gate = plan.stall("read");
    thread::scope(|scope| {
        let stalled = scope.spawn(|| c.read(file, 0, 10));
        gate.wait_until_reached();
        assert_eq!(c.read(file, 0, 3).unwrap(), b"con");
        assert_eq!(c.getattr(node).unwrap().size, 7);
        c.file(ROOT, "g", b"");
        assert!(!stalled.is_finished());
        gate.open();
        assert_eq!(stalled.join().unwrap().unwrap(), b"content");
    });
}

#[test]
fn stalled_calls_hold_nobody_up_on_the_same_ring() {
    let plan = Arc::new(Plan::default());
    let model = Arc::new(ModelService::default());
    let service = FaultyService::new(model, Arc::clone(&plan));
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let options = ServeOptions::new(CacheMode::Auto);
    let tag = "test".parse().unwrap();
    let _serving = Serving::start(Arc::new(service), &socket, &tag, options).unwrap();
    let mut guest = Guest::mounted(&socket);
    let file = guest.create(ROOT.0, b"f").unwrap();
    guest.write(file, 0, b"content").unwrap();
    let read = Operation::Read {
        args: ReadIn {
            fh: file.fh,
            size: 10,
            ..ReadIn::default()
        },
    };
    let stalled: Vec<_> = (0..5)
        .map(|_| {
            let gate = plan.stall("read");
            guest.send(file.node, &read, &[]);
            gate.wait_until_reached();
            assert_eq!(guest.read(file, 0, 3).unwrap(), b"con");
            guest.getattr(file.node).unwrap();
            gate
        })
        .collect();
    assert_eq!(guest.requests.in_flight(), stalled.len());
    for gate in stalled {
        gate.open();
        let done = guest.requests.wait().unwrap();
        assert_eq!(guest.errno(&done), 0);
        assert!(guest.requests.reply(&done).ends_with(b"content"));
    }
}

#[test]
fn a_listing_that_fails_half_way_goes_on_from_its_cookie() {
    let (c, plan) = faulty();
    for index in 0..300 {
        c.file(ROOT, &format!("f{index}"), b"");
    }
    let dir = c.opendir(ROOT).unwrap();
    let first = c.readdir(dir, 0, DirWant::Names, 50).unwrap();
    plan.fail("readdir", 0, 1, Errno::EIO);
    let cookie = first.last().unwrap().next_cookie;
    assert_eq!(c.list_from(dir, cookie, DirWant::Names), Err(Errno::EIO));
    let rest = c.list_from(dir, cookie, DirWant::Names).unwrap();
    assert_eq!(first.len() + rest.len(), 302);
}
