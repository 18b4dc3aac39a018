//! Symbolic links, devices, pipes, set-id bits; and a host process that swaps them.

use crate::common::skip;
use crate::scene::{SECRET, Scene, assert_no_secret};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sluice_lab::raw_guest::{Guest, OpenFile, ROOT, body};
use sluice_proto::fuse::wire::{
    CreateIn, FattrValid, LinkIn, MkdirIn, MknodIn, Opcode, OpenIn, OpenInFlags, SetattrIn,
    SetxattrIn,
};
use sluice_vfs::Errno;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

/// Flags of open(2) alone and together: access modes, `O_CREAT`, `O_TRUNC`,
/// `O_NOFOLLOW`, `O_PATH`, `O_TMPFILE`, `O_ASYNC`, `O_NONBLOCK`, `O_DIRECT` and all.
const OPEN_FLAGS: [u32; 12] = [
    0,
    1,
    2,
    3,
    0o100,
    0o1002,
    0o400_000,
    0o10_000_000,
    0o20_200_002,
    0o20_000,
    0o4002,
    u32::MAX,
];

fn open_in(flags: u32) -> OpenIn {
    OpenIn {
        flags,
        open_flags: OpenInFlags::empty(),
    }
}

/// Opening a device or a pipe has effects of its own, and may wait for ever
/// (CVE-2020-35517, CVE-2023-2861).
#[test]
fn what_is_no_file_is_never_opened() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for name in ["fifo", "socket", "out", "up", "root"] {
            never_opens(&mut guest, scene, name);
        }
    });
}

#[test]
fn devices_that_a_guest_makes_are_never_opened() {
    if !rustix::process::geteuid().is_root() {
        return skip("making devices needs root");
    }
    Scene::play(|scene| {
        let mut guest = scene.guest();
        // mem, null, zero, full, tty, loop0, vda, fuse, kmsg, and the largest.
        let devices = [
            (0o020_666, 0x101),
            (0o020_666, 0x103),
            (0o020_666, 0x105),
            (0o020_666, 0x107),
            (0o020_666, 0x500),
            (0o060_666, 0x700),
            (0o060_666, 0xfe00),
            (0o020_666, 0xae5),
            (0o020_666, 0x10b),
            (0o060_666, u32::MAX),
        ];
        for (nth, (mode, rdev)) in devices.into_iter().enumerate() {
            let name = format!("device{nth}");
            let args = MknodIn {
                mode,
                rdev,
                ..MknodIn::default()
            };
            let terminated = [name.as_bytes(), b"\0"].concat();
            let made = guest.ask_raw(Opcode::Mknod as u32, ROOT, &body(&args, &terminated));
            match made {
                Ok(_) => never_opens(&mut guest, scene, &name),
                Err(errno) => assert_eq!(errno, Errno::EPERM, "some kernels have no such device"),
            }
        }
    });
}

/// By no request, under its own name and as the target of what makes files.
#[track_caller]
fn never_opens(guest: &mut Guest, scene: &Scene, name: &str) {
    let path = scene.share.join(name);
    let kind = fs::symlink_metadata(&path).unwrap().file_type();
    let node = guest.lookup(ROOT, name.as_bytes()).unwrap();
    let terminated = [name.as_bytes(), b"\0"].concat();
    for flags in OPEN_FLAGS {
        for opcode in [Opcode::Open, Opcode::Opendir] {
            let opened = guest.ask_raw(opcode as u32, node, open_in(flags).as_bytes());
            assert!(opened.is_err(), "{opcode:?} of {name} with {flags:o}");
        }
        let args = CreateIn {
            flags,
            mode: 0o100_666,
            ..CreateIn::default()
        };
        let made = guest.ask_raw(Opcode::Create as u32, ROOT, &body(&args, &terminated));
        assert!(made.is_err(), "CREATE of {name} with {flags:o}");
    }
    let setattr = SetattrIn {
        valid: FattrValid::SIZE,
        ..SetattrIn::default()
    };
    let truncated = guest.ask_raw(Opcode::Setattr as u32, node, setattr.as_bytes());
    assert!(truncated.is_err(), "{name} has a size");
    for (opcode, len) in [
        (Opcode::Read, 40),
        (Opcode::Write, 40),
        (Opcode::Fallocate, 32),
        (Opcode::Lseek, 24),
        (Opcode::CopyFileRange, 56),
        (Opcode::Readdir, 40),
        (Opcode::Ioctl, 32),
        (Opcode::Fsync, 16),
        (Opcode::Setlk, 48),
        (Opcode::Getlk, 48),
    ] {
        let done = guest.ask_raw(opcode as u32, node, &vec![0; len]);
        assert!(done.is_err(), "{opcode:?} of {name}");
    }
    assert_eq!(fs::symlink_metadata(&path).unwrap().file_type(), kind);
}

