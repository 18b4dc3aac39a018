//! What 9P2000.L has.

use crate::plan9::{content, fids, same_replies, sessions};
use crate::{QID, Seen, bytes};
use sluice_proto::p9::wire::*;

const L: Dialect = Dialect::Linux;

#[test]
fn every_request_is_laid_out_as_linux_has_it() {
    let mut seen = Seen::default();
    sessions(&mut seen, L);
    fids(&mut seen, L);
    content(&mut seen, L);
    users(&mut seen);
    making(&mut seen);
    names(&mut seen);
    attributes(&mut seen);
    files(&mut seen);
    seen.assert_all(&[L], &[]);
}

fn users(seen: &mut Seen) {
    let auth = Request::Auth {
        afid: 9,
        uname: Str(b"u"),
        aname: Str(b"a"),
        n_uname: Extended(UnixId(0)),
    };
    seen.request(
        L,
        auth,
        "15000000 66 1122 | size 21, Tauth
         09000000 0100 75 0100 61 | afid, uname, aname
         00000000 | n_uname",
    );
    let attach = Request::Attach {
        fid: 1,
        afid: NOFID,
        uname: Str(b"u"),
        aname: Str(b"a"),
        n_uname: Extended(UnixId(0x0102_0304)),
    };
    seen.request(
        L,
        attach,
        "19000000 68 1122 | size 25, Tattach
         01000000 ffffffff 0100 75 0100 61 | fid, afid, uname, aname
         04030201 | n_uname",
    );
}

fn making(seen: &mut Seen) {
    let lcreate = Request::Lcreate {
        fid: 1,
        name: Str(b"f"),
        flags: LopenFlags::RDWR | LopenFlags::CREATE | LopenFlags::EXCL,
        mode: 0o100_644,
        gid: 1000,
    };
    seen.request(
        L,
        lcreate,
        "1a000000 0e 1122 | size 26, Tlcreate
         01000000 0100 66 | fid, name
         c2000000 a4810000 e8030000 | flags, mode, gid",
    );
    let symlink = Request::Symlink {
        fid: 1,
        name: Str(b"s"),
        target: Str(b"../x"),
        gid: 1000,
    };
    seen.request(
        L,
        symlink,
        "18000000 10 1122 | size 24, Tsymlink
         01000000 0100 73 0400 2e2e2f78 e8030000",
    );
    let mknod = Request::Mknod {
        dfid: 1,
        name: Str(b"n"),
        mode: 0o020_600,
        major: 1,
        minor: 3,
        gid: 5,
    };
    seen.request(
        L,
        mknod,
        "1e000000 12 1122 | size 30, Tmknod
         01000000 0100 6e 80210000 | dfid, name, mode
         01000000 03000000 05000000 | major, minor, gid",
    );
    let mkdir = Request::Mkdir {
        dfid: 1,
        name: Str(b"d"),
        mode: 0o755,
        gid: 5,
    };
    seen.request(
        L,
        mkdir,
        "16000000 48 1122 | size 22, Tmkdir
         01000000 0100 64 ed010000 05000000",
    );
    let link = Request::Link {
        dfid: 1,
        fid: 2,
        name: Str(b"l"),
    };
    seen.request(
        L,
        link,
        "12000000 46 1122 | Tlink\n 01000000 02000000 0100 6c",
    );
}

fn names(seen: &mut Seen) {
    let rename = Request::Rename {
        fid: 1,
        dfid: 2,
        name: Str(b"r"),
    };
    seen.request(
        L,
        rename,
        "12000000 14 1122 | Trename\n 01000000 02000000 0100 72",
    );
    let renameat = Request::Renameat {
        old_dfid: 1,
        old_name: Str(b"o"),
        new_dfid: 2,
        new_name: Str(b"nn"),
    };
    seen.request(
        L,
        renameat,
        "16000000 4a 1122 | size 22, Trenameat
         01000000 0100 6f 02000000 0200 6e6e",
    );
    let unlinkat = Request::Unlinkat {
        dfid: 1,
        name: Str(b"u"),
        flags: 0x200,
    };
    seen.request(
        L,
        unlinkat,
        "12000000 4c 1122 | Tunlinkat\n 01000000 0100 75 00020000 | AT_REMOVEDIR",
    );
    let readlink = Request::Readlink { fid: 1 };
    seen.request(L, readlink, "0b000000 16 1122 | Treadlink\n 01000000");
}

