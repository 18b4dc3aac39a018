//! Requests.

use crate::requests_files::{files, sessions};
use crate::{assert_encodes, bytes};
use sluice_proto::fuse::wire::*;

const HEAD: RequestHead = RequestHead {
    unique: 0x0102_0304_0506_0708,
    nodeid: 0x11,
    uid: 1000,
    gid: 1001,
    pid: 1234,
};

#[test]
fn every_request_is_read_and_written_as_the_kernel_lays_it_out() {
    let forgets = [
        ForgetOne {
            nodeid: 0x21,
            nlookup: 1,
        },
        ForgetOne {
            nodeid: 0x22,
            nlookup: 0x1_0000_0002,
        },
    ];
    let mappings = [RemovemappingOne {
        moffset: 0x20_0000,
        len: 0x1000,
    }];
    let mut seen = Vec::new();
    let mut check = |operation: Operation<'_>, text: &str| {
        check_request(&operation, text, Dialect::default());
        seen.push(operation.opcode());
    };
    names(&mut check);
    nodes(&mut check);
    attributes(&mut check);
    files(&mut check);
    sessions(&mut check, &forgets, &mappings);
    for opcode in Opcode::ALL {
        assert!(seen.contains(opcode), "no golden bytes for {opcode:?}");
    }
}

#[test]
fn setxattr_has_a_short_form() {
    let operation = Operation::Setxattr {
        args: SetxattrIn {
            size: 3,
            flags: 1,
            ..SetxattrIn::default()
        },
        name: CBytes(b"user.a"),
        value: Rest(b"xyz"),
    };
    let text = "
        3a000000 15000000 | len 58, opcode SETXATTR
        HEAD
        03000000 01000000 | size, flags XATTR_CREATE
        757365722e61 00 | name
        78797a | value";
    let dialect = Dialect {
        setxattr_ext: false,
    };
    check_request(&operation, text, dialect);
}

#[test]
fn init_before_7_36_has_no_upper_flags() {
    let operation = Operation::Init {
        args: InitIn {
            major: 7,
            minor: 31,
            max_readahead: 0x2_0000,
            flags: 0x03ff_fffb,
            ..InitIn::default()
        },
    };
    let text = "
        38000000 1a000000 | len 56, opcode INIT
        HEAD
        07000000 1f000000 | major, minor
        00000200 fbffff03 | max_readahead, flags";
    check_request(&operation, text, Dialect::default());
}

#[test]
fn extensions_carry_a_label_and_groups() {
    let groups = [5, 6, 7];
    let operation = Operation::Mkdir {
        args: MkdirIn {
            mode: 0o40755,
            umask: 0o22,
        },
        name: CBytes(b"d"),
        extensions: Extensions {
            label: Some(Label {
                name: b"security.selinux",
                value: b"a:b:c",
            }),
            groups: Groups::new(&groups),
        },
    };
    let text = "
        72000000 09000000 | len 114, opcode MKDIR
        HEAD+8
        ed410000 12000000 | mode 040755, umask 022
        64 00 | name
        28000000 01000000 | fuse_secctx_header: size 40, nr_secctx 1
        05000000 00000000 | fuse_secctx: size 5, padding
        73656375726974792e73656c696e7578 00 | name of the label
        613a623a63 0000 | value, padded to 8 bytes
        18000000 20000000 | fuse_ext_header: size 24, type FUSE_EXT_GROUPS
        03000000 05000000 06000000 07000000 | nr_groups, groups";
    check_request(&operation, text, Dialect::default());
}

fn check_request(operation: &Operation<'_>, text: &str, dialect: Dialect) {
    let golden = bytes(text);
    let name = format!("{:?}", operation.opcode());
    let prefix_len = prefix_len(&golden).expect(&name);
    let (prefix, payload) = golden.split_at(prefix_len);
    let decoded = Request::decode(prefix, payload.len(), dialect).expect(&name);
    assert_eq!(decoded.head, HEAD, "{name}");
    assert_eq!(&decoded.operation, operation, "{name}");
    assert_encodes(&name, prefix, |buf| {
        encode_request(&HEAD, operation, dialect, buf)
    });
    for short in 0..prefix.len() {
        assert!(
            Request::decode(&prefix[..short], payload.len(), dialect).is_err(),
            "{name}: {short} bytes are taken for a request"
        );
    }
}

