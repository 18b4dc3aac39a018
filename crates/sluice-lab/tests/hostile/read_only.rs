//! A share that is not to be changed, whatever the guest believes of its mount: leaving
//! that to the guest was another server's mistake (GHSA-g6ww-w5j2-r7x3).

use crate::scene::{Scene, contents};
use rustix::fs::XattrFlags;
use sluice_lab::raw_guest::{Guest, ROOT, body};
use sluice_proto::fuse::wire::{
    CopyFileRangeIn, CreateIn, FallocateIn, FattrValid, IoctlIn, LinkIn, MkdirIn, MknodIn, Opcode,
    OpenIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, WriteIn,
};
use zerocopy::IntoBytes;

/// Nodes and handles to change something by.
struct Targets {
    file: u64,
    /// Of the file, opened for reading.
    fh: u64,
    dir: u64,
}

#[test]
fn nothing_in_a_read_only_share_changes() {
    for cache in ["auto", "always"] {
        let cache = format!("--cache={cache}");
        Scene::play_with(&["--read-only", &cache], |scene| {
            let file = scene.share.join("file");
            rustix::fs::setxattr(file, "user.x", b"value", XattrFlags::empty()).unwrap();
            std::fs::create_dir(scene.share.join("empty")).unwrap();
            let before = contents(&scene.share);
            let mut guest = scene.guest();
            let file = guest.lookup(ROOT, b"file").unwrap();
            let fh = open(&mut guest, file, 0).unwrap_or_default();
            let dir = guest.lookup(ROOT, b"dir").unwrap();
            let targets = Targets { file, fh, dir };
            for (opcode, node, body) in changes(&targets) {
                let done = guest.ask_raw(opcode as u32, node, &body);
                assert!(done.is_err(), "{opcode:?} {body:?} works");
                assert_eq!(contents(&scene.share), before, "after {opcode:?} {body:?}");
            }
            opened_anyhow(&mut guest, file);
            assert_eq!(contents(&scene.share), before);
            std::fs::remove_dir(scene.share.join("empty")).unwrap();
        });
    }
}

fn open(guest: &mut Guest, node: u64, flags: u32) -> Option<u64> {
    let args = OpenIn {
        flags,
        ..OpenIn::default()
    };
    let opened = guest.ask_raw(Opcode::Open as u32, node, args.as_bytes());
    let opened = opened.ok()?;
    Some(u64::from_ne_bytes(opened[..8].try_into().unwrap()))
}

/// What is opened after all is not written to.
fn opened_anyhow(guest: &mut Guest, file: u64) {
    const O_TRUNC: u32 = 0o1000;
    const O_APPEND: u32 = 0o2000;
    const O_CREAT: u32 = 0o100;
    for access in 0..4 {
        for more in [0, O_TRUNC, O_APPEND, O_CREAT, O_TRUNC | O_APPEND] {
            let Some(fh) = open(guest, file, access | more) else {
                continue;
            };
            let written = guest.ask_raw(Opcode::Write as u32, file, &write(fh));
            assert!(written.is_err(), "written after flags {:#o}", access | more);
        }
    }
}

fn write(fh: u64) -> Vec<u8> {
    let args = WriteIn {
        fh,
        size: 7,
        ..WriteIn::default()
    };
    body(&args, b"changed")
}

/// Everything that changes something.
fn changes(targets: &Targets) -> Vec<(Opcode, u64, Vec<u8>)> {
    let &Targets { file, fh, dir } = targets;
    let regular = MknodIn {
        mode: 0o100_644,
        ..MknodIn::default()
    };
    let create = CreateIn {
        flags: 0o102,
        mode: 0o100_644,
        ..CreateIn::default()
    };
    let rename2 = |flags| Rename2In {
        newdir: ROOT,
        flags,
        padding: 0,
    };
    let setxattr = SetxattrIn {
        size: 1,
        ..SetxattrIn::default()
    };
    let allocate = |mode| FallocateIn {
        fh,
        length: 4096,
        mode,
        ..FallocateIn::default()
    };
    let copy = CopyFileRangeIn {
        fh_in: fh,
        nodeid_out: file,
        fh_out: fh,
        off_out: 7,
        len: 7,
        ..CopyFileRangeIn::default()
    };
    // FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR
    let ioctl = |cmd, in_size| IoctlIn {
        fh,
        cmd,
        in_size,
        ..IoctlIn::default()
    };
    let mut all = vec![
        (Opcode::Symlink, ROOT, b"new\0target\0".to_vec()),
        (Opcode::Mknod, ROOT, body(&regular, b"new\0")),
        (Opcode::Mkdir, ROOT, body(&MkdirIn::default(), b"new\0")),
        (Opcode::Unlink, ROOT, b"file\0".to_vec()),
        (Opcode::Unlink, dir, b"inner\0".to_vec()),
        (Opcode::Rmdir, ROOT, b"empty\0".to_vec()),
        (
            Opcode::Link,
            ROOT,
            body(&LinkIn { oldnodeid: file }, b"new\0"),
        ),
        (
            Opcode::Rename,
            ROOT,
            body(&RenameIn { newdir: dir }, b"file\0file\0"),
        ),
        (Opcode::Create, ROOT, body(&create, b"new\0")),
        (Opcode::Create, ROOT, body(&create, b"file\0")),
        (Opcode::Tmpfile, ROOT, body(&create, b"/\0")),
        (Opcode::Write, file, write(fh)),
        (Opcode::Write, file, write(0)),
        (Opcode::Setxattr, file, body(&setxattr, b"user.new\0x")),
        (Opcode::Setxattr, file, body(&setxattr, b"user.x\0x")),
        (Opcode::Removexattr, file, b"user.x\0".to_vec()),
        (Opcode::CopyFileRange, file, copy.as_bytes().to_vec()),
        (
            Opcode::Ioctl,
            file,
            body(&ioctl(0x4008_6602, 4), &0x40u32.to_ne_bytes()),
        ),
        (Opcode::Ioctl, file, body(&ioctl(0x401c_5820, 28), &[0; 28])),
    ];
    for flags in [0, 1, 2, 4] {
        let names = if flags == 2 {
            &b"file\0dir\0"[..]
        } else {
            b"file\0new\0"
        };
        all.push((Opcode::Rename2, ROOT, body(&rename2(flags), names)));
    }
    // Plain, keeping the size, and punching a hole.
    for mode in [0, 1, 3] {
        all.push((Opcode::Fallocate, file, allocate(mode).as_bytes().to_vec()));
    }
    for valid in [
        FattrValid::MODE,
        FattrValid::UID,
        FattrValid::GID,
        FattrValid::SIZE,
        FattrValid::SIZE | FattrValid::FH,
        FattrValid::ATIME,
        FattrValid::MTIME,
        FattrValid::CTIME,
        FattrValid::ATIME | FattrValid::ATIME_NOW,
        FattrValid::MTIME | FattrValid::MTIME_NOW,
    ] {
        let args = SetattrIn {
            valid,
            fh,
            mode: 0o100_777,
            uid: 1,
            gid: 1,
            ..SetattrIn::default()
        };
        for node in [file, dir, ROOT] {
            all.push((Opcode::Setattr, node, args.as_bytes().to_vec()));
        }
    }
    all
}
