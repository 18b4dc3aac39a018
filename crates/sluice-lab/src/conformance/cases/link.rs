//! Hard links.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, FileType, OpenFlags};

pub(super) const CASES: &[Case] = &[
    case!(a_link_is_the_same_file),
    case!(links_are_counted),
    case!(content_shows_through_every_link),
    case!(removing_one_link_leaves_the_other),
    case!(link_over_a_taken_name_is_eexist),
    case!(link_to_a_directory_is_eperm),
    case!(link_in_a_file_is_enotdir),
    case!(link_in_a_removed_directory_is_enoent),
    case!(link_to_a_symlink_is_a_symlink),
    case!(link_to_a_pipe_works),
    case!(link_into_another_directory),
    case!(link_of_a_removed_file_is_enoent),
    case!(chmod_shows_through_every_link),
    case!(a_link_gives_the_same_node, Needs::SAME_NODE),
];

fn a_link_is_the_same_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"abc");
    let linked = c.link(node, ROOT, "b").unwrap();
    assert_eq!(linked.attr.ino, c.getattr(node).unwrap().ino);
    assert_eq!(linked.attr.nlink, 2);
    assert_eq!(c.names(ROOT), ["a", "b"]);
}

fn links_are_counted(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for index in 2..6 {
        c.link(node, ROOT, format!("l{index}")).unwrap();
        assert_eq!(c.getattr(node).unwrap().nlink, index);
    }
    c.unlink(ROOT, "l3").unwrap();
    assert_eq!(c.getattr(node).unwrap().nlink, 4);
}

fn content_shows_through_every_link(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"abc");
    let other = c.link(node, ROOT, "b").unwrap().node;
    let file = c.open(other, OpenFlags::WRITE).unwrap();
    c.write(file, 1, b"X").unwrap();
    assert_eq!(c.content(node), b"aXc");
}

fn removing_one_link_leaves_the_other(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"abc");
    c.link(node, ROOT, "b").unwrap();
    c.unlink(ROOT, "a").unwrap();
    let left = c.lookup(ROOT, "b").unwrap();
    assert_eq!(left.attr.nlink, 1);
    assert_eq!(c.content(left.node), b"abc");
}

fn link_over_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"");
    c.dir(ROOT, "d");
    c.symlink(ROOT, "l", "nowhere").unwrap();
    for name in ["a", "d", "l"] {
        fails(c.link(node, ROOT, name), Errno::EEXIST);
    }
    assert_eq!(c.getattr(node).unwrap().nlink, 1);
}

fn link_to_a_directory_is_eperm(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fails(c.link(dir, ROOT, "e"), Errno::EPERM);
}

fn link_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let (a, b) = (c.file(ROOT, "a", b""), c.file(ROOT, "b", b""));
    fails(c.link(a, b, "x"), Errno::ENOTDIR);
}

fn link_in_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.link(node, dir, "x"), Errno::ENOENT);
}

fn link_to_a_symlink_is_a_symlink(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    let linked = c.link(link, ROOT, "m").unwrap();
    assert_eq!(linked.attr.mode.file_type(), Some(FileType::Symlink));
    assert_eq!(c.readlink(linked.node).unwrap(), b"f");
}

fn link_to_a_pipe_works(w: &World) {
    let c = w.client();
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node;
    let linked = c.link(pipe, ROOT, "q").unwrap();
    assert_eq!(linked.attr.mode.file_type(), Some(FileType::Fifo));
    assert_eq!(linked.attr.nlink, 2);
}

fn link_into_another_directory(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let node = c.file(ROOT, "f", b"abc");
    c.link(node, dir, "g").unwrap();
    let found = c.lookup(dir, "g").unwrap();
    assert_eq!(c.content(found.node), b"abc");
}

fn link_of_a_removed_file_is_enoent(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    c.unlink(ROOT, "f").unwrap();
    fails(c.link(node, ROOT, "g"), Errno::ENOENT);
}

fn chmod_shows_through_every_link(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"");
    c.link(node, ROOT, "b").unwrap();
    c.chmod(node, 0o600).unwrap();
    assert_eq!(c.lookup(ROOT, "b").unwrap().attr.mode.perm(), 0o600);
}

fn a_link_gives_the_same_node(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"");
    assert_eq!(c.link(node, ROOT, "b").unwrap().node, node);
}
