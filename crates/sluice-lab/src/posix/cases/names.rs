//! Names: which there may be, finding them, removing them.

use super::fails;
use crate::posix::Place;
use rustix::fs::OFlags;
use rustix::io::Errno;

cases!("names":
    a_name_has_up_to_255_bytes,
    a_path_has_up_to_4095_bytes,
    names_are_any_bytes,
    names_differ_by_case,
    a_missing_name_is_enoent,
    a_missing_name_appears_when_made,
    a_name_vanishes_when_removed,
    a_name_below_a_file_is_enotdir,
    a_slash_behind_a_file_is_enotdir,
    dot_and_dot_dot_lead_where_they_should,
    directories_nest_deeply,
    unlink_of_nothing_is_enoent,
    unlink_of_a_directory_is_eisdir,
    rmdir_of_nothing_is_enoent,
    rmdir_of_a_file_is_enotdir,
    rmdir_of_a_full_directory_is_enotempty,
    rmdir_of_dot_is_einval,
    rmdir_takes_a_link_from_the_parent,
    nothing_is_made_in_a_removed_directory,
    links_in_a_circle_are_eloop,
);

fn a_name_has_up_to_255_bytes(p: &Place) {
    let longest = "n".repeat(255);
    p.write(&longest, "long");
    assert_eq!(p.read(&longest), b"long");
    assert_eq!(p.names(), [longest]);
    let too_long = "n".repeat(256);
    fails(p.stat(&too_long), Errno::NAMETOOLONG);
    fails(
        p.create(&too_long, OFlags::WRONLY, 0o644),
        Errno::NAMETOOLONG,
    );
    fails(p.mkdir(&too_long, 0o755), Errno::NAMETOOLONG);
    fails(p.symlink("t", &too_long), Errno::NAMETOOLONG);
}

fn a_path_has_up_to_4095_bytes(p: &Place) {
    p.write("f", "");
    let path = |len: usize| format!("{}f", "./".repeat((len - 1) / 2));
    p.stat(path(4095)).expect("a path of 4095 bytes");
    fails(p.stat(path(4097)), Errno::NAMETOOLONG);
}

fn names_are_any_bytes(p: &Place) {
    let names: [&[u8]; 6] = [b"\xff\xfe", b"\x01", b"a\nb", b" ", b"...", b"-rf *"];
    for name in names {
        p.write(name, name);
    }
    for name in names {
        assert_eq!(p.read(name), name);
    }
    assert_eq!(p.names().len(), names.len());
}

fn names_differ_by_case(p: &Place) {
    p.write("name", "small");
    p.write("NAME", "large");
    assert_eq!(p.read("name"), b"small");
    assert_eq!(p.read("NAME"), b"large");
}

fn a_missing_name_is_enoent(p: &Place) {
    fails(p.stat("none"), Errno::NOENT);
    fails(p.open("none", OFlags::RDONLY), Errno::NOENT);
    fails(p.stat("none/none"), Errno::NOENT);
    fails(p.stat(""), Errno::NOENT);
}

fn a_missing_name_appears_when_made(p: &Place) {
    for name in ["file", "dir", "link", "moved", "linked"] {
        fails(p.lstat(name), Errno::NOENT);
    }
    p.write("file", "");
    p.mkdir("dir", 0o755).unwrap();
    p.symlink("file", "link").unwrap();
    p.link("file", "linked").unwrap();
    p.write("other", "");
    p.rename("other", "moved").unwrap();
    for name in ["file", "dir", "link", "moved", "linked"] {
        p.lstat(name).expect(name);
    }
}

fn a_name_vanishes_when_removed(p: &Place) {
    p.write("file", "");
    p.mkdir("dir", 0o755).unwrap();
    assert!(p.has("file") && p.has("dir"));
    p.unlink("file").unwrap();
    p.rmdir("dir").unwrap();
    fails(p.stat("file"), Errno::NOENT);
    fails(p.stat("dir"), Errno::NOENT);
    assert_eq!(p.names(), [""; 0]);
}

