//! 9P2000.L.sluice: messages that do what takes several elsewhere.

use crate::harness::{Conn, decoded, export, model};
use sluice_lab::faults::{FaultyService, Plan};
use sluice_proto::p9::wire::*;
use sluice_vfs::Errno;
use std::sync::Arc;

const S: Dialect = Dialect::Sluice;

/// A tree with `d/f`, whose content is `abc`.
fn conn() -> Conn {
    let conn = Conn::new(S);
    conn.mkdir(0, "d");
    conn.walk(0, 1, &["d"]).unwrap();
    conn.walk(1, 2, &[]).unwrap();
    conn.lcreate_in(2, "f", b"abc");
    conn.clunk(1).unwrap();
    conn.clunk(2).unwrap();
    conn
}

struct Found {
    attr: Attr,
    qids: Vec<Qid>,
}

impl Conn {
    fn lcreate_in(&self, fid: u32, name: &str, content: &[u8]) {
        let made = self.call(&Request::Lcreate {
            fid,
            name: Str(name.as_bytes()),
            flags: LopenFlags::RDWR,
            mode: 0o644,
            gid: 0,
        });
        made.unwrap();
        assert_eq!(self.write(fid, 0, content), Ok(content.len() as u32));
    }

    fn ask(
        &self,
        names: &[&str],
        request: impl for<'n> FnOnce(Names<'n>) -> Request<'n>,
    ) -> Result<Found, Errno> {
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let mut room = [0; 8192];
        let names = Names::new(&names, &mut room).unwrap();
        let answer = self.call(&request(names))?;
        match answer.get() {
            Reply::OpenAt { attr, qids, .. }
            | Reply::CreateAt { attr, qids, .. }
            | Reply::StatAt { attr, qids } => Ok(Found {
                attr,
                qids: qids.iter().collect(),
            }),
            other => panic!("{other:?} answers"),
        }
    }

    fn open_at(&self, fids: (u32, u32), names: &[&str], flags: LopenFlags) -> Result<Found, Errno> {
        let (fid, newfid) = fids;
        self.ask(names, |names| Request::OpenAt {
            fid,
            newfid,
            flags,
            names,
        })
    }

    fn create_at(
        &self,
        fids: (u32, u32),
        names: &[&str],
        flags: LopenFlags,
    ) -> Result<Found, Errno> {
        let (fid, newfid) = fids;
        let (mode, gid) = (0o100_640, 7);
        self.ask(names, |names| Request::CreateAt {
            fid,
            newfid,
            flags,
            mode,
            gid,
            names,
        })
    }

    fn stat_at(&self, fids: (u32, u32), names: &[&str]) -> Result<Found, Errno> {
        let (fid, newfid) = fids;
        self.ask(names, |names| Request::StatAt { fid, newfid, names })
    }
}

const READ: LopenFlags = LopenFlags::empty();

#[test]
fn a_file_is_found_opened_and_looked_at_by_one_message() {
    let conn = conn();
    let found = conn.open_at((0, 1), &["d", "f"], READ).unwrap();
    assert_eq!((found.attr.size, found.attr.mode), (3, 0o100_644));
    assert_eq!(found.qids.len(), 2);
    assert_eq!(found.qids[1], found.attr.qid);
    // It is as if the usual messages had been sent.
    assert_eq!(conn.getattr(1), Ok(found.attr));
    assert_eq!(conn.read(1, 0, 9), Ok(b"abc".to_vec()));
    assert_eq!(conn.walk(0, 2, &["d", "f"]), Ok(found.qids));
    // By a fid, which stays what it is.
    conn.open_at((2, 3), &[], LopenFlags::RDWR | LopenFlags::TRUNC)
        .unwrap();
    assert_eq!(conn.getattr(2).unwrap().size, 0);
    assert_eq!(conn.read(2, 0, 9), Err(Errno::EBADF));
    assert_eq!(conn.write(3, 0, b"xy"), Ok(2));
    // A directory, and its entries.
    conn.open_at((0, 4), &["d"], READ).unwrap();
    let (offset, count) = (0, 4096);
    let listed = conn
        .call(&Request::Readdir {
            fid: 4,
            offset,
            count,
        })
        .unwrap();
    assert_eq!(Dirents(listed.data()).count(), 3);
}

