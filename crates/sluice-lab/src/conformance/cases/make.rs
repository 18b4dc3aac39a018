//! Making directories and special nodes.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Device, Errno, FileType, NewNode, OpenFlags, UnixMode};

pub(super) const CASES: &[Case] = &[
    case!(mkdir_makes_an_empty_directory),
    case!(mkdir_of_a_taken_name_is_eexist),
    case!(mkdir_over_a_symlink_is_eexist),
    case!(mkdir_in_a_file_is_enotdir),
    case!(mkdir_in_a_removed_directory_is_enoent),
    case!(mkdir_obeys_the_umask),
    case!(mkdir_ignores_set_id_bits),
    case!(mkdir_keeps_the_sticky_bit),
    case!(mkdir_counts_as_a_link_of_the_parent),
    case!(mknod_makes_a_regular_file),
    case!(mknod_makes_a_pipe),
    case!(mknod_makes_a_socket),
    case!(mknod_makes_a_character_device, Needs::ROOT),
    case!(mknod_makes_a_block_device, Needs::ROOT),
    case!(mknod_ignores_the_device_number_of_a_pipe),
    case!(mknod_makes_a_whiteout, Needs::ROOT),
    case!(mknod_of_a_taken_name_is_eexist),
    case!(mknod_of_a_directory_is_refused),
    case!(mknod_of_a_symlink_is_refused),
    case!(mknod_obeys_the_umask),
    case!(mknod_keeps_set_id_bits, Needs::ROOT),
    case!(mknod_in_a_file_is_enotdir),
    case!(special_nodes_are_never_opened),
];

fn mkdir_makes_an_empty_directory(w: &World) {
    let c = w.client();
    let made = c.mkdir(ROOT, "d", 0o750).unwrap();
    assert_eq!(made.attr.mode, UnixMode(0o040_750));
    assert!(c.names(made.node).is_empty());
    assert_eq!(c.names(ROOT), ["d"]);
}

fn mkdir_of_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    c.file(ROOT, "f", b"");
    fails(c.mkdir(ROOT, "d", 0o755), Errno::EEXIST);
    fails(c.mkdir(ROOT, "f", 0o755), Errno::EEXIST);
}

fn mkdir_over_a_symlink_is_eexist(w: &World) {
    let c = w.client();
    c.symlink(ROOT, "l", "target").unwrap();
    fails(c.mkdir(ROOT, "l", 0o755), Errno::EEXIST);
    assert_eq!(c.names(ROOT), ["l"]);
}

fn mkdir_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.mkdir(file, "d", 0o755), Errno::ENOTDIR);
}

fn mkdir_in_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.mkdir(dir, "x", 0o755), Errno::ENOENT);
}

fn mkdir_obeys_the_umask(w: &World) {
    let c = w.client();
    let new = NewNode {
        umask: 0o027,
        ..NewNode::with_perm(0o777)
    };
    let made = c.mkdir_with(ROOT, "d", &new).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o750);
    let plain = c.mkdir(ROOT, "e", 0o777).unwrap();
    assert_eq!(plain.attr.mode.perm(), 0o777, "no umask was given");
}

fn mkdir_ignores_set_id_bits(w: &World) {
    let c = w.client();
    let made = c.mkdir(ROOT, "d", 0o6755).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o755);
}

fn mkdir_keeps_the_sticky_bit(w: &World) {
    let c = w.client();
    let made = c.mkdir(ROOT, "d", 0o1777).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o1777);
}

fn mkdir_counts_as_a_link_of_the_parent(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let before = c.getattr(dir).unwrap().nlink;
    c.dir(dir, "a");
    c.file(dir, "f", b"");
    let between = c.getattr(dir).unwrap().nlink;
    c.rmdir(dir, "a").unwrap();
    let after = c.getattr(dir).unwrap().nlink;
    // Some file systems keep every directory at one link.
    let kept = [(2, 3, 2), (1, 1, 1)];
    assert!(
        kept.contains(&(before, between, after)),
        "{before} {between} {after}"
    );
}

