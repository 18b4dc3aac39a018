//! Trees that can't be changed, and arguments that make no sense.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{
    Access, AttrMask, DirWant, Errno, FallocateMode, FileType, OpenFlags, SetAttr, Whence,
};
use std::fs;

const FROZEN: Needs = Needs::READ_ONLY_TREE;
const FROZEN_HOST: Needs = FROZEN.union(Needs::HOST);

pub(super) const CASES: &[Case] = &[
    case!(nothing_is_made_in_a_read_only_tree, FROZEN),
    case!(attributes_of_a_read_only_tree_stay, FROZEN),
    case!(a_read_only_tree_can_be_looked_at, FROZEN),
    case!(writing_is_not_accessible_in_a_read_only_tree, FROZEN),
    case!(files_of_a_read_only_tree_open_for_reading_only, FROZEN_HOST),
    case!(names_of_a_read_only_tree_stay, FROZEN_HOST),
    case!(wild_cookies_harm_nothing),
    case!(wild_offsets_harm_nothing),
    case!(wild_owners_are_kept_or_refused, Needs::ROOT),
    case!(special_nodes_have_no_content),
    case!(directories_have_no_content),
    case!(symlinks_have_no_content),
    case!(names_below_what_is_no_directory),
];

fn nothing_is_made_in_a_read_only_tree(w: &World) {
    let c = w.client();
    fails(c.create(ROOT, "f", 0o644), Errno::EROFS);
    fails(c.mkdir(ROOT, "d", 0o755), Errno::EROFS);
    fails(c.symlink(ROOT, "l", "x"), Errno::EROFS);
    fails(c.mknod(ROOT, "p", FileType::Fifo, 0o600), Errno::EROFS);
    if w.has(Needs::TMPFILE) {
        let outcome = c.tmpfile(ROOT, OpenFlags::WRITE, 0o600);
        fails(outcome, Errno::EROFS);
    }
    assert!(c.names(ROOT).is_empty());
}

fn attributes_of_a_read_only_tree_stay(w: &World) {
    let c = w.client();
    let before = c.getattr(ROOT).unwrap();
    fails(c.chmod(ROOT, 0o700), Errno::EROFS);
    fails(c.chown(ROOT, Some(0), Some(0)), Errno::EROFS);
    fails(c.setxattr(ROOT, "user.a", b"x"), Errno::EROFS);
    fails(c.removexattr(ROOT, "user.a"), Errno::EROFS);
    let after = c.getattr(ROOT).unwrap();
    assert_eq!((after.mode, after.ctime), (before.mode, before.ctime));
}

fn a_read_only_tree_can_be_looked_at(w: &World) {
    let c = w.client();
    assert!(c.getattr(ROOT).unwrap().mode.is_dir());
    assert!(c.names(ROOT).is_empty());
    fails(c.lookup(ROOT, "f"), Errno::ENOENT);
    c.statfs(ROOT).unwrap();
    let dir = c.opendir(ROOT).unwrap();
    c.fsync(dir, false).unwrap();
    c.close(dir).unwrap();
}

fn writing_is_not_accessible_in_a_read_only_tree(w: &World) {
    let c = w.client();
    c.access(ROOT, Access::READ | Access::EXEC).unwrap();
    fails(c.access(ROOT, Access::WRITE), Errno::EROFS);
}

fn files_of_a_read_only_tree_open_for_reading_only(w: &World) {
    fs::write(w.host_dir().join("f"), b"content").unwrap();
    let c = w.client();
    let node = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(c.content(node), b"content");
    fails(c.open(node, OpenFlags::WRITE), Errno::EROFS);
    let both = OpenFlags::READ | OpenFlags::WRITE;
    fails(c.open(node, both), Errno::EROFS);
    let truncating = OpenFlags::READ | OpenFlags::TRUNCATE;
    fails(c.open(node, truncating), Errno::EROFS);
    fails(c.truncate(node, 0), Errno::EROFS);
    let new = sluice_vfs::NewNode::with_perm(0o644);
    fails(c.create_with(ROOT, "f", both, &new), Errno::EROFS);
    let file = c.open(node, OpenFlags::READ).unwrap();
    let allocated = c.fallocate(file, FallocateMode::empty(), 0..10);
    fails_with_one(allocated, &[Errno::EROFS, Errno::EBADF]);
    assert_eq!(c.content(node), b"content");
}

