//! Offsets, lengths, times, sizes and flags at their edges.

use crate::scene::{Scene, assert_no_secret};
use sluice_lab::raw_guest::{Guest, OpenFile, ROOM, ROOT, body};
use sluice_proto::fuse::wire::{
    CopyFileRangeIn, CreateIn, ExtHeader, FallocateIn, FattrValid, FileLock, GetxattrIn,
    IoctlFlags, IoctlIn, LkFlags, LkIn, LseekIn, MknodIn, Opcode, ReadIn, Rename2In, Secctx,
    SetattrIn, SetxattrIn, SuppGroups, WriteFlags, WriteIn,
};
use sluice_vfs::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use zerocopy::IntoBytes;

/// Where arithmetic goes wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 63) - 4096,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// Ranges that no file has: they end beyond the largest offset.
fn impossible_ranges() -> impl Iterator<Item = (u64, u64)> {
    let pairs = EDGES.iter().flat_map(|a| EDGES.map(|b| (*a, b)));
    pairs.filter(|(start, len)| {
        start
            .checked_add(*len)
            .is_none_or(|end| end > i64::MAX as u64)
    })
}

/// A file with content in a mounted share.
fn with_file(act: impl Fn(&mut Guest, OpenFile)) {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"victim").unwrap();
        guest.write(file, 0, b"content").unwrap();
        act(&mut guest, file);
        assert_eq!(fs::read(scene.share.join("victim")).unwrap(), b"content");
    });
}

#[test]
fn reads_beyond_everything() {
    with_file(|guest, file| {
        for offset in EDGES {
            for size in [0, 1, 4096, ROOM, ROOM + 1, 1 << 31, u32::MAX] {
                let args = ReadIn {
                    fh: file.fh,
                    offset,
                    size,
                    ..ReadIn::default()
                };
                let read = guest.ask_raw(Opcode::Read as u32, file.node, args.as_bytes());
                match read {
                    Ok(data) => {
                        let expected = b"content".get(offset as usize..).unwrap_or_default();
                        assert_eq!(data, &expected[..expected.len().min(size as usize)]);
                    }
                    Err(errno) => assert_eq!(errno, Errno::EINVAL, "{offset} {size}"),
                }
            }
        }
    });
}

#[test]
fn writes_beyond_everything() {
    with_file(|guest, file| {
        for offset in EDGES
            .into_iter()
            .filter(|offset| *offset >= i64::MAX as u64)
        {
            for size in [0, 1, 5000] {
                let args = WriteIn {
                    fh: file.fh,
                    offset,
                    size,
                    write_flags: WriteFlags::CACHE,
                    ..WriteIn::default()
                };
                let sent = body(&args, &vec![b'!'; size as usize]);
                let written = guest.ask_raw(Opcode::Write as u32, file.node, &sent);
                let is_nothing = written.as_ref().is_ok_and(|out| out[..4] == [0; 4]);
                assert!(is_nothing || written.is_err(), "{offset} {size}");
            }
        }
    });
}

#[test]
fn space_beyond_everything() {
    with_file(|guest, file| {
        for (offset, length) in impossible_ranges() {
            for mode in [0, 1, 2, 3, 8, 0x10, 0x11, 0x20, 0x40, u32::MAX] {
                let args = FallocateIn {
                    fh: file.fh,
                    offset,
                    length,
                    mode,
                    padding: 0,
                };
                let done = guest.ask_raw(Opcode::Fallocate as u32, file.node, args.as_bytes());
                assert!(done.is_err(), "fallocate {offset} {length} {mode}");
            }
        }
        for size in EDGES.into_iter().filter(|size| *size > i64::MAX as u64) {
            let args = SetattrIn {
                valid: FattrValid::SIZE,
                size,
                ..SetattrIn::default()
            };
            let done = guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes());
            assert!(done.is_err(), "a size of {size}");
        }
    });
}

#[test]
fn positions_beyond_everything() {
    with_file(|guest, file| {
        for offset in EDGES {
            for whence in [0, 1, 2, 3, 4, 5, 1 << 31, u32::MAX] {
                let args = LseekIn {
                    fh: file.fh,
                    offset,
                    whence,
                    padding: 0,
                };
                let found = guest.ask_raw(Opcode::Lseek as u32, file.node, args.as_bytes());
                if let Ok(out) = found {
                    let at = u64::from_ne_bytes(out[..8].try_into().unwrap());
                    assert!(at <= i64::MAX as u64, "{offset} {whence}: {at}");
                }
            }
        }
    });
}

