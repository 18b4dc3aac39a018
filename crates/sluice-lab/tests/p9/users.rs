//! Who attaches, and as whom that counts.

use crate::harness::{Conn, export, model};
use sluice_proto::p9::serve::Squash;
use sluice_proto::p9::wire::*;
use sluice_vfs::{AccessChecks, Errno};

fn mkdir(conn: &Conn, dfid: u32, name: &str, gid: u32) -> Result<(), Errno> {
    let request = Request::Mkdir {
        dfid,
        name: Str(name.as_bytes()),
        mode: 0o770,
        gid,
    };
    conn.call(&request).map(drop)
}

fn owner(conn: &Conn, name: &str) -> (u32, u32) {
    conn.walk(0, 99, &[name]).unwrap();
    let attr = conn.getattr(99).unwrap();
    conn.clunk(99).unwrap();
    (attr.uid, attr.gid)
}

#[test]
fn what_is_made_belongs_to_who_attached_and_the_group_that_was_chosen() {
    let conn = Conn::new(Dialect::Linux);
    conn.attach(1, 1000).unwrap();
    mkdir(&conn, 1, "mine", 1001).unwrap();
    assert_eq!(owner(&conn, "mine"), (1000, 1001));
    mkdir(&conn, 0, "roots", 0).unwrap();
    assert_eq!(owner(&conn, "roots"), (0, 0));
}

#[test]
fn squashed_users_get_neither_rights_nor_groups() {
    let squash = |squash| {
        Conn::over(model(), Dialect::Linux, |config| {
            config.options.squash = squash;
        })
    };
    let all = squash(Squash::All { uid: 5, gid: 6 });
    all.attach(1, 1000).unwrap();
    mkdir(&all, 1, "a", 0).unwrap();
    mkdir(&all, 0, "b", 0).unwrap();
    assert_eq!((owner(&all, "a"), owner(&all, "b")), ((5, 6), (5, 6)));
    let root = squash(Squash::Root { uid: 5, gid: 6 });
    root.attach(1, 1000).unwrap();
    mkdir(&root, 1, "a", 0).unwrap();
    mkdir(&root, 0, "b", 0).unwrap();
    assert_eq!((owner(&root, "a").0, owner(&root, "b")), (1000, (5, 6)));
    assert_ne!(
        owner(&root, "a").1,
        0,
        "the superuser's group is not to be had"
    );
}

#[test]
fn the_server_checks_what_users_may_do() {
    let conn = Conn::over(model(), Dialect::Linux, |config| {
        config.peer.checks = AccessChecks::Service;
    });
    mkdir(&conn, 0, "private", 0).unwrap();
    conn.walk(0, 1, &["private"]).unwrap();
    mkdir(&conn, 1, "inner", 0).unwrap();
    conn.attach(2, 1000).unwrap();
    assert_eq!(conn.walk(2, 3, &["private", "inner"]).unwrap().len(), 1);
    conn.walk(2, 3, &["private"]).unwrap();
    assert_eq!(conn.lopen(3, LopenFlags::DIRECTORY), Err(Errno::EACCES));
    assert_eq!(mkdir(&conn, 2, "mine", 1000), Err(Errno::EACCES));
    assert_eq!(
        conn.walk(1, 4, &["inner"]).unwrap().len(),
        1,
        "fids keep their user"
    );
}

#[test]
fn users_attach_by_name_where_there_is_no_number() {
    let conn = Conn::new(Dialect::Unix);
    let attach = |fid, uname: &[u8], n_uname| {
        conn.call(&Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(uname),
            aname: Str(b""),
            n_uname: Extended(n_uname),
        })
        .map(drop)
    };
    assert_eq!(attach(1, b"1000", UnixId::NONE), Ok(()));
    assert_eq!(attach(2, b"glenda", UnixId::NONE), Err(Errno::EACCES));
    assert_eq!(attach(2, b"glenda", UnixId(7)), Ok(()));
    assert_eq!(attach(3, b"", UnixId::NONE), Ok(()), "as nobody");
    // As Linux mounts.
    assert_eq!(attach(4, b"nobody", UnixId::NONE), Ok(()));
    assert_eq!(attach(5, b"root", UnixId::NONE), Ok(()));
}

#[test]
fn trees_are_attached_by_name_and_kept_apart() {
    let dir = tempfile::tempdir().unwrap();
    let conn = Conn::over(export(&dir), Dialect::Linux, |_| {});
    let attach = |fid, aname: &[u8]| {
        conn.call(&Request::Attach {
            fid,
            afid: NOFID,
            uname: Str(b""),
            aname: Str(aname),
            n_uname: Extended(UnixId(0)),
        })
        .map(drop)
    };
    assert_eq!(attach(1, b"no such export"), Err(Errno::ENOENT));
    assert_eq!(attach(1, b""), Ok(()));
    conn.mkdir(0, "d");
    assert_eq!(conn.walk(1, 2, &["d"]).unwrap().len(), 1);
}
