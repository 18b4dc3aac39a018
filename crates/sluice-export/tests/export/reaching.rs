//! Nodes whose descriptors were let go of.

use crate::harness::{
    RDWR, ROOT, Share, errno, in_child, is_child, is_root, myself, myself_as, name,
    narrow_descriptors,
};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::time::{ClockId, clock_gettime};
use sluice_sys::FileHandle;
use sluice_vfs::{AttrMask, DirWant, Errno, NewNode, NodeId, OpenFlags, Release, RenameFlags};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

/// Runs the test in processes with few descriptors: as whoever runs it, and as
/// a user who can't open file handles.
fn with_few_descriptors(test: &str) {
    in_child(myself(), test);
    if is_root() {
        in_child(myself_as(65_534, 65_534), test);
    }
}

/// A share in a process with room for 16 cached descriptors.
fn small() -> Share {
    narrow_descriptors(64);
    Share::new()
}

/// Has so many other nodes opened that no descriptor of another is kept.
fn crowd_out(share: &Share) {
    fs::create_dir(share.path("crowd")).unwrap();
    for number in 0..100 {
        fs::write(share.path("crowd").join(number.to_string()), "").unwrap();
    }
    let crowd = share.node("crowd");
    let find = |number: i32| share.find_in(crowd, &number.to_string()).unwrap().node;
    let nodes: Vec<_> = (0..100).map(find).collect();
    nodes.iter().for_each(|&node| touch(share, node));
    // Not before: what is forgotten leaves its place to the next.
    nodes.iter().for_each(|&node| share.s().forget(node, 1));
    share.s().forget(crowd, 1);
    fs::remove_dir_all(share.path("crowd")).unwrap();
}

/// Has the node opened, and lets it go.
fn touch(share: &Share, node: NodeId) {
    let handle = share.open(node, OpenFlags::READ).unwrap();
    let how = Release::default();
    share.s().release(&ROOT, node, handle, &how).unwrap();
}

/// Waits until the clock by which inodes are stamped has passed the file's
/// birth; it moves on every few milliseconds.
fn settle(path: &Path) {
    let flags = StatxFlags::BTIME;
    let stat = statx(CWD, path, AtFlags::empty(), flags).unwrap();
    let born = (stat.stx_btime.tv_sec, i64::from(stat.stx_btime.tv_nsec));
    let has_passed = || {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec) > born
    };
    while !has_passed() {
        std::thread::yield_now();
    }
}

#[test]
fn a_node_is_found_again_by_its_name() {
    if !is_child() {
        return with_few_descriptors("reaching::a_node_is_found_again_by_its_name");
    }
    let share = small();
    fs::create_dir_all(share.path("a/b")).unwrap();
    fs::write(share.path("a/b/f"), "abc").unwrap();
    let a = share.node("a");
    let b = share.find_in(a, "b").unwrap().node;
    let f = share.find_in(b, "f").unwrap().node;
    touch(&share, f);
    share.s().forget(b, 1);
    crowd_out(&share);
    assert_eq!(share.attr(f).size, 3);
    crowd_out(&share);
    assert_eq!(share.read(f, None).unwrap(), b"abc");
    assert_eq!(share.find_in(a, "b").unwrap().node, b);
}

#[test]
fn renames_of_what_is_above_are_followed() {
    if !is_child() {
        return with_few_descriptors("reaching::renames_of_what_is_above_are_followed");
    }
    let share = small();
    fs::create_dir_all(share.path("a/b")).unwrap();
    fs::create_dir(share.path("c")).unwrap();
    fs::write(share.path("a/b/f"), "abc").unwrap();
    fs::write(share.path("g"), "g").unwrap();
    let (a, c, g) = (share.node("a"), share.node("c"), share.node("g"));
    let b = share.find_in(a, "b").unwrap().node;
    let f = share.find_in(b, "f").unwrap().node;
    let rename = |from, to, flags| share.s().rename(&ROOT, from, to, flags).unwrap();
    let none = RenameFlags::empty();
    rename((a, name("b")), (c, name("d")), none);
    rename((NodeId::ROOT, name("c")), (NodeId::ROOT, name("e")), none);
    rename((b, name("f")), (b, name("h")), none);
    let exchange = RenameFlags::EXCHANGE;
    rename((b, name("h")), (NodeId::ROOT, name("g")), exchange);
    for _ in 0..2 {
        crowd_out(&share);
        assert_eq!(share.read(f, None).unwrap(), b"abc");
        assert_eq!(share.read(g, None).unwrap(), b"g");
        assert!(share.attr(b).mode.is_dir());
    }
    assert_eq!(fs::read(share.path("e/d/h")).unwrap(), b"g");
}

