//! What fids stand for.

use crate::harness::{Conn, export, model};
use sluice_lab::faults::{FaultyService, Plan};
use sluice_proto::p9::serve::QidVersion;
use sluice_proto::p9::wire::*;
use sluice_vfs::Errno;
use std::sync::Arc;

fn tree() -> Conn {
    let conn = Conn::new(Dialect::Linux);
    conn.mkdir(0, "a");
    conn.walk(0, 1, &["a"]).unwrap();
    conn.mkdir(1, "b");
    conn.clunk(1).unwrap();
    conn.lcreate(1, "f", b"hello");
    conn.clunk(1).unwrap();
    conn
}

#[test]
fn a_walk_ends_early_without_moving_its_fid() {
    let conn = tree();
    assert_eq!(conn.walk(0, 1, &["a", "b"]).unwrap().len(), 2);
    assert_eq!(conn.walk(0, 2, &["a", "none", "b"]).unwrap().len(), 1);
    assert_eq!(conn.clunk(2), Err(Errno::EBADF), "it was not made");
    assert_eq!(conn.walk(0, 2, &["none", "b"]), Err(Errno::ENOENT));
    assert_eq!(conn.walk(0, 2, &["f", "b"]).unwrap().len(), 1);
    assert_eq!(conn.walk(0, 0, &["a", "none"]).unwrap().len(), 1);
    assert!(conn.walk(0, 2, &["f"]).is_ok(), "fid 0 is the root still");
}

#[test]
fn dots_stay_below_the_root() {
    let conn = tree();
    let root = conn.getattr(0).unwrap().qid;
    let up = conn.walk(0, 1, &["..", "..", "a", "..", "a", "b", "..", "."]);
    let qids = up.unwrap();
    assert_eq!((qids[0], qids[1], qids[3]), (root, root, root));
    assert_eq!((qids[2], qids[6], qids[7]), (qids[4], qids[4], qids[4]));
    assert_eq!(conn.walk(0, 2, &["f", ".."]).unwrap().len(), 1);
    for name in ["a/b", "/", "", "../x"] {
        assert_eq!(conn.walk(0, 2, &[name]), Err(Errno::EINVAL), "{name}");
    }
    let long = "x".repeat(256);
    assert_eq!(conn.walk(0, 2, &[&long]), Err(Errno::ENAMETOOLONG));
}

#[test]
fn a_fid_is_the_clients_to_choose_and_to_use_once() {
    let conn = tree();
    conn.walk(0, 1, &["a"]).unwrap();
    assert_eq!(conn.walk(0, 1, &["f"]), Err(Errno::EBADF));
    assert_eq!(conn.attach(1, 0), Err(Errno::EBADF));
    assert_eq!(conn.walk(9, 2, &[]), Err(Errno::EBADF));
    assert_eq!(conn.walk(0, NOFID, &[]), Err(Errno::EBADF));
    // A fid may move.
    conn.walk(1, 1, &["b"]).unwrap();
    assert_eq!(conn.walk(1, 1, &["..", "..", "f"]).unwrap().len(), 3);
    assert_eq!(conn.getattr(1).unwrap().size, 5);
    conn.walk(1, 1, &[]).unwrap();
    conn.clunk(1).unwrap();
    assert_eq!(conn.clunk(1), Err(Errno::EBADF));
}