fn mknod_makes_a_regular_file(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "f", FileType::Regular, 0o640).unwrap();
    assert_eq!(made.attr.mode, UnixMode(0o100_640));
    assert_eq!((made.attr.nlink, made.attr.size), (1, 0));
    assert_eq!(c.content(made.node), b"");
}

fn mknod_makes_a_pipe(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap();
    assert_eq!(made.attr.mode, UnixMode(0o010_600));
    assert_eq!(c.lookup(ROOT, "p").unwrap().attr.mode, made.attr.mode);
}

fn mknod_makes_a_socket(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "s", FileType::Socket, 0o755).unwrap();
    assert_eq!(made.attr.mode, UnixMode(0o140_755));
}

fn mknod_makes_a_character_device(w: &World) {
    makes_device(w, FileType::CharDevice, Device { major: 1, minor: 3 });
}

fn mknod_makes_a_block_device(w: &World) {
    // The minor number needs more than eight bits.
    let rdev = Device {
        major: 259,
        minor: 70_000,
    };
    makes_device(w, FileType::BlockDevice, rdev);
}

fn makes_device(w: &World, file_type: FileType, rdev: Device) {
    let c = w.client();
    let new = NewNode::with_perm(0o660);
    let made = c.mknod_with(ROOT, "dev", file_type, rdev, &new).unwrap();
    assert_eq!(made.attr.mode, UnixMode::new(file_type, 0o660));
    assert_eq!(made.attr.rdev, rdev);
    assert_eq!(c.lookup(ROOT, "dev").unwrap().attr.rdev, rdev);
}

fn mknod_ignores_the_device_number_of_a_pipe(w: &World) {
    let c = w.client();
    let new = NewNode::with_perm(0o600);
    let rdev = Device { major: 1, minor: 3 };
    let made = c.mknod_with(ROOT, "p", FileType::Fifo, rdev, &new).unwrap();
    assert_eq!(made.attr.rdev, Device::default());
}

fn mknod_makes_a_whiteout(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "gone", FileType::CharDevice, 0).unwrap();
    assert_eq!(made.attr.mode, UnixMode(0o020_000));
    assert_eq!(made.attr.rdev, Device::default());
}

fn mknod_of_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    fails(c.mknod(ROOT, "d", FileType::Fifo, 0o600), Errno::EEXIST);
}

fn mknod_of_a_directory_is_refused(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "d", FileType::Directory, 0o755);
    fails_with_one(made, &[Errno::EPERM, Errno::EINVAL]);
    fails(c.lookup(ROOT, "d"), Errno::ENOENT);
}

fn mknod_of_a_symlink_is_refused(w: &World) {
    let c = w.client();
    fails(c.mknod(ROOT, "l", FileType::Symlink, 0o777), Errno::EINVAL);
    fails(c.lookup(ROOT, "l"), Errno::ENOENT);
}

fn mknod_obeys_the_umask(w: &World) {
    let c = w.client();
    let new = NewNode {
        umask: 0o077,
        ..NewNode::with_perm(0o666)
    };
    let none = Device::default();
    let made = c.mknod_with(ROOT, "p", FileType::Fifo, none, &new).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o600);
}

fn mknod_keeps_set_id_bits(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "f", FileType::Regular, 0o6755).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o6755);
}

fn mknod_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.mknod(file, "p", FileType::Fifo, 0o600), Errno::ENOTDIR);
}

fn special_nodes_are_never_opened(w: &World) {
    let c = w.client();
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o666).unwrap().node;
    let socket = c.mknod(ROOT, "s", FileType::Socket, 0o666).unwrap().node;
    for node in [pipe, socket] {
        fails(c.open(node, OpenFlags::READ), Errno::EOPNOTSUPP);
        fails(c.open(node, OpenFlags::WRITE), Errno::EOPNOTSUPP);
    }
    let new = NewNode::with_perm(0o644);
    let flags = OpenFlags::READ | OpenFlags::WRITE;
    fails(c.create_with(ROOT, "p", flags, &new), Errno::EOPNOTSUPP);
}
