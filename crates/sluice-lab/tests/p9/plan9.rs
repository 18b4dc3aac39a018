//! 9P2000 and 9P2000.u: stats, listings of stats, and what modes stand for.

use crate::harness::{Conn, model};
use sluice_lab::faults::{FaultyService, Plan};
use sluice_proto::p9::wire::*;
use sluice_vfs::Errno;
use std::sync::Arc;

fn create(
    conn: &Conn,
    fid: u32,
    name: &str,
    perm: Perm,
    mode: OpenMode,
    extension: &str,
) -> Result<Qid, Errno> {
    conn.walk(0, fid, &[]).unwrap();
    let made = conn.call(&Request::Create {
        fid,
        name: Str(name.as_bytes()),
        perm,
        mode,
        extension: Extended(Str(extension.as_bytes())),
    });
    match made.inspect_err(|_| conn.clunk(fid).unwrap())?.get() {
        Reply::Create { qid, .. } => Ok(qid),
        other => panic!("{other:?} answers Tcreate"),
    }
}

fn file(conn: &Conn, fid: u32, name: &str, bits: u32) {
    let perm = Perm::from_bits_retain(bits);
    create(conn, fid, name, perm, OpenMode::RDWR, "").unwrap();
}

/// What a test looks at.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    name: String,
    mode: Perm,
    length: u64,
    mtime: u32,
    uid: String,
    extension: String,
    n_uid: Option<u32>,
}

fn seen(stat: &Stat<'_>) -> Seen {
    let text = |text: Str<'_>| String::from_utf8(text.0.to_vec()).unwrap();
    Seen {
        name: text(stat.name),
        mode: stat.mode,
        length: stat.length,
        mtime: stat.mtime,
        uid: text(stat.uid),
        extension: text(stat.extension.0),
        n_uid: stat.n_uid.0.get(),
    }
}

fn stat(conn: &Conn, fid: u32) -> Seen {
    match conn.call(&Request::Stat { fid }).unwrap().get() {
        Reply::Stat { stat } => seen(&stat.0.0),
        other => panic!("{other:?} answers Tstat"),
    }
}

fn wstat(conn: &Conn, fid: u32, stat: Stat<'_>) -> Result<(), Errno> {
    let stat = Counted(Counted(stat));
    conn.call(&Request::Wstat { fid, stat }).map(drop)
}

fn open(conn: &Conn, fid: u32, mode: OpenMode) -> Result<(), Errno> {
    conn.call(&Request::Open { fid, mode }).map(drop)
}

const OLD: [Dialect; 2] = [Dialect::Plan9, Dialect::Unix];

#[test]
fn files_are_made_written_read_and_described() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        file(&conn, 1, "f", 0o640);
        assert_eq!(conn.write(1, 0, b"hello"), Ok(5));
        assert_eq!(conn.read(1, 1, 99).unwrap(), b"ello");
        let it = stat(&conn, 1);
        assert_eq!((&it.name[..], it.length, &it.uid[..]), ("f", 5, "0"));
        assert_eq!(it.mode.bits(), 0o640);
        let is_unix = dialect == Dialect::Unix;
        assert_eq!(it.n_uid, is_unix.then_some(0));
        let root = stat(&conn, 0);
        assert_eq!((&root.name[..], root.length), ("/", 0));
        assert!(root.mode.contains(Perm::DIR));
        let again = create(&conn, 2, "f", Perm::empty(), OpenMode::empty(), "");
        assert_eq!(again, Err(Errno::EEXIST));
    }
}

#[test]
fn linuxs_own_messages_are_not_known() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        let getattr = [19, 0, 0, 0, 24, 1, 0, 0, 0, 0, 0, 255, 7, 0, 0, 0, 0, 0, 0];
        assert_eq!(conn.error_for(&getattr), Errno::EOPNOTSUPP);
    }
    let conn = Conn::new(Dialect::Linux);
    let stat = [11, 0, 0, 0, 124, 1, 0, 0, 0, 0, 0];
    assert_eq!(conn.error_for(&stat), Errno::EOPNOTSUPP);
}

#[test]
fn plan_9_takes_modes_from_the_directory() {
    let conn = Conn::new(Dialect::Plan9);
    let dir = Perm::DIR | Perm::from_bits_retain(0o750);
    create(&conn, 1, "d", dir, OpenMode::empty(), "").unwrap();
    assert!(stat(&conn, 1).mode.contains(Perm::DIR));
    conn.walk(0, 2, &["d"]).unwrap();
    let made = conn.call(&Request::Create {
        fid: 2,
        name: Str(b"x"),
        perm: Perm::from_bits_retain(0o777),
        mode: OpenMode::empty(),
        extension: Extended(Str(b"")),
    });
    made.unwrap();
    assert_eq!(stat(&conn, 2).mode.bits(), 0o751);
}

