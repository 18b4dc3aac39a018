//! Listings.

use super::fails;
use crate::posix::Place;
use crate::posix::place::{list, list_in_pieces};
use rustix::fs::{FileType, OFlags, SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

cases!("dir":
    an_empty_directory_lists_itself_and_its_parent,
    every_name_is_listed_once,
    small_buffers_list_the_same,
    a_listing_tells_types,
    a_listing_tells_inode_numbers,
    a_listing_goes_on_behind_a_cookie,
    a_rewound_listing_is_new,
    removing_while_listing_misses_nothing,
    adding_while_listing_repeats_nothing,
    a_removed_directory_lists_nothing,
    a_file_has_no_listing,
    long_names_are_listed_whole,
    a_listing_follows_renames,
    two_listings_do_not_disturb_each_other,
);

fn opened(p: &Place) -> OwnedFd {
    p.open(".", OFlags::RDONLY | OFlags::DIRECTORY)
        .expect("a listing")
}

fn fill(p: &Place, count: usize) -> BTreeSet<Vec<u8>> {
    let names = (0..count).map(|nth| format!("file-{nth:05}"));
    names
        .map(|name| {
            p.write(&name, "");
            name.into_bytes()
        })
        .collect()
}

fn without_dots(names: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let is_dot = |name: &Vec<u8>| name == b"." || name == b"..";
    names.into_iter().filter(|name| !is_dot(name)).collect()
}

fn an_empty_directory_lists_itself_and_its_parent(p: &Place) {
    let d = p.directory("d", 0o755);
    let mut entries = list(opened(&d)).unwrap();
    entries.sort();
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    assert_eq!(names, [&b"."[..], b".."]);
    assert_eq!(entries[0].ino, d.stat(".").unwrap().st_ino);
}

fn every_name_is_listed_once(p: &Place) {
    let expected = fill(p, 1500);
    let listed = without_dots(list(opened(p)).unwrap().into_iter().map(|entry| entry.name));
    assert_eq!(listed.len(), expected.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
}

fn small_buffers_list_the_same(p: &Place) {
    let expected = fill(p, 200);
    let dir = opened(p);
    let entries = list_in_pieces(&dir, 300, usize::MAX).unwrap();
    let listed = without_dots(entries.into_iter().map(|entry| entry.name));
    assert_eq!(listed.len(), expected.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
}

fn a_listing_tells_types(p: &Place) {
    p.write("f", "");
    p.mkdir("d", 0o755).unwrap();
    p.symlink("f", "l").unwrap();
    p.make_node("p", FileType::Fifo, 0o600, (0, 0)).unwrap();
    for entry in list(opened(p)).unwrap() {
        let kind = FileType::from_raw_mode(entry.type_bits);
        match entry.name.as_slice() {
            b"f" => assert_eq!(kind, FileType::RegularFile),
            b"l" => assert_eq!(kind, FileType::Symlink),
            b"p" => assert_eq!(kind, FileType::Fifo),
            _ => assert_eq!(kind, FileType::Directory),
        }
    }
}

fn a_listing_tells_inode_numbers(p: &Place) {
    fill(p, 20);
    for entry in list(opened(p)).unwrap() {
        if entry.name != b".." {
            assert_eq!(entry.ino, p.lstat(entry.name.as_slice()).unwrap().st_ino);
        }
    }
}

fn a_listing_goes_on_behind_a_cookie(p: &Place) {
    fill(p, 300);
    let dir = opened(p);
    let all = list(&dir).unwrap();
    for nth in [0, 1, 150, all.len() - 2, all.len() - 1] {
        seek(&dir, SeekFrom::Start(all[nth].cookie)).unwrap();
        let rest = list(&dir).unwrap();
        assert_eq!(rest, all[nth + 1..], "behind entry {nth}");
    }
}

fn a_rewound_listing_is_new(p: &Place) {
    p.write("first", "");
    let dir = opened(p);
    assert_eq!(list(&dir).unwrap().len(), 3);
    p.write("second", "");
    p.unlink("first").unwrap();
    seek(&dir, SeekFrom::Start(0)).unwrap();
    let names = without_dots(list(&dir).unwrap().into_iter().map(|entry| entry.name));
    assert_eq!(names, [b"second"]);
}

fn removing_while_listing_misses_nothing(p: &Place) {
    fill(p, 600);
    let dir = opened(p);
    loop {
        let names = list_in_pieces(&dir, 1024, 10)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name);
        let names: Vec<_> = names.collect();
        if names.is_empty() {
            break;
        }
        for name in without_dots(names) {
            p.unlink(name.as_slice()).unwrap();
        }
    }
    assert_eq!(p.names(), [""; 0]);
}

fn adding_while_listing_repeats_nothing(p: &Place) {
    let old = fill(p, 300);
    let dir = opened(p);
    let mut seen = Vec::new();
    for round in 0.. {
        let names = list_in_pieces(&dir, 1024, 10)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name);
        let names: Vec<_> = names.collect();
        if names.is_empty() || round > 1000 {
            break;
        }
        seen.extend(names);
        if round < 50 {
            p.write(format!("added-{round}"), "");
        }
    }
    let seen_old: Vec<_> = seen.iter().filter(|name| old.contains(*name)).collect();
    assert_eq!(seen_old.len(), old.len());
    assert_eq!(
        seen_old.into_iter().collect::<BTreeSet<_>>().len(),
        old.len()
    );
}

fn a_removed_directory_lists_nothing(p: &Place) {
    let d = p.directory("d", 0o755);
    p.rmdir("d").unwrap();
    // POSIX lets an open, removed directory list nothing or fail.
    match d.open(".", OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(dir) => match list(dir) {
            Ok(entries) => {
                assert_eq!(
                    without_dots(entries.into_iter().map(|entry| entry.name)),
                    [b""; 0]
                );
            }
            Err(errno) => assert_eq!(errno, Errno::NOENT),
        },
        Err(errno) => assert_eq!(errno, Errno::NOENT),
    }
}

fn a_file_has_no_listing(p: &Place) {
    p.write("f", "");
    fails(list(p.open("f", OFlags::RDONLY).unwrap()), Errno::NOTDIR);
}

fn long_names_are_listed_whole(p: &Place) {
    let name = |nth: usize| format!("{nth:03}{}", "x".repeat(252));
    for nth in 0..100 {
        p.write(name(nth), "");
    }
    assert_eq!(p.names(), (0..100).map(name).collect::<Vec<_>>());
}

fn a_listing_follows_renames(p: &Place) {
    p.write("a", "");
    assert_eq!(p.names(), ["a"]);
    p.rename("a", "b").unwrap();
    assert_eq!(p.names(), ["b"]);
}

fn two_listings_do_not_disturb_each_other(p: &Place) {
    fill(p, 100);
    let (one, two) = (opened(p), opened(p));
    let half = list_in_pieces(&one, 1024, 30).unwrap();
    let whole = list(&two).unwrap();
    let rest = list(&one).unwrap();
    assert_eq!(half.len() + rest.len(), whole.len());
}
