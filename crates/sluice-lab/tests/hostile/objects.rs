//! Nodes and handles that are unknown, foreign or gone; and too many of them.

use crate::scene::Scene;
use sluice_lab::raw_guest::{Guest, OpenFile, ROOT, body};
use sluice_proto::fuse::wire::{
    FileLock, ForgetIn, LinkIn, LkFlags, LkIn, MkdirIn, Opcode, ReadIn, ReleaseIn, RenameIn,
};
use sluice_vfs::Errno;
use std::fs;
use zerocopy::IntoBytes;

/// Requests about a node, with the smallest body that has a meaning.
fn about_a_node() -> Vec<(Opcode, Vec<u8>)> {
    let sized = |opcode, len| (opcode, vec![0; len]);
    vec![
        (Opcode::Lookup, b"x\0".to_vec()),
        (Opcode::Getattr, vec![0; 16]),
        sized(Opcode::Setattr, 88),
        sized(Opcode::Readlink, 0),
        (Opcode::Symlink, b"x\0y\0".to_vec()),
        (Opcode::Mknod, [&[0; 16][..], b"x\0"].concat()),
        (Opcode::Mkdir, body(&MkdirIn::default(), b"x\0")),
        (Opcode::Unlink, b"x\0".to_vec()),
        (Opcode::Rmdir, b"x\0".to_vec()),
        (Opcode::Rename, body(&RenameIn { newdir: ROOT }, b"x\0y\0")),
        (Opcode::Link, body(&LinkIn { oldnodeid: ROOT }, b"x\0")),
        sized(Opcode::Open, 8),
        sized(Opcode::Opendir, 8),
        sized(Opcode::Read, 40),
        sized(Opcode::Write, 40),
        sized(Opcode::Statfs, 0),
        sized(Opcode::Release, 24),
        sized(Opcode::Releasedir, 24),
        sized(Opcode::Fsync, 16),
        sized(Opcode::Fsyncdir, 16),
        sized(Opcode::Flush, 24),
        (Opcode::Setxattr, [&[0; 16][..], b"user.x\0"].concat()),
        (Opcode::Getxattr, [&[0; 8][..], b"user.x\0"].concat()),
        sized(Opcode::Listxattr, 8),
        (Opcode::Removexattr, b"user.x\0".to_vec()),
        sized(Opcode::Readdir, 40),
        sized(Opcode::Readdirplus, 40),
        sized(Opcode::Getlk, 48),
        sized(Opcode::Setlk, 48),
        sized(Opcode::Setlkw, 48),
        sized(Opcode::Access, 8),
        (Opcode::Create, [&[0; 16][..], b"x\0"].concat()),
        (Opcode::Tmpfile, [&[0; 16][..], b"/\0"].concat()),
        sized(Opcode::Ioctl, 32),
        sized(Opcode::Fallocate, 32),
        sized(Opcode::Lseek, 24),
        sized(Opcode::CopyFileRange, 56),
        sized(Opcode::Statx, 24),
        sized(Opcode::Setupmapping, 40),
        sized(Opcode::Bmap, 16),
        sized(Opcode::Poll, 24),
    ]
}

#[test]
fn nodes_that_nobody_was_told_of() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let known = guest.lookup(ROOT, b"file").unwrap();
        let strangers = [
            0,
            2,
            known + 1,
            known ^ (1 << 32),
            known ^ (1 << 63),
            1 << 32,
            u64::from(u32::MAX),
            u64::MAX,
        ];
        for (opcode, body) in about_a_node() {
            for stranger in strangers.into_iter().filter(|node| *node != known) {
                let answer = guest.ask_raw(opcode as u32, stranger, &body);
                assert!(answer.is_err(), "{opcode:?} of node {stranger:#x} works");
            }
        }
        for stranger in strangers.into_iter().filter(|node| *node != known) {
            let linked = body(
                &LinkIn {
                    oldnodeid: stranger,
                },
                b"new\0",
            );
            let linked = guest.ask_raw(Opcode::Link as u32, ROOT, &linked);
            assert_eq!(linked, Err(Errno::ESTALE));
            let moved = body(&RenameIn { newdir: stranger }, b"file\0new\0");
            let moved = guest.ask_raw(Opcode::Rename as u32, ROOT, &moved);
            assert_eq!(moved, Err(Errno::ESTALE));
        }
    });
}