/// Whether this process may open file handles, and the file system has them.
fn opens_handles(dir: &Path) -> bool {
    let dir = fs::File::open(dir).unwrap();
    let handle = FileHandle::of(dir.as_fd(), "");
    handle.is_ok_and(|handle| handle.open_path(dir.as_fd()).is_ok())
}

#[test]
fn what_the_host_moves_is_found_by_its_handle_or_not_at_all() {
    if !is_child() {
        let test = "reaching::what_the_host_moves_is_found_by_its_handle_or_not_at_all";
        return with_few_descriptors(test);
    }
    let share = small();
    fs::write(share.path("f"), "abc").unwrap();
    fs::write(share.path("g"), "abc").unwrap();
    fs::write(share.path("kept"), "abc").unwrap();
    settle(&share.path("kept"));
    let (f, g, kept) = (share.node("f"), share.node("g"), share.node("kept"));
    let handle = share.open(kept, RDWR).unwrap();
    touch(&share, g);
    for name in ["f", "g", "kept"] {
        fs::rename(share.path(name), share.path(&format!("{name}-moved"))).unwrap();
    }
    let has_handles = opens_handles(&share.path(""));
    // In the cache, or open.
    assert_eq!(share.read(g, None).unwrap(), b"abc");
    crowd_out(&share);
    assert_eq!(share.attr(kept).size, 3);
    assert_eq!(share.read(kept, Some(handle)).unwrap(), b"abc");
    for node in [f, g] {
        let outcome = share.s().getattr(&ROOT, node, None, AttrMask::BASIC);
        match outcome {
            Ok(stat) => assert_eq!(stat.attr.size, 3),
            Err(found) => assert_eq!((found, has_handles), (Errno::ESTALE, false)),
        }
    }
    // Whoever looks it up finds the same node.
    assert_eq!(share.node("f-moved"), f);
    crowd_out(&share);
    assert_eq!(share.read(f, None).unwrap(), b"abc");
}

#[test]
fn what_has_no_name_any_more_stays_while_it_is_known() {
    if !is_child() {
        let test = "reaching::what_has_no_name_any_more_stays_while_it_is_known";
        return with_few_descriptors(test);
    }
    let share = small();
    let s = share.s();
    for file in ["f", "g", "over", "linked"] {
        fs::write(share.path(file), file).unwrap();
    }
    fs::create_dir(share.path("d")).unwrap();
    fs::hard_link(share.path("linked"), share.path("other")).unwrap();
    let known = ["f", "g", "over", "linked", "d"].map(|name| share.node(name));
    let [f, g, over, linked, d] = known;
    crowd_out(&share);
    s.unlink(&ROOT, NodeId::ROOT, name("f")).unwrap();
    s.unlink(&ROOT, NodeId::ROOT, name("linked")).unwrap();
    s.rmdir(&ROOT, NodeId::ROOT, name("d")).unwrap();
    let (from, to) = ((NodeId::ROOT, name("over")), (NodeId::ROOT, name("g")));
    s.rename(&ROOT, from, to, RenameFlags::empty()).unwrap();
    crowd_out(&share);
    assert_eq!(share.attr(f).nlink, 0);
    assert_eq!(share.attr(d).nlink, 0);
    assert_eq!(share.read(f, None).unwrap(), b"f");
    assert_eq!(share.read(g, None).unwrap(), b"g");
    assert_eq!(share.read(over, None).unwrap(), b"over");
    assert_eq!(share.read(linked, None).unwrap(), b"linked");
    // A file that gets a name again is found by it.
    let args = sluice_vfs::CreateArgs {
        flags: RDWR,
        new: NewNode::with_perm(0o600),
    };
    let made = s.tmpfile(&ROOT, NodeId::ROOT, &args);
    if let Ok(made) = made {
        let node = made.entry.node;
        share
            .write(node, Some(made.opened.handle), 0, b"t")
            .unwrap();
        s.release(&ROOT, node, made.opened.handle, &Release::default())
            .unwrap();
        crowd_out(&share);
        assert_eq!(share.read(node, None).unwrap(), b"t");
        s.link(&ROOT, node, NodeId::ROOT, name("named")).unwrap();
        crowd_out(&share);
        assert_eq!(share.read(node, None).unwrap(), b"t");
        assert_eq!(share.node("named"), node);
    }
}