#[test]
fn a_file_is_found_and_opened_by_one_call_of_the_service() {
    let plan = Arc::<Plan>::default();
    let service = Arc::new(FaultyService::new(model(), Arc::clone(&plan)));
    let conn = Conn::over(service, S, |_| {});
    conn.lcreate(1, "f", b"abc");
    conn.mkdir(0, "d");
    for operation in ["lookup", "open", "getattr"] {
        plan.fail(operation, 0, 1, Errno::EIO);
    }
    let flags = LopenFlags::RDWR | LopenFlags::TRUNC;
    assert_eq!(conn.open_at((0, 2), &["f"], flags).unwrap().attr.size, 0);
    conn.open_at((0, 3), &["d"], LopenFlags::empty()).unwrap();
    assert_eq!(plan.pending(), 3, "none of them was asked for");
}

#[test]
fn what_is_truncated_is_told_as_it_is_then() {
    let conn = conn();
    let flags = LopenFlags::WRONLY | LopenFlags::TRUNC;
    assert_eq!(
        conn.open_at((0, 1), &["d", "f"], flags).unwrap().attr.size,
        0
    );
    conn.write(1, 0, b"12345").unwrap();
    assert_eq!(
        conn.create_at((0, 2), &["d", "f"], flags)
            .unwrap()
            .attr
            .size,
        0
    );
}

#[test]
fn a_file_is_made_opened_and_looked_at_by_one_message() {
    for service in [model(), export(&tempfile::tempdir().unwrap())] {
        let conn = Conn::over(service, S, |_| {});
        let flags = LopenFlags::RDWR | LopenFlags::EXCL;
        conn.mkdir(0, "d");
        let made = conn.create_at((0, 1), &["d", "new"], flags).unwrap();
        assert_eq!((made.attr.size, made.attr.mode), (0, 0o100_640));
        assert_eq!((made.qids.len(), made.qids[1]), (2, made.attr.qid));
        assert_eq!(conn.write(1, 0, b"abc"), Ok(3));
        assert_eq!(
            conn.stat_at((0, NOFID), &["d", "new"]).unwrap().attr.size,
            3
        );
        let again = conn.create_at((0, 2), &["d", "new"], flags);
        assert_eq!(again.map(drop), Err(Errno::EEXIST));
        let found = conn
            .create_at((0, 2), &["d", "new"], LopenFlags::RDWR)
            .unwrap();
        assert_eq!((found.attr.size, found.attr.qid), (3, made.attr.qid));
        let nameless = conn.create_at((0, 3), &[], LopenFlags::RDWR);
        assert_eq!(nameless.map(drop), Err(Errno::EINVAL));
    }
}

#[test]
fn attributes_need_no_fid() {
    let conn = conn();
    let found = conn.stat_at((0, NOFID), &["d", "f"]).unwrap();
    assert_eq!((found.attr.size, found.qids.len()), (3, 2));
    assert_eq!(
        conn.stat_at((0, NOFID), &[]).unwrap().attr.qid.kind,
        QidType::DIR
    );
    assert_eq!(conn.clunk(NOFID), Err(Errno::EBADF));
    // With one, it is as a walk.
    conn.stat_at((0, 5), &["d"]).unwrap();
    assert_eq!(conn.stat_at((5, NOFID), &["f"]).unwrap().attr, found.attr);
    // Of an open file, whatever became of its name.
    conn.open_at((0, 6), &["d", "f"], LopenFlags::RDWR).unwrap();
    let (dfid, name, flags) = (5, Str(b"f"), 0);
    conn.call(&Request::Unlinkat { dfid, name, flags }).unwrap();
    assert_eq!(conn.stat_at((6, NOFID), &[]).unwrap().attr.size, 3);
}