#[test]
fn copies_beyond_everything() {
    with_file(|guest, file| {
        let dir_fh = {
            let opened = guest
                .ask_raw(Opcode::Opendir as u32, ROOT, &[0; 8])
                .unwrap();
            u64::from_ne_bytes(opened[..8].try_into().unwrap())
        };
        let sink = guest.create(ROOT, b"sink").unwrap();
        for opcode in [Opcode::CopyFileRange, Opcode::CopyFileRange64] {
            for (off, len) in impossible_ranges() {
                for (off_in, off_out) in [(off, 0), (0, off), (off, off)] {
                    let args = CopyFileRangeIn {
                        fh_in: file.fh,
                        off_in,
                        nodeid_out: sink.node,
                        fh_out: sink.fh,
                        off_out,
                        len,
                        flags: 0,
                    };
                    // What there is may be copied; a length is a wish.
                    let copied = guest.ask_raw(opcode as u32, file.node, args.as_bytes());
                    if let Ok(out) = copied {
                        let is_possible = off_in < 7 && off_out.checked_add(7).is_some();
                        let count = u32::from_ne_bytes(out[..4].try_into().unwrap());
                        assert!(count == 0 || is_possible, "{off_in} {off_out} {len}");
                        assert!(count <= 7, "{count} of 7 bytes");
                    }
                }
            }
            for (fh_in, nodeid_out, fh_out) in [
                (file.fh, ROOT, file.fh),
                (file.fh, file.node, file.fh + 1),
                (file.fh, ROOT, dir_fh),
                (dir_fh, file.node, file.fh),
                (u64::MAX, file.node, file.fh),
                (file.fh, u64::MAX, file.fh),
            ] {
                let args = CopyFileRangeIn {
                    fh_in,
                    nodeid_out,
                    fh_out,
                    len: 3,
                    off_out: 7,
                    ..CopyFileRangeIn::default()
                };
                let copied = guest.ask_raw(opcode as u32, file.node, args.as_bytes());
                assert!(copied.is_err(), "{fh_in} {nodeid_out} {fh_out}");
            }
        }
    });
}