fn names(check: &mut impl FnMut(Operation<'_>, &str)) {
    check(
        Operation::Lookup {
            name: CBytes(b"Makefile"),
        },
        "31000000 01000000 | len 49, opcode LOOKUP
         HEAD
         4d616b6566696c65 00 | name",
    );
    check(
        Operation::Unlink {
            name: CBytes(b"\xff\xfe"),
        },
        "2b000000 0a000000 | len 43, opcode UNLINK
         HEAD
         fffe 00 | name, not UTF-8",
    );
    check(
        Operation::Rmdir { name: CBytes(b"d") },
        "2a000000 0b000000 | len 42, opcode RMDIR
         HEAD
         64 00 | name",
    );
    check(
        Operation::Rename {
            args: RenameIn { newdir: 0x12 },
            old_name: CBytes(b"old"),
            new_name: CBytes(b"new2"),
        },
        "39000000 0c000000 | len 57, opcode RENAME
         HEAD
         12000000 00000000 | newdir
         6f6c64 00 | old name
         6e657732 00 | new name",
    );
    check(
        Operation::Rename2 {
            args: Rename2In {
                newdir: 0x12,
                flags: 2,
                padding: 0,
            },
            old_name: CBytes(b"a"),
            new_name: CBytes(b"b"),
        },
        "3c000000 2d000000 | len 60, opcode RENAME2
         HEAD
         12000000 00000000 | newdir
         02000000 00000000 | flags RENAME_EXCHANGE, padding
         61 00 | old name
         62 00 | new name",
    );
    check(
        Operation::Link {
            args: LinkIn { oldnodeid: 0x13 },
            name: CBytes(b"hard"),
        },
        "35000000 0d000000 | len 53, opcode LINK
         HEAD
         13000000 00000000 | oldnodeid
         68617264 00 | name",
    );
}

fn nodes(check: &mut impl FnMut(Operation<'_>, &str)) {
    let none = Extensions::default();
    check(
        Operation::Symlink {
            name: CBytes(b"ln"),
            target: CBytes(b"../t"),
            extensions: none,
        },
        "30000000 06000000 | len 48, opcode SYMLINK
         HEAD
         6c6e 00 | name
         2e2e2f74 00 | target",
    );
    check(
        Operation::Mknod {
            args: MknodIn {
                mode: 0o20666,
                rdev: 0x103,
                umask: 0o22,
                padding: 0,
            },
            name: CBytes(b"null"),
            extensions: none,
        },
        "3d000000 08000000 | len 61, opcode MKNOD
         HEAD
         b6210000 03010000 | mode 020666, rdev 1:3
         12000000 00000000 | umask 022, padding
         6e756c6c 00 | name",
    );
    check(
        Operation::Mkdir {
            args: MkdirIn {
                mode: 0o40700,
                umask: 0o77,
            },
            name: CBytes(b"d"),
            extensions: none,
        },
        "32000000 09000000 | len 50, opcode MKDIR
         HEAD
         c0410000 3f000000 | mode 040700, umask 077
         64 00 | name",
    );
    let group = [0x2710];
    check(
        Operation::Create {
            args: CreateIn {
                flags: 0o101 | 0o1000,
                mode: 0o100644,
                umask: 0o22,
                open_flags: OpenInFlags::KILL_SUIDGID,
            },
            name: CBytes(b"f"),
            extensions: Extensions {
                label: None,
                groups: Groups::new(&group),
            },
        },
        "4a000000 23000000 | len 74, opcode CREATE
         HEAD+2
         41020000 a4810000 | flags O_WRONLY O_CREAT O_TRUNC, mode 0100644
         12000000 01000000 | umask, open_flags KILL_SUIDGID
         66 00 | name
         10000000 20000000 | fuse_ext_header: size 16, type FUSE_EXT_GROUPS
         01000000 10270000 | nr_groups, group 10000",
    );
    check(
        Operation::Tmpfile {
            args: CreateIn {
                flags: 0o20000002,
                mode: 0o100600,
                umask: 0,
                open_flags: OpenInFlags::empty(),
            },
            name: CBytes(b"/"),
            extensions: none,
        },
        "3a000000 33000000 | len 58, opcode TMPFILE
         HEAD
         02004000 80810000 | flags O_RDWR and __O_TMPFILE, mode 0100600
         00000000 00000000 | umask, open_flags
         2f 00 | name",
    );
    check(
        Operation::Readlink {},
        "28000000 05000000 | len 40, opcode READLINK
         HEAD",
    );
    check(
        Operation::Statfs {},
        "28000000 11000000 | len 40, opcode STATFS
         HEAD",
    );
}

fn attributes(check: &mut impl FnMut(Operation<'_>, &str)) {
    check(
        Operation::Getattr {
            args: GetattrIn {
                getattr_flags: GetattrFlags::FH,
                dummy: 0,
                fh: 0x31,
            },
        },
        "38000000 03000000 | len 56, opcode GETATTR
         HEAD
         01000000 00000000 | getattr_flags FH, dummy
         31000000 00000000 | fh",
    );
    check(
        Operation::Statx {
            args: StatxIn {
                getattr_flags: GetattrFlags::empty(),
                reserved: 0,
                fh: 0,
                sx_flags: 0x2000,
                sx_mask: 0xfff,
            },
        },
        "40000000 34000000 | len 64, opcode STATX
         HEAD
         00000000 00000000 | getattr_flags, reserved
         00000000 00000000 | fh
         00200000 ff0f0000 | sx_flags AT_STATX_FORCE_SYNC, sx_mask",
    );
    check(
        Operation::Setattr {
            args: SetattrIn {
                valid: FattrValid::MODE | FattrValid::SIZE | FattrValid::MTIME_NOW,
                fh: 0x31,
                size: 0x1_0000_0001,
                lock_owner: 0x41,
                atime: 1,
                mtime: 2,
                ctime: 3,
                atimensec: 4,
                mtimensec: 5,
                ctimensec: 6,
                mode: 0o100640,
                uid: 7,
                gid: 8,
                ..SetattrIn::default()
            },
        },
        "80000000 04000000 | len 128, opcode SETATTR
         HEAD
         09010000 00000000 | valid MODE SIZE MTIME_NOW, padding
         31000000 00000000 | fh
         01000000 01000000 | size
         41000000 00000000 | lock_owner
         01000000 00000000 02000000 00000000 03000000 00000000 | atime, mtime, ctime
         04000000 05000000 06000000 | atimensec, mtimensec, ctimensec
         a0810000 | mode 0100640
         00000000 | unused4
         07000000 08000000 | uid, gid
         00000000 | unused5",
    );
    check(
        Operation::Access {
            args: AccessIn {
                mask: 5,
                padding: 0,
            },
        },
        "30000000 22000000 | len 48, opcode ACCESS
         HEAD
         05000000 00000000 | mask R_OK X_OK, padding",
    );
    check(
        Operation::Setxattr {
            args: SetxattrIn {
                size: 2,
                flags: 2,
                setxattr_flags: SetxattrFlags::ACL_KILL_SGID,
                padding: 0,
            },
            name: CBytes(b"user.a"),
            value: Rest(b"\0v"),
        },
        "41000000 15000000 | len 65, opcode SETXATTR
         HEAD
         02000000 02000000 | size, flags XATTR_REPLACE
         01000000 00000000 | setxattr_flags ACL_KILL_SGID, padding
         757365722e61 00 | name
         0076 | value",
    );
    check(
        Operation::Getxattr {
            args: GetxattrIn {
                size: 0x100,
                padding: 0,
            },
            name: CBytes(b"user.a"),
        },
        "37000000 16000000 | len 55, opcode GETXATTR
         HEAD
         00010000 00000000 | size, padding
         757365722e61 00 | name",
    );
    check(
        Operation::Listxattr {
            args: GetxattrIn::default(),
        },
        "30000000 17000000 | len 48, opcode LISTXATTR
         HEAD
         00000000 00000000 | size, padding",
    );
    check(
        Operation::Removexattr {
            name: CBytes(b"user.a"),
        },
        "2f000000 18000000 | len 47, opcode REMOVEXATTR
         HEAD
         757365722e61 00 | name",
    );
}