#[test]
fn it_is_all_or_nothing() {
    let conn = conn();
    let link = Request::Symlink {
        fid: 0,
        name: Str(b"link"),
        target: Str(b"d"),
        gid: 0,
    };
    conn.call(&link).unwrap();
    for (names, errno) in [
        (&["d", "missing"][..], Errno::ENOENT),
        (&["missing", "f"], Errno::ENOENT),
        (&["d", "f", "x"], Errno::ENOTDIR),
        (&["link", "f"], Errno::ENOTDIR),
        (&["d", "a/b"], Errno::EINVAL),
        (&["d", ""], Errno::EINVAL),
    ] {
        let opened = conn.open_at((0, 1), names, READ).map(drop);
        assert_eq!(opened, Err(errno), "{names:?}");
        assert_eq!(
            conn.stat_at((0, 1), names).map(drop),
            Err(errno),
            "{names:?}"
        );
        assert_eq!(
            conn.clunk(1),
            Err(Errno::EBADF),
            "{names:?}: a fid was made"
        );
    }
    for names in [
        &["missing", "new"][..],
        &["d", "f", "new"],
        &["link", "new"],
        &["d", ".."],
    ] {
        assert!(conn.create_at((0, 1), names, READ).is_err(), "{names:?}");
        assert_eq!(
            conn.clunk(1),
            Err(Errno::EBADF),
            "{names:?}: a fid was made"
        );
    }
    assert_eq!(
        conn.open_at((0, 1), &["link"], READ).map(drop),
        Err(Errno::ELOOP)
    );
    assert_eq!(
        conn.stat_at((0, NOFID), &["link"]).unwrap().attr.mode,
        0o120_777
    );
    let write = conn.open_at((0, 1), &["d"], LopenFlags::RDWR);
    assert_eq!(write.map(drop), Err(Errno::EISDIR));
    let above = conn.stat_at((0, NOFID), &["..", "d", "..", ".."]).unwrap();
    assert_eq!(above.attr.qid, conn.getattr(0).unwrap().qid);
}

#[test]
fn fids_are_the_clients_to_choose_and_not_twice() {
    let conn = conn();
    conn.open_at((0, 1), &["d", "f"], READ).unwrap();
    for fids in [(0, 1), (1, 1), (0, 0), (77, 2)] {
        assert_eq!(conn.open_at(fids, &[], READ).map(drop), Err(Errno::EBADF));
        assert_eq!(
            conn.create_at(fids, &["n"], READ).map(drop),
            Err(Errno::EBADF)
        );
        assert_eq!(conn.stat_at(fids, &[]).map(drop), Err(Errno::EBADF));
    }
    assert_eq!(
        conn.open_at((0, NOFID), &["d"], READ).map(drop),
        Err(Errno::EBADF)
    );
    assert_eq!(
        conn.stat_at((0, NOFID), &["n"]).map(drop),
        Err(Errno::ENOENT)
    );
    let xattr = Request::Xattrwalk {
        fid: 0,
        newfid: 3,
        name: Str(b""),
    };
    conn.call(&xattr).unwrap();
    assert_eq!(conn.stat_at((3, NOFID), &[]).map(drop), Err(Errno::EBADF));
    assert_eq!(conn.open_at((3, 4), &[], READ).map(drop), Err(Errno::EBADF));
}

#[test]
fn what_depends_on_the_new_fid_waits_for_it() {
    let conn = conn();
    let mut room = [0; 64];
    let names = Names::new(&[b"d", b"f"], &mut room).unwrap();
    let (fid, newfid, flags) = (0, 1, READ);
    let open = conn.send(
        1,
        &Request::OpenAt {
            fid,
            newfid,
            flags,
            names,
        },
    );
    let (offset, count) = (0, 9);
    let read = conn.send(
        2,
        &Request::Read {
            fid: 1,
            offset,
            count,
        },
    );
    let clunk = conn.send(3, &Request::Clunk { fid: 1 });
    for ticket in [open, read, clunk] {
        let reply = ticket.wait().unwrap();
        assert!(decoded(&reply, S).result.is_ok());
    }
}

/// Two that would each take the last fid: the second finds out before it makes anything.
#[test]
fn a_file_for_which_there_is_no_fid_is_not_made() {
    let plan = Arc::<Plan>::default();
    let service = Arc::new(FaultyService::new(model(), Arc::clone(&plan)));
    let conn = Conn::over(service, S, |config| config.bounds.fids = 2);
    let gate = plan.stall("create");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| conn.create_at((0, 1), &["a"], READ).map(drop));
        gate.wait_until_reached();
        let mut room = [0; 64];
        let names = Names::new(&[b"b"], &mut room).unwrap();
        let (fid, newfid, flags, mode, gid) = (0, 2, READ, 0o644, 0);
        let second = Request::CreateAt {
            fid,
            newfid,
            flags,
            mode,
            gid,
            names,
        };
        let second = conn.call_tagged(2, &second, b"").map(drop);
        gate.open();
        assert_eq!(
            (first.join().unwrap(), second),
            (Ok(()), Err(Errno::ENFILE))
        );
    });
    let found = conn.stat_at((0, NOFID), &["b"]);
    assert_eq!(found.map(drop), Err(Errno::ENOENT));
    // What was set aside in vain is there again.
    conn.clunk(1).unwrap();
    let missing = conn.open_at((0, 1), &["b"], READ);
    assert_eq!(missing.map(drop), Err(Errno::ENOENT));
    conn.open_at((0, 1), &["a"], READ).unwrap();
}