fn attributes(seen: &mut Seen) {
    let statfs = Request::Statfs { fid: 1 };
    seen.request(L, statfs, "0b000000 08 1122 | Tstatfs\n 01000000");
    let getattr = Request::Getattr {
        fid: 1,
        mask: GetattrMask::BASIC,
    };
    seen.request(
        L,
        getattr,
        "13000000 18 1122 | Tgetattr\n 01000000 ff070000 00000000",
    );
    let setattr = Request::Setattr {
        fid: 1,
        changes: SetAttr {
            valid: SetattrMask::MODE | SetattrMask::MTIME | SetattrMask::MTIME_SET,
            mode: 0o4755,
            uid: 1,
            gid: 2,
            size: 3,
            atime_sec: 4,
            atime_nsec: 5,
            mtime_sec: 6,
            mtime_nsec: 999_999_999,
        },
    };
    seen.request(
        L,
        setattr,
        "43000000 1a 1122 | size 67, Tsetattr
         01000000 21010000 | fid, valid
         ed090000 01000000 02000000 | mode, uid, gid
         03000000 00000000 | size
         04000000 00000000 05000000 00000000 | atime
         06000000 00000000 ffc99a3b 00000000 | mtime",
    );
    let xattrwalk = Request::Xattrwalk {
        fid: 1,
        newfid: 2,
        name: Str(b"user.x"),
    };
    seen.request(
        L,
        xattrwalk,
        "17000000 1e 1122 | size 23, Txattrwalk
         01000000 02000000 0600 757365722e78",
    );
    let xattrcreate = Request::Xattrcreate {
        fid: 1,
        name: Str(b"user.x"),
        size: 4,
        flags: 2,
    };
    seen.request(
        L,
        xattrcreate,
        "1f000000 20 1122 | size 31, Txattrcreate
         01000000 0600 757365722e78 | fid, name
         04000000 00000000 02000000 | attr_size, flags XATTR_REPLACE",
    );
}

fn files(seen: &mut Seen) {
    let lopen = Request::Lopen {
        fid: 1,
        flags: LopenFlags::WRONLY | LopenFlags::APPEND | LopenFlags::SYNC,
    };
    seen.request(L, lopen, "0f000000 0c 1122 | Tlopen\n 01000000 01041000");
    let readdir = Request::Readdir {
        fid: 1,
        offset: 0x0102_0304_0506_0708,
        count: 512,
    };
    seen.request(
        L,
        readdir,
        "17000000 28 1122 | size 23, Treaddir
         01000000 08070605 04030201 00020000",
    );
    let fsync = Request::Fsync {
        fid: 1,
        datasync: Trailing(Some(1)),
    };
    seen.request(L, fsync, "0f000000 32 1122 | Tfsync\n 01000000 01000000");
    // As hugelgupf/p9 sends it.
    let fsync = Request::Fsync {
        fid: 1,
        datasync: Trailing(None),
    };
    seen.request(L, fsync, "0b000000 32 1122 | Tfsync\n 01000000");
    let lock = Request::Lock {
        fid: 1,
        args: LockArgs {
            kind: LockArgs::WRITE,
            flags: LockFlags::BLOCK,
            start: 2,
            length: 3,
            proc_id: 1234,
            client_id: Str(b"host"),
        },
    };
    seen.request(
        L,
        lock,
        "2a000000 34 1122 | size 42, Tlock
         01000000 01 01000000 | fid, type, flags
         02000000 00000000 03000000 00000000 | start, length
         d2040000 0400 686f7374 | proc_id, client_id",
    );
    let getlock = Request::Getlock {
        fid: 1,
        args: Getlock {
            kind: LockArgs::READ,
            start: 2,
            length: 0,
            proc_id: 1234,
            client_id: Str(b"host"),
        },
    };
    seen.request(
        L,
        getlock,
        "26000000 36 1122 | size 38, Tgetlock
         01000000 00 | fid, type
         02000000 00000000 00000000 00000000 | start, length
         d2040000 0400 686f7374 | proc_id, client_id",
    );
}

#[test]
fn every_reply_is_laid_out_as_linux_has_it() {
    let mut seen = Seen::default();
    same_replies(&mut seen, L);
    let lopen = Reply::Lopen {
        qid: QID,
        iounit: 4096,
    };
    seen.reply(L, lopen, "18000000 0d 1122 | Rlopen\n QID\n 00100000");
    let lcreate = Reply::Lcreate {
        qid: QID,
        iounit: 0,
    };
    seen.reply(L, lcreate, "18000000 0f 1122 | Rlcreate\n QID\n 00000000");
    seen.reply(
        L,
        Reply::Symlink { qid: QID },
        "14000000 11 1122 | Rsymlink\n QID",
    );
    seen.reply(
        L,
        Reply::Mknod { qid: QID },
        "14000000 13 1122 | Rmknod\n QID",
    );
    seen.reply(
        L,
        Reply::Mkdir { qid: QID },
        "14000000 49 1122 | Rmkdir\n QID",
    );
    for (reply, number) in [
        (Reply::Rename {}, "15"),
        (Reply::Setattr {}, "1b"),
        (Reply::Xattrcreate {}, "21"),
        (Reply::Fsync {}, "33"),
        (Reply::Link {}, "47"),
        (Reply::Renameat {}, "4b"),
        (Reply::Unlinkat {}, "4d"),
    ] {
        seen.reply(L, reply, &format!("07000000 {number} 1122"));
    }
    let readlink = Reply::Readlink {
        target: Str(b"../x"),
    };
    seen.reply(L, readlink, "0d000000 17 1122 | Rreadlink\n 0400 2e2e2f78");
    let xattrwalk = Reply::Xattrwalk { size: 300 };
    seen.reply(
        L,
        xattrwalk,
        "0f000000 1f 1122 | Rxattrwalk\n 2c010000 00000000",
    );
    let readdir = Reply::Readdir {
        entries: Payload { len: 100 },
    };
    seen.reply(L, readdir, "6f000000 29 1122 | Rreaddir\n 64000000 | count");
    let lock = Reply::Lock {
        status: LockArgs::BLOCKED,
    };
    seen.reply(L, lock, "08000000 35 1122 | Rlock\n 01");
    attribute_replies(&mut seen);
    seen.assert_all(&[L], &[]);
}

