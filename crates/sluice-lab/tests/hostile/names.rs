//! Names that are no names, in every request that has one.
//!
//! virtiofsd without a sandbox made and removed directories by the name `../x`; a
//! server whose client checks names has to check them all the same.

use crate::scene::{Scene, assert_no_secret};
use sluice_lab::raw_guest::{Guest, ROOT, body};
use sluice_proto::fuse::wire::{CreateIn, LinkIn, MkdirIn, MknodIn, Opcode, Rename2In, RenameIn};
use sluice_vfs::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Each with its terminator, unless it is about that.
fn bad_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        &b"\0"[..],
        b".\0",
        b"..\0",
        b"/\0",
        b"//\0",
        b"../canary\0",
        b"../new\0",
        b"../private\0",
        b"dir/../../new\0",
        b"dir/inner\0",
        b"file/\0",
        b"/tmp\0",
        b"/proc/self/fd/0\0",
        b"out/\0",
        b"up/canary\0",
        b"root/tmp/x\0",
        b"a\0b\0",
        b"new\0/../../x\0",
        b"",
        b"unterminated",
    ]
    .map(<[u8]>::to_vec)
    .into();
    for len in [256, 257, 4096, 70_000] {
        names.push([vec![b'n'; len], vec![0]].concat());
    }
    names
}

/// A request around a name.
struct Form {
    opcode: Opcode,
    make: fn(file: u64, name: &[u8]) -> Vec<u8>,
}

const FORMS: &[Form] = &[
    Form {
        opcode: Opcode::Mkdir,
        make: |_, name| body(&mkdir(), name),
    },
    Form {
        opcode: Opcode::Rmdir,
        make: |_, name| name.to_vec(),
    },
    Form {
        opcode: Opcode::Unlink,
        make: |_, name| name.to_vec(),
    },
    Form {
        opcode: Opcode::Mknod,
        make: |_, name| body(&mknod(), name),
    },
    Form {
        opcode: Opcode::Create,
        make: |_, name| body(&create(), name),
    },
    Form {
        opcode: Opcode::Symlink,
        make: |_, name| [name, b"target\0"].concat(),
    },
    Form {
        opcode: Opcode::Link,
        make: |file, name| body(&LinkIn { oldnodeid: file }, name),
    },
    Form {
        opcode: Opcode::Rename,
        make: |_, name| body(&RenameIn { newdir: ROOT }, &[b"file\0", name].concat()),
    },
    Form {
        opcode: Opcode::Rename,
        make: |_, name| body(&RenameIn { newdir: ROOT }, &[name, b"new\0"].concat()),
    },
    Form {
        opcode: Opcode::Rename2,
        make: |_, name| body(&rename2(1), &[b"file\0", name].concat()),
    },
    Form {
        opcode: Opcode::Rename2,
        make: |_, name| body(&rename2(2), &[name, b"file\0"].concat()),
    },
    Form {
        opcode: Opcode::Rename2,
        make: |_, name| body(&rename2(4), &[b"file\0", name].concat()),
    },
];

fn mkdir() -> MkdirIn {
    MkdirIn {
        mode: 0o777,
        umask: 0,
    }
}

fn mknod() -> MknodIn {
    MknodIn {
        mode: 0o100_666,
        ..MknodIn::default()
    }
}

fn create() -> CreateIn {
    const O_RDWR_CREAT_TRUNC: u32 = 0o1102;
    CreateIn {
        flags: O_RDWR_CREAT_TRUNC,
        mode: 0o100_666,
        ..CreateIn::default()
    }
}

fn rename2(flags: u32) -> Rename2In {
    Rename2In {
        newdir: ROOT,
        flags,
        padding: 0,
    }
}