fn names_of_a_read_only_tree_stay(w: &World) {
    fs::write(w.host_dir().join("f"), b"").unwrap();
    fs::create_dir(w.host_dir().join("d")).unwrap();
    let c = w.client();
    let node = c.lookup(ROOT, "f").unwrap().node;
    fails(c.unlink(ROOT, "f"), Errno::EROFS);
    fails(c.rmdir(ROOT, "d"), Errno::EROFS);
    fails(c.rename((ROOT, "f"), (ROOT, "g")), Errno::EROFS);
    fails(c.link(node, ROOT, "g"), Errno::EROFS);
    assert_eq!(c.names(ROOT), ["d", "f"]);
}

fn wild_cookies_harm_nothing(w: &World) {
    let c = w.client();
    for index in 0..20 {
        c.file(ROOT, &format!("f{index}"), b"");
    }
    let dir = c.opendir(ROOT).unwrap();
    for cookie in [
        999_999,
        1 << 31,
        1 << 32,
        1 << 62,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ] {
        for want in [DirWant::Names, DirWant::Entries(AttrMask::BASIC)] {
            // Anything but a crash, or names that aren't there.
            if let Ok(listed) = c.readdir(dir, cookie, want, 100) {
                assert!(listed.len() <= 22, "{} at {cookie}", listed.len());
            }
        }
    }
    assert_eq!(c.list(dir, DirWant::Names).unwrap().len(), 22);
}

fn wild_offsets_harm_nothing(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"content").unwrap();
    for offset in [1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX] {
        assert!(c.read(file, offset, 10).is_err(), "reading at {offset}");
        assert!(c.write(file, offset, b"x").is_err(), "writing at {offset}");
        assert!(c.truncate(file.node, offset).is_err(), "size {offset}");
        assert!(c.lseek(file, offset, Whence::Data).is_err());
        assert!(c.lseek(file, offset, Whence::Hole).is_err());
    }
    assert_eq!(c.content(file.node), b"content");
}

fn wild_owners_are_kept_or_refused(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    // The id that means "leave it" to chown(2) can't be an owner.
    let changes = SetAttr {
        uid: Some(u32::MAX),
        ..SetAttr::default()
    };
    if let Ok(attr) = c.setattr(node, changes) {
        assert_eq!(attr.uid, c.getattr(node).unwrap().uid);
        assert_ne!(attr.uid, u32::MAX);
    }
    let attr = c.chown(node, Some(u32::MAX - 1), None).unwrap();
    assert_eq!(attr.uid, u32::MAX - 1);
}

fn special_nodes_have_no_content(w: &World) {
    let c = w.client();
    for (name, file_type) in [("p", FileType::Fifo), ("s", FileType::Socket)] {
        let node = c.mknod(ROOT, name, file_type, 0o666).unwrap().node;
        for flags in [OpenFlags::READ, OpenFlags::WRITE] {
            fails(c.open(node, flags), Errno::EOPNOTSUPP);
        }
        fails_with_one(c.truncate(node, 0), &[Errno::EINVAL, Errno::EOPNOTSUPP]);
        fails(c.readlink(node), Errno::EINVAL);
    }
}

fn directories_have_no_content(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fails(c.open(dir, OpenFlags::WRITE), Errno::EISDIR);
    fails(c.truncate(dir, 0), Errno::EISDIR);
    let open = c.opendir(dir).unwrap();
    fails_with_one(c.read(open, 0, 10), &[Errno::EISDIR, Errno::EBADF]);
    fails_with_one(c.write(open, 0, b"x"), &[Errno::EISDIR, Errno::EBADF]);
}

fn symlinks_have_no_content(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"kept");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    for flags in [OpenFlags::READ, OpenFlags::WRITE] {
        fails(c.open(link, flags), Errno::ELOOP);
    }
    fails(c.truncate(link, 0), Errno::EINVAL);
    let kept = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(c.content(kept), b"kept");
}

fn names_below_what_is_no_directory(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", ".").unwrap().node;
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node;
    for node in [file, link, pipe] {
        fails(c.lookup(node, "x"), Errno::ENOTDIR);
        fails(c.create(node, "x", 0o644), Errno::ENOTDIR);
        fails(c.mkdir(node, "x", 0o755), Errno::ENOTDIR);
        fails(c.symlink(node, "x", "y"), Errno::ENOTDIR);
        fails(c.mknod(node, "x", FileType::Fifo, 0o600), Errno::ENOTDIR);
        fails(c.link(file, node, "x"), Errno::ENOTDIR);
        fails(c.unlink(node, "x"), Errno::ENOTDIR);
        fails(c.rmdir(node, "x"), Errno::ENOTDIR);
        fails(c.rename((node, "x"), (ROOT, "x")), Errno::ENOTDIR);
        fails(c.rename((ROOT, "f"), (node, "x")), Errno::ENOTDIR);
    }
    assert_eq!(c.names(ROOT), ["f", "l", "p"]);
}