#[test]
fn locks_beyond_everything() {
    with_file(|guest, file| {
        for start in EDGES {
            for end in EDGES {
                for kind in [0, 1, 2, 3, 1 << 31, u32::MAX] {
                    for (opcode, lk_flags) in [
                        (Opcode::Getlk, LkFlags::empty()),
                        (Opcode::Setlk, LkFlags::empty()),
                        (Opcode::Setlk, LkFlags::FLOCK),
                        (Opcode::Setlkw, LkFlags::empty()),
                    ] {
                        let args = LkIn {
                            fh: file.fh,
                            owner: end,
                            lk: FileLock {
                                start,
                                end,
                                kind,
                                pid: u32::MAX,
                            },
                            lk_flags,
                            padding: 0,
                        };
                        // An owner's second lock could wait for the first owner's.
                        let opcode = match (opcode, kind) {
                            (Opcode::Setlkw, 0 | 1) => Opcode::Setlk,
                            _ => opcode,
                        };
                        let done = guest.ask_raw(opcode as u32, file.node, args.as_bytes());
                        if start > end || kind > 2 {
                            assert!(done.is_err(), "{opcode:?} {start}..{end} {kind}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn times_owners_and_modes_that_are_none() {
    with_file(|guest, file| {
        for seconds in EDGES {
            for nanoseconds in [
                0,
                999_999_999,
                1_000_000_000,
                0x3fff_fffe,
                0x3fff_ffff,
                u32::MAX,
            ] {
                let args = SetattrIn {
                    valid: FattrValid::ATIME | FattrValid::MTIME | FattrValid::CTIME,
                    atime: seconds,
                    mtime: seconds,
                    ctime: seconds,
                    atimensec: nanoseconds,
                    mtimensec: nanoseconds,
                    ctimensec: nanoseconds,
                    ..SetattrIn::default()
                };
                let done = guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes());
                // `UTIME_NOW` and `UTIME_OMIT` are not part of the protocol.
                if nanoseconds >= 1_000_000_000 {
                    assert_eq!(done, Err(Errno::EINVAL), "{seconds} {nanoseconds}");
                }
                assert!(guest.getattr(file.node).is_ok());
            }
        }
        for mode in [0o170_000, 0o020_666, 0o040_777, u32::MAX, 0o100_000_644] {
            let args = SetattrIn {
                valid: FattrValid::MODE,
                mode,
                ..SetattrIn::default()
            };
            let _ = guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes());
        }
        for id in [u32::MAX, u32::MAX - 1, 1 << 31] {
            guest.caller = (id, id);
            let _ = guest.getattr(file.node);
            let _ = guest.ask_raw(Opcode::Create as u32, ROOT, &body(&create(), b"ids\0"));
            let args = SetattrIn {
                valid: FattrValid::UID | FattrValid::GID,
                uid: id,
                gid: id,
                ..SetattrIn::default()
            };
            let _ = guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes());
        }
        guest.caller = (0, 0);
    });
}

fn create() -> CreateIn {
    CreateIn {
        flags: 2,
        mode: 0o100_644,
        ..CreateIn::default()
    }
}

/// The type of what is made is the request's, not what its mode or flags smuggle in.
#[test]
fn modes_that_smuggle_a_type() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for (name, mode) in [
            (&b"a"[..], 0o020_666),
            (b"b", 0o060_666),
            (b"c", 0o010_666),
            (b"d", 0o040_777),
            (b"e", 0o170_777),
        ] {
            let terminated = [name, b"\0"].concat();
            for flags in [2, 0o10_000_002, 0o20_200_002, u32::MAX] {
                let args = CreateIn {
                    flags,
                    mode,
                    ..CreateIn::default()
                };
                let made = body(&args, &terminated);
                let _ = guest.ask_raw(Opcode::Create as u32, ROOT, &made);
            }
            let path = scene.share.join(str::from_utf8(name).unwrap());
            if let Ok(attr) = fs::symlink_metadata(path) {
                assert!(attr.is_file(), "mode {mode:o}");
            }
        }
        for mode in [0o170_666, 0o120_777, 0o040_777, 0o030_000, u32::MAX] {
            let args = MknodIn {
                mode,
                rdev: u32::MAX,
                ..MknodIn::default()
            };
            let made = guest.ask_raw(Opcode::Mknod as u32, ROOT, &body(&args, b"node\0"));
            assert!(made.is_err(), "MKNOD of mode {mode:o}");
        }
    });
}

#[test]
fn extended_attributes_of_all_sizes() {
    with_file(|guest, file| {
        for (size, sent) in [
            (0, 0),
            (1, 0),
            (0, 1),
            (100, 99),
            (99, 100),
            (65_536, 65_536),
            (65_537, 65_537),
            (u32::MAX, 10),
            (1 << 31, 0),
        ] {
            let args = SetxattrIn {
                size,
                ..SetxattrIn::default()
            };
            let value = [&b"user.x\0"[..], &vec![b'v'; sent]].concat();
            let set = guest.ask_raw(Opcode::Setxattr as u32, file.node, &body(&args, &value));
            if size as usize != sent || size > 65_536 {
                assert!(set.is_err(), "{size} bytes, of which {sent} are sent");
            }
        }
        let long = [&b"user."[..], &[b'x'; 251], b"\0"].concat();
        for name in [
            &b"\0"[..],
            b"",
            b"user.\0",
            b"unterminated",
            b"nonsense\0",
            &long,
        ] {
            let args = SetxattrIn::default();
            let set = guest.ask_raw(Opcode::Setxattr as u32, file.node, &body(&args, name));
            assert!(set.is_err(), "{}", name.escape_ascii());
            for size in [0, 1, 65_536, u32::MAX] {
                let args = GetxattrIn { size, padding: 0 };
                let got = guest.ask_raw(Opcode::Getxattr as u32, file.node, &body(&args, name));
                assert!(got.is_err(), "{}", name.escape_ascii());
            }
            let removed = guest.ask_raw(Opcode::Removexattr as u32, file.node, name);
            assert!(removed.is_err(), "{}", name.escape_ascii());
        }
        for size in [0, 1, 65_536, 65_537, ROOM, u32::MAX] {
            let args = GetxattrIn { size, padding: 0 };
            let _ = guest.ask_raw(Opcode::Listxattr as u32, file.node, args.as_bytes());
        }
    });
}

#[test]
fn listings_from_nowhere() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let opened = guest
            .ask_raw(Opcode::Opendir as u32, ROOT, &[0; 8])
            .unwrap();
        let fh = u64::from_ne_bytes(opened[..8].try_into().unwrap());
        for opcode in [Opcode::Readdir, Opcode::Readdirplus] {
            for offset in EDGES {
                for size in [0, 1, 8, 24, 160, 4096, ROOM, 1 << 31, u32::MAX] {
                    let args = ReadIn {
                        fh,
                        offset,
                        size,
                        ..ReadIn::default()
                    };
                    if let Ok(listed) = guest.ask_raw(opcode as u32, ROOT, args.as_bytes()) {
                        assert!(listed.len() <= size as usize);
                        assert_no_secret(&listed);
                    }
                }
            }
        }
    });
}

