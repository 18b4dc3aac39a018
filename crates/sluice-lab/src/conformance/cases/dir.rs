//! Listings.

use crate::conformance::client::{File, Listed, ROOT, fails};
use crate::conformance::{Case, Client, Needs, World};
use sluice_vfs::{AttrMask, DirWant, Errno, FileType, OpenFlags, SessionLimits};
use std::collections::BTreeMap;

pub(super) const CASES: &[Case] = &[
    case!(an_empty_directory_lists_dots_only),
    case!(dots_carry_inode_numbers, Needs::DOTS),
    case!(dot_dot_of_the_root_stays_inside, Needs::DOTS),
    case!(every_name_is_listed_once),
    case!(types_are_told),
    case!(inode_numbers_agree_with_lookup),
    case!(a_listing_in_small_steps_is_complete),
    case!(a_listing_goes_on_from_any_cookie),
    case!(a_listing_starts_again_at_0),
    case!(two_readers_of_one_handle_do_not_disturb_each_other),
    case!(names_removed_while_listing_hide_no_others),
    case!(names_added_while_listing_hide_no_others),
    case!(names_are_removed_as_they_are_listed),
    case!(a_new_listing_shows_new_names),
    case!(a_directory_of_a_thousand_names),
    case!(long_and_odd_names_are_listed),
    case!(listing_a_file_is_enotdir),
    case!(listing_through_a_file_handle_is_enotdir),
    case!(a_removed_directory_lists_nothing),
    case!(listings_with_entries_carry_attributes, Needs::DIR_ENTRIES),
    case!(
        listings_with_entries_take_references,
        Needs::DIR_ENTRIES.union(Needs::IDENTITY)
    ),
    case!(
        what_does_not_fit_takes_no_reference,
        Needs::DIR_ENTRIES.union(Needs::LIMITS)
    ),
    case!(a_listing_without_a_handle, Needs::NO_OPEN),
    case!(renamed_directories_list_on),
];

const ENTRIES: DirWant = DirWant::Entries(AttrMask::BASIC);

fn is_dot(entry: &Listed) -> bool {
    entry.name == b"." || entry.name == b".."
}

fn text(entry: &Listed) -> String {
    String::from_utf8_lossy(&entry.name).into_owned()
}

/// A directory with files `f0` … and an open handle on it.
fn filled(c: &Client, count: usize) -> File {
    let dir = c.dir(ROOT, "dir");
    for index in 0..count {
        c.mknod(dir, format!("f{index}"), FileType::Regular, 0o644)
            .unwrap();
    }
    c.opendir(dir).unwrap()
}

/// How often each name but the dots was listed.
fn tally(listed: &[Listed]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for entry in listed.iter().filter(|entry| !is_dot(entry)) {
        *tally.entry(text(entry)).or_default() += 1;
    }
    tally
}

fn an_empty_directory_lists_dots_only(w: &World) {
    let c = w.client();
    let dir = filled(&c, 0);
    let listed = c.list(dir, DirWant::Names).unwrap();
    assert!(listed.iter().all(is_dot), "{listed:?}");
}

fn dots_carry_inode_numbers(w: &World) {
    let c = w.client();
    let dir = filled(&c, 1);
    let listed = c.list(dir, DirWant::Names).unwrap();
    let ino = |name: &[u8]| {
        let entry = listed.iter().find(|entry| entry.name == name);
        entry.expect("dots are listed").ino
    };
    assert_eq!(ino(b"."), c.getattr(dir.node).unwrap().ino);
    assert_eq!(ino(b".."), c.root.attr.ino);
}

fn dot_dot_of_the_root_stays_inside(w: &World) {
    let c = w.client();
    let root = c.opendir(ROOT).unwrap();
    let listed = c.list(root, DirWant::Names).unwrap();
    let dots: Vec<u64> = listed.iter().filter(|e| is_dot(e)).map(|e| e.ino).collect();
    assert_eq!(dots, [c.root.attr.ino; 2]);
}

