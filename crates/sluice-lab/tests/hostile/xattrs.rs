//! Extended attributes: those of the host that are none of the guest's business, names
//! that grow, lists, and what a file may no longer have once it was changed.

use crate::scene::{Scene, skip_without_root};
use rustix::fs::XattrFlags;
use sluice_lab::raw_guest::{Guest, OpenFile, ROOT, body};
use sluice_proto::fuse::wire::{
    CopyFileRangeIn, CreateIn, ExtHeader, FallocateIn, FattrValid, GetxattrIn, InitFlags, InitIn,
    InitOut, Opcode, OpenIn, Operation, Secctx, SetattrIn, SetxattrIn,
};
use sluice_vfs::Errno;
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// Rules under which nothing of the host's own can be seen.
const MAP_ALL: &str = "--xattrmap=:map::user.virtiofs.:";

/// `CAP_NET_RAW`, permitted and effective (`struct vfs_cap_data`, revision 2).
const CAPABILITY: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// What the host has on its files, and a value that the kernel takes.
const OF_THE_HOST: [(&str, &[u8]); 3] = [
    ("security.capability", &CAPABILITY),
    ("trusted.overlay.opaque", b"y"),
    ("user.of.the.host", b"what the host wrote"),
];

fn set(guest: &mut Guest, node: u64, name: &str, value: &[u8]) -> Result<(), Errno> {
    let args = SetxattrIn {
        size: value.len() as u32,
        ..SetxattrIn::default()
    };
    let named = [name.as_bytes(), b"\0", value].concat();
    let set = guest.ask_raw(Opcode::Setxattr as u32, node, &body(&args, &named));
    set.map(drop)
}

fn get(guest: &mut Guest, node: u64, name: &str, size: u32) -> Result<Vec<u8>, Errno> {
    let args = GetxattrIn { size, padding: 0 };
    let name = [name.as_bytes(), b"\0"].concat();
    guest.ask_raw(Opcode::Getxattr as u32, node, &body(&args, &name))
}

fn remove(guest: &mut Guest, node: u64, name: &str) -> Result<(), Errno> {
    let name = [name.as_bytes(), b"\0"].concat();
    let removed = guest.ask_raw(Opcode::Removexattr as u32, node, &name);
    removed.map(drop)
}

fn list(guest: &mut Guest, node: u64, size: u32) -> Result<Vec<u8>, Errno> {
    let args = GetxattrIn { size, padding: 0 };
    guest.ask_raw(Opcode::Listxattr as u32, node, args.as_bytes())
}

/// The value on the host.
fn on_host(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    match rustix::fs::lgetxattr(path, name, &mut value[..]) {
        Ok(len) => Some(value[..len].to_vec()),
        Err(rustix::io::Errno::NODATA) => None,
        Err(error) => panic!("{name} of {}: {error}", path.display()),
    }
}

