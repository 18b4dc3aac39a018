//! Names, attributes and extended attributes: how the service is called, and
//! what comes back.

use crate::harness::{FH, HEAD, Harness};
use crate::recorder::{HANDLE, NODE, Script};
use sluice_proto::fuse::serve::{CachePolicy, Offer, TIMEOUT_MAX};
use sluice_proto::fuse::wire::*;
use sluice_vfs::Errno;
use std::time::Duration;
use zerocopy::FromBytes;

#[test]
fn names_are_found_made_moved_and_removed() {
    let harness = Harness::new();
    let none = Extensions::default();
    let name = CBytes(b"n");
    for (operation, expected) in [
        (Operation::Lookup { name }, "lookup \"n\" in node 17.0"),
        (
            Operation::Lookup { name: CBytes(b".") },
            "remember node 17.0",
        ),
        (
            Operation::Lookup {
                name: CBytes(b".."),
            },
            "parent of node 17.0",
        ),
        (
            Operation::Symlink {
                name,
                target: CBytes(b"../t"),
                extensions: none,
            },
            "symlink \"n\" in node 17.0 to ../t 0o777 umask 0o0",
        ),
        (
            Operation::Mknod {
                args: MknodIn {
                    mode: 0o20666,
                    rdev: 0x103,
                    umask: 0o22,
                    padding: 0,
                },
                name,
                extensions: none,
            },
            "mknod \"n\" in node 17.0 CharDevice 1:3 0o666 umask 0o22",
        ),
        (
            Operation::Mkdir {
                args: MkdirIn {
                    mode: 0o42755,
                    umask: 0o7022,
                },
                name,
                extensions: none,
            },
            "mkdir \"n\" in node 17.0 0o2755 umask 0o22",
        ),
        (
            Operation::Link {
                args: LinkIn { oldnodeid: 0x21 },
                name,
            },
            "link node 33.0 as \"n\" in node 17.0",
        ),
        (Operation::Unlink { name }, "unlink \"n\" in node 17.0"),
        (Operation::Rmdir { name }, "rmdir \"n\" in node 17.0"),
        (
            Operation::Rename {
                args: RenameIn { newdir: 0x12 },
                old_name: name,
                new_name: CBytes(b"m"),
            },
            "rename (node 17.0, \"n\") to (node 18.0, \"m\") 0",
        ),
        (
            Operation::Rename2 {
                args: Rename2In {
                    newdir: 0x12,
                    flags: 4,
                    padding: 0,
                },
                old_name: name,
                new_name: CBytes(b"m"),
            },
            "rename (node 17.0, \"n\") to (node 18.0, \"m\") 4",
        ),
    ] {
        assert_eq!(harness.called(&operation), expected);
    }
}

#[test]
fn what_can_not_be_made_is_refused() {
    let harness = Harness::new();
    let none = Extensions::default();
    let mknod = |mode| Operation::Mknod {
        args: MknodIn {
            mode,
            ..MknodIn::default()
        },
        name: CBytes(b"n"),
        extensions: none,
    };
    for mode in [0o40644, 0o120644, 0o30644, 0o170644] {
        assert_eq!(harness.error(&mknod(mode)), Errno::EINVAL, "{mode:#o}");
    }
    let long = [b't'; 4096];
    for (target, error) in [(&b""[..], Errno::ENOENT), (&long, Errno::ENAMETOOLONG)] {
        let symlink = Operation::Symlink {
            name: CBytes(b"n"),
            target: CBytes(target),
            extensions: none,
        };
        assert_eq!(harness.error(&symlink), error);
    }
    let rename = Operation::Rename2 {
        args: Rename2In {
            newdir: 1,
            flags: 8,
            padding: 0,
        },
        old_name: CBytes(b"a"),
        new_name: CBytes(b"b"),
    };
    assert_eq!(harness.error(&rename), Errno::EINVAL);
    assert_eq!(harness.service.calls(), Vec::<String>::new());
    // No type bits mean a regular file, as for mknod(2).
    assert!(harness.called(&mknod(0o600)).contains("Regular"));
}

#[test]
fn entries_say_what_may_be_cached() {
    let harness = Harness::changed(|options| {
        options.cache = CachePolicy {
            entry_timeout: Duration::from_millis(2_500),
            attr_timeout: Duration::from_millis(3_001),
            ..options.cache
        };
    });
    let lookup = Operation::Lookup { name: CBytes(b"n") };
    let entry = EntryOut::read_from_bytes(&harness.run(&lookup).1).unwrap();
    assert_eq!(entry.nodeid, NODE.0);
    assert_eq!(
        (entry.entry_valid, entry.entry_valid_nsec),
        (2, 500_000_000)
    );
    assert_eq!((entry.attr_valid, entry.attr_valid_nsec), (3, 1_000_000));
    assert_eq!(entry.attr.ino, 0x77);
    assert_eq!(entry.attr.mtime, -3_i64 as u64);
    assert_eq!(entry.attr.flags, AttrFlags::SUBMOUNT);

    let unmarked = Harness::changed(|options| options.announce_submounts = false);
    let entry = EntryOut::read_from_bytes(&unmarked.run(&lookup).1).unwrap();
    assert_eq!(entry.attr.flags, AttrFlags::empty());
}