#[test]
fn nothing_is_made_moved_or_removed_by_a_path() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.lookup(ROOT, b"file").unwrap();
        let dir = guest.lookup(ROOT, b"dir").unwrap();
        let before = listing(scene);
        for Form { opcode, make } in FORMS {
            for name in bad_names() {
                for parent in [ROOT, dir] {
                    let what = format!("{opcode:?} {}", name.escape_ascii());
                    refused(&mut guest, *opcode, parent, &make(file, &name), &what);
                    assert_eq!(listing(scene), before, "after {what}");
                }
            }
        }
    });
}

/// The longest names there are, in all that takes one, next to one byte more.
#[test]
fn the_longest_names() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let file = guest.lookup(ROOT, b"file").unwrap();
        let longest = |byte| [vec![byte; 255], vec![0]].concat();
        let made = [
            (Opcode::Mkdir, body(&mkdir(), &longest(b'd'))),
            (Opcode::Mknod, body(&mknod(), &longest(b'n'))),
            (Opcode::Create, body(&create(), &longest(b'c'))),
            (
                Opcode::Symlink,
                [longest(b's'), b"target\0".to_vec()].concat(),
            ),
            (
                Opcode::Link,
                body(&LinkIn { oldnodeid: file }, &longest(b'l')),
            ),
            (
                Opcode::Rename,
                body(
                    &RenameIn { newdir: ROOT },
                    &[longest(b'l'), longest(b'r')].concat(),
                ),
            ),
        ];
        for (opcode, body) in made {
            let done = guest.ask_raw(opcode as u32, ROOT, &body);
            assert!(done.is_ok(), "{opcode:?}: {done:?}");
        }
        for byte in *b"dncsr" {
            let found = guest.lookup(ROOT, &[byte; 255]);
            assert!(found.is_ok_and(|node| node != 0), "{}", char::from(byte));
            assert_eq!(guest.lookup(ROOT, &[byte; 256]), Err(Errno::ENAMETOOLONG));
        }
    });
}

/// No directory gets below itself, by moving or by exchanging, however often it is tried.
#[test]
fn directories_that_would_hold_themselves() {
    Scene::play(|scene| {
        fs::create_dir_all(scene.share.join("a/b/c")).unwrap();
        let mut guest = scene.guest();
        let a = guest.lookup(ROOT, b"a").unwrap();
        let b = guest.lookup(a, b"b").unwrap();
        let c = guest.lookup(b, b"c").unwrap();
        for (parent, name, newdir, new_name) in [
            (ROOT, &b"a\0"[..], a, &b"x\0"[..]),
            (ROOT, b"a\0", b, b"x\0"),
            (ROOT, b"a\0", c, b"x\0"),
            (a, b"b\0", c, b"x\0"),
            (ROOT, b"a\0", a, b"b\0"),
            (ROOT, b"a\0", b, b"c\0"),
            (b, b"c\0", ROOT, b"a\0"),
        ] {
            for flags in [0, 1, 2] {
                let args = Rename2In {
                    newdir,
                    flags,
                    padding: 0,
                };
                let names = [name, new_name].concat();
                let moved = guest.ask_raw(Opcode::Rename2 as u32, parent, &body(&args, &names));
                assert!(moved.is_err(), "{} with {flags}", names.escape_ascii());
            }
        }
        assert!(scene.share.join("a/b/c").is_dir());
    });
}

#[track_caller]
fn refused(guest: &mut Guest, opcode: Opcode, node: u64, body: &[u8], what: &str) {
    let Err(errno) = guest.ask_raw(opcode as u32, node, body) else {
        panic!("{what} works");
    };
    let is_expected = [Errno::EINVAL, Errno::ENAMETOOLONG].contains(&errno);
    assert!(is_expected, "{what}: {errno}");
}

/// What the share has, with inode numbers.
fn listing(scene: &Scene) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for dir in [&scene.share, &scene.share.join("dir")] {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = entry.path().display().to_string();
            found.push((name, entry.metadata().unwrap().ino()));
        }
    }
    found.sort();
    found
}