fn set_on_host(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

#[test]
fn attributes_of_the_host_are_not_the_guests() {
    if skip_without_root("attributes of the host") {
        return;
    }
    Scene::play_with(&[MAP_ALL], |scene| {
        let path = scene.share.join("file");
        for (name, value) in OF_THE_HOST {
            set_on_host(&path, name, value);
        }
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        for (name, value) in OF_THE_HOST {
            assert_eq!(get(&mut guest, node, name, 200), Err(Errno::ENODATA));
            assert_eq!(remove(&mut guest, node, name), Err(Errno::ENODATA));
            set(&mut guest, node, name, b"of the guest").unwrap();
            assert_eq!(get(&mut guest, node, name, 200).unwrap(), b"of the guest");
            assert_eq!(on_host(&path, name).as_deref(), Some(value), "{name}");
        }
        let listed = list(&mut guest, node, 4096).unwrap();
        let mut names: Vec<&[u8]> = listed.split_inclusive(|byte| *byte == 0).collect();
        names.sort_unstable();
        let expected = OF_THE_HOST.map(|(name, _)| format!("{name}\0"));
        assert_eq!(names, expected.each_ref().map(|name| name.as_bytes()));
        for (name, value) in OF_THE_HOST {
            remove(&mut guest, node, name).unwrap();
            assert_eq!(on_host(&path, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(list(&mut guest, node, 4096).unwrap(), b"");
    });
}

/// What guests were given under other names is reached under these alone.
#[test]
fn a_name_on_the_host_is_no_way_around_the_map() {
    if skip_without_root("attributes of the host") {
        return;
    }
    Scene::play_with(&["--xattrmap=:map:trusted.:user.virtiofs.:"], |scene| {
        let path = scene.share.join("file");
        set_on_host(&path, "trusted.secret", b"of the host");
        set_on_host(&path, "user.virtiofs.trusted.mine", b"of a guest");
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        for name in [
            "user.virtiofs.trusted.mine",
            "user.virtiofs.",
            "user.virtiofs.x",
        ] {
            assert_eq!(
                get(&mut guest, node, name, 200),
                Err(Errno::ENODATA),
                "{name}"
            );
            assert_eq!(
                set(&mut guest, node, name, b"x"),
                Err(Errno::EPERM),
                "{name}"
            );
            assert_eq!(remove(&mut guest, node, name), Err(Errno::EPERM), "{name}");
        }
        assert_eq!(
            get(&mut guest, node, "trusted.secret", 200),
            Err(Errno::ENODATA)
        );
        assert_eq!(list(&mut guest, node, 200).unwrap(), b"trusted.mine\0");
        let mine = on_host(&path, "user.virtiofs.trusted.mine");
        assert_eq!(mine.as_deref(), Some(&b"of a guest"[..]));
    });
}

/// A prefix makes names longer than the guest knows, and lists shorter.
#[test]
fn names_that_grow_and_lists_that_shrink() {
    Scene::play_with(&[MAP_ALL], |scene| {
        let path = scene.share.join("file");
        set_on_host(&path, "user.hidden.by.the.map", b"x");
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        let of_length = |len: usize| "n".repeat(len);
        let longest = of_length(255 - "user.virtiofs.".len());
        set(&mut guest, node, &longest, b"x").unwrap();
        for len in [longest.len() + 1, 254, 255] {
            let name = of_length(len);
            assert_eq!(
                set(&mut guest, node, &name, b"x"),
                Err(Errno::ERANGE),
                "{len}"
            );
            let got = get(&mut guest, node, &name, 10);
            assert_eq!(got, Err(Errno::ERANGE), "{len}");
            assert!(remove(&mut guest, node, &name).is_err(), "{len}");
        }
        let expected = [longest.as_bytes(), b"\0"].concat();
        for size in 0..300 {
            let listed = list(&mut guest, node, size);
            match size as usize {
                0 => assert_eq!(listed.unwrap()[..4], (expected.len() as u32).to_ne_bytes()),
                room if room < expected.len() => assert_eq!(listed, Err(Errno::ERANGE)),
                _ => assert_eq!(listed.as_deref(), Ok(&expected[..])),
            }
        }
    });
}

/// Where the host's kernel knows a file's capabilities by another name, it doesn't drop
/// them when the file is changed: then it is left to the guest's kernel, which must not
/// be told otherwise (CVE-2021-20263).
#[test]
fn dropping_capabilities_is_promised_only_where_it_is_done() {
    for (options, is_promised) in [
        (&[][..], true),
        (&["--xattrmap=:map:trusted.:user.virtiofs.:"], true),
        (&[MAP_ALL], false),
        (
            &["--xattrmap=:prefix:all:security.:user.virtiofs.: :ok:all:::"],
            false,
        ),
        (
            &["--xattrmap=:bad:all:security.:security.: :ok:all:::"],
            false,
        ),
    ] {
        Scene::play_with(options, |scene| {
            let mut guest = Guest::connect(scene.socket());
            let offered = InitFlags::all();
            let args = InitIn {
                major: 7,
                minor: 45,
                flags: offered.bits() as u32,
                flags2: (offered.bits() >> 32) as u32,
                ..InitIn::default()
            };
            let reply = guest.call(0, &Operation::Init { args }, &[]).unwrap();
            let (granted, _) = InitOut::read_from_prefix(&reply).unwrap();
            let granted = granted.init_flags();
            let is_granted = granted.contains(InitFlags::HANDLE_KILLPRIV_V2);
            assert_eq!(is_granted, is_promised, "{options:?}");
            assert!(!granted.contains(InitFlags::HANDLE_KILLPRIV), "{options:?}");
        });
    }
}

/// Whatever changes what a file holds takes its capabilities from it.
#[test]
fn a_changed_file_has_no_capabilities() {
    if skip_without_root("capabilities of files") {
        return;
    }
    Scene::play(|scene| {
        let path = scene.share.join("file");
        let mut guest = scene.guest();
        let file = guest.create(ROOT, b"file").unwrap();
        let source = guest.create(ROOT, b"source").unwrap();
        guest.write(source, 0, b"other").unwrap();
        for (what, change) in CHANGES {
            set(&mut guest, file.node, "security.capability", &CAPABILITY).unwrap();
            assert!(on_host(&path, "security.capability").is_some());
            change(&mut guest, file, source).unwrap();
            let left = on_host(&path, "security.capability");
            assert_eq!(left, None, "{what} leaves the file its capabilities");
        }
    });
}

type Change = fn(&mut Guest, OpenFile, OpenFile) -> Result<Vec<u8>, Errno>;

const CHANGES: [(&str, Change); 5] = [
    ("WRITE", |guest, file, _| {
        guest.write(file, 0, b"changed").map(|_| Vec::new())
    }),
    ("SETATTR of the size", |guest, file, _| {
        let args = SetattrIn {
            valid: FattrValid::SIZE | FattrValid::KILL_SUIDGID,
            size: 3,
            ..SetattrIn::default()
        };
        guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes())
    }),
    ("SETATTR of the owner", |guest, file, _| {
        let args = SetattrIn {
            valid: FattrValid::UID,
            uid: 1,
            ..SetattrIn::default()
        };
        guest.ask_raw(Opcode::Setattr as u32, file.node, args.as_bytes())
    }),
    ("FALLOCATE", |guest, file, _| {
        let args = FallocateIn {
            fh: file.fh,
            length: 8192,
            ..FallocateIn::default()
        };
        guest.ask_raw(Opcode::Fallocate as u32, file.node, args.as_bytes())
    }),
    ("COPY_FILE_RANGE", |guest, file, source| {
        let args = CopyFileRangeIn {
            fh_in: source.fh,
            nodeid_out: file.node,
            fh_out: file.fh,
            len: 5,
            ..CopyFileRangeIn::default()
        };
        guest.ask_raw(Opcode::CopyFileRange as u32, source.node, args.as_bytes())
    }),
];

/// Also opening does, if it truncates.
#[test]
fn a_truncated_file_has_no_capabilities() {
    if skip_without_root("capabilities of files") {
        return;
    }
    const O_WRONLY_TRUNC: u32 = 0o1001;
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let node = guest.lookup(ROOT, b"file").unwrap();
        set(&mut guest, node, "security.capability", &CAPABILITY).unwrap();
        let open = OpenIn {
            flags: O_WRONLY_TRUNC,
            ..OpenIn::default()
        };
        guest
            .ask_raw(Opcode::Open as u32, node, open.as_bytes())
            .unwrap();
        let left = on_host(&scene.share.join("file"), "security.capability");
        assert_eq!(left, None);
    });
}

/// A share without extended attributes has none, however they are asked for.
#[test]
fn without_attributes_there_are_none() {
    let smuggled = [
        (&["--no-xattr"][..], "user.smuggled"),
        // Nobody asked for labels either.
        (&[], "user.smuggled"),
        (&[MAP_ALL, "--security-label"], "trusted.smuggled"),
    ];
    for (options, name) in smuggled {
        Scene::play_with(options, |scene| {
            let mut guest = scene.guest();
            let node = guest.lookup(ROOT, b"file").unwrap();
            if options == ["--no-xattr"] {
                assert!(set(&mut guest, node, name, b"x").is_err());
                assert!(get(&mut guest, node, name, 10).is_err());
                assert!(list(&mut guest, node, 100).is_err());
                assert!(remove(&mut guest, node, name).is_err());
            }
            let label = [name.as_bytes(), b"\0value"].concat();
            let mut label = body(
                &Secctx {
                    size: 5,
                    padding: 0,
                },
                &label,
            );
            label.resize(label.len().next_multiple_of(8), 0);
            let block = ExtHeader {
                size: (8 + label.len()) as u32,
                kind: 1,
            };
            let args = CreateIn {
                flags: 2,
                mode: 0o100_644,
                ..CreateIn::default()
            };
            let mut sent = body(&args, b"new\0");
            let extension = body(&block, &label);
            sent.extend(&extension);
            let header = sluice_lab::raw_guest::header(Opcode::Create as u32, ROOT, sent.len());
            let mut header = guest.stamped(header);
            header.total_extlen = (extension.len() / 8) as u16;
            let room = [sluice_lab::raw_guest::HEADER_LEN, 4096];
            let answer = guest.send_raw(&header, &sent, &room).expect("a reply");
            let new = scene.share.join("new");
            if answer.result.is_ok() {
                assert_eq!(on_host(&new, name), None, "{options:?}");
            }
            let prefixed = format!("user.virtiofs.{name}");
            let is_labelled = options.contains(&"--security-label");
            assert_eq!(
                new.exists() && on_host(&new, &prefixed).is_some(),
                is_labelled
            );
        });
    }
}