#[test]
fn a_clone_of_an_open_fid_is_not_open() {
    let conn = tree();
    conn.walk(0, 1, &["f"]).unwrap();
    conn.lopen(1, LopenFlags::empty()).unwrap();
    assert_eq!(conn.lopen(1, LopenFlags::empty()), Err(Errno::EBADF));
    conn.walk(1, 2, &[]).unwrap();
    assert_eq!(conn.read(2, 0, 5), Err(Errno::EBADF));
    conn.lopen(2, LopenFlags::empty()).unwrap();
    assert_eq!(conn.read(2, 0, 99).unwrap(), b"hello");
    assert_eq!(conn.write(2, 0, b"x"), Err(Errno::EBADF), "open to read");
    conn.walk(0, 3, &["a"]).unwrap();
    conn.lopen(3, LopenFlags::DIRECTORY).unwrap();
    assert_eq!(conn.walk(3, 3, &["b"]), Err(Errno::EBADF));
    assert_eq!(conn.walk(3, 4, &["b"]).unwrap().len(), 1);
    assert_eq!(conn.lopen(4, LopenFlags::WRONLY), Err(Errno::EISDIR));
    assert_eq!(
        conn.lopen(4, LopenFlags::from_bits_retain(3)),
        Err(Errno::EINVAL)
    );
}

#[test]
fn removing_gives_the_fid_back_whatever_comes_of_it() {
    let conn = tree();
    conn.walk(0, 1, &["a"]).unwrap();
    let remove = |fid| remove(&conn, fid);
    assert_eq!(remove(1), Err(Errno::ENOTEMPTY));
    assert_eq!(conn.clunk(1), Err(Errno::EBADF));
    conn.walk(0, 1, &["a", "b"]).unwrap();
    assert_eq!(remove(1), Ok(()));
    conn.walk(0, 1, &["f"]).unwrap();
    conn.walk(1, 2, &[]).unwrap();
    conn.lopen(2, LopenFlags::empty()).unwrap();
    assert_eq!(remove(1), Ok(()));
    assert_eq!(conn.read(2, 0, 9).unwrap(), b"hello", "it is open still");
    assert_eq!(conn.getattr(2).unwrap().nlink, 0);
    assert_eq!(remove(2), Err(Errno::ENOENT));
    assert_eq!(remove(0), Err(Errno::EBUSY));
}

fn renameat(conn: &Conn, old: &str, new: &str) {
    let request = Request::Renameat {
        old_dfid: 0,
        old_name: Str(old.as_bytes()),
        new_dfid: 0,
        new_name: Str(new.as_bytes()),
    };
    // Another tag than that of what may be under way.
    conn.call_tagged(2, &request, b"").unwrap();
}

fn remove(conn: &Conn, fid: u32) -> Result<(), Errno> {
    conn.call(&Request::Remove { fid }).map(drop)
}

#[test]
fn fids_know_the_new_name_of_a_file_that_was_moved() {
    for is_open in [false, true] {
        let conn = tree();
        conn.walk(0, 1, &["f"]).unwrap();
        conn.walk(1, 2, &[]).unwrap();
        conn.walk(0, 3, &["f"]).unwrap();
        conn.walk(0, 4, &["a"]).unwrap();
        if is_open {
            for fid in 1..=3 {
                conn.lopen(fid, LopenFlags::empty()).unwrap();
            }
        }
        // Through the directory, through a fid of its own, and through another one.
        renameat(&conn, "f", "g");
        for (fid, name) in [(1, "h"), (3, "i")] {
            let (dfid, name) = (4, Str(name.as_bytes()));
            conn.call(&Request::Rename { fid, dfid, name }).unwrap();
        }
        conn.lcreate(5, "f", b"another");
        assert_eq!(remove(&conn, 2), Ok(()));
        assert_eq!(conn.walk(4, 6, &["i"]), Err(Errno::ENOENT));
        assert_eq!(remove(&conn, 1), Err(Errno::ENOENT), "it is gone");
        assert!(conn.walk(0, 6, &["f"]).is_ok());
    }
}

