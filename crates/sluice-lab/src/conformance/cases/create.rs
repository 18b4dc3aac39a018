//! Making files and opening them in one step.

use crate::conformance::client::{ROOT, fails, fails_with_one, opened};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, NewNode, OpenFlags, UnixMode};

pub(super) const CASES: &[Case] = &[
    case!(create_makes_an_empty_open_file),
    case!(create_exclusive_of_a_taken_name_is_eexist),
    case!(create_exclusive_over_a_symlink_is_eexist),
    case!(create_opens_what_is_there),
    case!(create_says_whether_it_made_the_file, Needs::IS_NEW),
    case!(create_leaves_the_mode_of_what_is_there),
    case!(create_truncates_if_told),
    case!(create_never_follows_a_symlink),
    case!(create_over_a_directory_is_eisdir),
    case!(create_in_a_file_is_enotdir),
    case!(create_in_a_removed_directory_is_enoent),
    case!(create_obeys_the_umask),
    case!(create_keeps_all_mode_bits, Needs::ROOT),
    case!(create_with_mode_0_is_open_for_writing),
    case!(a_file_made_for_reading_is_not_writable),
    case!(create_works_with_odd_names),
    case!(lookup_open_opens_what_is_there, Needs::LOOKUP_OPEN),
    case!(lookup_open_makes_nothing, Needs::LOOKUP_OPEN),
    case!(lookup_open_truncates_if_told, Needs::LOOKUP_OPEN),
    case!(lookup_open_of_a_symlink_is_eloop, Needs::LOOKUP_OPEN),
    case!(lookup_open_opens_directories, Needs::LOOKUP_OPEN),
    case!(lookup_open_to_read_may_find_a_directory, Needs::LOOKUP_OPEN),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

fn create_makes_an_empty_open_file(w: &World) {
    let c = w.client();
    let new = NewNode::with_perm(0o640);
    let created = c.create_with(ROOT, "f", READ_WRITE, &new).unwrap();
    let attr = created.entry.attr;
    assert_eq!(attr.mode, UnixMode(0o100_640));
    assert_eq!((attr.nlink, attr.size), (1, 0));
    let file = opened(&created);
    assert_eq!(c.write(file, 0, b"abc"), Ok(3));
    assert_eq!(c.read(file, 0, 10).unwrap(), b"abc");
    assert_eq!(c.lookup(ROOT, "f").unwrap().attr.ino, attr.ino);
}

fn create_exclusive_of_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"kept");
    c.dir(ROOT, "d");
    fails(c.create(ROOT, "f", 0o644), Errno::EEXIST);
    fails(c.create(ROOT, "d", 0o644), Errno::EEXIST);
    let file = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(c.content(file), b"kept");
}

fn create_exclusive_over_a_symlink_is_eexist(w: &World) {
    let c = w.client();
    c.symlink(ROOT, "l", "target").unwrap();
    fails(c.create(ROOT, "l", 0o644), Errno::EEXIST);
    assert_eq!(c.names(ROOT), ["l"]);
}

fn create_opens_what_is_there(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let new = NewNode::with_perm(0o644);
    let created = c.create_with(ROOT, "f", READ_WRITE, &new).unwrap();
    assert_eq!(created.entry.attr.ino, c.getattr(node).unwrap().ino);
    assert_eq!(created.entry.attr.size, 7);
    assert_eq!(c.read(opened(&created), 0, 10).unwrap(), b"content");
}

fn create_says_whether_it_made_the_file(w: &World) {
    let c = w.client();
    let new = NewNode::with_perm(0o644);
    assert!(c.create_with(ROOT, "f", READ_WRITE, &new).unwrap().is_new);
    assert!(!c.create_with(ROOT, "f", READ_WRITE, &new).unwrap().is_new);
}

fn create_leaves_the_mode_of_what_is_there(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.chmod(node, 0o600).unwrap();
    let new = NewNode::with_perm(0o777);
    let created = c.create_with(ROOT, "f", READ_WRITE, &new).unwrap();
    assert_eq!(created.entry.attr.mode.perm(), 0o600);
}

fn create_truncates_if_told(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"content");
    let new = NewNode::with_perm(0o644);
    let flags = READ_WRITE | OpenFlags::TRUNCATE;
    let created = c.create_with(ROOT, "f", flags, &new).unwrap();
    assert_eq!(created.entry.attr.size, 0);
    assert_eq!(c.read(opened(&created), 0, 10).unwrap(), b"");
}

fn create_never_follows_a_symlink(w: &World) {
    let c = w.client();
    c.file(ROOT, "target", b"kept");
    c.symlink(ROOT, "l", "target").unwrap();
    c.symlink(ROOT, "dangling", "elsewhere").unwrap();
    let new = NewNode::with_perm(0o644);
    let flags = READ_WRITE | OpenFlags::TRUNCATE;
    fails(c.create_with(ROOT, "l", flags, &new), Errno::ELOOP);
    fails(c.create_with(ROOT, "dangling", flags, &new), Errno::ELOOP);
    let target = c.lookup(ROOT, "target").unwrap().node;
    assert_eq!(c.content(target), b"kept");
    assert_eq!(c.names(ROOT), ["dangling", "l", "target"]);
}