fn set_nothing(conn: &Conn, flags: u32, size: u64) -> Result<(), Errno> {
    conn.walk(0, 1, &[]).unwrap();
    let name = Str(b"user.x");
    let begun = conn.call(&Request::Xattrcreate {
        fid: 1,
        name,
        size,
        flags,
    });
    let set = conn.clunk(1);
    begun.and(set)
}

fn value_of_x(conn: &Conn) -> Result<Vec<u8>, Errno> {
    let (fid, newfid, name) = (0, 2, Str(b"user.x"));
    conn.call(&Request::Xattrwalk { fid, newfid, name })?;
    let value = conn.read(2, 0, 99);
    conn.clunk(2).unwrap();
    value
}

#[test]
fn an_attribute_without_a_value_is_not_one_that_is_removed() {
    const REPLACE: u32 = 2;
    let conn = conn();
    let none = Err(Errno::ENODATA);
    assert_eq!(set_nothing(&conn, XATTR_EMPTY | REPLACE, 0), none);
    set_nothing(&conn, XATTR_EMPTY, 0).unwrap();
    assert_eq!(value_of_x(&conn).unwrap(), b"");
    set_nothing(&conn, XATTR_EMPTY | REPLACE, 0).unwrap();
    assert_eq!(value_of_x(&conn).unwrap(), b"");
    assert_eq!(set_nothing(&conn, XATTR_EMPTY, 1), Err(Errno::EINVAL));
    set_nothing(&conn, REPLACE, 0).unwrap();
    assert_eq!(value_of_x(&conn), Err(Errno::ENODATA));

    let others = Conn::over(model(), Dialect::Linux, |_| {});
    assert_eq!(set_nothing(&others, XATTR_EMPTY, 0), Err(Errno::EINVAL));
}

/// Who did not ask for the extension has none.
#[test]
fn other_dialects_do_not_know_these_messages() {
    for asked in [
        "9P2000.L",
        "9P2000.L.sluice.2",
        "9P2000.L.Google.7",
        "9P2000.u",
        "9P2000",
    ] {
        let dialect = Dialect::of_version(asked.as_bytes()).unwrap();
        let conn = Conn::cold(model(), dialect, |_| {});
        let (_, answered) = conn.version_of(8192, asked.as_bytes()).unwrap();
        assert_eq!(answered, dialect.version(), "{asked}");
        conn.attach(0, 0).unwrap();
        for kind in [160, 162, 164] {
            let message = [
                17, 0, 0, 0, kind, 9, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0,
            ];
            assert_eq!(conn.error_for(&message), Errno::EOPNOTSUPP, "{asked}");
        }
    }
    let conn = Conn::cold(model(), S, |_| {});
    let agreed = conn.version_of(8192, b"9P2000.L.sluice").unwrap();
    assert_eq!(agreed.1, b"9P2000.L.sluice");
}

#[test]
fn fids_run_out_with_an_error_and_nothing_is_left_open() {
    let conn = Conn::over(model(), S, |config| config.bounds.fids = 3);
    let flags = LopenFlags::RDWR;
    conn.create_at((0, 1), &["a"], flags).unwrap();
    conn.create_at((0, 2), &["b"], flags).unwrap();
    assert_eq!(
        conn.create_at((0, 3), &["c"], flags).map(drop),
        Err(Errno::ENFILE)
    );
    assert_eq!(
        conn.stat_at((0, NOFID), &["c"]).map(drop),
        Err(Errno::ENOENT)
    );
    conn.clunk(2).unwrap();
    conn.open_at((0, 3), &["b"], flags).unwrap();
}