/// The request for the fid waits in the service while its file is moved.
#[test]
fn a_fid_that_is_being_opened_or_made_knows_where_its_file_was_moved_meanwhile() {
    let open = |conn: &Conn| conn.lopen(1, LopenFlags::empty());
    let clone = |conn: &Conn| conn.walk(1, 2, &["."]).map(drop);
    type Act = fn(&Conn) -> Result<(), Errno>;
    let cases: [(Act, u32); 2] = [(open, 1), (clone, 2)];
    for (act, fid) in cases {
        let plan = Arc::<Plan>::default();
        let service = Arc::new(FaultyService::new(model(), Arc::clone(&plan)));
        let conn = Conn::over(service, Dialect::Linux, |config| {
            config.options.qid_version = QidVersion::Content;
        });
        conn.mkdir(0, "f");
        conn.walk(0, 1, &["f"]).unwrap();
        let gate = plan.stall("getattr");
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| act(&conn));
            gate.wait_until_reached();
            renameat(&conn, "f", "g");
            gate.open();
            acting.join().unwrap().unwrap();
        });
        // Once more, as it is known among those that can be moved.
        renameat(&conn, "g", "h");
        assert_eq!(remove(&conn, fid), Ok(()), "fid {fid}");
        assert_eq!(conn.walk(0, 3, &["h"]), Err(Errno::ENOENT));
    }
}

#[test]
fn what_has_the_name_of_another_by_now_is_not_removed_in_its_stead() {
    let conn = tree();
    conn.lcreate(1, "victim", b"");
    conn.walk(0, 2, &["f"]).unwrap();
    renameat(&conn, "f", "victim");
    assert_eq!(remove(&conn, 1), Err(Errno::ENOENT));
    renameat(&conn, "victim", "g");
    assert!(conn.walk(0, 3, &["g"]).is_ok());
    assert_eq!(remove(&conn, 2), Ok(()));
    assert_eq!(conn.walk(0, 4, &["g"]), Err(Errno::ENOENT));
}

/// A rename that went another way: this connection knows nothing of it.
#[test]
fn a_name_that_leads_elsewhere_by_now_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let conn = Conn::over(export(&dir), Dialect::Linux, |_| {});
    let path = |name| dir.path().join(name);
    std::fs::write(path("f"), "one").unwrap();
    conn.walk(0, 1, &["f"]).unwrap();
    std::fs::rename(path("f"), path("g")).unwrap();
    assert_eq!(remove(&conn, 1), Err(Errno::ENOENT));
    conn.walk(0, 1, &["g"]).unwrap();
    std::fs::rename(path("g"), path("f")).unwrap();
    std::fs::write(path("g"), "another").unwrap();
    assert_eq!(remove(&conn, 1), Err(Errno::ENOENT));
    assert_eq!(std::fs::read(path("g")).unwrap(), b"another");
}

#[test]
fn a_fid_follows_its_file_and_so_do_those_below() {
    let conn = tree();
    conn.walk(0, 1, &["a"]).unwrap();
    conn.walk(0, 2, &["a", "b"]).unwrap();
    conn.mkdir(0, "c");
    conn.walk(0, 3, &["c"]).unwrap();
    let name = Str(b"z");
    let (fid, dfid) = (1, 3);
    conn.call(&Request::Rename { fid, dfid, name }).unwrap();
    assert_eq!(conn.walk(0, 4, &["c", "z", "b"]).unwrap().len(), 3);
    // Made and removed through fids that were there before the move.
    conn.mkdir(2, "deep");
    assert_eq!(conn.walk(0, 5, &["c", "z", "b", "deep"]).unwrap().len(), 4);
    conn.call(&Request::Remove { fid: 5 }).unwrap();
    conn.call(&Request::Remove { fid: 2 }).unwrap();
    conn.call(&Request::Remove { fid: 1 }).unwrap();
    assert_eq!(conn.walk(0, 6, &["c", "z"]).unwrap().len(), 1);
}

fn xattr(conn: &Conn, fid: u32, size: u64, flags: u32) -> Result<(), Errno> {
    let name = Str(b"user.x");
    let request = Request::Xattrcreate {
        fid,
        name,
        size,
        flags,
    };
    conn.call(&request).map(drop)
}

fn xattrwalk(conn: &Conn, newfid: u32, name: &[u8]) -> Result<u64, Errno> {
    let name = Str(name);
    let fid = 1;
    match conn.call(&Request::Xattrwalk { fid, newfid, name })?.get() {
        Reply::Xattrwalk { size } => Ok(size),
        other => panic!("{other:?} answers Txattrwalk"),
    }
}