/// What changes attributes changes the link or nothing.
#[test]
fn links_are_never_followed() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for name in [&b"out"[..], b"up", b"root"] {
            let node = guest.lookup(ROOT, name).unwrap();
            for valid in [
                FattrValid::MODE,
                FattrValid::UID | FattrValid::GID,
                FattrValid::SIZE,
                FattrValid::ATIME | FattrValid::MTIME,
                FattrValid::ATIME_NOW
                    | FattrValid::MTIME_NOW
                    | FattrValid::ATIME
                    | FattrValid::MTIME,
            ] {
                let args = SetattrIn {
                    valid,
                    mode: 0o777,
                    uid: 1234,
                    gid: 1234,
                    ..SetattrIn::default()
                };
                let _ = guest.ask_raw(Opcode::Setattr as u32, node, args.as_bytes());
            }
            for attribute in [&b"user.x\0"[..], b"trusted.x\0", b"security.x\0"] {
                let args = SetxattrIn {
                    size: 1,
                    ..SetxattrIn::default()
                };
                let set = body(&args, &[attribute, b"v"].concat());
                let _ = guest.ask_raw(Opcode::Setxattr as u32, node, &set);
                let _ = guest.ask_raw(Opcode::Removexattr as u32, node, attribute);
                let asked = [&[0; 8][..], attribute].concat();
                let _ = guest.ask_raw(Opcode::Getxattr as u32, node, &asked);
            }
            for child in [&b"canary\0"[..], b"private\0", b"etc\0", b"x\0"] {
                let found = guest.ask_raw(Opcode::Lookup as u32, node, child);
                assert_eq!(found, Err(Errno::ENOTDIR));
                let made = body(&MkdirIn::default(), child);
                let made = guest.ask_raw(Opcode::Mkdir as u32, node, &made);
                assert_eq!(made, Err(Errno::ENOTDIR));
                let gone = guest.ask_raw(Opcode::Unlink as u32, node, child);
                assert_eq!(gone, Err(Errno::ENOTDIR));
            }
            let linked = body(&LinkIn { oldnodeid: node }, b"hard\0");
            if guest.ask_raw(Opcode::Link as u32, ROOT, &linked).is_ok() {
                let hard = scene.share.join("hard");
                assert!(fs::symlink_metadata(&hard).unwrap().is_symlink());
                fs::remove_file(hard).unwrap();
            }
        }
    });
}

/// A file that a stranger makes in a set-group-id directory does not get the set-id bit
/// of a group that the stranger is not in (CVE-2018-13405, CVE-2022-0358).
#[test]
fn a_foreign_groups_set_id_bit_is_not_to_be_had() {
    if !rustix::process::geteuid().is_root() {
        return skip("giving directories away needs root");
    }
    Scene::play(|scene| {
        let dir = scene.share.join("groups");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(0), Some(4321)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2777)).unwrap();
        let mut guest = scene.guest();
        let parent = guest.lookup(ROOT, b"groups").unwrap();
        guest.caller = (1000, 1000);
        let create = CreateIn {
            flags: 2,
            mode: 0o102_775,
            ..CreateIn::default()
        };
        let mknod = MknodIn {
            mode: 0o102_775,
            ..MknodIn::default()
        };
        let made = guest.ask_raw(Opcode::Create as u32, parent, &body(&create, b"a\0"));
        made.unwrap();
        let made = guest.ask_raw(Opcode::Mknod as u32, parent, &body(&mknod, b"b\0"));
        made.unwrap();
        for name in ["a", "b"] {
            let attr = fs::metadata(dir.join(name)).unwrap();
            assert_eq!((attr.uid(), attr.gid()), (1000, 4321));
            assert_eq!(
                attr.mode() & 0o6000,
                0,
                "{name} is set-id: {:o}",
                attr.mode()
            );
        }
    });
}

