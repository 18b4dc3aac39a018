//! Listing directories.

use crate::harness::{ListSink, Listed, ROOT, Share, Terms, errno, name};
use sluice_vfs::{AttrMask, DirWant, Errno, HandleId, NodeId, OpenFlags, SessionLimits};
use std::collections::BTreeSet;
use std::fs;

const ENTRIES: DirWant = DirWant::Entries(AttrMask::BASIC);

fn share_with_files(count: usize) -> Share {
    let share = Share::new();
    for number in 0..count {
        fs::write(share.path(&format!("file-{number:05}")), "").unwrap();
    }
    share
}

fn open_root(share: &Share) -> HandleId {
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    share.open(NodeId::ROOT, flags).unwrap()
}

/// Up to `room` entries from `cookie` on.
fn some(share: &Share, handle: Option<HandleId>, cookie: u64, room: usize) -> Vec<Listed> {
    let mut sink = ListSink::with_room(room);
    share
        .s()
        .readdir(
            &ROOT,
            NodeId::ROOT,
            handle,
            cookie,
            DirWant::Names,
            &mut sink,
        )
        .unwrap();
    sink.entries
}

/// All names, taken `room` at a time.
fn all_in_steps(share: &Share, handle: Option<HandleId>, room: usize) -> Vec<String> {
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let step = some(share, handle, cookie, room);
        let Some(last) = step.last() else {
            return names;
        };
        cookie = last.next_cookie;
        names.extend(step.into_iter().map(|entry| entry.name));
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn every_name_comes_once_however_it_is_asked_for() {
    let share = share_with_files(1500);
    let mut expected = vec![".".to_string(), "..".to_string()];
    expected.extend((0..1500).map(|number| format!("file-{number:05}")));
    let handle = open_root(&share);
    for room in [1, 7, 1000, usize::MAX] {
        assert_eq!(sorted(all_in_steps(&share, Some(handle), room)), expected);
    }
    assert_eq!(sorted(all_in_steps(&share, None, 400)), expected);
}

#[test]
fn readers_that_take_turns_on_a_handle_do_not_disturb_each_other() {
    let share = share_with_files(700);
    let handle = Some(open_root(&share));
    let expected = all_in_steps(&share, handle, usize::MAX);
    let (mut first, mut second) = ((0, Vec::new()), (0, Vec::new()));
    for (reader, room) in (0..2000).map(|turn| (turn % 2, 3 + turn % 5)) {
        let (cookie, names) = if reader == 0 { &mut first } else { &mut second };
        let step = some(&share, handle, *cookie, room);
        *cookie = step.last().map_or(*cookie, |entry| entry.next_cookie);
        names.extend(step.into_iter().map(|entry| entry.name));
    }
    assert_eq!(first.1, expected);
    assert_eq!(second.1, expected);
}

#[test]
fn what_is_removed_or_added_meanwhile_disturbs_nothing_else() {
    let share = share_with_files(1000);
    let handle = Some(open_root(&share));
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let step = some(&share, handle, cookie, 10);
        let Some(last) = step.last() else { break };
        cookie = last.next_cookie;
        for entry in &step {
            seen.push(entry.name.clone());
            // What was seen is removed, and something else comes.
            if entry.name.starts_with("file-") {
                fs::remove_file(share.path(&entry.name)).unwrap();
                fs::write(share.path(&format!("new{}", entry.name)), "").unwrap();
            }
        }
    }
    let unique: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "nothing comes twice");
    for number in 0..1000 {
        assert!(unique.contains(&format!("file-{number:05}")), "{number}");
    }
}

#[test]
fn a_listing_from_the_start_is_fresh() {
    let share = share_with_files(3);
    let handle = Some(open_root(&share));
    assert_eq!(some(&share, handle, 0, usize::MAX).len(), 5);
    fs::write(share.path("more"), "").unwrap();
    assert_eq!(some(&share, handle, 0, 1).len(), 1);
    assert_eq!(some(&share, handle, 0, usize::MAX).len(), 6);
}

#[test]
fn full_entries_are_references_for_what_was_pushed_only() {
    let share = share_with_files(10);
    let mut sink = ListSink::with_room(5);
    share
        .s()
        .readdir(&ROOT, NodeId::ROOT, None, 0, ENTRIES, &mut sink)
        .unwrap();
    let pushed = sink.entries;
    assert_eq!(pushed.len(), 5);
    for listed in &pushed {
        let Some(entry) = listed.entry else {
            assert!([".", ".."].contains(&&*listed.name));
            continue;
        };
        assert_eq!(listed.ino, entry.attr.ino);
        assert_eq!(share.find(&listed.name).unwrap().node, entry.node);
        share.s().forget(entry.node, 2);
        let outcome = share.s().getattr(&ROOT, entry.node, None, AttrMask::BASIC);
        assert_eq!(errno(outcome), Errno::ESTALE);
    }
}

#[test]
fn names_are_listed_when_there_is_no_room_for_their_nodes() {
    let share = Share::on(Terms {
        limits: SessionLimits {
            nodes: 4,
            ..SessionLimits::default()
        },
        ..Terms::default()
    });
    for number in 0..10 {
        fs::write(share.path(&number.to_string()), "").unwrap();
    }
    let listed = share.list(NodeId::ROOT, ENTRIES);
    assert_eq!(listed.len(), 12);
    assert_eq!(listed.iter().filter(|e| e.entry.is_some()).count(), 4);
    assert_eq!(share.list(NodeId::ROOT, ENTRIES).len(), 12);
}

#[test]
fn the_root_has_nothing_above_it() {
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    let root_ino = share.attached.root.attr.ino;
    for listed in share.list(NodeId::ROOT, DirWant::Names) {
        assert!(listed.name == "d" || listed.ino == root_ino);
    }
    let in_d = share.list(share.node("d"), DirWant::Names);
    let above = in_d.iter().find(|entry| entry.name == "..").unwrap();
    assert_eq!(above.ino, root_ino);
}

#[test]
fn only_directories_are_listed_and_cookies_may_be_nonsense() {
    let share = share_with_files(1);
    let file = share.node("file-00000");
    let handle = share.open(file, OpenFlags::READ).unwrap();
    let list = |handle, cookie| {
        let mut sink = ListSink::with_room(10);
        share
            .s()
            .readdir(&ROOT, file, handle, cookie, DirWant::Names, &mut sink)
    };
    assert_eq!(errno(list(None, 0)), Errno::ENOTDIR);
    assert_eq!(errno(list(Some(handle), 0)), Errno::ENOTDIR);

    let handle = Some(open_root(&share));
    for cookie in [u64::MAX, 1 << 63, 12345, i64::MAX as u64] {
        let mut sink = ListSink::with_room(10);
        let _ = share
            .s()
            .readdir(&ROOT, NodeId::ROOT, handle, cookie, ENTRIES, &mut sink);
    }
    assert_eq!(some(&share, handle, 0, usize::MAX).len(), 3);
}

#[test]
fn a_removed_directory_is_empty() {
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    let node = share.node("d");
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let handle = share.open(node, flags).unwrap();
    share.s().rmdir(&ROOT, NodeId::ROOT, name("d")).unwrap();
    let mut sink = ListSink::with_room(10);
    let outcome = share
        .s()
        .readdir(&ROOT, node, Some(handle), 0, ENTRIES, &mut sink);
    // getdents64(2) says so for a directory that has no name any more.
    assert!(matches!(outcome, Ok(_) | Err(Errno::ENOENT)));
    assert!(sink.entries.iter().all(|entry| entry.entry.is_none()));
}
