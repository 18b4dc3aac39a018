//! Attributes.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{
    Access, AttrMask, Errno, FileIoctl, FileIoctlReply, NodeId, OpenFlags, SetAttr, UnixMode,
};

pub(super) const CASES: &[Case] = &[
    case!(the_root_is_a_directory),
    case!(basic_attributes_are_filled),
    case!(birth_times_are_filled, Needs::BTIME),
    case!(inode_numbers_tell_files_apart),
    case!(a_file_has_one_link),
    case!(chmod_sets_all_bits),
    case!(chmod_of_a_directory),
    case!(chmod_ignores_type_bits),
    case!(chmod_of_a_symlink_is_eopnotsupp),
    case!(chmod_of_a_symlink_with_chown_changes_nothing, Needs::ROOT),
    case!(chown_changes_owner_and_group, Needs::ROOT),
    case!(chown_of_one_leaves_the_other, Needs::ROOT),
    case!(chown_of_a_symlink_changes_the_symlink, Needs::ROOT),
    case!(setattr_of_nothing_changes_nothing),
    case!(several_changes_at_once, Needs::ROOT),
    case!(setattr_returns_what_is_so_afterwards),
    case!(getattr_through_a_handle_agrees),
    case!(getattr_of_an_unknown_node_is_estale, Needs::IDENTITY),
    case!(statfs_makes_sense),
    case!(statfs_of_a_file_is_that_of_the_root),
    case!(the_superuser_may_do_everything, Needs::ROOT),
    case!(access_to_a_file_no_one_can_run, Needs::ROOT),
    case!(file_flags_read_back, Needs::FILE_FLAGS),
    case!(immutable_files_stay, Needs::FILE_FLAGS.union(Needs::ROOT)),
    case!(append_only_files_grow, Needs::FILE_FLAGS.union(Needs::ROOT)),
    case!(stamps_move_with_every_change, Needs::STAMPS),
    case!(stamps_stand_still_while_nothing_changes, Needs::STAMPS),
    case!(stamps_of_names_move_with_names, Needs::STAMPS),
];

fn the_root_is_a_directory(w: &World) {
    let c = w.client();
    let attr = c.getattr(ROOT).unwrap();
    assert!(attr.mode.is_dir());
    assert_eq!(attr.ino, c.root.attr.ino);
    assert!(attr.nlink >= 1);
}

fn basic_attributes_are_filled(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let attr = c.getattr(node).unwrap();
    assert!(attr.mask.contains(AttrMask::BASIC), "{:?}", attr.mask);
    assert_eq!(attr.mode, UnixMode(0o100_644));
    assert_eq!((attr.size, attr.nlink), (3, 1));
    assert!(attr.blksize >= 512, "{}", attr.blksize);
    assert!(attr.mtime.sec > 1_500_000_000 && attr.mtime.nsec < 1_000_000_000);
    assert_eq!((attr.uid, attr.gid), (c.uid, c.gid));
}

fn birth_times_are_filled(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let attr = c.getattr(node).unwrap();
    assert!(attr.mask.contains(AttrMask::BTIME), "{:?}", attr.mask);
    assert!(attr.btime.sec > 1_500_000_000);
    assert!(attr.btime <= attr.ctime);
}

fn inode_numbers_tell_files_apart(w: &World) {
    let c = w.client();
    let mut inos: Vec<u64> = (0..50)
        .map(|index| c.file(ROOT, &format!("f{index}"), b""))
        .map(|node| c.getattr(node).unwrap().ino)
        .collect();
    inos.push(c.getattr(ROOT).unwrap().ino);
    inos.sort_unstable();
    inos.dedup();
    assert_eq!(inos.len(), 51);
}

fn a_file_has_one_link(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    assert_eq!(c.getattr(node).unwrap().nlink, 1);
    let link = c.symlink(ROOT, "l", "f").unwrap();
    assert_eq!(link.attr.nlink, 1);
}

fn chmod_sets_all_bits(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for perm in [0, 0o777, 0o4755, 0o1644, 0o2711] {
        assert_eq!(
            c.chmod(node, perm).unwrap().mode,
            UnixMode(0o100_000 | perm)
        );
        assert_eq!(c.getattr(node).unwrap().mode.perm(), perm);
    }
}

fn chmod_of_a_directory(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    assert_eq!(c.chmod(dir, 0o2711).unwrap().mode, UnixMode(0o042_711));
    assert_eq!(c.chmod(dir, 0o1777).unwrap().mode, UnixMode(0o041_777));
}

fn chmod_ignores_type_bits(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    assert_eq!(c.chmod(node, 0o040_600).unwrap().mode, UnixMode(0o100_600));
}