/// Rounds of a race. However each ends, nothing outside is touched.
const ROUNDS: usize = 400;

/// A host process swaps two names of the share while `act` goes on.
fn while_swapped(scene: &Scene, [a, b]: [&str; 2], act: impl Fn(&mut Guest)) {
    let is_over = AtomicBool::new(false);
    let [a, b] = [a, b].map(|name| scene.share.join(name));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let over = Over(&is_over);
        let mut guest = scene.guest();
        for _ in 0..ROUNDS {
            act(&mut guest);
        }
        drop(over);
    });
}

/// Ends the swapping also when a check fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_swapped_with_a_link_to_the_outside() {
    Scene::play(|scene| {
        while_swapped(scene, ["file", "out"], |guest| {
            for flags in [0o2, 0o1002, 0o102] {
                let args = CreateIn {
                    flags,
                    mode: 0o100_644,
                    ..CreateIn::default()
                };
                let made = guest.ask_raw(Opcode::Create as u32, ROOT, &body(&args, b"file\0"));
                if let Ok(made) = made {
                    write_and_read(guest, u64_at(&made, 0), u64_at(&made, 128));
                }
            }
            let Ok(node) = guest.lookup(ROOT, b"file") else {
                return;
            };
            if let Ok(opened) = guest.ask_raw(Opcode::Open as u32, node, open_in(2).as_bytes()) {
                write_and_read(guest, node, u64_at(&opened, 0));
            }
            let args = SetattrIn {
                valid: FattrValid::MODE | FattrValid::SIZE,
                mode: 0o600,
                ..SetattrIn::default()
            };
            let _ = guest.ask_raw(Opcode::Setattr as u32, node, args.as_bytes());
            let linked = body(&LinkIn { oldnodeid: node }, b"hard\0");
            if guest.ask_raw(Opcode::Link as u32, ROOT, &linked).is_ok() {
                let _ = guest.ask_raw(Opcode::Unlink as u32, ROOT, b"hard\0");
            }
        });
    });
}

fn write_and_read(guest: &mut Guest, node: u64, fh: u64) {
    let file = OpenFile { node, fh };
    assert_eq!(guest.write(file, 0, b"by the guest"), Ok(12));
    let read = guest.read(file, 0, 4096).unwrap();
    assert_no_secret(&read);
    let release = [&fh.to_ne_bytes()[..], &[0; 16]].concat();
    guest
        .ask_raw(Opcode::Release as u32, node, &release)
        .unwrap();
}

#[test]
fn a_directory_swapped_with_a_link_to_the_outside() {
    Scene::play(|scene| {
        // As if the share's own names were there as well.
        for name in ["canary", "private"] {
            assert!(scene.top.join(name).exists());
        }
        while_swapped(scene, ["dir", "up"], |guest| {
            let Ok(node) = guest.lookup(ROOT, b"dir") else {
                return;
            };
            if let Ok(canary) = guest.lookup(node, b"canary") {
                assert_eq!(canary, 0, "what is outside is found");
            }
            let create = CreateIn {
                flags: 0o102,
                mode: 0o100_644,
                ..CreateIn::default()
            };
            let made = guest.ask_raw(Opcode::Create as u32, node, &body(&create, b"made\0"));
            if let Ok(made) = made {
                write_and_read(guest, u64_at(&made, 0), u64_at(&made, 128));
            }
            let made = body(&MkdirIn::default(), b"newdir\0");
            let _ = guest.ask_raw(Opcode::Mkdir as u32, node, &made);
            for (opcode, name) in [
                (Opcode::Rmdir, &b"newdir\0"[..]),
                (Opcode::Unlink, b"made\0"),
                (Opcode::Unlink, b"canary\0"),
                (Opcode::Rmdir, b"private\0"),
            ] {
                let _ = guest.ask_raw(opcode as u32, node, name);
            }
            if let Ok(opened) = guest.ask_raw(Opcode::Opendir as u32, node, &[0; 8]) {
                let fh = u64_at(&opened, 0);
                let args = sluice_proto::fuse::wire::ReadIn {
                    fh,
                    size: 4096,
                    ..Default::default()
                };
                let listed = guest.ask_raw(Opcode::Readdirplus as u32, node, args.as_bytes());
                let listed = listed.unwrap();
                let has_canary = listed.windows(6).any(|part| part == b"canary");
                assert!(!has_canary, "what is outside is listed");
                let release = [&fh.to_ne_bytes()[..], &[0; 16]].concat();
                guest
                    .ask_raw(Opcode::Releasedir as u32, node, &release)
                    .unwrap();
            }
        });
    });
}