fn every_name_is_listed_once(w: &World) {
    let c = w.client();
    let dir = filled(&c, 50);
    let tally = tally(&c.list(dir, DirWant::Names).unwrap());
    assert_eq!(tally.len(), 50);
    assert!(tally.values().all(|count| *count == 1), "{tally:?}");
}

fn types_are_told(w: &World) {
    let c = w.client();
    c.dir(ROOT, "dir");
    c.file(ROOT, "file", b"");
    c.symlink(ROOT, "link", "x").unwrap();
    c.mknod(ROOT, "pipe", FileType::Fifo, 0o600).unwrap();
    let root = c.opendir(ROOT).unwrap();
    for entry in c.list(root, DirWant::Names).unwrap() {
        let expected = match text(&entry).as_str() {
            "file" => FileType::Regular,
            "link" => FileType::Symlink,
            "pipe" => FileType::Fifo,
            _ => FileType::Directory,
        };
        let told = entry.file_type;
        assert!(told.is_none() || told == Some(expected), "{entry:?}");
    }
}

fn inode_numbers_agree_with_lookup(w: &World) {
    let c = w.client();
    let dir = filled(&c, 10);
    for entry in c.list(dir, DirWant::Names).unwrap() {
        if !is_dot(&entry) {
            let found = c.lookup(dir.node, &entry.name).unwrap();
            assert_eq!(found.attr.ino, entry.ino, "{}", text(&entry));
        }
    }
}

fn a_listing_in_small_steps_is_complete(w: &World) {
    let c = w.client();
    let dir = filled(&c, 23);
    for room in [1, 2, 5] {
        let mut all = Vec::new();
        let mut cookie = 0;
        loop {
            let step = c.readdir(dir, cookie, DirWant::Names, room).unwrap();
            let Some(last) = step.last() else { break };
            assert!(step.len() <= room);
            assert_ne!(last.next_cookie, cookie, "the listing moves on");
            cookie = last.next_cookie;
            all.extend(step);
        }
        let tally = tally(&all);
        assert_eq!(tally.len(), 23, "in steps of {room}");
        assert!(tally.values().all(|count| *count == 1), "{tally:?}");
    }
}

fn a_listing_goes_on_from_any_cookie(w: &World) {
    let c = w.client();
    let dir = filled(&c, 20);
    let all = c.list(dir, DirWant::Names).unwrap();
    for at in [0, 3, 10, all.len() - 1] {
        let rest = c
            .list_from(dir, all[at].next_cookie, DirWant::Names)
            .unwrap();
        let expected: Vec<&[u8]> = all[at + 1..].iter().map(|e| &e.name[..]).collect();
        let got: Vec<&[u8]> = rest.iter().map(|e| &e.name[..]).collect();
        assert_eq!(got, expected, "behind entry {at}");
    }
}

fn a_listing_starts_again_at_0(w: &World) {
    let c = w.client();
    let dir = filled(&c, 5);
    let first = c.list(dir, DirWant::Names).unwrap();
    c.file(dir.node, "new", b"");
    let second = c.list(dir, DirWant::Names).unwrap();
    assert_eq!(tally(&first).len(), 5);
    assert_eq!(tally(&second).len(), 6);
}

fn two_readers_of_one_handle_do_not_disturb_each_other(w: &World) {
    let c = w.client();
    let dir = filled(&c, 12);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let (mut a_at, mut b_at) = (0, 0);
    loop {
        let a_step = c.readdir(dir, a_at, DirWant::Names, 3).unwrap();
        let b_step = c.readdir(dir, b_at, DirWant::Names, 1).unwrap();
        a_at = a_step.last().map_or(a_at, |entry| entry.next_cookie);
        b_at = b_step.last().map_or(b_at, |entry| entry.next_cookie);
        if a_step.is_empty() && b_step.is_empty() {
            break;
        }
        a.extend(a_step);
        b.extend(b_step);
    }
    for tally in [tally(&a), tally(&b)] {
        assert_eq!(tally.len(), 12);
        assert!(tally.values().all(|count| *count == 1), "{tally:?}");
    }
}

