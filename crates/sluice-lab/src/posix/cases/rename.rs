//! Renames.

use super::fails;
use crate::posix::Place;
use rustix::fs::{FileType, OFlags, RenameFlags};
use rustix::io::Errno;

cases!("rename":
    a_file_moves,
    a_file_moves_between_directories,
    a_file_replaces_a_file,
    a_replaced_hard_link_loses_one,
    names_of_one_file_both_stay,
    a_directory_moves_with_what_is_in_it,
    a_moved_directory_has_a_new_parent,
    a_directory_replaces_an_empty_one,
    a_full_directory_is_not_replaced,
    a_directory_does_not_replace_a_file,
    a_file_does_not_replace_a_directory,
    a_directory_does_not_move_into_itself,
    nothing_does_not_move,
    dot_does_not_move,
    a_symlink_moves_itself,
    an_open_file_moves,
    noreplace_refuses_what_exists,
    exchange_swaps_files,
    exchange_swaps_a_file_and_a_directory,
    exchange_needs_both,
    flags_that_contradict_are_einval,
    a_whiteout_is_left_behind [Root, Whiteout],
    others_files_stay_in_a_sticky_directory [Root],
    a_name_that_moved_away_can_be_made_again,
);

fn a_file_moves(p: &Place) {
    p.write("a", "content");
    let ino = p.stat("a").unwrap().st_ino;
    p.rename("a", "b").unwrap();
    fails(p.stat("a"), Errno::NOENT);
    assert_eq!(p.read("b"), b"content");
    assert_eq!(p.stat("b").unwrap().st_ino, ino);
    assert_eq!(p.names(), ["b"]);
}

fn a_file_moves_between_directories(p: &Place) {
    let (d, e) = (p.directory("d", 0o755), p.directory("e", 0o755));
    d.write("f", "content");
    p.rename("d/f", "e/g").unwrap();
    assert_eq!(d.names(), [""; 0]);
    assert_eq!(e.names(), ["g"]);
    assert_eq!(e.read("g"), b"content");
}

fn a_file_replaces_a_file(p: &Place) {
    p.write("a", "new");
    p.write("b", "old");
    assert_eq!(p.read("b"), b"old");
    p.rename("a", "b").unwrap();
    assert_eq!(p.read("b"), b"new");
    assert_eq!(p.names(), ["b"]);
}

fn a_replaced_hard_link_loses_one(p: &Place) {
    p.write("a", "new");
    p.write("b", "old");
    p.link("b", "c").unwrap();
    p.rename("a", "b").unwrap();
    assert_eq!(p.nlink("c"), 1);
    assert_eq!(p.read("c"), b"old");
}

fn names_of_one_file_both_stay(p: &Place) {
    p.write("a", "");
    p.link("a", "b").unwrap();
    p.rename("a", "b").unwrap();
    assert_eq!(p.names(), ["a", "b"]);
    p.rename("a", "a").unwrap();
    assert_eq!(p.nlink("a"), 2);
}

fn a_directory_moves_with_what_is_in_it(p: &Place) {
    let d = p.directory("d", 0o755);
    d.directory("e", 0o755).write("f", "inside");
    p.rename("d", "moved").unwrap();
    assert_eq!(p.read("moved/e/f"), b"inside");
    fails(p.stat("d/e/f"), Errno::NOENT);
    d.write("g", "through the old descriptor");
    assert!(p.has("moved/g"));
}

fn a_moved_directory_has_a_new_parent(p: &Place) {
    let (d, e) = (p.directory("d", 0o755), p.directory("e", 0o755));
    let child = d.directory("c", 0o755);
    assert_eq!((p.nlink("d"), p.nlink("e")), (3, 2));
    p.rename("d/c", "e/c").unwrap();
    assert_eq!((p.nlink("d"), p.nlink("e")), (2, 3));
    assert_eq!(
        child.stat("..").unwrap().st_ino,
        e.stat(".").unwrap().st_ino
    );
}

fn a_directory_replaces_an_empty_one(p: &Place) {
    p.directory("d", 0o755).write("f", "");
    p.mkdir("e", 0o755).unwrap();
    p.rename("d", "e").unwrap();
    assert_eq!(p.names(), ["e"]);
    assert!(p.has("e/f"));
}

fn a_full_directory_is_not_replaced(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    p.directory("e", 0o755).write("f", "");
    fails(p.rename("d", "e"), Errno::NOTEMPTY);
    assert_eq!(p.names(), ["d", "e"]);
}

fn a_directory_does_not_replace_a_file(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    p.write("f", "");
    fails(p.rename("d", "f"), Errno::NOTDIR);
}