#[test]
fn nothing_is_found_by_a_path() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        let dir = guest.lookup(ROOT, b"dir").unwrap();
        let known = [ROOT, dir];
        for name in bad_names() {
            for parent in known {
                let what = name.escape_ascii().to_string();
                match guest.ask_raw(Opcode::Lookup as u32, parent, &name) {
                    Err(errno) => {
                        let is_expected = [Errno::EINVAL, Errno::ENAMETOOLONG].contains(&errno);
                        assert!(is_expected, "{what}: {errno}");
                    }
                    // A server of NFS in the guest looks the parent up.
                    Ok(entry) if name == b".\0" || name == b"..\0" => {
                        let node = u64::from_ne_bytes(entry[..8].try_into().unwrap());
                        assert!(known.contains(&node), "{what} of {parent} is {node}");
                    }
                    Ok(_) => panic!("{what} is found"),
                }
            }
        }
    });
}

/// A host process moves a directory that the guest holds out of the share: what is
/// above it then is not shared.
#[test]
fn a_directory_that_was_moved_out_leads_nowhere() {
    Scene::play(|scene| {
        let outside = fs::metadata(&scene.top).unwrap().ino();
        let mut guest = scene.guest();
        let dir = guest.lookup(ROOT, b"dir").unwrap();
        fs::rename(scene.share.join("dir"), scene.top.join("private/dir")).unwrap();
        for name in [&b"..\0"[..], b"../canary\0", b"../../canary\0"] {
            if let Ok(entry) = guest.ask_raw(Opcode::Lookup as u32, dir, name) {
                let ino = u64::from_ne_bytes(entry[40..48].try_into().unwrap());
                assert_ne!(ino, outside);
                let node = u64::from_ne_bytes(entry[..8].try_into().unwrap());
                assert!(guest.lookup(node, b"canary").is_ok_and(|node| node == 0));
            }
        }
        fs::rename(scene.top.join("private/dir"), scene.share.join("dir")).unwrap();
        // The moves are this test's own.
        scene.look_again();
    });
}

/// A temporary file has no name, whatever comes with the request.
#[test]
fn the_name_of_a_temporary_file_means_nothing() {
    Scene::play(|scene| {
        let before = listing(scene);
        let mut guest = scene.guest();
        for name in [&b"../new\0"[..], b"/\0", b"file\0", b"\0"] {
            let answer = guest.ask_raw(Opcode::Tmpfile as u32, ROOT, &body(&create(), name));
            // Some file systems have none.
            assert!(
                matches!(answer, Ok(_) | Err(Errno::EOPNOTSUPP)),
                "{answer:?}"
            );
            assert_eq!(listing(scene), before);
        }
    });
}

/// A link's target is the guest's to choose, and nobody here follows it.
#[test]
fn targets_of_links_stay_text() {
    Scene::play(|scene| {
        let mut guest = scene.guest();
        for (target, expected) in [
            (&b"../canary\0"[..], None),
            (b"/etc/passwd\0", None),
            (b"\0", Some(Errno::ENOENT)),
            (b"a\0b\0", Some(Errno::EINVAL)),
            (b"unterminated", Some(Errno::EINVAL)),
            (
                &[vec![b'x'; 4096], vec![0]].concat(),
                Some(Errno::ENAMETOOLONG),
            ),
        ] {
            let made = guest.ask_raw(Opcode::Symlink as u32, ROOT, &[b"link\0", target].concat());
            assert_eq!(made.as_ref().err().copied(), expected);
            let Ok(entry) = made else { continue };
            let node = u64::from_ne_bytes(entry[..8].try_into().unwrap());
            let read = guest.ask_raw(Opcode::Readlink as u32, node, &[]).unwrap();
            assert_eq!(read, target[..target.len() - 1]);
            for through in [Opcode::Open, Opcode::Opendir] {
                let opened = guest.ask_raw(through as u32, node, &[0; 8]);
                assert!(opened.is_err(), "{through:?}");
            }
            assert_no_secret(&read);
            fs::remove_file(scene.share.join("link")).unwrap();
        }
    });
}
