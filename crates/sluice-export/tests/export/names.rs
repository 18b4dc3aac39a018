//! Lookups, links and what moves names.

use crate::harness::{ROOT, Share, errno, name};
use sluice_vfs::{Errno, Lookup, NewNode, NodeId, RenameFlags, SecurityLabel, XattrName};
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_node_is_an_inode_whatever_its_names() {
    let share = Share::new();
    fs::write(share.path("a"), "x").unwrap();
    let first = share.find("a").unwrap();
    assert_eq!(share.find("a").unwrap().node, first.node);
    assert_eq!(first.attr.ino, fs::metadata(share.path("a")).unwrap().ino());

    fs::hard_link(share.path("a"), share.path("b")).unwrap();
    assert_eq!(share.find("b").unwrap().node, first.node);
    fs::rename(share.path("a"), share.path("c")).unwrap();
    assert_eq!(share.find("c").unwrap().node, first.node);
    assert_eq!(share.attr(first.node).nlink, 2);
    assert_eq!(errno(share.find("a")), Errno::ENOENT);
}

#[test]
fn another_file_under_the_same_name_is_another_node() {
    let share = Share::new();
    fs::write(share.path("a"), "old").unwrap();
    let old = share.node("a");
    fs::remove_file(share.path("a")).unwrap();
    fs::write(share.path("a"), "new!").unwrap();
    let new = share.node("a");
    assert_ne!(old, new);
    assert_eq!(share.read(old, None).unwrap(), b"old");
    assert_eq!(share.read(new, None).unwrap(), b"new!");
    assert_eq!(share.attr(old).nlink, 0);
}

#[test]
fn a_node_that_was_forgotten_is_stale() {
    let share = Share::new();
    fs::write(share.path("a"), "x").unwrap();
    let node = share.node("a");
    share.s().remember(&ROOT, node).unwrap();
    share.s().forget(node, 1);
    assert!(share.read(node, None).is_ok());
    share.s().forget(node, 1);
    assert_eq!(errno(share.read(node, None)), Errno::ESTALE);
    assert_eq!(errno(share.find_in(node, "b")), Errno::ESTALE);
    share.s().forget(NodeId::ROOT, u64::MAX);
    assert!(share.find("a").is_ok());
}

#[test]
fn missing_names_are_an_answer_and_files_have_no_children() {
    let share = Share::new();
    let outcome = share.s().lookup(&ROOT, NodeId::ROOT, name("no"));
    assert!(matches!(outcome, Ok(Lookup::Missing { .. })));
    fs::write(share.path("a"), "").unwrap();
    assert_eq!(errno(share.find_in(share.node("a"), "b")), Errno::ENOTDIR);
}

#[test]
fn sessions_know_nothing_of_each_other() {
    let share = Share::new();
    fs::write(share.path("a"), "x").unwrap();
    let node = share.node("a");
    let other = share.another_session();
    let outcome = other.getattr(&ROOT, node, None, sluice_vfs::AttrMask::BASIC);
    assert_eq!(errno(outcome), Errno::ESTALE);
    other.forget(node, 100);
    assert!(share.read(node, None).is_ok());
}

#[test]
fn the_parent_is_found_within_the_tree_only() {
    let share = Share::new();
    fs::create_dir_all(share.path("a/b/c")).unwrap();
    let a = share.node("a");
    let b = share.find_in(a, "b").unwrap().node;
    let c = share.find_in(b, "c").unwrap().node;
    assert_eq!(share.s().parent(&ROOT, c).unwrap().node, b);
    assert_eq!(share.s().parent(&ROOT, a).unwrap().node, NodeId::ROOT);
    let above_root = share.s().parent(&ROOT, NodeId::ROOT).unwrap();
    assert_eq!(above_root.node, NodeId::ROOT);

    // Forgotten directories in between are found by climbing on to the root.
    share.s().forget(a, u64::MAX);
    share.s().forget(b, u64::MAX);
    let b = share.s().parent(&ROOT, c).unwrap().node;
    assert_eq!(share.find_in(b, "c").unwrap().node, c);
    share.s().forget(b, u64::MAX);

    let outside = tempfile::tempdir().unwrap();
    fs::rename(share.path("a/b/c"), outside.path().join("c")).unwrap();
    assert_eq!(errno(share.s().parent(&ROOT, c)), Errno::ESTALE);
}

#[test]
fn renames_have_their_variants() {
    let share = Share::new();
    fs::write(share.path("a"), "a").unwrap();
    fs::write(share.path("b"), "b").unwrap();
    let rename = |flags| {
        let (old, new) = ((NodeId::ROOT, name("a")), (NodeId::ROOT, name("b")));
        share.s().rename(&ROOT, old, new, flags)
    };
    assert_eq!(errno(rename(RenameFlags::NOREPLACE)), Errno::EEXIST);
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(share.path("a")).unwrap(), b"b");
    let wrong = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
    assert_eq!(errno(rename(wrong)), Errno::EINVAL);
    rename(RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(share.path("b")).unwrap(), b"b");
    assert!(!share.path("a").exists());
}

#[test]
fn links_work_for_unnamed_files_and_symlinks() {
    let share = Share::new();
    let target = b"no/such/place";
    let new = NewNode::with_perm(0o777);
    let made = share
        .s()
        .symlink(&ROOT, NodeId::ROOT, name("l"), target, &new)
        .unwrap();
    let linked = share
        .s()
        .link(&ROOT, made.node, NodeId::ROOT, name("l2"))
        .unwrap();
    assert_eq!(linked.node, made.node);
    assert_eq!(linked.attr.nlink, 2);
    assert_eq!(
        fs::read_link(share.path("l2")).unwrap().as_os_str(),
        "no/such/place"
    );
    let mut sink = sluice_vfs::VecSink::new(100);
    share.s().readlink(&ROOT, made.node, &mut sink).unwrap();
    assert_eq!(sink.into_bytes(), target);

    fs::create_dir(share.path("d")).unwrap();
    let outcome = share
        .s()
        .link(&ROOT, share.node("d"), NodeId::ROOT, name("d2"));
    assert_eq!(errno(outcome), Errno::EPERM);
}

#[test]
fn a_node_whose_label_fails_is_not_left_behind() {
    let share = Share::new();
    let new = NewNode {
        label: Some(SecurityLabel {
            name: XattrName::new(b"nosuchnamespace.label").unwrap(),
            value: b"x",
        }),
        ..NewNode::with_perm(0o755)
    };
    let outcome = share.s().mkdir(&ROOT, NodeId::ROOT, name("d"), &new);
    assert_eq!(errno(outcome), Errno::EOPNOTSUPP);
    assert!(!share.path("d").exists());
}

#[test]
fn removing_is_picky_about_the_kind() {
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    fs::write(share.path("d/f"), "").unwrap();
    let s = share.s();
    assert_eq!(
        errno(s.unlink(&ROOT, NodeId::ROOT, name("d"))),
        Errno::EISDIR
    );
    assert_eq!(
        errno(s.rmdir(&ROOT, NodeId::ROOT, name("d"))),
        Errno::ENOTEMPTY
    );
    let d = share.node("d");
    assert_eq!(errno(s.rmdir(&ROOT, d, name("f"))), Errno::ENOTDIR);
    s.unlink(&ROOT, d, name("f")).unwrap();
    s.rmdir(&ROOT, NodeId::ROOT, name("d")).unwrap();
    assert!(!share.path("d").exists());
}
