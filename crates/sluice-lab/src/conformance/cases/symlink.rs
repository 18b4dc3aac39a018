//! Symbolic links.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, FileType, OpenFlags};

pub(super) const CASES: &[Case] = &[
    case!(a_target_is_kept_as_it_is),
    case!(a_target_of_4095_bytes_works),
    case!(a_target_of_4096_bytes_is_refused),
    case!(an_empty_target_is_refused),
    case!(a_target_need_not_be_utf8),
    case!(a_symlink_has_its_targets_length),
    case!(symlink_over_a_taken_name_is_eexist),
    case!(symlink_in_a_file_is_enotdir),
    case!(readlink_of_others_is_einval),
    case!(symlinks_are_removed_not_followed),
    case!(symlinks_are_renamed_not_followed),
    case!(a_removed_symlink_is_still_read),
    case!(symlinks_belong_to_the_caller, Needs::ROOT),
];

fn a_target_is_kept_as_it_is(w: &World) {
    let c = w.client();
    for (name, target) in [
        ("a", "x"),
        ("b", "../../../etc/passwd"),
        ("c", "/"),
        ("d", "a//b/."),
    ] {
        let made = c.symlink(ROOT, name, target).unwrap();
        assert_eq!(made.attr.mode.file_type(), Some(FileType::Symlink));
        assert_eq!(made.attr.mode.perm(), 0o777);
        assert_eq!(c.readlink(made.node).unwrap(), target.as_bytes());
        let found = c.lookup(ROOT, name).unwrap();
        assert_eq!(c.readlink(found.node).unwrap(), target.as_bytes());
    }
}

fn a_target_of_4095_bytes_works(w: &World) {
    let c = w.client();
    let target = vec![b'a'; 4095];
    let made = c.symlink(ROOT, "l", &target).unwrap();
    assert_eq!(made.attr.size, 4095);
    assert_eq!(c.readlink(made.node).unwrap(), target);
}

fn a_target_of_4096_bytes_is_refused(w: &World) {
    let c = w.client();
    let target = vec![b'a'; 4096];
    fails(c.symlink(ROOT, "l", &target), Errno::ENAMETOOLONG);
    fails(c.lookup(ROOT, "l"), Errno::ENOENT);
}

fn an_empty_target_is_refused(w: &World) {
    let c = w.client();
    fails_with_one(c.symlink(ROOT, "l", ""), &[Errno::ENOENT, Errno::EINVAL]);
    fails(c.lookup(ROOT, "l"), Errno::ENOENT);
}

fn a_target_need_not_be_utf8(w: &World) {
    let c = w.client();
    let made = c.symlink(ROOT, "l", b"\xff\xfe/\x80").unwrap();
    assert_eq!(c.readlink(made.node).unwrap(), b"\xff\xfe/\x80");
}

fn a_symlink_has_its_targets_length(w: &World) {
    let c = w.client();
    let made = c.symlink(ROOT, "l", "0123456789").unwrap();
    assert_eq!(made.attr.size, 10);
}

fn symlink_over_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.dir(ROOT, "d");
    c.symlink(ROOT, "l", "f").unwrap();
    for name in ["f", "d", "l"] {
        fails(c.symlink(ROOT, name, "x"), Errno::EEXIST);
    }
}

fn symlink_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.symlink(file, "l", "x"), Errno::ENOTDIR);
}

fn readlink_of_others_is_einval(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node;
    for node in [file, pipe, ROOT] {
        fails(c.readlink(node), Errno::EINVAL);
    }
}

fn symlinks_are_removed_not_followed(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"kept");
    c.symlink(ROOT, "l", "f").unwrap();
    c.unlink(ROOT, "l").unwrap();
    assert_eq!(c.names(ROOT), ["f"]);
    assert_eq!(c.content(node), b"kept");
    c.dir(ROOT, "d");
    c.symlink(ROOT, "m", "d").unwrap();
    fails(c.rmdir(ROOT, "m"), Errno::ENOTDIR);
}

fn symlinks_are_renamed_not_followed(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    c.symlink(ROOT, "l", "d").unwrap();
    c.rename((ROOT, "l"), (ROOT, "m")).unwrap();
    assert_eq!(c.names(ROOT), ["d", "m"]);
    let moved = c.lookup(ROOT, "m").unwrap();
    assert_eq!(c.readlink(moved.node).unwrap(), b"d");
}

fn a_removed_symlink_is_still_read(w: &World) {
    let c = w.client();
    let made = c.symlink(ROOT, "l", "target").unwrap();
    c.unlink(ROOT, "l").unwrap();
    assert_eq!(c.readlink(made.node).unwrap(), b"target");
    fails(c.open(made.node, OpenFlags::READ), Errno::ELOOP);
}

fn symlinks_belong_to_the_caller(w: &World) {
    let c = w.client();
    c.chmod(ROOT, 0o777).unwrap();
    let made = c.as_user(1000, 2000, &[]).symlink(ROOT, "l", "x").unwrap();
    assert_eq!((made.attr.uid, made.attr.gid), (1000, 2000));
}
