//! Removing names.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, World};
use sluice_vfs::{Errno, FileType};

pub(super) const CASES: &[Case] = &[
    case!(unlink_removes_a_name),
    case!(unlink_of_a_missing_name_is_enoent),
    case!(unlink_of_a_directory_is_eisdir),
    case!(unlink_in_a_file_is_enotdir),
    case!(unlink_removes_special_nodes),
    case!(unlink_takes_one_link),
    case!(rmdir_removes_an_empty_directory),
    case!(rmdir_of_a_full_directory_is_enotempty),
    case!(rmdir_of_a_missing_name_is_enoent),
    case!(rmdir_of_a_file_is_enotdir),
    case!(rmdir_in_a_file_is_enotdir),
    case!(rmdir_works_once_it_is_empty),
    case!(a_name_can_be_made_again),
    case!(a_removed_directory_takes_no_names),
    case!(a_tree_is_removed_from_below),
    case!(removing_in_a_removed_directory_is_enoent),
];

fn unlink_removes_a_name(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.unlink(ROOT, "f").unwrap();
    assert!(c.names(ROOT).is_empty());
    fails(c.unlink(ROOT, "f"), Errno::ENOENT);
}

fn unlink_of_a_missing_name_is_enoent(w: &World) {
    let c = w.client();
    fails(c.unlink(ROOT, "nothing"), Errno::ENOENT);
}

fn unlink_of_a_directory_is_eisdir(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    fails(c.unlink(ROOT, "d"), Errno::EISDIR);
    assert_eq!(c.names(ROOT), ["d"]);
}

fn unlink_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.unlink(file, "x"), Errno::ENOTDIR);
}

fn unlink_removes_special_nodes(w: &World) {
    let c = w.client();
    c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap();
    c.mknod(ROOT, "s", FileType::Socket, 0o600).unwrap();
    c.unlink(ROOT, "p").unwrap();
    c.unlink(ROOT, "s").unwrap();
    assert!(c.names(ROOT).is_empty());
}

fn unlink_takes_one_link(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"x");
    c.link(node, ROOT, "b").unwrap();
    c.unlink(ROOT, "a").unwrap();
    assert_eq!(c.getattr(node).unwrap().nlink, 1);
    c.unlink(ROOT, "b").unwrap();
    assert_eq!(c.getattr(node).unwrap().nlink, 0);
}

fn rmdir_removes_an_empty_directory(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    assert!(c.names(ROOT).is_empty());
}

fn rmdir_of_a_full_directory_is_enotempty(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.file(dir, "f", b"");
    fails(c.rmdir(ROOT, "d"), Errno::ENOTEMPTY);
    assert_eq!(c.names(dir), ["f"]);
}

fn rmdir_of_a_missing_name_is_enoent(w: &World) {
    let c = w.client();
    fails(c.rmdir(ROOT, "nothing"), Errno::ENOENT);
}

fn rmdir_of_a_file_is_enotdir(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    fails(c.rmdir(ROOT, "f"), Errno::ENOTDIR);
    assert_eq!(c.names(ROOT), ["f"]);
}

fn rmdir_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.rmdir(file, "x"), Errno::ENOTDIR);
}

fn rmdir_works_once_it_is_empty(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let inner = c.dir(dir, "e");
    c.file(inner, "f", b"");
    fails(c.rmdir(dir, "e"), Errno::ENOTEMPTY);
    c.unlink(inner, "f").unwrap();
    c.rmdir(dir, "e").unwrap();
    c.rmdir(ROOT, "d").unwrap();
}

fn a_name_can_be_made_again(w: &World) {
    let c = w.client();
    c.file(ROOT, "x", b"file");
    c.unlink(ROOT, "x").unwrap();
    let dir = c.dir(ROOT, "x");
    assert!(c.getattr(dir).unwrap().mode.is_dir());
    c.rmdir(ROOT, "x").unwrap();
    let file = c.file(ROOT, "x", b"again");
    assert_eq!(c.content(file), b"again");
}

fn a_removed_directory_takes_no_names(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.create(dir, "f", 0o644), Errno::ENOENT);
    fails(c.symlink(dir, "l", "x"), Errno::ENOENT);
    fails(c.mknod(dir, "p", FileType::Fifo, 0o600), Errno::ENOENT);
    c.file(ROOT, "f", b"");
    fails(c.rename((ROOT, "f"), (dir, "f")), Errno::ENOENT);
}

fn a_tree_is_removed_from_below(w: &World) {
    let c = w.client();
    let mut dirs = vec![ROOT];
    for depth in 0..20 {
        let above = dirs[depth];
        c.file(above, "f", b"x");
        dirs.push(c.dir(above, "d"));
    }
    for depth in (0..20).rev() {
        c.rmdir(dirs[depth], "d").unwrap();
        c.unlink(dirs[depth], "f").unwrap();
    }
    assert!(c.names(ROOT).is_empty());
}

fn removing_in_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.unlink(dir, "x"), Errno::ENOENT);
    fails(c.rmdir(dir, "x"), Errno::ENOENT);
}