#[test]
fn an_attribute_is_set_when_its_fid_is_clunked() {
    let conn = tree();
    conn.walk(0, 1, &["f"]).unwrap();
    conn.walk(1, 2, &[]).unwrap();
    xattr(&conn, 2, 6, 0).unwrap();
    assert_eq!(conn.write(2, 3, b"def"), Ok(3));
    assert_eq!(conn.write(2, 0, b"abc"), Ok(3), "in any order");
    assert_eq!(
        conn.write(2, 4, b"xyz"),
        Err(Errno::EINVAL),
        "beyond the end"
    );
    assert_eq!(conn.read(2, 0, 6), Err(Errno::EBADF));
    assert_eq!(xattrwalk(&conn, 3, b"user.x"), Err(Errno::ENODATA));
    conn.clunk(2).unwrap();
    assert_eq!(xattrwalk(&conn, 3, b"user.x"), Ok(6));
    assert_eq!(conn.read(3, 0, 4).unwrap(), b"abcd");
    assert_eq!(conn.read(3, 4, 99).unwrap(), b"ef");
    assert_eq!(conn.read(3, u64::MAX, 99).unwrap(), b"");
    assert_eq!(conn.write(3, 0, b"x"), Err(Errno::EBADF));
    assert_eq!(conn.walk(3, 4, &[]), Err(Errno::EBADF));
    assert_eq!(
        xattrwalk(&conn, 4, b""),
        Ok(7),
        "the list: user.x and a NUL"
    );
    assert_eq!(conn.read(4, 0, 99).unwrap(), b"user.x\0");
    conn.clunk(3).unwrap();
    conn.clunk(4).unwrap();

    conn.walk(1, 2, &[]).unwrap();
    xattr(&conn, 2, 0, 2).unwrap();
    conn.clunk(2).unwrap();
    assert_eq!(xattrwalk(&conn, 3, b"user.x"), Err(Errno::ENODATA));
}

#[test]
fn an_attribute_that_is_written_in_part_is_not_set() {
    let conn = tree();
    conn.walk(0, 1, &["f"]).unwrap();
    for written in [&b""[..], b"abc"] {
        conn.walk(1, 2, &[]).unwrap();
        xattr(&conn, 2, 4, 0).unwrap();
        if !written.is_empty() {
            conn.write(2, 0, written).unwrap();
        }
        assert_eq!(conn.clunk(2), Err(Errno::EINVAL));
        assert_eq!(conn.clunk(2), Err(Errno::EBADF), "the fid is gone");
    }
    assert_eq!(xattrwalk(&conn, 3, b"user.x"), Err(Errno::ENODATA));
    conn.walk(1, 2, &[]).unwrap();
    assert_eq!(xattr(&conn, 2, 65_537, 0), Err(Errno::E2BIG));
    assert_eq!(xattr(&conn, 2, 1, 4), Err(Errno::EINVAL));
    xattr(&conn, 2, 1, 1).unwrap();
    assert_eq!(xattr(&conn, 2, 1, 1), Err(Errno::EBADF));
}

#[test]
fn values_that_fids_hold_are_bounded() {
    let conn = Conn::over(model(), Dialect::Linux, |config| {
        config.bounds.xattr_bytes = 100;
        config.bounds.fids = 5;
    });
    for fid in 1..4 {
        conn.walk(0, fid, &[]).unwrap();
    }
    xattr(&conn, 1, 60, 0).unwrap();
    assert_eq!(xattr(&conn, 2, 60, 0), Err(Errno::ENOMEM));
    assert_eq!(conn.clunk(1), Err(Errno::EINVAL));
    xattr(&conn, 2, 60, 0).unwrap();
    conn.walk(0, 1, &[]).unwrap();
    conn.walk(0, 4, &[]).unwrap();
    assert_eq!(conn.walk(0, 5, &[]), Err(Errno::ENFILE));
    assert_eq!(conn.attach(5, 0), Err(Errno::ENFILE));
}