fn a_name_below_a_file_is_enotdir(p: &Place) {
    p.write("file", "");
    fails(p.stat("file/x"), Errno::NOTDIR);
    fails(p.create("file/x", OFlags::WRONLY, 0o644), Errno::NOTDIR);
    fails(p.mkdir("file/x", 0o755), Errno::NOTDIR);
    fails(p.unlink("file/x"), Errno::NOTDIR);
}

fn a_slash_behind_a_file_is_enotdir(p: &Place) {
    p.write("file", "");
    fails(p.stat("file/"), Errno::NOTDIR);
    fails(p.unlink("file/"), Errno::NOTDIR);
    fails(p.rename("file/", "x"), Errno::NOTDIR);
}

fn dot_and_dot_dot_lead_where_they_should(p: &Place) {
    let inner = p.directory("d", 0o755).directory("e", 0o755);
    let ino = |place: &Place, name: &str| place.stat(name).unwrap().st_ino;
    assert_eq!(ino(&inner, "."), ino(p, "d/e"));
    assert_eq!(ino(&inner, ".."), ino(p, "d"));
    assert_eq!(ino(&inner, "../.."), ino(p, "."));
}

fn directories_nest_deeply(p: &Place) {
    let mut path = String::from("d");
    for _ in 0..100 {
        p.mkdir(&path, 0o755).unwrap();
        path += "/d";
    }
    p.write(&path, "deep");
    assert_eq!(p.read(&path), b"deep");
}

fn unlink_of_nothing_is_enoent(p: &Place) {
    fails(p.unlink("none"), Errno::NOENT);
    p.write("once", "");
    p.unlink("once").unwrap();
    fails(p.unlink("once"), Errno::NOENT);
}

fn unlink_of_a_directory_is_eisdir(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    fails(p.unlink("d"), Errno::ISDIR);
    assert!(p.has("d"));
}

fn rmdir_of_nothing_is_enoent(p: &Place) {
    fails(p.rmdir("none"), Errno::NOENT);
}

fn rmdir_of_a_file_is_enotdir(p: &Place) {
    p.write("file", "");
    p.mkdir("d", 0o755).unwrap();
    p.symlink("d", "link").unwrap();
    fails(p.rmdir("file"), Errno::NOTDIR);
    fails(p.rmdir("link"), Errno::NOTDIR);
}

fn rmdir_of_a_full_directory_is_enotempty(p: &Place) {
    let d = p.directory("d", 0o755);
    d.write("file", "");
    fails(p.rmdir("d"), Errno::NOTEMPTY);
    d.unlink("file").unwrap();
    p.rmdir("d").unwrap();
}

fn rmdir_of_dot_is_einval(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    fails(p.rmdir("d/."), Errno::INVAL);
    fails(p.rmdir("d/.."), Errno::NOTEMPTY);
}

fn rmdir_takes_a_link_from_the_parent(p: &Place) {
    assert_eq!(p.nlink("."), 2);
    p.mkdir("d", 0o755).unwrap();
    p.mkdir("e", 0o755).unwrap();
    assert_eq!(p.nlink("."), 4);
    p.rmdir("d").unwrap();
    assert_eq!(p.nlink("."), 3);
}

fn nothing_is_made_in_a_removed_directory(p: &Place) {
    let d = p.directory("d", 0o755);
    p.rmdir("d").unwrap();
    fails(d.create("f", OFlags::WRONLY, 0o644), Errno::NOENT);
    fails(d.mkdir("e", 0o755), Errno::NOENT);
    fails(d.symlink("t", "l"), Errno::NOENT);
}

fn links_in_a_circle_are_eloop(p: &Place) {
    p.symlink("b", "a").unwrap();
    p.symlink("a", "b").unwrap();
    fails(p.stat("a"), Errno::LOOP);
    fails(p.open("b", OFlags::RDONLY), Errno::LOOP);
    p.lstat("a").expect("the link itself");
}
