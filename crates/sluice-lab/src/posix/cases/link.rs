//! Hard and symbolic links.

use super::fails;
use crate::posix::Place;
use rustix::fs::{AtFlags, FileType, OFlags, linkat};
use rustix::io::Errno;

cases!("link":
    hard_links_are_one_file,
    a_hard_link_outlives_the_first_name,
    a_write_through_one_name_shows_through_the_other,
    directories_are_not_hard_linked,
    link_refuses_what_exists,
    a_link_to_nothing_is_enoent,
    a_hard_link_to_a_symlink_is_the_symlink,
    a_hard_link_follows_symlinks_if_told,
    a_symlink_keeps_its_target,
    a_symlink_is_as_long_as_its_target,
    a_symlink_to_nowhere_is_enoent,
    symlink_refuses_what_exists,
    an_empty_target_is_enoent,
    a_target_has_up_to_4095_bytes,
    a_target_is_any_bytes,
    readlink_of_a_file_is_einval,
    relative_links_start_where_they_lie,
    a_link_to_a_directory_is_walked,
    a_replaced_symlink_has_a_new_target,
);

fn hard_links_are_one_file(p: &Place) {
    p.write("a", "content");
    p.link("a", "b").unwrap();
    let (a, b) = (p.stat("a").unwrap(), p.stat("b").unwrap());
    assert_eq!((a.st_ino, a.st_dev), (b.st_ino, b.st_dev));
    assert_eq!((a.st_nlink, b.st_nlink), (2, 2));
    p.chmod("b", 0o600).unwrap();
    assert_eq!(p.mode("a"), 0o600);
}

fn a_hard_link_outlives_the_first_name(p: &Place) {
    p.write("a", "content");
    p.link("a", "b").unwrap();
    p.unlink("a").unwrap();
    assert_eq!(p.nlink("b"), 1);
    assert_eq!(p.read("b"), b"content");
}

fn a_write_through_one_name_shows_through_the_other(p: &Place) {
    p.write("a", "first");
    p.link("a", "b").unwrap();
    assert_eq!(p.read("b"), b"first");
    p.write("a", "second");
    assert_eq!(p.read("b"), b"second");
    assert_eq!(p.stat("b").unwrap().st_size, 6);
}

fn directories_are_not_hard_linked(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    fails(p.link("d", "e"), Errno::PERM);
}

fn link_refuses_what_exists(p: &Place) {
    p.write("a", "");
    p.write("b", "");
    p.mkdir("d", 0o755).unwrap();
    fails(p.link("a", "b"), Errno::EXIST);
    fails(p.link("a", "d"), Errno::EXIST);
    fails(p.link("a", "a"), Errno::EXIST);
    assert_eq!(p.nlink("a"), 1);
}

fn a_link_to_nothing_is_enoent(p: &Place) {
    fails(p.link("none", "b"), Errno::NOENT);
    p.write("a", "");
    fails(p.link("a", "none/b"), Errno::NOENT);
}

fn a_hard_link_to_a_symlink_is_the_symlink(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    p.link("l", "m").unwrap();
    assert_eq!(p.readlink("m").unwrap(), b"f");
    assert_eq!(p.nlink("l"), 2);
    assert_eq!(p.nlink("f"), 1);
}

fn a_hard_link_follows_symlinks_if_told(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    linkat(p.dir(), "l", p.dir(), "m", AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(p.nlink("f"), 2);
    assert_eq!(p.lstat("m").unwrap().st_ino, p.stat("f").unwrap().st_ino);
}

fn a_symlink_keeps_its_target(p: &Place) {
    for (name, target) in [
        ("a", "f"),
        ("b", "/absolute/path"),
        ("c", "../x//y/"),
        ("d", " "),
    ] {
        p.symlink(target, name).unwrap();
        assert_eq!(p.readlink(name).unwrap(), target.as_bytes());
    }
}

fn a_symlink_is_as_long_as_its_target(p: &Place) {
    p.symlink("twelve bytes", "l").unwrap();
    let stat = p.lstat("l").unwrap();
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Symlink);
    assert_eq!((stat.st_size, stat.st_mode & 0o7777), (12, 0o777));
}

fn a_symlink_to_nowhere_is_enoent(p: &Place) {
    p.symlink("nowhere", "l").unwrap();
    fails(p.stat("l"), Errno::NOENT);
    fails(p.open("l", OFlags::RDONLY), Errno::NOENT);
    p.lstat("l").unwrap();
    p.write("nowhere", "now");
    assert_eq!(p.read("l"), b"now");
}

fn symlink_refuses_what_exists(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    fails(p.symlink("x", "f"), Errno::EXIST);
    fails(p.symlink("x", "l"), Errno::EXIST);
}

fn an_empty_target_is_enoent(p: &Place) {
    fails(p.symlink("", "l"), Errno::NOENT);
}

fn a_target_has_up_to_4095_bytes(p: &Place) {
    let longest = "t/".repeat(2047) + "t";
    p.symlink(&longest, "l").unwrap();
    assert_eq!(p.readlink("l").unwrap(), longest.as_bytes());
    fails(p.symlink(longest + "t", "m"), Errno::NAMETOOLONG);
}

fn a_target_is_any_bytes(p: &Place) {
    let target: &[u8] = b"\xff\n\x01 ";
    p.symlink(target, &b"l"[..]).unwrap();
    assert_eq!(p.readlink("l").unwrap(), target);
}

fn readlink_of_a_file_is_einval(p: &Place) {
    p.write("f", "");
    fails(p.readlink("f"), Errno::INVAL);
    fails(p.readlink("none"), Errno::NOENT);
}

fn relative_links_start_where_they_lie(p: &Place) {
    let d = p.directory("d", 0o755);
    p.write("f", "outer");
    d.write("f", "inner");
    d.symlink("f", "l").unwrap();
    d.symlink("../f", "m").unwrap();
    assert_eq!(p.read("d/l"), b"inner");
    assert_eq!(p.read("d/m"), b"outer");
}

fn a_link_to_a_directory_is_walked(p: &Place) {
    p.directory("d", 0o755).write("f", "inside");
    p.symlink("d", "l").unwrap();
    assert_eq!(p.read("l/f"), b"inside");
    p.write("l/g", "made");
    assert_eq!(p.read("d/g"), b"made");
    fails(
        p.open("l", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW),
        Errno::NOTDIR,
    );
}

fn a_replaced_symlink_has_a_new_target(p: &Place) {
    p.symlink("first", "l").unwrap();
    assert_eq!(p.readlink("l").unwrap(), b"first");
    p.symlink("second", "m").unwrap();
    p.rename("m", "l").unwrap();
    assert_eq!(p.readlink("l").unwrap(), b"second");
}