#[test]
fn the_version_of_a_qid_is_stable_or_follows_the_content() {
    let dir = tempfile::tempdir().unwrap();
    for how in [QidVersion::Stable, QidVersion::Content] {
        let conn = Conn::over(export(&dir), Dialect::Linux, |config| {
            config.options.qid_version = how;
        });
        let name = format!("{how:?}");
        conn.lcreate(1, &name, b"one");
        let link = format!("{how:?} linked");
        conn.walk(0, 2, &[&name]).unwrap();
        let (dfid, fid) = (0, 2);
        let name = Str(link.as_bytes());
        conn.call(&Request::Link { dfid, fid, name }).unwrap();
        let before = conn.walk(0, 3, &[&link]).unwrap()[0];
        assert_ne!(before.version, 0);
        assert_eq!(conn.getattr(2).unwrap().qid, before, "of either name");
        conn.write(1, 3, b" and two").unwrap();
        let after = conn.walk(0, 4, &[&link]).unwrap()[0];
        assert_eq!(after.path, before.path);
        assert_eq!(after.version == before.version, how == QidVersion::Stable);
        assert_eq!(conn.getattr(2).unwrap().qid, after);
    }
}

/// What was made came with its attributes: nothing is asked that could fail afterwards.
#[test]
fn once_a_file_is_made_its_fid_is_too() {
    let plan = Arc::<Plan>::default();
    let service = Arc::new(FaultyService::new(model(), Arc::clone(&plan)));
    let conn = Conn::over(service, Dialect::Linux, |config| {
        config.options.qid_version = QidVersion::Content;
    });
    plan.fail("getattr", 0, 1, Errno::EIO);
    conn.lcreate(1, "f", b"abc");
    assert_eq!(plan.pending(), 1);
}

#[test]
fn listings_are_whole_entries_and_end_with_none() {
    let conn = tree();
    for index in 0..40 {
        conn.mkdir(0, &format!("directory number {index}"));
    }
    conn.walk(0, 1, &[]).unwrap();
    let page = |offset, count| {
        let request = Request::Readdir {
            fid: 1,
            offset,
            count,
        };
        conn.call(&request).map(|answer| answer.data().to_vec())
    };
    assert_eq!(page(0, 8192), Err(Errno::EBADF), "it is not open");
    conn.lopen(1, LopenFlags::DIRECTORY).unwrap();
    assert_eq!(page(0, 10), Err(Errno::EINVAL), "no entry fits");
    assert_eq!(conn.read(1, 0, 100), Err(Errno::EISDIR));
    let mut names = Vec::new();
    let mut offset = 0;
    loop {
        let data = page(offset, 200).unwrap();
        assert!(data.len() <= 200);
        if data.is_empty() {
            break;
        }
        for dirent in Dirents(&data) {
            let dirent = dirent.expect("entries are whole");
            names.push(dirent.name.0.to_vec());
            offset = dirent.offset;
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2 + 40 + 2, "with dots, a and f");
    let whole = page(0, u32::MAX).unwrap();
    assert!(whole.len() <= 8192 - 11);
    assert_eq!(Dirents(&whole).count(), 44);
}

#[test]
fn counts_beyond_a_message_are_cut() {
    let conn = tree();
    conn.lcreate(1, "big", &[7; 8192 - 24]);
    conn.write(1, 8192 - 24, &[7; 1000]).unwrap();
    assert_eq!(conn.read(1, 0, u32::MAX).unwrap().len(), 8192 - 11);
    assert_eq!(conn.read(1, u64::MAX, 1), Err(Errno::EINVAL));
    assert_eq!(conn.read(1, 1 << 62, 100).unwrap(), b"");
    assert_eq!(conn.write(1, i64::MAX as u64, b"x"), Err(Errno::EINVAL));
}
