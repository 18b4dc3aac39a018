//! What 9P2000 and 9P2000.u have.

use crate::{QID, Seen};
use sluice_proto::p9::wire::*;

const BOTH: [Dialect; 2] = [Dialect::Plan9, Dialect::Unix];

#[test]
fn every_request_is_laid_out_as_the_manual_says() {
    let mut seen = Seen::default();
    for dialect in BOTH {
        sessions(&mut seen, dialect);
        fids(&mut seen, dialect);
        content(&mut seen, dialect);
    }
    by_dialect(&mut seen);
    seen.assert_all(&BOTH, &[]);
}

/// Those whose layout does not depend on the dialect, in any of them.
pub(crate) fn sessions(seen: &mut Seen, dialect: Dialect) {
    let version = Request::Version {
        msize: 8216,
        version: Str(b"9P2000"),
    };
    seen.request(
        dialect,
        version,
        "13000000 64 1122 | size 19, Tversion, tag
         18200000 | msize
         0600 395032303030 | version",
    );
    let flush = Request::Flush { oldtag: 0x0807 };
    seen.request(dialect, flush, "09000000 6c 1122 | size 9, Tflush\n 0708");
}

pub(crate) fn fids(seen: &mut Seen, dialect: Dialect) {
    let mut room = [0; 64];
    let names = Names::new(&[b"usr", b"..", b"a"], &mut room).expect("there is room");
    let walk = Request::Walk {
        fid: 1,
        newfid: 0x0102_0304,
        names,
    };
    seen.request(
        dialect,
        walk,
        "1d000000 6e 1122 | size 29, Twalk
         01000000 04030201 | fid, newfid
         0300 | nwname
         0300 757372 0200 2e2e 0100 61",
    );
    let clone = Request::Walk {
        fid: 1,
        newfid: 2,
        names: Names::default(),
    };
    seen.request(
        dialect,
        clone,
        "11000000 6e 1122 | size 17, Twalk
         01000000 02000000 0000",
    );
    let clunk = Request::Clunk { fid: 0x0a0b_0c0d };
    seen.request(dialect, clunk, "0b000000 78 1122 | Tclunk\n 0d0c0b0a");
    let remove = Request::Remove { fid: 7 };
    seen.request(dialect, remove, "0b000000 7a 1122 | Tremove\n 07000000");
}

pub(crate) fn content(seen: &mut Seen, dialect: Dialect) {
    let read = Request::Read {
        fid: 3,
        offset: 0x0102_0304_0506_0708,
        count: 8192,
    };
    seen.request(
        dialect,
        read,
        "17000000 74 1122 | size 23, Tread
         03000000 | fid
         08070605 04030201 | offset
         00200000 | count",
    );
    let write = Request::Write {
        fid: 3,
        offset: 5,
        data: Payload { len: 4096 },
    };
    seen.request(
        dialect,
        write,
        "17100000 76 1122 | size 23 + 4096, Twrite
         03000000 | fid
         05000000 00000000 | offset
         00100000 | count",
    );
}

