//! What 9P2000.L.sluice adds.

use crate::{QID, Seen};
use sluice_proto::p9::wire::*;

const S: Dialect = Dialect::Sluice;

/// The body of an Rgetattr (`Attr`), in bytes.
const ATTR_TEXT: &str = "ff07000000000000 | valid
     80 01020304 05060708 090a0b0c | qid
     ed410000 e8030000 e9030000 | mode, uid, gid
     0200000000000000 0000000000000000 | nlink, rdev
     0010000000000000 0010000000000000 0800000000000000 | size, blksize, blocks
     0100000000000000 0200000000000000 | atime
     0300000000000000 0400000000000000 | mtime
     0500000000000000 0600000000000000 | ctime
     0700000000000000 0800000000000000 | btime
     0000000000000000 0000000000000000 | gen, data_version";

fn attr() -> Attr {
    Attr {
        valid: GetattrMask::BASIC,
        qid: QID,
        mode: 0o040_755,
        uid: 1000,
        gid: 1001,
        nlink: 2,
        rdev: 0,
        size: 4096,
        blksize: 4096,
        blocks: 8,
        atime_sec: 1,
        atime_nsec: 2,
        mtime_sec: 3,
        mtime_nsec: 4,
        ctime_sec: 5,
        ctime_nsec: 6,
        btime_sec: 7,
        btime_nsec: 8,
        generation: 0,
        data_version: 0,
    }
}

#[test]
fn requests_are_laid_out_as_written_down() {
    let mut seen = Seen::default();
    let mut room = [0; 64];
    let names = Names::new(&[b"ab", b"c"], &mut room).unwrap();
    let open_at = Request::OpenAt {
        fid: 1,
        newfid: 2,
        flags: LopenFlags::RDWR | LopenFlags::TRUNC,
        names,
    };
    seen.request(
        S,
        open_at,
        "1c000000 a0 1122 | size 28, Topenat
         01000000 02000000 02020000 | fid, newfid, flags
         0200 0200 6162 0100 63 | names",
    );
    let create_at = Request::CreateAt {
        fid: 1,
        newfid: 2,
        flags: LopenFlags::WRONLY | LopenFlags::CREATE | LopenFlags::EXCL,
        mode: 0o644,
        gid: 1000,
        names,
    };
    seen.request(
        S,
        create_at,
        "24000000 a2 1122 | size 36, Tcreateat
         01000000 02000000 c1000000 | fid, newfid, flags
         a4010000 e8030000 | mode, gid
         0200 0200 6162 0100 63 | names",
    );
    let stat_at = Request::StatAt {
        fid: 1,
        newfid: NOFID,
        names: Names::default(),
    };
    seen.request(
        S,
        stat_at,
        "11000000 a4 1122 | size 17, Tstatat
         01000000 ffffffff 0000 | fid, no newfid, no names",
    );
    let kinds = [Type::OpenAt, Type::CreateAt, Type::StatAt];
    let others: Vec<_> = Type::ALL
        .iter()
        .copied()
        .filter(|kind| !kinds.contains(kind))
        .collect();
    seen.assert_all(&[S], &others);
    // Everything else is as in 9P2000.L.
    assert!(
        others
            .iter()
            .all(|kind| kind.is_in(S) == kind.is_in(Dialect::Linux))
    );
}

#[test]
fn replies_are_laid_out_as_written_down() {
    let mut seen = Seen::default();
    let qids = [QID.to_bytes()];
    let (attr, qids) = (attr(), Qids(&qids));
    let iounit = 0x4030_2010;
    seen.reply(
        S,
        Reply::OpenAt { iounit, attr, qids },
        &format!(
            "b3000000 a1 1122 | size 179, Ropenat
             10203040 | iounit
             {ATTR_TEXT}
             0100
             QID"
        ),
    );
    seen.reply(
        S,
        Reply::CreateAt { iounit, attr, qids },
        &format!(
            "b3000000 a3 1122 | size 179, Rcreateat
             10203040 | iounit
             {ATTR_TEXT}
             0100
             QID"
        ),
    );
    let qids = Qids(&[]);
    seen.reply(
        S,
        Reply::StatAt { attr, qids },
        &format!(
            "a2000000 a5 1122 | size 162, Rstatat
             {ATTR_TEXT}
             0000"
        ),
    );
}

#[test]
fn errors_are_those_of_linux() {
    let failure = Failure {
        ename: Str(b""),
        errno: 2,
    };
    let mut buf = [0; 32];
    let len = encode_failure(1, &failure, S, &mut buf).unwrap();
    assert_eq!(buf[..len], [11, 0, 0, 0, 7, 1, 0, 2, 0, 0, 0]);
    assert_eq!(
        decode_reply(&buf[..len], 0, S).unwrap().result,
        Err(failure)
    );
}
