//! Replies.

use crate::{assert_encodes, bytes};
use sluice_proto::fuse::wire::*;
use sluice_vfs::Errno;

const UNIQUE: u64 = 0x0102_0304_0506_0708;

const ATTR: Attr = Attr {
    ino: 0x21,
    size: 0x1234,
    blocks: 0x18,
    atime: 0x5f00_0001,
    mtime: -2_i64 as u64,
    ctime: 0x5f00_0003,
    atimensec: 1,
    mtimensec: 2,
    ctimensec: 999_999_999,
    mode: 0o100644,
    nlink: 2,
    uid: 1000,
    gid: 1001,
    rdev: 0x811,
    blksize: 4096,
    flags: AttrFlags::SUBMOUNT,
};

const ENTRY: EntryOut = EntryOut {
    nodeid: 0x21,
    generation: 1,
    entry_valid: 5,
    attr_valid: 6,
    entry_valid_nsec: 7,
    attr_valid_nsec: 8,
    attr: ATTR,
};

const ENTRY_TEXT: &str = "21000000 00000000 | nodeid
     01000000 00000000 | generation
     05000000 00000000 06000000 00000000 | entry_valid, attr_valid
     07000000 08000000 | entry_valid_nsec, attr_valid_nsec
     ATTR";

const OPEN: OpenOut = OpenOut {
    fh: 0x31,
    open_flags: FopenFlags::KEEP_CACHE.union(FopenFlags::NOFLUSH),
    backing_id: -1,
};

const OPEN_TEXT: &str = "31000000 00000000 | fh
     22000000 ffffffff | open_flags KEEP_CACHE NOFLUSH, backing_id -1";

#[test]
fn every_reply_is_read_and_written_as_the_kernel_lays_it_out() {
    let mut seen = Vec::new();
    let mut check = |reply: Reply<'_>, len: &str, body: &str| {
        check_reply(&reply, len, body);
        seen.push(reply.opcode());
    };
    nodes(&mut check);
    files(&mut check);
    sessions(&mut check);
    empty(&mut check);
    for opcode in Opcode::ALL.iter().filter(|opcode| opcode.is_answered()) {
        assert!(seen.contains(opcode), "no golden bytes for {opcode:?}");
    }
}

#[test]
fn errors_are_negative_numbers_and_nothing_else() {
    let golden = bytes(
        "10000000 feffffff | len 16, error -ENOENT
         08070605 04030201 | unique",
    );
    assert_encodes("error", &golden, |buf| {
        encode_error(UNIQUE, Errno::ENOENT, buf)
    });
    assert_eq!(
        decode_reply(Opcode::Lookup, &golden),
        Ok(ReplyMessage {
            unique: UNIQUE,
            result: Err(Errno::ENOENT)
        })
    );
    let with_body = bytes(
        "11000000 feffffff | len 17, error -ENOENT
         08070605 04030201 | unique
         00 | what must not be there",
    );
    assert_eq!(
        decode_reply(Opcode::Lookup, &with_body),
        Err(Malformed::Trailing { count: 1 })
    );
}

#[test]
fn error_numbers_that_the_kernel_refuses_become_eio() {
    // ERESTARTSYS, which no program should see.
    let mut buf = [0xaa; 16];
    assert_eq!(
        encode_error(UNIQUE, Errno::from_raw(512), &mut buf),
        Ok(buf.len())
    );
    assert_eq!(&buf[4..8], (-5_i32).to_le_bytes());
    for (error, is_good) in [(-511_i32, true), (-512, false), (1, false)] {
        buf[4..8].copy_from_slice(&error.to_le_bytes());
        assert_eq!(decode_reply(Opcode::Unlink, &buf).is_ok(), is_good);
    }
}

#[test]
fn directory_entries_are_padded_to_eight_bytes() {
    let dirent = Dirent {
        ino: 0x21,
        off: 0x7fff_0000_0000_0001,
        namelen: 3,
        kind: 8,
    };
    let golden = bytes(
        "21000000 00000000 | ino
         01000000 0000ff7f | off
         03000000 08000000 | namelen, type DT_REG
         612e63 0000000000 | name, padding",
    );
    assert_encodes("dirent", &golden, |buf| encode_dirent(&dirent, b"a.c", buf));
    let mut entries = Dirents(&golden);
    assert_eq!(
        entries.next(),
        Some(Ok(DirentRecord {
            dirent,
            name: b"a.c"
        }))
    );
    assert_eq!(entries.next(), None);
    assert_eq!(dirent_len(3), golden.len());

    let entry = Direntplus {
        entry_out: ENTRY,
        dirent: Dirent {
            namelen: 8,
            ..dirent
        },
    };
    let text = format!(
        "{ENTRY_TEXT}
         21000000 00000000 | ino
         01000000 0000ff7f | off
         08000000 08000000 | namelen, type DT_REG
         4d616b6566696c65 | name, no padding"
    );
    let golden = bytes(&text);
    assert_encodes("direntplus", &golden, |buf| {
        encode_direntplus(&entry, b"Makefile", buf)
    });
    assert_eq!(direntplus_len(8), golden.len());
    let two = [golden.as_slice(), golden.as_slice()].concat();
    let names: Vec<_> = Direntpluses(&two)
        .map(|record| record.map(|record| (record.entry, record.name)))
        .collect();
    assert_eq!(names, vec![Ok((entry, &b"Makefile"[..])); 2]);
    let cut: Vec<_> = Direntpluses(&two[..two.len() - 1]).collect();
    assert!(cut[0].is_ok() && cut[1].is_err() && cut.len() == 2);
}