/// A handle is good for its own node, and for what it was opened as.
#[test]
fn handles_of_others() {
    Scene::play(|scene| {
        fs::write(scene.share.join("other"), b"other").unwrap();
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"file").unwrap();
        let other = guest.create(ROOT, b"other").unwrap();
        let opened = guest
            .ask_raw(Opcode::Opendir as u32, ROOT, &[0; 8])
            .unwrap();
        let dir = u64::from_ne_bytes(opened[..8].try_into().unwrap());
        let swapped = |fh, node| OpenFile { fh, node };
        for (fh, node) in [
            (file.fh, other.node),
            (dir, file.node),
            (file.fh ^ (1 << 32), file.node),
            (file.fh + 2, file.node),
            (u64::MAX, file.node),
        ] {
            assert!(
                guest.read(swapped(fh, node), 0, 10).is_err(),
                "{fh:#x} {node:#x}"
            );
            assert!(
                guest.write(swapped(fh, node), 0, b"x").is_err(),
                "{fh:#x} {node:#x}"
            );
        }
        for opcode in [Opcode::Readdir, Opcode::Readdirplus] {
            for (fh, node) in [(file.fh, ROOT), (file.fh, file.node), (dir, file.node)] {
                let args = ReadIn {
                    fh,
                    size: 4096,
                    ..ReadIn::default()
                };
                let listed = guest.ask_raw(opcode as u32, node, args.as_bytes());
                assert!(listed.is_err(), "{opcode:?} {fh:#x} {node:#x}");
            }
        }
        assert_eq!(fs::read(scene.share.join("other")).unwrap(), b"other");
    });
}

/// A directory's handle is good for listing, whatever else is asked of it.
#[test]
fn a_directorys_handle_is_no_files() {
    Scene::play(|scene| {
        let before = crate::scene::contents(&scene.share);
        let mut guest = scene.guest();
        let file = guest.lookup(ROOT, b"file").unwrap();
        let opened = guest
            .ask_raw(Opcode::Opendir as u32, ROOT, &[0; 8])
            .unwrap();
        let fh = u64::from_ne_bytes(opened[..8].try_into().unwrap());
        let mut copy = [fh, 0, ROOT, fh, 0, 10, 0].as_bytes().to_vec();
        copy.truncate(56);
        for (opcode, body) in [
            (Opcode::Write, body(&[fh, 0, 7, 0, 0], b"changed")),
            (Opcode::Read, [fh, 0, 4096, 0, 0].as_bytes().to_vec()),
            (Opcode::Fallocate, [fh, 0, 4096, 0].as_bytes().to_vec()),
            (Opcode::CopyFileRange, copy),
            (Opcode::Lseek, [fh, 0, 3].as_bytes().to_vec()),
            (Opcode::Ioctl, [fh, 0, 0, 0].as_bytes().to_vec()),
            (Opcode::Setlk, [fh, 1, 0, 10, 1, 0].as_bytes().to_vec()),
            (
                Opcode::Setupmapping,
                [fh, 0, 4096, 0, 0].as_bytes().to_vec(),
            ),
        ] {
            for node in [ROOT, file] {
                let done = guest.ask_raw(opcode as u32, node, &body);
                assert!(
                    done.is_err(),
                    "{opcode:?} of {node} by a directory's handle"
                );
            }
        }
        assert_eq!(crate::scene::contents(&scene.share), before);
    });
}