#[test]
fn missing_names_are_cached_or_errors() {
    let lookup = Operation::Lookup { name: CBytes(b"n") };
    let missing = Script {
        is_missing: true,
        ..Script::default()
    };
    let cached = Harness::new();
    cached.service.script(missing);
    let entry = EntryOut::read_from_bytes(&cached.run(&lookup).1).unwrap();
    assert_eq!((entry.nodeid, entry.entry_valid), (0, 1));

    let uncached = Harness::changed(|options| options.cache.negative_timeout = Duration::ZERO);
    uncached.service.script(missing);
    assert_eq!(uncached.error(&lookup), Errno::ENOENT);

    let for_good = Harness::changed(|options| options.cache.negative_timeout = Duration::MAX);
    for_good.service.script(missing);
    let entry = EntryOut::read_from_bytes(&for_good.run(&lookup).1).unwrap();
    assert_eq!(entry.entry_valid, TIMEOUT_MAX.as_secs());
}

#[test]
fn callers_bring_groups_and_labels() {
    let groups = [7, 8];
    let operation = Operation::Mkdir {
        args: MkdirIn {
            mode: 0o755,
            umask: 0,
        },
        name: CBytes(b"d"),
        extensions: Extensions {
            label: Some(Label {
                name: b"security.selinux",
                value: b"ctx\0",
            }),
            groups: Groups::new(&groups),
        },
    };
    let labelled = Harness::changed(|options| options.security_label = Offer::Auto);
    assert_eq!(
        labelled.called(&operation),
        "mkdir \"d\" in node 17.0 0o755 umask 0o0 \"security.selinux\"=ctx\\x00 in [7, 8]"
    );
    assert_eq!(
        Harness::new().called(&operation),
        "mkdir \"d\" in node 17.0 0o755 umask 0o0 in [7, 8]"
    );
    let peer = labelled.peer();
    let head = RequestHead {
        uid: 0,
        gid: 0,
        pid: 0,
        ..HEAD
    };
    peer.send(&head, &Operation::Statfs {}, b"").wait().unwrap();
    assert_eq!(labelled.service.calls(), ["statfs node 17.0 by 0:0:0"]);
}

#[test]
fn attributes_are_read_and_changed() {
    let harness = Harness::new();
    let getattr = |getattr_flags| Operation::Getattr {
        args: GetattrIn {
            getattr_flags,
            dummy: 0,
            fh: FH,
        },
    };
    let (call, body) = harness.run(&getattr(GetattrFlags::FH));
    assert_eq!(call, format!("getattr node 17.0 {HANDLE:?} 0x7ff"));
    let attr = AttrOut::read_from_bytes(&body).unwrap();
    assert_eq!((attr.attr_valid, attr.attr.size), (1, 1234));
    assert_eq!(
        harness.called(&getattr(GetattrFlags::empty())),
        "getattr node 17.0 without handle 0x7ff"
    );

    let statx = Operation::Statx {
        args: StatxIn {
            getattr_flags: GetattrFlags::empty(),
            reserved: 0,
            fh: 0,
            sx_flags: 0,
            sx_mask: 0x800 | 0x8000_0000,
        },
    };
    let (call, body) = harness.run(&statx);
    assert_eq!(call, "getattr node 17.0 without handle 0xfff");
    let stat = StatxOut::read_from_bytes(&body).unwrap().stat;
    assert_eq!((stat.mtime.tv_sec, stat.btime.tv_nsec), (-3, 8));
    assert_eq!((stat.dev_major, stat.mode), (8, 0o100644));

    let setattr = |valid| Operation::Setattr {
        args: SetattrIn {
            valid,
            fh: FH,
            size: 99,
            atime: 1,
            atimensec: 2,
            mtime: -1_i64 as u64,
            mtimensec: 3,
            mode: 0o104755,
            uid: 5,
            gid: 6,
            ..SetattrIn::default()
        },
    };
    let all = FattrValid::all() - FattrValid::ATIME_NOW - FattrValid::MTIME_NOW;
    assert_eq!(
        harness.called(&setattr(all)),
        format!(
            "setattr node 17.0 {HANDLE:?} SetAttr {{ perm: Some(2541), uid: Some(5), gid: Some(6), \
             size: Some(99), atime: Some(To(Timestamp {{ sec: 1, nsec: 2 }})), \
             mtime: Some(To(Timestamp {{ sec: -1, nsec: 3 }})), touch_ctime: true, \
             kill_suidgid: true }}"
        )
    );
    let now = FattrValid::ATIME | FattrValid::ATIME_NOW | FattrValid::MTIME_NOW;
    assert_eq!(
        harness.called(&setattr(now)),
        "setattr node 17.0 without handle SetAttr { perm: None, uid: None, gid: None, \
         size: None, atime: Some(Now), mtime: None, touch_ctime: false, kill_suidgid: false }"
    );
    let late = Operation::Setattr {
        args: SetattrIn {
            valid: FattrValid::MTIME,
            mtimensec: 1_000_000_000,
            ..SetattrIn::default()
        },
    };
    assert_eq!(harness.error(&late), Errno::EINVAL);
}