#[test]
fn a_directory_that_cannot_be_opened_so_is_not_made_or_leaves_its_fid_where_it_was() {
    for dialect in OLD {
        let plan = Arc::<Plan>::default();
        let service = Arc::new(FaultyService::new(model(), Arc::clone(&plan)));
        let conn = Conn::over(service, dialect, |_| {});
        let perm = Perm::DIR | Perm::from_bits_retain(0o755);
        let made = create(&conn, 1, "d", perm, OpenMode::RDWR, "");
        assert_eq!(made, Err(Errno::EISDIR));
        assert_eq!(conn.walk(0, 1, &["d"]), Err(Errno::ENOENT));
        plan.fail("open", 0, 1, Errno::EIO);
        conn.walk(0, 1, &[]).unwrap();
        let made = conn.call(&Request::Create {
            fid: 1,
            name: Str(b"d"),
            perm,
            mode: OpenMode::empty(),
            extension: Extended(Str(b"")),
        });
        assert_eq!(made.map(drop), Err(Errno::EIO));
        assert_eq!(conn.walk(1, 2, &["d"]).unwrap().len(), 1);
    }
}

#[test]
fn unix_makes_all_kinds_of_nodes() {
    let conn = Conn::new(Dialect::Unix);
    let make =
        |fid, name, perm, extension| create(&conn, fid, name, perm, OpenMode::empty(), extension);
    let link = make(1, "l", Perm::SYMLINK, "to/where").unwrap();
    assert_eq!(link.kind, QidType::SYMLINK);
    let it = stat(&conn, 1);
    assert_eq!(
        (&it.extension[..], it.mode & Perm::SYMLINK),
        ("to/where", Perm::SYMLINK)
    );
    make(
        2,
        "null",
        Perm::DEVICE | Perm::from_bits_retain(0o600),
        "c 1 3",
    )
    .unwrap();
    let it = stat(&conn, 2);
    assert_eq!(&it.extension[..], "c 1 3");
    assert!(it.mode.contains(Perm::DEVICE));
    assert_eq!(open(&conn, 2, OpenMode::empty()), Err(Errno::EOPNOTSUPP));
    make(3, "pipe", Perm::NAMED_PIPE, "").unwrap();
    assert!(stat(&conn, 3).mode.contains(Perm::NAMED_PIPE));
    make(4, "sock", Perm::SOCKET, "").unwrap();
    assert!(stat(&conn, 4).mode.contains(Perm::SOCKET));
    file(&conn, 5, "f", 0o4755);
    assert_eq!(stat(&conn, 5).mode.bits(), 0o755, "no such bits in 0o4755");
    conn.clunk(5).unwrap();
    let setuid = Perm::SETUID | Perm::from_bits_retain(0o755);
    create(&conn, 5, "s", setuid, OpenMode::RDWR, "").unwrap();
    assert_eq!(stat(&conn, 5).mode, setuid);
    let before = conn.walk(0, 6, &["s"]).unwrap()[0];
    let linked = make(7, "hard", Perm::LINK, "5\n").unwrap();
    assert_eq!(linked.path, before.path);
    for (perm, extension) in [
        (Perm::LINK, "99"),
        (Perm::LINK, "x"),
        (Perm::DEVICE, ""),
        (Perm::SYMLINK, ""),
        (Perm::DEVICE | Perm::SYMLINK, "c 1 3"),
    ] {
        assert!(
            make(8, "bad", perm, extension).is_err(),
            "{perm:?} {extension}"
        );
    }
    let plain = Conn::new(Dialect::Plan9);
    let link = create(&plain, 1, "l", Perm::SYMLINK, OpenMode::empty(), "");
    assert_eq!(link, Err(Errno::EINVAL));
}

#[test]
fn a_directory_is_read_as_whole_stats() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        for index in 0..30 {
            file(&conn, 1, &format!("file {index}"), 0o600 + index);
            conn.clunk(1).unwrap();
        }
        conn.walk(0, 1, &[]).unwrap();
        open(&conn, 1, OpenMode::empty()).unwrap();
        assert_eq!(conn.read(1, 0, 20), Err(Errno::EINVAL), "no stat fits");
        let (mut offset, mut names) = (0, Vec::new());
        loop {
            let data = conn.read(1, offset, 300).unwrap();
            assert!(data.len() <= 300);
            if data.is_empty() {
                break;
            }
            for stat in Stats::new(&data, dialect) {
                let it = seen(&stat.expect("stats are whole"));
                let index: u32 = it.name[5..].parse().unwrap();
                // In Plan 9 the directory's bits, 0755, are a mask.
                let mode = match dialect {
                    Dialect::Plan9 => (0o600 + index) & !0o022,
                    _ => 0o600 + index,
                };
                assert_eq!(it.mode.bits(), mode);
                names.push(it.name);
            }
            offset += data.len() as u64;
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 30, "without dots, and each once");
        assert_eq!(conn.read(1, offset + 1, 300), Err(Errno::EINVAL));
        assert_eq!(
            conn.read(1, offset, 300).unwrap(),
            b"",
            "it is the end still"
        );
        let first = conn.read(1, 0, 300).unwrap();
        assert!(!first.is_empty(), "and 0 begins anew");
        let between = first.len() as u64 - 1;
        assert_eq!(conn.read(1, between, 300), Err(Errno::EINVAL));
        assert!(!conn.read(1, first.len() as u64, 300).unwrap().is_empty());
    }
}