fn chmod_of_a_symlink_is_eopnotsupp(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    fails(c.chmod(link, 0o600), Errno::EOPNOTSUPP);
    assert_eq!(c.getattr(node).unwrap().mode.perm(), 0o644);
}

fn chmod_of_a_symlink_with_chown_changes_nothing(w: &World) {
    let c = w.client();
    let link = c.symlink(ROOT, "l", "target").unwrap().node;
    let changes = SetAttr {
        perm: Some(0o600),
        uid: Some(1000),
        ..SetAttr::default()
    };
    fails(c.setattr(link, changes), Errno::EOPNOTSUPP);
    assert_eq!(c.getattr(link).unwrap().uid, 0);
}

fn chown_changes_owner_and_group(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let attr = c.chown(node, Some(1234), Some(5678)).unwrap();
    assert_eq!((attr.uid, attr.gid), (1234, 5678));
    let attr = c.lookup(ROOT, "f").unwrap().attr;
    assert_eq!((attr.uid, attr.gid), (1234, 5678));
}

fn chown_of_one_leaves_the_other(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.chown(node, Some(1), Some(2)).unwrap();
    let attr = c.chown(node, Some(3), None).unwrap();
    assert_eq!((attr.uid, attr.gid), (3, 2));
    let attr = c.chown(node, None, Some(4)).unwrap();
    assert_eq!((attr.uid, attr.gid), (3, 4));
}

fn chown_of_a_symlink_changes_the_symlink(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    c.chown(link, Some(1234), Some(5678)).unwrap();
    assert_eq!(c.getattr(link).unwrap().uid, 1234);
    assert_eq!(c.getattr(node).unwrap().uid, 0);
}

fn setattr_of_nothing_changes_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let before = c.getattr(node).unwrap();
    let after = c.setattr(node, SetAttr::default()).unwrap();
    assert_eq!(
        (after.mode, after.size, after.mtime),
        (before.mode, before.size, before.mtime)
    );
}

fn several_changes_at_once(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abcdef");
    let changes = SetAttr {
        perm: Some(0o4711),
        uid: Some(10),
        gid: Some(20),
        size: Some(2),
        ..SetAttr::default()
    };
    let attr = c.setattr(node, changes).unwrap();
    assert_eq!((attr.uid, attr.gid, attr.size), (10, 20, 2));
    assert_eq!(
        attr.mode.perm(),
        0o4711,
        "bits that come with an owner stay"
    );
}

fn setattr_returns_what_is_so_afterwards(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let returned = c.chmod(node, 0o711).unwrap();
    let read = c.getattr(node).unwrap();
    assert_eq!(
        (returned.mode, returned.size, returned.ctime, returned.ino),
        (read.mode, read.size, read.ctime, read.ino)
    );
}

fn getattr_through_a_handle_agrees(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let (by_handle, by_node) = (c.fgetattr(file).unwrap(), c.getattr(node).unwrap());
    assert_eq!(by_handle.ino, by_node.ino);
    assert_eq!((by_handle.size, by_handle.mode), (3, by_node.mode));
}

fn getattr_of_an_unknown_node_is_estale(w: &World) {
    let c = w.client();
    for id in [0, 9999, u64::MAX, 1 << 33] {
        fails(c.getattr(NodeId(id)), Errno::ESTALE);
    }
}

fn statfs_makes_sense(w: &World) {
    let c = w.client();
    let statfs = c.statfs(ROOT).unwrap();
    assert!(statfs.bsize >= 512 && statfs.frsize >= 512, "{statfs:?}");
    assert!(
        statfs.blocks > 0 && statfs.blocks >= statfs.bfree,
        "{statfs:?}"
    );
    assert!(statfs.bfree >= statfs.bavail, "{statfs:?}");
    assert!(statfs.files >= statfs.ffree, "{statfs:?}");
    assert_eq!(statfs.namelen, 255);
}

fn statfs_of_a_file_is_that_of_the_root(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let (root, file) = (c.statfs(ROOT).unwrap(), c.statfs(node).unwrap());
    assert_eq!((root.blocks, root.bsize), (file.blocks, file.bsize));
}

fn the_superuser_may_do_everything(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.chmod(node, 0o100).unwrap();
    let all = Access::READ | Access::WRITE | Access::EXEC;
    assert_eq!(c.access(node, all), Ok(()));
    assert_eq!(c.access(ROOT, Access::empty()), Ok(()));
}

fn access_to_a_file_no_one_can_run(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.access(node, Access::EXEC), Errno::EACCES);
    let dir = c.mkdir(ROOT, "d", 0).unwrap().node;
    assert_eq!(
        c.access(dir, Access::EXEC),
        Ok(()),
        "directories can be searched"
    );
}