/// A pipe in a file's place is not opened either: opening it would wait for a writer.
#[test]
fn a_file_swapped_with_a_pipe() {
    Scene::play(|scene| {
        while_swapped(scene, ["file", "fifo"], |guest| {
            let create = CreateIn {
                flags: 0o101,
                mode: 0o100_644,
                ..CreateIn::default()
            };
            for flags in [0, 1, 2] {
                if let Ok(node) = guest.lookup(ROOT, b"file") {
                    let opened =
                        guest.ask_raw(Opcode::Open as u32, node, open_in(flags).as_bytes());
                    if let Ok(opened) = opened {
                        let release = [&opened[..8], &[0; 16]].concat();
                        guest
                            .ask_raw(Opcode::Release as u32, node, &release)
                            .unwrap();
                    }
                }
                let made = guest.ask_raw(Opcode::Create as u32, ROOT, &body(&create, b"file\0"));
                if let Ok(made) = made {
                    let release = [&made[128..136], &[0; 16]].concat();
                    guest
                        .ask_raw(Opcode::Release as u32, u64_at(&made, 0), &release)
                        .unwrap();
                }
            }
        });
    });
}

/// The way to a node that is known changes: a directory of it is exchanged for a link to
/// one that has the same names outside.
#[test]
fn a_known_node_whose_directory_becomes_a_link_to_the_outside() {
    Scene::play(|scene| {
        fs::write(scene.top.join("private/inner"), SECRET).unwrap();
        symlink("../private", scene.share.join("decoy")).unwrap();
        scene.look_again();
        let inner = fs::metadata(scene.share.join("dir/inner")).unwrap().ino();
        while_swapped(scene, ["dir", "decoy"], |guest| {
            let Ok(dir) = guest.lookup(ROOT, b"dir") else {
                return;
            };
            let Ok(node) = guest.lookup(dir, b"inner") else {
                return;
            };
            if node == 0 {
                return;
            }
            let attr = guest
                .ask_raw(Opcode::Getattr as u32, node, &[0; 16])
                .unwrap();
            assert_eq!(
                u64_at(&attr, 16),
                inner,
                "the attributes are another file's"
            );
            if let Ok(opened) = guest.ask_raw(Opcode::Open as u32, node, open_in(2).as_bytes()) {
                write_and_read(guest, node, u64_at(&opened, 0));
            }
        });
        assert_is_kept(&scene.top.join("private/inner"));
    });
}

#[track_caller]
fn assert_is_kept(path: &Path) {
    assert_eq!(fs::read(path).unwrap(), SECRET);
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A host process could open the devices that a guest makes. Where that is not to be, one
/// option forbids them all, whoever of the guest asks.
#[test]
fn devices_can_be_forbidden() {
    Scene::play_with(&["--modcaps=-mknod"], |scene| {
        fs::set_permissions(&scene.share, fs::Permissions::from_mode(0o777)).unwrap();
        let mut guest = scene.guest();
        for caller in [(0, 0), (1000, 1000)] {
            guest.caller = caller;
            for (mode, rdev) in [(0o020_666, 0x103), (0o060_666, 0x801), (0o020_666, 0x501)] {
                let args = MknodIn {
                    mode,
                    rdev,
                    ..MknodIn::default()
                };
                let made = guest.ask_raw(Opcode::Mknod as u32, ROOT, &body(&args, b"device\0"));
                assert_eq!(made, Err(Errno::EPERM), "{mode:o} {rdev:#x}");
                assert!(!scene.share.join("device").exists());
            }
        }
    });
}