fn names_removed_while_listing_hide_no_others(w: &World) {
    let c = w.client();
    let dir = filled(&c, 200);
    let first = c.readdir(dir, 0, DirWant::Names, 20).unwrap();
    let listed = tally(&first);
    for name in listed.keys() {
        c.unlink(dir.node, name).unwrap();
    }
    let cookie = first.last().expect("the listing has begun").next_cookie;
    let rest = tally(&c.list_from(dir, cookie, DirWant::Names).unwrap());
    for index in 0..200 {
        let name = format!("f{index}");
        let times = listed.get(&name).unwrap_or(&0) + rest.get(&name).unwrap_or(&0);
        assert_eq!(times, 1, "{name}");
    }
}

fn names_added_while_listing_hide_no_others(w: &World) {
    let c = w.client();
    let dir = filled(&c, 100);
    let first = c.readdir(dir, 0, DirWant::Names, 30).unwrap();
    for index in 0..100 {
        c.mknod(dir.node, format!("new{index}"), FileType::Regular, 0o644)
            .unwrap();
    }
    let cookie = first.last().expect("the listing has begun").next_cookie;
    let rest = c.list_from(dir, cookie, DirWant::Names).unwrap();
    let tally = tally(&[first, rest].concat());
    for index in 0..100 {
        let name = format!("f{index}");
        assert_eq!(tally.get(&name), Some(&1), "{name}");
    }
    assert!(tally.values().all(|count| *count == 1), "{tally:?}");
}

fn names_are_removed_as_they_are_listed(w: &World) {
    let c = w.client();
    let dir = filled(&c, 150);
    let mut cookie = 0;
    let mut removed = 0;
    loop {
        let step = c.readdir(dir, cookie, DirWant::Names, 7).unwrap();
        let Some(last) = step.last() else { break };
        cookie = last.next_cookie;
        for entry in step.iter().filter(|entry| !is_dot(entry)) {
            c.unlink(dir.node, &entry.name).unwrap();
            removed += 1;
        }
    }
    assert_eq!(removed, 150, "rm -r removes everything in one pass");
    c.rmdir(ROOT, "dir").unwrap();
}

fn a_new_listing_shows_new_names(w: &World) {
    let c = w.client();
    assert!(c.names(ROOT).is_empty());
    c.file(ROOT, "b", b"");
    c.file(ROOT, "a", b"");
    assert_eq!(c.names(ROOT), ["a", "b"]);
    c.unlink(ROOT, "b").unwrap();
    assert_eq!(c.names(ROOT), ["a"]);
}

fn a_directory_of_a_thousand_names(w: &World) {
    let c = w.client();
    let dir = filled(&c, 1000);
    let tally = tally(&c.list(dir, DirWant::Names).unwrap());
    assert_eq!(tally.len(), 1000);
    assert!(tally.values().all(|count| *count == 1));
}

fn long_and_odd_names_are_listed(w: &World) {
    let c = w.client();
    let mut names: Vec<Vec<u8>> = vec![
        vec![b'x'; 255],
        b"\xff\xfe".to_vec(),
        b" ".to_vec(),
        b"a\nb".to_vec(),
        b"...".to_vec(),
    ];
    for name in &names {
        c.mknod(ROOT, name, FileType::Regular, 0o644).unwrap();
    }
    let root = c.opendir(ROOT).unwrap();
    let listed = c.list(root, DirWant::Names).unwrap();
    let mut got: Vec<Vec<u8>> = listed
        .into_iter()
        .filter(|entry| !is_dot(entry))
        .map(|entry| entry.name)
        .collect();
    got.sort();
    names.sort();
    assert_eq!(got, names);
}

fn listing_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.opendir(node), Errno::ENOTDIR);
}