fn create_over_a_directory_is_eisdir(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    let new = NewNode::with_perm(0o644);
    fails(c.create_with(ROOT, "d", READ_WRITE, &new), Errno::EISDIR);
}

fn create_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.create(file, "x", 0o644), Errno::ENOTDIR);
}

fn create_in_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.create(dir, "x", 0o644), Errno::ENOENT);
}

fn create_obeys_the_umask(w: &World) {
    let c = w.client();
    for (name, umask, perm) in [("a", 0, 0o666), ("b", 0o022, 0o644), ("c", 0o777, 0)] {
        let new = NewNode {
            umask,
            ..NewNode::with_perm(0o666)
        };
        let created = c.create_with(ROOT, name, READ_WRITE, &new).unwrap();
        assert_eq!(created.entry.attr.mode.perm(), perm, "umask {umask:o}");
    }
}

fn create_keeps_all_mode_bits(w: &World) {
    let c = w.client();
    let new = NewNode {
        umask: 0o022,
        ..NewNode::with_perm(0o7777)
    };
    let created = c.create_with(ROOT, "f", READ_WRITE, &new).unwrap();
    assert_eq!(created.entry.attr.mode.perm(), 0o7755);
}

fn create_with_mode_0_is_open_for_writing(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0).unwrap();
    assert_eq!(c.write(file, 0, b"abc"), Ok(3));
    assert_eq!(c.read(file, 0, 3).unwrap(), b"abc");
}

fn a_file_made_for_reading_is_not_writable(w: &World) {
    let c = w.client();
    let new = NewNode::with_perm(0o644);
    let created = c.create_with(ROOT, "f", OpenFlags::READ, &new).unwrap();
    fails(c.write(opened(&created), 0, b"x"), Errno::EBADF);
}

fn create_works_with_odd_names(w: &World) {
    let c = w.client();
    let long = "x".repeat(255);
    for name in [long.as_str(), "ä", "a\\b", "\u{1}"] {
        c.file(ROOT, name, name.as_bytes());
        let node = c.lookup(ROOT, name).unwrap().node;
        assert_eq!(c.content(node), name.as_bytes());
    }
    fails(c.create(ROOT, "x".repeat(256), 0o644), Errno::ENAMETOOLONG);
}

fn lookup_open_opens_what_is_there(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let created = c.lookup_open(ROOT, "f", OpenFlags::READ).unwrap();
    assert_eq!(created.entry.attr.ino, c.getattr(node).unwrap().ino);
    assert!(!created.is_new);
    assert_eq!(c.read(opened(&created), 0, 10).unwrap(), b"content");
}

fn lookup_open_makes_nothing(w: &World) {
    let c = w.client();
    fails(c.lookup_open(ROOT, "f", READ_WRITE), Errno::ENOENT);
    assert!(c.names(ROOT).is_empty());
}

fn lookup_open_truncates_if_told(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"content");
    let flags = READ_WRITE | OpenFlags::TRUNCATE;
    let created = c.lookup_open(ROOT, "f", flags).unwrap();
    assert_eq!(created.entry.attr.size, 0);
}

fn lookup_open_of_a_symlink_is_eloop(w: &World) {
    let c = w.client();
    c.file(ROOT, "target", b"");
    c.symlink(ROOT, "l", "target").unwrap();
    fails(c.lookup_open(ROOT, "l", OpenFlags::READ), Errno::ELOOP);
}

fn lookup_open_opens_directories(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.file(dir, "f", b"");
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let created = c.lookup_open(ROOT, "d", flags).unwrap();
    let listed = c
        .list(opened(&created), sluice_vfs::DirWant::Names)
        .unwrap();
    assert!(listed.iter().any(|entry| entry.name == b"f"));
    fails(c.lookup_open(ROOT, "d", READ_WRITE), Errno::EISDIR);
    c.file(ROOT, "f", b"");
    fails(c.lookup_open(ROOT, "f", flags), Errno::ENOTDIR);
}

fn lookup_open_to_read_may_find_a_directory(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.file(dir, "f", b"");
    let created = c.lookup_open(ROOT, "d", OpenFlags::READ).unwrap();
    assert!(created.entry.attr.mode.is_dir());
    let listed = c
        .list(opened(&created), sluice_vfs::DirWant::Names)
        .unwrap();
    assert!(listed.iter().any(|entry| entry.name == b"f"));
    fails_with_one(
        c.read(opened(&created), 0, 10),
        &[Errno::EISDIR, Errno::EBADF],
    );
    let emptied = OpenFlags::READ | OpenFlags::TRUNCATE;
    fails(c.lookup_open(ROOT, "d", emptied), Errno::EISDIR);
}