/// Those that 9P2000.u made longer.
fn by_dialect(seen: &mut Seen) {
    let auth = Request::Auth {
        afid: 9,
        uname: Str(b"glenda"),
        aname: Str(b""),
        n_uname: Extended(UnixId::NONE),
    };
    seen.request(
        Dialect::Plan9,
        auth,
        "15000000 66 1122 | size 21, Tauth
         09000000 | afid
         0600 676c656e6461 | uname
         0000 | aname",
    );
    seen.request(
        Dialect::Unix,
        auth,
        "19000000 66 1122 | size 25, Tauth
         09000000 | afid
         0600 676c656e6461 | uname
         0000 | aname
         ffffffff | n_uname, none",
    );
    let attach = |n_uname| Request::Attach {
        fid: 0,
        afid: NOFID,
        uname: Str(b"me"),
        aname: Str(b"/src"),
        n_uname: Extended(n_uname),
    };
    seen.request(
        Dialect::Plan9,
        attach(UnixId::NONE),
        "19000000 68 1122 | size 25, Tattach
         00000000 ffffffff | fid, no afid
         0200 6d65 | uname
         0400 2f737263 | aname",
    );
    seen.request(
        Dialect::Unix,
        attach(UnixId(1000)),
        "1d000000 68 1122 | size 29, Tattach
         00000000 ffffffff | fid, no afid
         0200 6d65 | uname
         0400 2f737263 | aname
         e8030000 | n_uname",
    );
    let create = |extension| Request::Create {
        fid: 4,
        name: Str(b"d"),
        perm: Perm::DIR | Perm::from_bits_retain(0o755),
        mode: OpenMode::empty(),
        extension: Extended(Str(extension)),
    };
    seen.request(
        Dialect::Plan9,
        create(b""),
        "13000000 72 1122 | size 19, Tcreate
         04000000 | fid
         0100 64 | name
         ed010080 | perm DMDIR 0755
         00 | mode OREAD",
    );
    seen.request(
        Dialect::Unix,
        create(b"b 8 1"),
        "1a000000 72 1122 | size 26, Tcreate
         04000000 | fid
         0100 64 | name
         ed010080 | perm
         00 | mode
         0500 622038 2031 | extension",
    );
    for dialect in BOTH {
        let open = Request::Open {
            fid: 4,
            mode: OpenMode::WRITE | OpenMode::TRUNC,
        };
        seen.request(dialect, open, "0c000000 70 1122 | Topen\n 04000000 11");
        let stat = Request::Stat { fid: 4 };
        seen.request(dialect, stat, "0b000000 7c 1122 | Tstat\n 04000000");
    }
    let wstat = Request::Wstat {
        fid: 4,
        stat: Counted(Counted(Stat {
            name: Str(b"new"),
            ..Stat::LEAVE
        })),
    };
    seen.request(
        Dialect::Plan9,
        wstat,
        &[
            "41000000 7e 1122 | size 65, Twstat",
            "04000000 3400 3200",
            LEFT,
        ]
        .join("\n"),
    );
    seen.request(
        Dialect::Unix,
        wstat,
        &[
            "4f000000 7e 1122 | size 79, Twstat",
            "04000000 4200 4000",
            LEFT,
            "0000 ffffffff ffffffff ffffffff | extension, n_uid, n_gid, n_muid",
        ]
        .join("\n"),
    );
}

/// A stat that leaves all but the name.
const LEFT: &str = "ffff ffffffff | type, dev
     ff ffffffff ffffffffffffffff | qid
     ffffffff ffffffff ffffffff | mode, atime, mtime
     ffffffffffffffff | length
     0300 6e6577 | name
     0000 0000 0000 | uid, gid, muid";

/// A stat whose fields are all different.
const FULL: &str = "0100 02000000 | type, dev
     QID
     ed010080 | mode DMDIR 0755
     0300005f 0400005f | atime, mtime
     0605000000000000 | length
     0100 78 | name
     0100 75 0200 6767 0300 6d6d6d | uid, gid, muid";