fn listing_through_a_file_handle_is_enotdir(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fails(c.readdir(file, 0, DirWant::Names, 10), Errno::ENOTDIR);
}

fn a_removed_directory_lists_nothing(w: &World) {
    let c = w.client();
    let dir = filled(&c, 0);
    c.rmdir(ROOT, "dir").unwrap();
    match c.readdir(dir, 0, DirWant::Names, 10) {
        Ok(listed) => assert!(listed.iter().all(is_dot), "{listed:?}"),
        Err(error) => assert_eq!(error, Errno::ENOENT),
    }
}

fn listings_with_entries_carry_attributes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    c.dir(ROOT, "d");
    let root = c.opendir(ROOT).unwrap();
    let listed = c.list(root, ENTRIES).unwrap();
    let find = |name: &[u8]| {
        let entry = listed.iter().find(|entry| entry.name == name);
        entry
            .expect("it is listed")
            .entry
            .expect("it carries an entry")
    };
    let file = find(b"f");
    assert_eq!(file.attr.size, 3);
    assert_eq!(file.attr.ino, c.getattr(node).unwrap().ino);
    assert_eq!(c.getattr(file.node).unwrap().size, 3);
    assert!(find(b"d").attr.mode.is_dir());
    for entry in listed.iter().filter(|entry| is_dot(entry)) {
        assert_eq!(entry.entry, None, "dots carry no entry");
    }
}

fn listings_with_entries_take_references(w: &World) {
    let c = w.client();
    let made = c.mknod(ROOT, "f", FileType::Regular, 0o644).unwrap();
    c.forget(made.node, 1);
    fails(c.getattr(made.node), Errno::ESTALE);
    let root = c.opendir(ROOT).unwrap();
    let listed = c.list(root, ENTRIES).unwrap();
    let entry = listed.iter().find(|entry| entry.name == b"f");
    let node = entry.and_then(|entry| entry.entry).expect("an entry").node;
    assert!(c.getattr(node).is_ok());
    c.forget(node, 1);
    fails(c.getattr(node), Errno::ESTALE);
}

fn what_does_not_fit_takes_no_reference(w: &World) {
    let c = w.client();
    filled(&c, 40);
    let limits = SessionLimits {
        nodes: 12,
        ..SessionLimits::default()
    };
    let limited = w.limited_client(limits);
    let dir = limited.lookup(ROOT, "dir").unwrap().node;
    let dir = limited.opendir(dir).unwrap();
    for _ in 0..20 {
        // Ten steps of three would be 30 nodes if those beyond were taken.
        let mut cookie = 0;
        for _ in 0..3 {
            let step = limited.readdir(dir, cookie, ENTRIES, 3).unwrap();
            for entry in step.iter().filter(|entry| !is_dot(entry)) {
                let node = entry.entry.expect("there is room for it").node;
                limited.forget(node, 1);
            }
            cookie = step.last().expect("there is more").next_cookie;
        }
    }
}

fn a_listing_without_a_handle(w: &World) {
    let c = w.client();
    let dir = filled(&c, 30);
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let step = c
            .readdir_from(dir.node, None, cookie, DirWant::Names, 8)
            .unwrap();
        let Some(last) = step.last() else { break };
        cookie = last.next_cookie;
        all.extend(step);
    }
    let tally = tally(&all);
    assert_eq!(tally.len(), 30);
    assert!(tally.values().all(|count| *count == 1), "{tally:?}");
}

fn renamed_directories_list_on(w: &World) {
    let c = w.client();
    let dir = filled(&c, 20);
    let first = c.readdir(dir, 0, DirWant::Names, 5).unwrap();
    c.rename((ROOT, "dir"), (ROOT, "moved")).unwrap();
    let cookie = first.last().expect("the listing has begun").next_cookie;
    let rest = c.list_from(dir, cookie, DirWant::Names).unwrap();
    assert_eq!(tally(&[first, rest].concat()).len(), 20);
}