#[test]
fn a_number_that_is_used_again_is_another_file() {
    use std::os::unix::fs::MetadataExt;
    if !is_child() {
        return with_few_descriptors("reaching::a_number_that_is_used_again_is_another_file");
    }
    let share = small();
    let ino = |name: &str| fs::metadata(share.path(name)).unwrap().ino();
    fs::write(share.path("f"), "old").unwrap();
    settle(&share.path("f"));
    let old = share.node("f");
    let number = ino("f");
    fs::remove_file(share.path("f")).unwrap();
    fs::write(share.path("f"), "another").unwrap();
    // Most file systems use the number again, but they need not.
    let is_used_again = ino("f") == number;
    let outcome = share.s().getattr(&ROOT, old, None, AttrMask::BASIC);
    assert_eq!(errno(outcome), Errno::ESTALE);
    assert_eq!(errno(share.open(old, RDWR)), Errno::ESTALE);
    let new = share.node("f");
    assert_ne!(new, old, "reused: {is_used_again}");
    assert_eq!(share.read(new, None).unwrap(), b"another");
    share.s().forget(old, 1);
    assert_eq!(share.node("f"), new);
}

#[test]
fn a_listing_opens_no_entry() {
    if !is_child() {
        in_child(myself(), "reaching::a_listing_opens_no_entry");
        return;
    }
    let share = Share::new();
    for number in 0..50 {
        fs::write(share.path(&number.to_string()), "").unwrap();
    }
    fs::write(share.path("last"), "").unwrap();
    settle(&share.path("last"));
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    let listed = share.list(NodeId::ROOT, DirWant::Entries(AttrMask::BASIC));
    let entries = listed.iter().filter(|listed| listed.entry.is_some());
    assert_eq!(entries.count(), 51);
    assert_eq!(descriptors(), before);
}

/// Descriptors of this process that lead into the share, to what `is_meant`.
fn descriptors_of(share: &Share, is_meant: impl Fn(&str) -> bool) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter_map(|link| fs::read_link(link.unwrap().path()).ok())
        .filter_map(|target| Some(target.strip_prefix(share.dir.path()).ok()?.to_owned()))
        .filter(|inside| inside.to_str().is_some_and(&is_meant))
        .count()
}

#[test]
fn a_node_that_is_asked_about_again_and_again_gets_a_descriptor() {
    if !is_child() {
        let test = "reaching::a_node_that_is_asked_about_again_and_again_gets_a_descriptor";
        return with_few_descriptors(test);
    }
    let share = small();
    fs::create_dir(share.path("d")).unwrap();
    fs::write(share.path("d/f"), "abc").unwrap();
    settle(&share.path("d/f"));
    let d = share.node("d");
    let f = share.find_in(d, "f").unwrap().node;
    let of_f = || descriptors_of(&share, |name| name == "d/f");
    for _ in 0..2 {
        for _ in 0..7 {
            assert_eq!((share.attr(f).size, of_f()), (3, 0));
        }
        for _ in 0..20 {
            assert_eq!((share.attr(f).size, of_f()), (3, 1));
        }
        crowd_out(&share);
    }
    share.s().forget(f, 1);
    assert_eq!(of_f(), 0);
}

#[test]
fn nodes_that_are_asked_about_share_few_descriptors() {
    if !is_child() {
        let test = "reaching::nodes_that_are_asked_about_share_few_descriptors";
        return with_few_descriptors(test);
    }
    const CACHED: usize = 16;
    let share = small();
    let names: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    for name in &names {
        fs::write(share.path(name), name).unwrap();
    }
    settle(&share.path("99"));
    let nodes: Vec<_> = names.iter().map(|name| share.node(name)).collect();
    for (&node, name) in nodes.iter().zip(&names) {
        for _ in 0..20 {
            assert_eq!(share.attr(node).size, name.len() as u64);
        }
        assert!(descriptors_of(&share, |name| !name.is_empty()) <= CACHED);
    }
    assert!(descriptors_of(&share, |name| !name.is_empty()) >= CACHED / 2);
}
