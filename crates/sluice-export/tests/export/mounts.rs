//! Host file systems mounted below the root.

use crate::harness::{
    ROOT, Share, attach, in_child, is_child, myself_with_own_mounts, name, require_root,
};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use sluice_export::{Export, ExportOptions};
use sluice_vfs::{AccessChecks, AttrMask, DirWant, NodeId, SessionLimits};
use std::collections::HashSet;
use std::fs;

/// Two mounts of a fresh file system each, with the same file in them, which
/// then has the same number: fresh file systems count alike.
fn share_with_two_mounts() -> Share {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    let share = Share::new();
    for dir in ["one", "two"] {
        fs::create_dir(share.path(dir)).unwrap();
        mount("tmpfs", share.path(dir), "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(share.path(dir).join("f"), dir).unwrap();
    }
    share
}

#[test]
fn equal_numbers_on_two_mounts_are_two_files() {
    require_root!();
    if !is_child() {
        let test = "mounts::equal_numbers_on_two_mounts_are_two_files";
        return in_child(myself_with_own_mounts(), test);
    }
    use std::os::unix::fs::MetadataExt;
    let share = share_with_two_mounts();
    let host_ino = |path: &str| fs::metadata(share.path(path)).unwrap().ino();
    assert_eq!(host_ino("one/f"), host_ino("two/f"), "the premise");

    let (one, two) = (share.find("one").unwrap(), share.find("two").unwrap());
    let first = share.find_in(one.node, "f").unwrap();
    let second = share.find_in(two.node, "f").unwrap();
    assert_ne!(first.node, second.node);
    assert_eq!(share.read(first.node, None).unwrap(), b"one");
    assert_eq!(share.read(second.node, None).unwrap(), b"two");

    assert!(one.attr.is_submount && two.attr.is_submount);
    assert!(!first.attr.is_submount && !share.attached.root.attr.is_submount);
    let root_ino = share.attached.root.attr.ino;
    let of_mount = Export::open(&share.path("one"), ExportOptions::default()).unwrap();
    let attached = attach(&of_mount, AccessChecks::Peer, SessionLimits::default());
    assert!(
        !attached.root.attr.is_submount,
        "a root is no mount below it"
    );
    let inos = [
        root_ino,
        one.attr.ino,
        two.attr.ino,
        first.attr.ino,
        second.attr.ino,
    ];
    assert_eq!(inos.iter().collect::<HashSet<_>>().len(), inos.len());
    assert_eq!(share.attr(first.node).ino, first.attr.ino);

    let want = DirWant::Entries(AttrMask::BASIC);
    for listed in share.list(NodeId::ROOT, want) {
        let Some(entry) = listed.entry else { continue };
        assert_eq!(entry.node, share.node(&listed.name));
    }
    let in_two = share.list(two.node, DirWant::Names);
    let file = in_two.iter().find(|entry| entry.name == "f").unwrap();
    assert_eq!(file.ino, second.attr.ino);
    assert_eq!(
        share.s().parent(&ROOT, two.node).unwrap().node,
        NodeId::ROOT
    );
}

#[test]
fn what_is_mounted_over_a_known_directory_is_another_node() {
    require_root!();
    if !is_child() {
        let test = "mounts::what_is_mounted_over_a_known_directory_is_another_node";
        return in_child(myself_with_own_mounts(), test);
    }
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    let below = share.node("d");
    mount("tmpfs", share.path("d"), "tmpfs", MountFlags::empty(), None).unwrap();
    let above = share.node("d");
    assert_ne!(above, below);
    assert_eq!(share.s().parent(&ROOT, above).unwrap().node, NodeId::ROOT);
    rustix::mount::unmount(share.path("d"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(share.node("d"), below);
    // A directory of a mount that is gone leads nowhere.
    let outcome = share.s().parent(&ROOT, above);
    assert!(outcome.is_err() || outcome.unwrap().node == above);
    let missing = share.s().lookup(&ROOT, above, name("f"));
    assert!(missing.is_ok());
}