#[test]
fn every_reply_is_laid_out_as_the_manual_says() {
    let mut seen = Seen::default();
    for dialect in BOTH {
        same_replies(&mut seen, dialect);
        let open = Reply::Open {
            qid: QID,
            iounit: 8192,
        };
        let text = "18000000 71 1122 | size 24, Ropen\n QID\n 00200000 | iounit";
        seen.reply(dialect, open, text);
        let create = Reply::Create {
            qid: QID,
            iounit: 0,
        };
        let text = "18000000 73 1122 | size 24, Rcreate\n QID\n 00000000 | iounit";
        seen.reply(dialect, create, text);
        seen.reply(dialect, Reply::Wstat {}, "07000000 7f 1122 | Rwstat");
    }
    let stat = |extension, number| Reply::Stat {
        stat: Counted(Counted(Stat {
            kind: 1,
            dev: 2,
            qid: QID,
            mode: Perm::DIR | Perm::from_bits_retain(0o755),
            atime: 0x5f00_0003,
            mtime: 0x5f00_0004,
            length: 0x0506,
            name: Str(b"x"),
            uid: Str(b"u"),
            gid: Str(b"gg"),
            muid: Str(b"mmm"),
            extension: Extended(Str(extension)),
            n_uid: Extended(number),
            n_gid: Extended(number),
            n_muid: Extended(UnixId::NONE),
        })),
    };
    seen.reply(
        Dialect::Plan9,
        stat(b"", UnixId::NONE),
        &["41000000 7d 1122 | size 65, Rstat", "3800 3600", FULL].join("\n"),
    );
    seen.reply(
        Dialect::Unix,
        stat(b"to", UnixId(1000)),
        &[
            "51000000 7d 1122 | size 81, Rstat",
            "4800 4600",
            FULL,
            "0200 746f e8030000 e8030000 ffffffff | extension, n_uid, n_gid, n_muid",
        ]
        .join("\n"),
    );
    seen.assert_all(&BOTH, &[]);
}

/// Replies whose layout does not depend on the dialect, in any of them.
pub(crate) fn same_replies(seen: &mut Seen, dialect: Dialect) {
    let version = Reply::Version {
        msize: 4096,
        version: Str(b"9P2000.u"),
    };
    seen.reply(
        dialect,
        version,
        "15000000 65 1122 | size 21, Rversion
         00100000 | msize
         0800 395032303030 2e75 | version",
    );
    let auth = Reply::Auth { aqid: QID };
    seen.reply(dialect, auth, "14000000 67 1122 | Rauth\n QID");
    let attach = Reply::Attach { qid: QID };
    seen.reply(dialect, attach, "14000000 69 1122 | Rattach\n QID");
    seen.reply(dialect, Reply::Flush {}, "07000000 6d 1122 | Rflush");
    let file = Qid {
        kind: QidType::empty(),
        version: 1,
        path: 2,
    };
    let qids = [QID.to_bytes(), file.to_bytes()];
    let walk = Reply::Walk { qids: Qids(&qids) };
    seen.reply(
        dialect,
        walk,
        "23000000 6f 1122 | size 35, Rwalk
         0200 | nwqid
         QID
         00 01000000 0200000000000000",
    );
    let read = Reply::Read {
        data: Payload { len: 4096 },
    };
    seen.reply(
        dialect,
        read,
        "0b100000 75 1122 | size 11 + 4096, Rread\n 00100000 | count",
    );
    let write = Reply::Write { count: 5 };
    seen.reply(dialect, write, "0b000000 77 1122 | Rwrite\n 05000000");
    seen.reply(dialect, Reply::Clunk {}, "07000000 79 1122 | Rclunk");
    seen.reply(dialect, Reply::Remove {}, "07000000 7b 1122 | Rremove");
}

#[test]
fn stats_of_a_directory_stand_one_after_the_other() {
    let names: [&[u8]; 3] = [b"a", b"", b"bcd"];
    for dialect in BOTH {
        let mut listing = Vec::new();
        for name in names {
            let stat = Stat {
                name: Str(name),
                ..Stat::LEAVE
            };
            let mut buf = [0; 128];
            let len = encode_stat(&stat, dialect, &mut buf).expect("it fits");
            let own = u16::from_le_bytes([buf[0], buf[1]]);
            assert_eq!(usize::from(own) + 2, len, "the size does not count itself");
            listing.extend(&buf[..len]);
        }
        let read: Vec<_> = Stats::new(&listing, dialect)
            .map(|stat| stat.expect("it is whole").name.0)
            .collect();
        assert_eq!(read, names);
        let cut = &listing[..listing.len() - 1];
        let last = Stats::new(cut, dialect).last().expect("there are some");
        assert!(last.is_err());
    }
}