#[test]
fn what_is_closed_or_forgotten_is_gone() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"file").unwrap();
        let release = ReleaseIn {
            fh: file.fh,
            ..ReleaseIn::default()
        };
        let release = |guest: &mut Guest| {
            guest.ask_raw(Opcode::Release as u32, file.node, release.as_bytes())
        };
        assert!(release(&mut guest).is_ok());
        for _ in 0..100 {
            assert_eq!(release(&mut guest), Err(Errno::EBADF));
            assert!(guest.read(file, 0, 10).is_err());
        }
        // More references than were given, many times.
        let open = guest.create(ROOT, b"file").unwrap();
        for nlookup in [1, u64::MAX, u64::MAX, 1 << 63, 0] {
            let args = ForgetIn { nlookup };
            let forget = sluice_lab::raw_guest::header(Opcode::Forget as u32, open.node, 8);
            assert_eq!(guest.send_raw(&forget, args.as_bytes(), &[]), None);
        }
        assert_eq!(guest.getattr(open.node), Err(Errno::ESTALE));
        // What is open may go on or not, but as itself.
        if let Ok(content) = guest.read(open, 0, 100) {
            assert_eq!(content, b"content");
        }
        assert!(guest.lookup(ROOT, b"file").is_ok());
    });
}

/// FORGETs of nodes on one queue while the other works on them: counts are the guest's
/// word, and no reason to free what is in use.
#[test]
fn forgetting_what_is_in_use() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for _ in 0..500 {
            let node = guest.lookup(ROOT, b"file").unwrap();
            let read = sluice_lab::raw_guest::header(Opcode::Getattr as u32, node, 16);
            let open = sluice_lab::raw_guest::header(Opcode::Open as u32, node, 8);
            for (header, len) in [(read, 16), (open, 8)] {
                let sent = [header.as_bytes(), &[0; 16][..len]];
                guest.requests.submit(&sent, &[16, 200]).unwrap();
            }
            let args = ForgetIn { nlookup: u64::MAX };
            let forget = sluice_lab::raw_guest::header(Opcode::Forget as u32, node, 8);
            guest
                .hiprio
                .submit(&[forget.as_bytes(), args.as_bytes()], &[])
                .unwrap();
            guest.requests.kick();
            guest.hiprio.kick();
            for _ in 0..2 {
                let done = guest.requests.wait().unwrap();
                assert!([0, Errno::ESTALE.raw()].contains(&guest.errno(&done)));
            }
            guest.hiprio.wait().unwrap();
        }
    });
}

/// virtiofsd and QEMU's C daemon before it died or stayed in EMFILE for good
/// (CVE-2020-10717).
#[test]
fn opening_without_end() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        let mut opened = 0;
        let refusal = loop {
            match guest.ask_raw(Opcode::Open as u32, node, &[0; 8]) {
                Ok(_) => opened += 1,
                Err(errno) => break errno,
            }
            assert!(opened <= 1 << 17, "there is no end");
        };
        assert!(
            [Errno::ENFILE, Errno::EMFILE].contains(&refusal),
            "{refusal}"
        );
        assert!(opened >= 100, "only {opened} files can be open");
        // What the neighbour closes is shared out anew.
        let mut again = || guest.ask_raw(Opcode::Open as u32, node, &[0; 8]);
        let granted = (0..1000).filter(|_| again().is_ok()).count();
        assert!(granted < 100, "{granted} more");
        // It is this session's misfortune, and not for good.
        assert!(guest.getattr(node).is_ok());
        guest.init().unwrap();
        let node = guest.lookup(ROOT, b"file").unwrap();
        assert!(guest.ask_raw(Opcode::Open as u32, node, &[0; 8]).is_ok());
    });
}

