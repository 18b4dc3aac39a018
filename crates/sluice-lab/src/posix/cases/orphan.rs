//! Files that are open and have no name any more.

use super::{fails, pattern};
use crate::posix::Place;
use rustix::fs::{
    Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr, fsetxattr,
    fstat, fsync, ftruncate, futimens,
};
use rustix::io::{Errno, pread, pwrite};
use std::os::fd::OwnedFd;

cases!("orphan":
    an_unlinked_file_keeps_its_content,
    an_unlinked_file_is_written,
    an_unlinked_file_has_no_links,
    an_unlinked_file_is_truncated,
    an_unlinked_file_changes_its_mode_and_times,
    an_unlinked_file_changes_its_owner [Root],
    an_unlinked_file_has_attributes [Xattr],
    a_replaced_file_keeps_its_content,
    a_new_file_of_the_same_name_is_another,
    a_removed_directory_has_no_links,
    many_orphans_stay_apart,
    both_opens_of_an_orphan_are_one_file,
);

fn orphan(p: &Place, content: &[u8]) -> OwnedFd {
    p.write("f", content);
    let file = p.open("f", OFlags::RDWR).unwrap();
    p.unlink("f").unwrap();
    fails(p.stat("f"), Errno::NOENT);
    file
}

fn content(file: &OwnedFd) -> Vec<u8> {
    let mut content = vec![0; 1 << 17];
    let mut len = 0;
    loop {
        match pread(file, &mut content[len..], len as u64).unwrap() {
            0 => break,
            count => len += count,
        }
    }
    content.truncate(len);
    content
}

fn an_unlinked_file_keeps_its_content(p: &Place) {
    let file = orphan(p, &pattern(50_000));
    assert!(content(&file) == pattern(50_000));
}

fn an_unlinked_file_is_written(p: &Place) {
    let file = orphan(p, b"content");
    assert_eq!(pwrite(&file, b"CONTENTS", 0), Ok(8));
    fsync(&file).unwrap();
    assert_eq!(content(&file), b"CONTENTS");
}

fn an_unlinked_file_has_no_links(p: &Place) {
    let file = orphan(p, b"content");
    let stat = fstat(&file).unwrap();
    assert_eq!((stat.st_nlink, stat.st_size), (0, 7));
}

fn an_unlinked_file_is_truncated(p: &Place) {
    let file = orphan(p, b"content");
    ftruncate(&file, 3).unwrap();
    assert_eq!(fstat(&file).unwrap().st_size, 3);
    assert_eq!(content(&file), b"con");
}

fn an_unlinked_file_changes_its_mode_and_times(p: &Place) {
    let file = orphan(p, b"content");
    fchmod(&file, Mode::from_raw_mode(0o600)).unwrap();
    let old = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 5,
    };
    futimens(
        &file,
        &Timestamps {
            last_access: old,
            last_modification: old,
        },
    )
    .unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!(
        (stat.st_mode & 0o7777, stat.st_mtime),
        (0o600, 1_000_000_000)
    );
}

fn an_unlinked_file_changes_its_owner(p: &Place) {
    let file = orphan(p, b"content");
    fchown(&file, Some(Uid::from_raw(1000)), Some(Gid::from_raw(2000))).unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!((stat.st_uid, stat.st_gid), (1000, 2000));
}

fn an_unlinked_file_has_attributes(p: &Place) {
    let file = orphan(p, b"content");
    fsetxattr(&file, "user.a", b"value", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    assert_eq!(fgetxattr(&file, "user.a", &mut value[..]), Ok(5));
    assert_eq!(&value[..5], b"value");
}

fn a_replaced_file_keeps_its_content(p: &Place) {
    p.write("old", "old");
    p.write("new", "new");
    let file = p.open("old", OFlags::RDWR).unwrap();
    p.rename("new", "old").unwrap();
    assert_eq!(content(&file), b"old");
    assert_eq!(fstat(&file).unwrap().st_nlink, 0);
    pwrite(&file, b"still", 0).unwrap();
    assert_eq!(p.read("old"), b"new");
}

fn a_new_file_of_the_same_name_is_another(p: &Place) {
    let file = orphan(p, b"old");
    p.write("f", "new");
    assert_ne!(fstat(&file).unwrap().st_ino, p.stat("f").unwrap().st_ino);
    pwrite(&file, b"OLD", 0).unwrap();
    assert_eq!(p.read("f"), b"new");
    assert_eq!(content(&file), b"OLD");
}

fn a_removed_directory_has_no_links(p: &Place) {
    let d = p.directory("d", 0o755);
    p.rmdir("d").unwrap();
    assert_eq!(fstat(d.dir()).unwrap().st_nlink, 0);
    p.mkdir("d", 0o700).unwrap();
    assert_eq!(fstat(d.dir()).unwrap().st_mode & 0o7777, 0o755);
}

fn many_orphans_stay_apart(p: &Place) {
    let orphans: Vec<_> = (0..100)
        .map(|nth| orphan(p, format!("orphan {nth}").as_bytes()))
        .collect();
    for (nth, file) in orphans.iter().enumerate() {
        assert_eq!(content(file), format!("orphan {nth}").as_bytes());
    }
}

fn both_opens_of_an_orphan_are_one_file(p: &Place) {
    p.write("f", "content");
    let (one, two) = (
        p.open("f", OFlags::RDWR).unwrap(),
        p.open("f", OFlags::RDWR).unwrap(),
    );
    p.unlink("f").unwrap();
    pwrite(&one, b"written", 0).unwrap();
    assert_eq!(content(&two), b"written");
    drop(one);
    assert_eq!(content(&two), b"written");
}
