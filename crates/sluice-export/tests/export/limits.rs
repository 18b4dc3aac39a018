//! What a session, and the process, can run out of.

use crate::harness::{
    RDWR, ROOT, Share, Terms, errno, in_child, is_child, myself, name, narrow_descriptors,
};
use sluice_vfs::{
    CreateArgs, Errno, Lookup, NewNode, NodeId, OpenFlags, Release, Session, SessionLimits,
};
use std::fs;

fn limited(nodes: u32, handles: u32) -> Share {
    Share::on(Terms {
        limits: SessionLimits {
            nodes,
            handles,
            ..SessionLimits::default()
        },
        ..Terms::default()
    })
}

#[test]
fn a_session_that_knows_too_much_is_refused_alone() {
    let share = limited(3, 100);
    for number in 0..5 {
        fs::write(share.path(&number.to_string()), "").unwrap();
    }
    let known: Vec<NodeId> = (0..3).map(|n: u32| share.node(&n.to_string())).collect();
    assert_eq!(errno(share.find("3")), Errno::ENOMEM);
    assert_eq!(share.find("1").unwrap().node, known[1]);
    let other = share.another_session();
    let found = other.lookup(&ROOT, NodeId::ROOT, name("3"));
    assert!(matches!(found, Ok(Lookup::Found(_))));
    share.s().forget(known[0], 1);
    share.find("3").unwrap();
}

#[test]
fn a_session_that_knows_too_much_makes_nothing() {
    let share = limited(1, 100);
    fs::write(share.path("known"), "abc").unwrap();
    share.node("known");
    let (s, root, new) = (share.s(), NodeId::ROOT, NewNode::with_perm(0o700));
    let made = s.mkdir(&ROOT, root, name("d"), &new);
    assert_eq!(errno(made), Errno::ENOMEM);
    let made = s.symlink(&ROOT, root, name("l"), b"x", &new);
    assert_eq!(errno(made), Errno::ENOMEM);
    let made = share.create_as(&ROOT, root, "f", RDWR);
    assert_eq!(errno(made), Errno::ENOMEM);
    assert_eq!(fs::read_dir(share.path("")).unwrap().count(), 1);
    share.create_as(&ROOT, root, "known", RDWR).unwrap();
}

#[test]
fn a_session_with_too_many_handles_makes_and_empties_nothing() {
    let share = limited(100, 2);
    fs::write(share.path("f"), "abc").unwrap();
    let node = share.node("f");
    let handle = share.open(node, RDWR).unwrap();
    share.open(node, RDWR).unwrap();
    let outcome = share.open(node, RDWR | OpenFlags::TRUNCATE);
    assert_eq!(errno(outcome), Errno::ENFILE);
    let outcome = share.create_as(&ROOT, NodeId::ROOT, "new", RDWR);
    assert_eq!(errno(outcome), Errno::ENFILE);
    assert!(!share.path("new").exists());
    assert_eq!(fs::read(share.path("f")).unwrap(), b"abc");
    let how = Release::default();
    share.s().release(&ROOT, node, handle, &how).unwrap();
    share.create("new");
}

#[test]
fn a_request_that_fails_costs_no_handle() {
    let share = limited(100, 1);
    fs::create_dir(share.path("d")).unwrap();
    for _ in 0..5 {
        let outcome = share.create_as(&ROOT, NodeId::ROOT, "d", RDWR);
        assert_eq!(errno(outcome), Errno::EISDIR);
        let outcome = share.create_as(&ROOT, NodeId::ROOT, "d", OpenFlags::READ);
        assert_eq!(errno(outcome), Errno::EISDIR);
        let outcome = share.open(share.node("d"), RDWR);
        assert_eq!(errno(outcome), Errno::EISDIR);
    }
    share.create("f");
}

#[test]
fn a_process_without_descriptors_recovers() {
    if !is_child() {
        in_child(myself(), "limits::a_process_without_descriptors_recovers");
        return;
    }
    narrow_descriptors(64);
    let share = Share::new();
    for number in 0..100 {
        fs::write(share.path(&number.to_string()), "").unwrap();
    }
    let made = share.create("open");
    let (node, handle) = (made.entry.node, made.opened.handle);
    let known: Vec<NodeId> = (0..100).map(|n: u32| share.node(&n.to_string())).collect();

    let mut opened = Vec::new();
    let refused = known.iter().find_map(|node| match share.open(*node, RDWR) {
        Ok(handle) => {
            opened.push((*node, handle));
            None
        }
        Err(errno) => Some(errno),
    });
    assert_eq!(refused, Some(Errno::ENFILE));
    let args = CreateArgs {
        flags: RDWR,
        new: NewNode::with_perm(0o600),
    };
    let outcome = share.s().create(&ROOT, NodeId::ROOT, name("x"), &args);
    assert_eq!(errno(outcome), Errno::ENFILE);
    assert!(!share.path("x").exists());
    // All else goes on, and nobody else notices.
    assert_eq!(share.find("0").unwrap().node, known[0]);
    share.write(node, Some(handle), 0, b"abc").unwrap();
    share.s().flush(&ROOT, node, handle).unwrap();
    assert_eq!(share.read(node, Some(handle)).unwrap(), b"abc");
    for node in &known {
        assert_eq!(share.attr(*node).size, 0);
    }
    let other = share.another_session();
    let found = other.lookup(&ROOT, NodeId::ROOT, name("7")).unwrap();
    let found = found.found().unwrap().node;
    other.open(&ROOT, found, RDWR).unwrap();

    for (node, handle) in &opened[..2] {
        let how = Release::default();
        share.s().release(&ROOT, *node, *handle, &how).unwrap();
    }
    share.open(known[99], RDWR).unwrap();
}

#[test]
fn a_session_lets_go_of_everything() {
    if !is_child() {
        in_child(myself(), "limits::a_session_lets_go_of_everything");
        return;
    }
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let before = descriptors();
    let use_it = |session: &dyn Session| {
        let found = session.lookup(&ROOT, NodeId::ROOT, name("f")).unwrap();
        let node = found.found().unwrap().node;
        session.open(&ROOT, node, RDWR).unwrap();
    };
    let other = share.another_session();
    use_it(&*other);
    assert!(descriptors() > before);
    drop(other);
    assert_eq!(descriptors(), before);
}