fn attribute_replies(seen: &mut Seen) {
    let getlock = Reply::Getlock {
        lock: Getlock {
            kind: LockArgs::UNLOCK,
            start: 2,
            length: 3,
            proc_id: 4,
            client_id: Str(b""),
        },
    };
    seen.reply(
        L,
        getlock,
        "1e000000 37 1122 | size 30, Rgetlock
         02 02000000 00000000 03000000 00000000 04000000 0000",
    );
    let statfs = Reply::Statfs {
        statfs: StatFs {
            fs_type: 0x0102_1997,
            bsize: 4096,
            blocks: 1,
            bfree: 2,
            bavail: 3,
            files: 4,
            ffree: 5,
            fsid: 6,
            namelen: 255,
        },
    };
    seen.reply(
        L,
        statfs,
        "43000000 09 1122 | size 67, Rstatfs
         97190201 00100000 | type, bsize
         01000000 00000000 02000000 00000000 03000000 00000000 | blocks, bfree, bavail
         04000000 00000000 05000000 00000000 06000000 00000000 | files, ffree, fsid
         ff000000 | namelen",
    );
    let getattr = Reply::Getattr {
        attr: Attr {
            valid: GetattrMask::BASIC | GetattrMask::BTIME,
            qid: QID,
            mode: 0o100_644,
            uid: 1000,
            gid: 1001,
            nlink: 2,
            rdev: 0x811,
            size: 0x1234,
            blksize: 4096,
            blocks: 24,
            atime_sec: 0x5f00_0001,
            atime_nsec: 1,
            mtime_sec: u64::MAX - 1,
            mtime_nsec: 2,
            ctime_sec: 0x5f00_0003,
            ctime_nsec: 999_999_999,
            btime_sec: 4,
            btime_nsec: 5,
            generation: 6,
            data_version: 7,
        },
    };
    seen.reply(
        L,
        getattr,
        "a0000000 19 1122 | size 160, Rgetattr
         ff0f0000 00000000 | valid
         QID
         a4810000 e8030000 e9030000 | mode, uid, gid
         02000000 00000000 11080000 00000000 | nlink, rdev
         34120000 00000000 00100000 00000000 18000000 00000000 | size, blksize, blocks
         0100005f 00000000 01000000 00000000 | atime
         feffffff ffffffff 02000000 00000000 | mtime, two seconds before 1970
         0300005f 00000000 ffc99a3b 00000000 | ctime
         04000000 00000000 05000000 00000000 | btime
         06000000 00000000 07000000 00000000 | gen, data_version",
    );
}

#[test]
fn entries_of_a_directory_stand_one_after_the_other() {
    let golden = bytes(
        "QID
         09000000 00000000 04 0100 2e | offset, DT_DIR, name
         QID
         0a000000 000000f0 08 0300 616263",
    );
    let entries = [(9, 4, &b"."[..]), (0xf000_0000_0000_000a, 8, b"abc")];
    let mut at = 0;
    for (offset, kind, name) in entries {
        let dirent = Dirent {
            qid: QID,
            offset,
            kind,
            name: Str(name),
        };
        let mut buf = [0; DIRENT_MAX];
        let len = encode_dirent(&dirent, &mut buf).expect("it fits");
        assert_eq!(len, dirent_len(name.len()));
        assert_eq!(&buf[..len], &golden[at..at + len]);
        at += len;
    }
    let read: Vec<_> = Dirents(&golden)
        .map(|dirent| dirent.expect("it is whole"))
        .map(|dirent| (dirent.offset, dirent.kind, dirent.name.0))
        .collect();
    assert_eq!(read, entries);
    assert!(Dirents(&golden[..30]).last().is_some_and(|it| it.is_err()));
}