fn a_file_does_not_replace_a_directory(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    p.write("f", "");
    fails(p.rename("f", "d"), Errno::ISDIR);
}

fn a_directory_does_not_move_into_itself(p: &Place) {
    p.directory("d", 0o755).mkdir("e", 0o755).unwrap();
    fails(p.rename("d", "d/x"), Errno::INVAL);
    fails(p.rename("d", "d/e/x"), Errno::INVAL);
    fails(p.rename("d/e", "d"), Errno::NOTEMPTY);
}

fn nothing_does_not_move(p: &Place) {
    p.write("f", "");
    fails(p.rename("none", "x"), Errno::NOENT);
    fails(p.rename("f", "none/x"), Errno::NOENT);
    fails(p.rename("f/x", "y"), Errno::NOTDIR);
}

fn dot_does_not_move(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    fails(p.rename("d/.", "x"), Errno::BUSY);
    fails(p.rename("d", "."), Errno::BUSY);
}

fn a_symlink_moves_itself(p: &Place) {
    p.write("f", "content");
    p.symlink("f", "l").unwrap();
    p.rename("l", "m").unwrap();
    assert_eq!(p.readlink("m").unwrap(), b"f");
    p.write("g", "new");
    p.rename("g", "m").unwrap();
    assert_eq!(p.read("f"), b"content");
    assert_eq!(p.read("m"), b"new");
}

fn an_open_file_moves(p: &Place) {
    p.write("a", "before");
    let file = p.open("a", OFlags::RDWR).unwrap();
    p.rename("a", "b").unwrap();
    assert_eq!(rustix::io::pwrite(&file, b"after!", 0), Ok(6));
    assert_eq!(p.read("b"), b"after!");
}

fn noreplace_refuses_what_exists(p: &Place) {
    p.write("a", "a");
    p.write("b", "b");
    fails(
        p.rename_with("a", "b", RenameFlags::NOREPLACE),
        Errno::EXIST,
    );
    p.rename_with("a", "c", RenameFlags::NOREPLACE).unwrap();
    assert_eq!(p.names(), ["b", "c"]);
    assert_eq!(p.read("b"), b"b");
}

fn exchange_swaps_files(p: &Place) {
    p.write("a", "was a");
    p.write("b", "was b");
    p.rename_with("a", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(p.read("a"), b"was b");
    assert_eq!(p.read("b"), b"was a");
}

fn exchange_swaps_a_file_and_a_directory(p: &Place) {
    p.write("f", "file");
    p.directory("d", 0o755).write("inside", "");
    p.rename_with("f", "d", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(p.read("d"), b"file");
    assert!(p.has("f/inside"));
}

fn exchange_needs_both(p: &Place) {
    p.write("a", "");
    fails(
        p.rename_with("a", "none", RenameFlags::EXCHANGE),
        Errno::NOENT,
    );
    fails(
        p.rename_with("none", "a", RenameFlags::EXCHANGE),
        Errno::NOENT,
    );
}

fn flags_that_contradict_are_einval(p: &Place) {
    p.write("a", "");
    let flags = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
    fails(p.rename_with("a", "b", flags), Errno::INVAL);
}

fn a_whiteout_is_left_behind(p: &Place) {
    p.write("a", "content");
    p.rename_with("a", "b", RenameFlags::WHITEOUT).unwrap();
    assert_eq!(p.read("b"), b"content");
    let whiteout = p.lstat("a").unwrap();
    assert_eq!(
        FileType::from_raw_mode(whiteout.st_mode),
        FileType::CharacterDevice
    );
    assert_eq!(whiteout.st_rdev, 0);
}

fn others_files_stay_in_a_sticky_directory(p: &Place) {
    let d = p.directory("d", 0o1777);
    d.file_with_mode("f", 0o666);
    d.as_user(1000, 1000, &[], |d| {
        d.write("own", "");
        fails(d.rename("f", "g"), Errno::PERM);
        fails(d.rename("own", "f"), Errno::PERM);
        fails(d.unlink("f"), Errno::PERM);
        d.rename("own", "mine").unwrap();
    });
    assert_eq!(d.names(), ["f", "mine"]);
}

fn a_name_that_moved_away_can_be_made_again(p: &Place) {
    for round in 0..20 {
        p.write("log", round.to_string());
        p.rename("log", format!("log.{round}")).unwrap();
        fails(p.stat("log"), Errno::NOENT);
    }
    for round in 0..20 {
        assert_eq!(p.read(format!("log.{round}")), round.to_string().as_bytes());
    }
}