#[test]
fn a_listing_that_fails_half_way_goes_on_where_it_was() {
    let plan = Arc::new(Plan::default());
    let service = FaultyService::new(model(), Arc::clone(&plan));
    let conn = Conn::over(Arc::new(service), Dialect::Unix, |_| {});
    for index in 0..5 {
        file(&conn, 1, &format!("file {index}"), 0o600);
        conn.clunk(1).unwrap();
    }
    conn.walk(0, 1, &[]).unwrap();
    open(&conn, 1, OpenMode::empty()).unwrap();
    let first = conn.read(1, 0, 150).unwrap();
    let count = |data: &[u8]| Stats::new(data, Dialect::Unix).count();
    let offset = first.len() as u64;
    // The call that finds the end, after those that found files.
    plan.fail("readdir", 1, 1, Errno::EIO);
    assert_eq!(conn.read(1, offset, 4000), Err(Errno::EIO));
    let rest = conn.read(1, offset, 4000).unwrap();
    assert_eq!(count(&first) + count(&rest), 5);
}

#[test]
fn a_stat_leaves_what_it_does_not_name() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        file(&conn, 1, "f", 0o640);
        conn.write(1, 0, b"hello").unwrap();
        assert_eq!(wstat(&conn, 1, Stat::LEAVE), Ok(()), "nothing but fsync(2)");
        let change = Stat {
            length: 2,
            mtime: 12345,
            mode: Perm::from_bits_retain(0o600),
            ..Stat::LEAVE
        };
        wstat(&conn, 1, change).unwrap();
        let it = stat(&conn, 1);
        assert_eq!((it.length, it.mtime, it.mode.bits()), (2, 12345, 0o600));
        let dir = Stat {
            mode: Perm::DIR | Perm::from_bits_retain(0o600),
            ..Stat::LEAVE
        };
        assert_eq!(wstat(&conn, 1, dir), Err(Errno::EINVAL));
        let nobody = Stat {
            gid: Str(b"no such group"),
            ..Stat::LEAVE
        };
        assert_eq!(wstat(&conn, 1, nobody), Err(Errno::EINVAL));
        let long = Stat {
            length: 5,
            ..Stat::LEAVE
        };
        assert_eq!(wstat(&conn, 0, long), Err(Errno::EISDIR));
    }
}

#[test]
fn a_stat_may_rename() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        file(&conn, 1, "f", 0o640);
        file(&conn, 2, "g", 0o640);
        let rename = |fid, name: &'static [u8]| {
            let name = Str(name);
            wstat(
                &conn,
                fid,
                Stat {
                    name,
                    ..Stat::LEAVE
                },
            )
        };
        conn.walk(0, 3, &["f"]).unwrap();
        rename(3, b"h").unwrap();
        assert_eq!(stat(&conn, 3).name, "h");
        rename(3, b"h").unwrap();
        assert_eq!(conn.walk(0, 4, &["f"]), Err(Errno::ENOENT));
        let onto = rename(3, b"g");
        match dialect {
            Dialect::Plan9 => assert_eq!(onto, Err(Errno::EEXIST)),
            _ => assert_eq!(onto, Ok(())),
        }
        assert_eq!(rename(3, b"a/b"), Err(Errno::EINVAL));
        assert_eq!(rename(0, b"root"), Err(Errno::EBUSY));
        conn.call(&Request::Remove { fid: 3 }).unwrap();
    }
}

#[test]
fn a_file_may_go_with_its_fid() {
    for dialect in OLD {
        let conn = Conn::new(dialect);
        file(&conn, 1, "f", 0o640);
        conn.walk(0, 2, &["f"]).unwrap();
        open(&conn, 2, OpenMode::RCLOSE).unwrap();
        assert_eq!(conn.walk(0, 3, &["f"]).unwrap().len(), 1);
        conn.clunk(2).unwrap();
        assert_eq!(conn.walk(0, 4, &["f"]), Err(Errno::ENOENT));
        let mode = OpenMode::RDWR | OpenMode::RCLOSE;
        create(&conn, 5, "tmp", Perm::from_bits_retain(0o600), mode, "").unwrap();
        conn.write(5, 0, b"x").unwrap();
        conn.clunk(5).unwrap();
        assert_eq!(conn.walk(0, 6, &["tmp"]), Err(Errno::ENOENT));
    }
}

#[test]
fn opening_may_empty_and_append() {
    let conn = Conn::new(Dialect::Unix);
    file(&conn, 1, "f", 0o640);
    conn.write(1, 0, b"hello").unwrap();
    conn.walk(0, 2, &["f"]).unwrap();
    open(&conn, 2, OpenMode::WRITE | OpenMode::APPEND).unwrap();
    conn.write(2, 0, b" there").unwrap();
    assert_eq!(conn.read(1, 0, 99).unwrap(), b"hello there");
    conn.walk(0, 3, &["f"]).unwrap();
    open(&conn, 3, OpenMode::RDWR | OpenMode::TRUNC).unwrap();
    assert_eq!(conn.read(1, 0, 99).unwrap(), b"");
}