#[test]
fn small_questions_are_passed_on() {
    let harness = Harness::new();
    let access = Operation::Access {
        args: AccessIn {
            mask: 5,
            padding: 0,
        },
    };
    assert_eq!(harness.called(&access), "access node 17.0 0o5");
    let (call, body) = harness.run(&Operation::Readlink {});
    assert_eq!(
        (call.as_str(), &body[..]),
        ("readlink node 17.0", &b"target"[..])
    );
    let (_, body) = harness.run(&Operation::Statfs {});
    let st = StatfsOut::read_from_bytes(&body).unwrap().st;
    assert_eq!((st.blocks, st.bsize, st.frsize, st.namelen), (4, 2, 3, 255));
    let syncfs = Operation::Syncfs {
        args: SyncfsIn::default(),
    };
    assert_eq!(harness.called(&syncfs), "syncfs node 17.0");
    for (operation, expected) in [
        (
            Operation::Forget {
                args: ForgetIn { nlookup: 3 },
            },
            vec!["forget node 17.0 x3"],
        ),
        (
            Operation::BatchForget {
                nodes: Counted::new(&[
                    ForgetOne {
                        nodeid: 2,
                        nlookup: 1,
                    },
                    ForgetOne {
                        nodeid: 3,
                        nlookup: u64::MAX,
                    },
                ]),
            },
            vec![
                "forget node 2.0 x1",
                "forget node 3.0 x18446744073709551615",
            ],
        ),
    ] {
        assert_eq!(harness.call(&operation), None);
        assert_eq!(harness.service.calls(), expected);
    }
}

#[test]
fn extended_attributes_come_in_the_asked_size() {
    let harness = Harness::new();
    let get = |size| Operation::Getxattr {
        args: GetxattrIn { size, padding: 0 },
        name: CBytes(b"user.a"),
    };
    let (call, body) = harness.run(&get(0));
    assert_eq!(call, "getxattr node 17.0 \"user.a\" room None");
    assert_eq!(GetxattrOut::read_from_bytes(&body).unwrap().size, 5);
    let (call, body) = harness.run(&get(5));
    assert_eq!(call, "getxattr node 17.0 \"user.a\" room Some(5)");
    assert_eq!(body, b"value");
    assert_eq!(harness.error(&get(4)), Errno::ERANGE);
    harness.service.calls();
    let list = |size| Operation::Listxattr {
        args: GetxattrIn { size, padding: 0 },
    };
    assert_eq!(harness.run(&list(100)).1, b"user.a\0");
    assert_eq!(harness.run(&list(0)).1.len(), 8);

    let set = |flags, setxattr_flags, value| Operation::Setxattr {
        args: SetxattrIn {
            size: 1,
            flags,
            setxattr_flags,
            padding: 0,
        },
        name: CBytes(b"user.a"),
        value: Rest(value),
    };
    assert_eq!(
        harness.called(&set(1, SetxattrFlags::ACL_KILL_SGID, b"v")),
        "setxattr node 17.0 \"user.a\"=v 0x10001"
    );
    // The peer can't reach our own flag by its number.
    for flags in [4, 1 << 16] {
        let operation = set(flags, SetxattrFlags::empty(), b"v");
        assert_eq!(harness.error(&operation), Errno::EINVAL);
    }
    let remove = Operation::Removexattr {
        name: CBytes(b"user.a"),
    };
    assert_eq!(harness.called(&remove), "removexattr node 17.0 \"user.a\"");
}

#[test]
fn attributes_that_nobody_obeys_do_not_exist() {
    let acl = Operation::Removexattr {
        name: CBytes(b"system.posix_acl_access"),
    };
    assert_eq!(Harness::new().error(&acl), Errno::EOPNOTSUPP);
    let obeyed = Harness::changed(|options| options.posix_acl = Offer::Auto);
    assert!(obeyed.call(&acl).unwrap().is_ok());
    let none = Harness::changed(|options| options.xattr = false);
    let user = Operation::Removexattr {
        name: CBytes(b"user.a"),
    };
    let list = Operation::Listxattr {
        args: GetxattrIn::default(),
    };
    assert_eq!(none.error(&user), Errno::ENOSYS);
    assert_eq!(none.error(&list), Errno::ENOSYS);
}