/// `FS_NODUMP_FL`, which any owner may set, on most file systems.
const NODUMP: u32 = 0x40;
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;

fn flags_of(c: &crate::conformance::Client, file: crate::conformance::File) -> u32 {
    match c.ioctl(file, FileIoctl::GetFlags) {
        Ok(FileIoctlReply::Flags(flags)) => flags,
        other => panic!("flags expected, got {other:?}"),
    }
}

fn file_flags_read_back(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let before = flags_of(&c, file);
    assert_eq!(before & NODUMP, 0);
    c.ioctl(file, FileIoctl::SetFlags(before | NODUMP)).unwrap();
    assert_eq!(flags_of(&c, file), before | NODUMP);
    c.ioctl(file, FileIoctl::SetFlags(before)).unwrap();
    assert_eq!(flags_of(&c, file), before);
}

fn immutable_files_stay(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"kept");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let before = flags_of(&c, file);
    c.ioctl(file, FileIoctl::SetFlags(before | IMMUTABLE))
        .unwrap();
    let outcomes = [
        c.open(node, OpenFlags::WRITE).map(drop),
        c.unlink(ROOT, "f").map(drop),
        c.rename((ROOT, "f"), (ROOT, "g")).map(drop),
        c.link(node, ROOT, "h").map(drop),
        c.chmod(node, 0o600).map(drop),
        c.truncate(node, 0).map(drop),
    ];
    // Before any assertion, so that the tree can be removed.
    c.ioctl(file, FileIoctl::SetFlags(before)).unwrap();
    for outcome in outcomes {
        fails(outcome, Errno::EPERM);
    }
    assert_eq!(c.content(node), b"kept");
    c.unlink(ROOT, "f").unwrap();
}

fn append_only_files_grow(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"kept");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let before = flags_of(&c, file);
    c.ioctl(file, FileIoctl::SetFlags(before | APPEND)).unwrap();
    let overwrite = c.open(node, OpenFlags::WRITE).map(drop);
    let truncate = c.open(
        node,
        OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::TRUNCATE,
    );
    let append = c.open(node, OpenFlags::WRITE | OpenFlags::APPEND);
    let appended = append.and_then(|file| c.write(file, 0, b"+"));
    c.ioctl(file, FileIoctl::SetFlags(before)).unwrap();
    fails(overwrite, Errno::EPERM);
    fails(truncate, Errno::EPERM);
    assert_eq!(appended, Ok(1));
    assert_eq!(c.content(node), b"kept+");
}

fn stamps_move_with_every_change(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let mut last = c.stat(file.node).unwrap().stamp;
    assert!(last.is_cacheable());
    let changes: [(&str, &dyn Fn()); 5] = [
        ("write", &|| {
            let _ = c.write(file, 0, b"abc").unwrap();
        }),
        ("chmod", &|| {
            let _ = c.chmod(file.node, 0o600).unwrap();
        }),
        ("truncate", &|| {
            let _ = c.truncate(file.node, 1).unwrap();
        }),
        ("link", &|| {
            let _ = c.link(file.node, ROOT, "g").unwrap();
        }),
        ("unlink", &|| {
            let _ = c.unlink(ROOT, "g").unwrap();
        }),
    ];
    for (what, change) in changes {
        change();
        let stamp = c.stat(file.node).unwrap().stamp;
        assert_ne!(stamp, last, "after {what}");
        last = stamp;
    }
}

fn stamps_stand_still_while_nothing_changes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let before = c.stat(node).unwrap().stamp;
    c.lookup(ROOT, "f").unwrap();
    c.file(ROOT, "g", b"x");
    assert_eq!(c.stat(node).unwrap().stamp, before);
    let written = c.open(node, OpenFlags::WRITE).unwrap();
    let stamp = c
        .write_with(node, Some(written.handle), &Default::default(), b"z")
        .unwrap()
        .stamp;
    assert_eq!(
        c.stat(node).unwrap().stamp,
        stamp,
        "a reply names the version it made"
    );
}

fn stamps_of_names_move_with_names(w: &World) {
    let c = w.client();
    let missing = |name| match c.lookup_either(ROOT, name) {
        Ok(sluice_vfs::Lookup::Missing { dir_stamp }) => dir_stamp,
        other => panic!("expected a missing name, got {other:?}"),
    };
    let before = missing("x");
    assert_eq!(missing("y"), before);
    let node = c.file(ROOT, "f", b"");
    let after = missing("x");
    assert_ne!(after, before);
    c.chmod(node, 0o600).unwrap();
    assert_eq!(missing("x"), after, "a node's change is not its name's");
    let stamp = c.unlink(ROOT, "f").unwrap();
    assert_eq!(missing("x"), stamp);
}