/// Only file flags are known; every other request number is refused unseen.
#[test]
fn ioctls_of_all_sizes() {
    with_file(|guest, file| {
        let flags = [
            IoctlFlags::empty(),
            IoctlFlags::COMPAT,
            IoctlFlags::UNRESTRICTED,
            IoctlFlags::RETRY,
            IoctlFlags::DIR,
            IoctlFlags::all(),
        ];
        // FS_IOC_{GET,SET}FLAGS, FSGETXATTR, FSSETXATTR, FICLONE, FIFREEZE, FIBMAP,
        // FS_IOC_ADD_ENCRYPTION_KEY, TIOCSTI, BLKDISCARD, nothing
        let commands = [
            0x8008_6601,
            0x4008_6602,
            0x801c_581f,
            0x401c_5820,
            0x4004_9409,
            0xc004_5877,
            1,
            0xc050_6617,
            0x5412,
            0x1277,
            0,
            u32::MAX,
        ];
        for cmd in commands {
            for flags in flags {
                for (in_size, sent) in [(0, 0), (3, 3), (4, 4), (8, 4), (28, 28), (u32::MAX, 5)] {
                    for out_size in [0, 3, 4, 8, 28, 4096, u32::MAX] {
                        let args = IoctlIn {
                            fh: file.fh,
                            flags,
                            cmd,
                            arg: u64::MAX,
                            in_size,
                            out_size,
                        };
                        // No flag is set: the file stays as deletable as it is.
                        let sent = body(&args, &vec![0; sent]);
                        let done = guest.ask_raw(Opcode::Ioctl as u32, file.node, &sent);
                        let is_known = cmd & 0xff00 == 0x6600 || cmd & 0xff00 == 0x5800;
                        assert!(is_known || done.is_err(), "ioctl {cmd:#x}");
                    }
                }
            }
        }
    });
}

#[test]
fn renames_with_all_flags() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let dir = guest.lookup(ROOT, b"dir").unwrap();
        for flags in [3, 6, 7, 8, 1 << 31, u32::MAX] {
            for newdir in [ROOT, dir, 0, u64::MAX] {
                let args = Rename2In {
                    newdir,
                    flags,
                    padding: 0,
                };
                let moved = body(&args, b"file\0other\0");
                let moved = guest.ask_raw(Opcode::Rename2 as u32, ROOT, &moved);
                assert!(moved.is_err(), "flags {flags:#x} to {newdir}");
            }
        }
        // A directory into itself, and the root anywhere.
        let args = Rename2In {
            newdir: dir,
            ..Rename2In::default()
        };
        let moved = guest.ask_raw(Opcode::Rename2 as u32, ROOT, &body(&args, b"dir\0dir\0"));
        assert_eq!(moved, Err(Errno::EINVAL));
        assert!(scene.share.join("dir/inner").exists());
        assert!(scene.share.join("file").exists());
    });
}

/// Security labels and groups whose sizes and counts are lies.
#[test]
fn extensions_that_lie() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let block = |size, kind, rest: &[u8]| body(&ExtHeader { size, kind }, rest);
        let label = |size, rest: &[u8]| body(&Secctx { size, padding: 0 }, rest);
        let groups = |nr_groups, rest: &[u8]| body(&SuppGroups { nr_groups }, rest);
        let liars: Vec<Vec<u8>> = vec![
            vec![],
            vec![0; 4],
            block(0, 0, &[]),
            block(7, 1, &[]),
            block(9, 1, &[]),
            block(u32::MAX, 1, &[]),
            block(1 << 31, 32, &[]),
            block(8, 31, &[]),
            block(8, 1, &[]),
            block(16, 1, &label(u32::MAX, b"")),
            block(32, 1, &label(1 << 31, b"security.x\0value")),
            block(32, 1, &label(5, b"unterminated....")),
            block(24, 2, &label(0, b"user.x\0\0")),
            block(24, u32::MAX, &[0; 16]),
            block(16, 32, &groups(u32::MAX, &[0; 4])),
            block(16, 32, &groups(1 << 30, &[0; 4])),
            block(16, 32, &groups(2, &[0; 4])),
            block(8, 32, &[]),
            [block(16, 32, &groups(1, &[0; 4])), block(800, 1, &[])].concat(),
        ];
        for liar in &liars {
            for units in [0, 1, 2, liar.len() / 8, liar.len() / 8 + 1, 1000, 65_535] {
                let mut sent = body(&create(), b"new\0");
                sent.extend(liar);
                let header = sluice_lab::raw_guest::header(Opcode::Create as u32, ROOT, sent.len());
                let mut header = guest.stamped(header);
                header.total_extlen = units as u16;
                let room = [sluice_lab::raw_guest::HEADER_LEN, ROOM];
                let answer = guest.send_raw(&header, &sent, &room).expect("a reply");
                if let Ok(attr) = fs::symlink_metadata(scene.share.join("new")) {
                    assert!(answer.result.is_ok());
                    assert_eq!(attr.uid(), 0, "who asks is who owns it");
                    fs::remove_file(scene.share.join("new")).unwrap();
                }
            }
        }
    });
}