/// Owners, ranges of one owner, and what a range is cut into: the host's kernel keeps
/// all of them. How they are given up is the guest's choice as well.
#[test]
fn locking_without_end() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"file").unwrap();
        let posix = |kind, owner, start, end| LkIn {
            fh: file.fh,
            owner,
            lk: FileLock {
                start,
                end,
                kind,
                pid: 1,
            },
            lk_flags: LkFlags::empty(),
            padding: 0,
        };
        let write = |owner, at| posix(FileLock::WRITE, owner, at, at);
        let owners = until_refused(&mut guest, file, |nth| write(nth, nth));
        for owner in (0..owners).rev() {
            let unlock = posix(FileLock::UNLOCK, owner, 0, i64::MAX as u64);
            set_lock(&mut guest, file, &unlock).unwrap();
        }
        let spread = until_refused(&mut guest, file, |nth| write(0, 2 * nth));
        set_lock(&mut guest, file, &write(0, 0)).expect_err("there is no room for more");
        let all = posix(FileLock::WRITE, 0, 0, u64::from(u32::MAX));
        set_lock(&mut guest, file, &posix(FileLock::UNLOCK, 0, 0, 8)).unwrap();
        set_lock(&mut guest, file, &all).unwrap();
        let cuts = until_refused(&mut guest, file, |nth| {
            posix(FileLock::UNLOCK, 0, 2 * nth + 1, 2 * nth + 1)
        });
        eprintln!("{owners} owners, {spread} ranges, {cuts} cuts");
        assert!(guest.getattr(file.node).is_ok());
        let stranger = posix(FileLock::READ, u64::MAX, 0, i64::MAX as u64);
        let asked = guest.ask_raw(Opcode::Getlk as u32, file.node, stranger.as_bytes());
        assert!(asked.is_ok());
    });
}

/// Sets one lock after the other until one is refused; how many were granted.
fn until_refused(guest: &mut Guest, file: OpenFile, lock: impl Fn(u64) -> LkIn) -> u64 {
    for nth in 0..1 << 17 {
        match set_lock(guest, file, &lock(nth)) {
            Ok(()) => {}
            Err(errno) => {
                let is_expected = [Errno::ENOLCK, Errno::ENFILE].contains(&errno);
                assert!(is_expected && nth > 100, "{errno} after {nth}");
                return nth;
            }
        }
    }
    panic!("there is no end");
}

fn set_lock(guest: &mut Guest, file: OpenFile, lock: &LkIn) -> Result<(), Errno> {
    guest
        .ask_raw(Opcode::Setlk as u32, file.node, lock.as_bytes())
        .map(drop)
}

/// Shared flocks of one file, as many as files can be open.
#[test]
fn sharing_a_flock_without_end() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        let mut held = 0;
        while let Ok(opened) = guest.ask_raw(Opcode::Open as u32, node, &[0; 8]) {
            let fh = u64::from_ne_bytes(opened[..8].try_into().unwrap());
            let shared = LkIn {
                fh,
                owner: held,
                lk: FileLock {
                    end: i64::MAX as u64,
                    kind: FileLock::READ,
                    ..FileLock::default()
                },
                lk_flags: LkFlags::FLOCK,
                padding: 0,
            };
            let file = OpenFile { fh, node };
            if set_lock(&mut guest, file, &shared).is_err() {
                break;
            }
            held += 1;
            assert!(held <= 1 << 17, "there is no end");
        }
        assert!(held >= 100, "only {held}");
        assert!(guest.getattr(node).is_ok());
    });
}

/// Every waiting lock holds a slot of the ring; some must stay for what frees it.
#[test]
fn waiting_without_end() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"file").unwrap();
        let lock = |owner| LkIn {
            fh: file.fh,
            owner,
            lk: FileLock {
                start: 0,
                end: 10,
                kind: FileLock::WRITE,
                pid: 1,
            },
            lk_flags: LkFlags::empty(),
            padding: 0,
        };
        let first = lock(0);
        guest
            .ask_raw(Opcode::Setlk as u32, file.node, first.as_bytes())
            .unwrap();
        // As many as the ring has requests at once, but one.
        for owner in 1..16 {
            let args = lock(owner);
            let header = sluice_lab::raw_guest::header(Opcode::Setlkw as u32, file.node, 48);
            let header = guest.stamped(header);
            let sent = [header.as_bytes(), args.as_bytes()];
            guest.requests.submit(&sent, &[64]).unwrap();
        }
        guest.requests.kick();
        assert!(guest.getattr(file.node).is_ok(), "the ring goes on");
    });
}