fn check_reply(reply: &Reply<'_>, len: &str, body: &str) {
    let name = format!("{:?}", reply.opcode());
    let golden = bytes(&format!(
        "{len} 00000000 | len, error
         08070605 04030201 | unique
         {body}"
    ));
    assert_eq!(
        decode_reply(reply.opcode(), &golden),
        Ok(ReplyMessage {
            unique: UNIQUE,
            result: Ok(*reply)
        }),
        "{name}"
    );
    assert_encodes(&name, &golden, |buf| encode_reply(UNIQUE, reply, buf));
    for short in 0..golden.len() {
        assert!(
            decode_reply(reply.opcode(), &golden[..short]).is_err(),
            "{name}: {short} bytes are taken for a reply"
        );
    }
    assert!(
        Reply::min_len(reply.opcode()) <= golden.len() - 16,
        "{name}"
    );
}

fn nodes(check: &mut impl FnMut(Reply<'_>, &str, &str)) {
    check(Reply::Lookup { entry: ENTRY }, "90000000", ENTRY_TEXT);
    check(Reply::Symlink { entry: ENTRY }, "90000000", ENTRY_TEXT);
    check(Reply::Mknod { entry: ENTRY }, "90000000", ENTRY_TEXT);
    check(Reply::Mkdir { entry: ENTRY }, "90000000", ENTRY_TEXT);
    check(Reply::Link { entry: ENTRY }, "90000000", ENTRY_TEXT);
    let both = format!("{ENTRY_TEXT}\n{OPEN_TEXT}");
    let (entry, open) = (ENTRY, OPEN);
    check(Reply::Create { entry, open }, "a0000000", &both);
    check(Reply::Tmpfile { entry, open }, "a0000000", &both);

    let attr = AttrOut {
        attr_valid: 5,
        attr_valid_nsec: 6,
        dummy: 0,
        attr: ATTR,
    };
    let text = "05000000 00000000 | attr_valid
         06000000 00000000 | attr_valid_nsec, dummy
         ATTR";
    check(Reply::Getattr { attr }, "78000000", text);
    check(Reply::Setattr { attr }, "78000000", text);
    check(
        Reply::Statx { stat: statx() },
        "30010000",
        "05000000 00000000 | attr_valid
         06000000 01000000 | attr_valid_nsec, flags SUBMOUNT
         00000000 00000000 00000000 00000000 | spare
         ff0f0000 00100000 | mask, blksize
         10000000 00000000 | attributes STATX_ATTR_IMMUTABLE
         02000000 e8030000 e9030000 | nlink, uid, gid
         a481 0000 | mode 0100644, spare
         21000000 00000000 | ino
         34120000 00000000 | size
         18000000 00000000 | blocks
         30000000 00000000 | attributes_mask
         01000000 00000000 02000000 00000000 | atime
         03000000 00000000 04000000 00000000 | btime
         05000000 00000000 06000000 00000000 | ctime
         ffffffff ffffffff 08000000 00000000 | mtime
         08000000 11000000 | rdev_major, rdev_minor
         09000000 02000000 | dev_major, dev_minor
         00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 | spare
         00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 | spare
         00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 | spare
         00000000 00000000 00000000 00000000 | spare",
    );
    check(
        Reply::Readlink {
            target: Rest(b"../t"),
        },
        "14000000",
        "2e2e2f74 | target, no NUL",
    );
    check(
        Reply::Statfs {
            statfs: StatfsOut {
                st: Kstatfs {
                    blocks: 1,
                    bfree: 2,
                    bavail: 3,
                    files: 4,
                    ffree: 5,
                    bsize: 6,
                    namelen: 255,
                    frsize: 8,
                    padding: 0,
                    spare: [0; 6],
                },
            },
        },
        "60000000",
        "01000000 00000000 02000000 00000000 03000000 00000000 | blocks, bfree, bavail
         04000000 00000000 05000000 00000000 | files, ffree
         06000000 ff000000 08000000 | bsize, namelen, frsize
         00000000 | padding
         00000000 00000000 00000000 00000000 00000000 00000000 | spare",
    );
}

fn files(check: &mut impl FnMut(Reply<'_>, &str, &str)) {
    check(Reply::Open { open: OPEN }, "20000000", OPEN_TEXT);
    check(Reply::Opendir { open: OPEN }, "20000000", OPEN_TEXT);
    let data = Rest(b"hello");
    check(Reply::Read { data }, "15000000", "68656c6c6f | data");
    check(
        Reply::Getxattr { value: data },
        "15000000",
        "68656c6c6f | value",
    );
    check(
        Reply::Listxattr {
            names: Rest(b"user.a\0user.b\0"),
        },
        "1e000000",
        "757365722e61 00 757365722e62 00 | names",
    );
    check(Reply::Readdir { entries: Rest(b"") }, "10000000", "");
    check(Reply::Readdirplus { entries: Rest(b"") }, "10000000", "");
    let written = WriteOut {
        size: 5,
        padding: 0,
    };
    let text = "05000000 00000000 | size, padding";
    check(Reply::Write { written }, "18000000", text);
    check(Reply::CopyFileRange { written }, "18000000", text);
    check(
        Reply::CopyFileRange64 {
            copied: CopyFileRangeOut {
                bytes_copied: 0x1_0000_0000,
            },
        },
        "18000000",
        "00000000 01000000 | bytes_copied",
    );
    check(
        Reply::Lseek {
            position: LseekOut { offset: 0x1000 },
        },
        "18000000",
        "00100000 00000000 | offset",
    );
    check(
        Reply::Bmap {
            block: BmapOut { block: 9 },
        },
        "18000000",
        "09000000 00000000 | block",
    );
    check(
        Reply::Ioctl {
            result: IoctlOut {
                result: -1,
                flags: IoctlFlags::RETRY,
                in_iovs: 1,
                out_iovs: 2,
            },
            data: Rest(&[0x10, 0, 0, 0]),
        },
        "24000000",
        "ffffffff 04000000 | result, flags RETRY
         01000000 02000000 | in_iovs, out_iovs
         10000000 | data",
    );
    check(
        Reply::Poll {
            poll: PollOut {
                revents: 5,
                padding: 0,
            },
        },
        "18000000",
        "05000000 00000000 | revents, padding",
    );
    check(
        Reply::Getlk {
            lock: LkOut {
                lk: FileLock {
                    start: 0x10,
                    end: 0x20,
                    kind: FileLock::UNLOCK,
                    pid: 77,
                },
            },
        },
        "28000000",
        "10000000 00000000 20000000 00000000 | start, end
         02000000 4d000000 | type F_UNLCK, pid",
    );
}

fn sessions(check: &mut impl FnMut(Reply<'_>, &str, &str)) {
    let init = InitOut {
        major: 7,
        minor: 45,
        max_readahead: 0x2_0000,
        flags: 0x4000_0001,
        max_background: 0x0100,
        congestion_threshold: 0x00c0,
        max_write: 0x10_0000,
        time_gran: 1,
        max_pages: 0x0100,
        map_alignment: 21,
        flags2: 4,
        max_stack_depth: 2,
        request_timeout: 0x0203,
        unused: [0; 11],
    };
    check(
        Reply::Init { init },
        "50000000",
        "07000000 2d000000 | major, minor
         00000200 01000040 | max_readahead, flags
         0001 c000 | max_background, congestion_threshold
         00001000 | max_write
         01000000 | time_gran
         0001 1500 | max_pages, map_alignment
         04000000 | flags2
         02000000 | max_stack_depth
         0302 | request_timeout
         0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 0000 | unused",
    );
    assert_eq!(init.init_flags().bits(), 0x4_4000_0001);
}

fn empty(check: &mut impl FnMut(Reply<'_>, &str, &str)) {
    for reply in [
        Reply::Unlink {},
        Reply::Rmdir {},
        Reply::Rename {},
        Reply::Rename2 {},
        Reply::Release {},
        Reply::Releasedir {},
        Reply::Fsync {},
        Reply::Fsyncdir {},
        Reply::Setxattr {},
        Reply::Removexattr {},
        Reply::Flush {},
        Reply::Setlk {},
        Reply::Setlkw {},
        Reply::Access {},
        Reply::Destroy {},
        Reply::Fallocate {},
        Reply::Setupmapping {},
        Reply::Removemapping {},
        Reply::Syncfs {},
    ] {
        check(reply, "10000000", "");
    }
}

fn statx() -> StatxOut {
    let time = |tv_sec, tv_nsec| SxTime {
        tv_sec,
        tv_nsec,
        reserved: 0,
    };
    StatxOut {
        attr_valid: 5,
        attr_valid_nsec: 6,
        flags: AttrFlags::SUBMOUNT,
        spare: [0; 2],
        stat: Statx {
            mask: 0xfff,
            blksize: 4096,
            attributes: 0x10,
            nlink: 2,
            uid: 1000,
            gid: 1001,
            mode: 0o100644,
            spare0: [0],
            ino: 0x21,
            size: 0x1234,
            blocks: 0x18,
            attributes_mask: 0x30,
            atime: time(1, 2),
            btime: time(3, 4),
            ctime: time(5, 6),
            mtime: time(-1, 8),
            rdev_major: 8,
            rdev_minor: 17,
            dev_major: 9,
            dev_minor: 2,
            spare2: [0; 14],
        },
    }
}
