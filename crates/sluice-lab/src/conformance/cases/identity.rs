//! Ids: what they stand for, and when they end.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{Errno, FileType, HandleId, NodeId, OpenFlags, SetAttr, Whence};

const IDENTITY: Needs = Needs::IDENTITY;
const SHARED: Needs = IDENTITY.union(Needs::SESSIONS);

pub(super) const CASES: &[Case] = &[
    case!(a_forgotten_node_is_estale, IDENTITY),
    case!(a_forgotten_node_is_found_again, IDENTITY),
    case!(every_reference_counts, IDENTITY),
    case!(references_are_given_back_several_at_once, IDENTITY),
    case!(giving_back_too_many_is_ignored, IDENTITY),
    case!(the_root_is_not_forgotten, IDENTITY),
    case!(forgetting_what_is_unknown_is_ignored, IDENTITY),
    case!(making_a_node_takes_one_reference, IDENTITY),
    case!(a_refused_operation_takes_no_reference, IDENTITY),
    case!(
        remembering_takes_a_reference,
        IDENTITY.union(Needs::REMEMBER)
    ),
    case!(an_id_is_not_used_again_for_another_file, IDENTITY),
    case!(a_handle_is_not_used_again_for_another_file),
    case!(every_operation_on_an_unknown_node_is_estale, IDENTITY),
    case!(every_operation_on_an_unknown_handle_is_ebadf),
    case!(a_handle_of_another_file_is_ebadf),
    case!(forgetting_an_open_file_harms_nothing, IDENTITY),
    case!(sessions_forget_for_themselves, SHARED),
    case!(handles_of_another_session_mean_nothing, SHARED),
    case!(a_session_outlives_another, SHARED),
];

fn is_stale(c: &Client, node: NodeId) -> bool {
    match c.getattr(node) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, Errno::ESTALE);
            true
        }
    }
}

fn a_forgotten_node_is_estale(w: &World) {
    let c = w.client();
    let node = c.dir(ROOT, "d");
    c.forget(node, 1);
    fails(c.getattr(node), Errno::ESTALE);
    fails(c.lookup(node, "x"), Errno::ESTALE);
}

fn a_forgotten_node_is_found_again(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let ino = c.getattr(node).unwrap().ino;
    c.forget(node, 1);
    let found = c.lookup(ROOT, "f").unwrap();
    assert_eq!(found.attr.ino, ino);
    assert_eq!(c.content(found.node), b"content");
}

fn every_reference_counts(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let again = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(again, node);
    c.link(node, ROOT, "g").unwrap();
    for _ in 0..2 {
        c.forget(node, 1);
        assert!(!is_stale(&c, node));
    }
    c.forget(node, 1);
    assert!(is_stale(&c, node));
}

fn references_are_given_back_several_at_once(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for _ in 0..9 {
        c.lookup(ROOT, "f").unwrap();
    }
    c.forget(node, 9);
    assert!(!is_stale(&c, node));
    c.forget(node, 1);
    assert!(is_stale(&c, node));
}

fn giving_back_too_many_is_ignored(w: &World) {
    let c = w.client();
    let (a, b) = (c.file(ROOT, "a", b""), c.file(ROOT, "b", b""));
    c.forget(a, u64::MAX);
    assert!(is_stale(&c, a));
    c.forget(a, 5);
    assert!(!is_stale(&c, b));
    let found = c.lookup(ROOT, "a").unwrap().node;
    assert!(!is_stale(&c, found));
}

fn the_root_is_not_forgotten(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.forget(ROOT, 1);
    c.forget(ROOT, u64::MAX);
    assert_eq!(c.names(ROOT), ["f"]);
}

fn forgetting_what_is_unknown_is_ignored(w: &World) {
    let c = w.client();
    for id in [0, 2, 7, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        c.forget(NodeId(id), 1);
    }
    assert!(!is_stale(&c, ROOT));
}

fn making_a_node_takes_one_reference(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.close(file).unwrap();
    let made = [
        file.node,
        c.mkdir(ROOT, "d", 0o755).unwrap().node,
        c.symlink(ROOT, "l", "x").unwrap().node,
        c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node,
    ];
    for node in made {
        assert!(!is_stale(&c, node));
        c.forget(node, 1);
        assert!(is_stale(&c, node));
    }
}

fn a_refused_operation_takes_no_reference(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.create(ROOT, "f", 0o644), Errno::EEXIST);
    fails(c.mkdir(ROOT, "f", 0o755), Errno::EEXIST);
    fails(c.link(node, ROOT, "f"), Errno::EEXIST);
    c.forget(node, 1);
    assert!(is_stale(&c, node));
}

fn remembering_takes_a_reference(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    assert_eq!(c.remember(node).unwrap().node, node);
    c.forget(node, 1);
    assert!(!is_stale(&c, node));
    c.forget(node, 1);
    fails(c.remember(node), Errno::ESTALE);
}

fn an_id_is_not_used_again_for_another_file(w: &World) {
    let c = w.client();
    let mut old = Vec::new();
    for index in 0..50 {
        let node = c.file(ROOT, &format!("f{index}"), b"");
        assert!(!old.contains(&node), "{node:?} came again");
        c.forget(node, 1);
        old.push(node);
    }
    for node in old {
        assert!(is_stale(&c, node));
    }
}

fn a_handle_is_not_used_again_for_another_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let mut old = Vec::new();
    for _ in 0..50 {
        let file = c.open(node, OpenFlags::READ).unwrap();
        assert!(!old.contains(&file), "{file:?} came again");
        c.close(file).unwrap();
        old.push(file);
    }
    let _open = c.open(node, OpenFlags::READ).unwrap();
    for file in old {
        fails(c.read(file, 0, 1), Errno::EBADF);
    }
}

fn every_operation_on_an_unknown_node_is_estale(w: &World) {
    let c = w.client();
    let known = c.file(ROOT, "f", b"");
    for id in [0, 999, u64::from(u32::MAX), 7 << 32 | 1, u64::MAX] {
        let node = NodeId(id);
        fails(c.lookup(node, "x"), Errno::ESTALE);
        fails(c.getattr(node), Errno::ESTALE);
        fails(c.setattr(node, SetAttr::default()), Errno::ESTALE);
        fails(c.readlink(node), Errno::ESTALE);
        fails(c.mkdir(node, "x", 0o755), Errno::ESTALE);
        fails(c.mknod(node, "x", FileType::Fifo, 0o600), Errno::ESTALE);
        fails(c.symlink(node, "x", "y"), Errno::ESTALE);
        fails(c.link(node, ROOT, "x"), Errno::ESTALE);
        fails(c.link(known, node, "x"), Errno::ESTALE);
        fails(c.unlink(node, "x"), Errno::ESTALE);
        fails(c.rmdir(node, "x"), Errno::ESTALE);
        fails(c.rename((node, "x"), (ROOT, "x")), Errno::ESTALE);
        fails(c.rename((ROOT, "f"), (node, "x")), Errno::ESTALE);
        fails(c.open(node, OpenFlags::READ), Errno::ESTALE);
        fails(c.opendir(node), Errno::ESTALE);
        fails(c.create(node, "x", 0o644), Errno::ESTALE);
        fails(c.getxattr(node, "user.a"), Errno::ESTALE);
        fails(c.listxattr(node), Errno::ESTALE);
        fails(c.setxattr(node, "user.a", b""), Errno::ESTALE);
        fails(c.removexattr(node, "user.a"), Errno::ESTALE);
        fails(c.access(node, sluice_vfs::Access::READ), Errno::ESTALE);
        fails(c.statfs(node), Errno::ESTALE);
    }
    assert_eq!(c.names(ROOT), ["f"]);
}

fn every_operation_on_an_unknown_handle_is_ebadf(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for id in [999, u64::from(u32::MAX), 7 << 32 | 1, u64::MAX - 1] {
        let file = File {
            node,
            handle: HandleId(id),
        };
        fails(c.read(file, 0, 1), Errno::EBADF);
        fails(c.write(file, 0, b"x"), Errno::EBADF);
        fails(c.fgetattr(file), Errno::EBADF);
        fails(c.flush(file), Errno::EBADF);
        fails(c.fsync(file, false), Errno::EBADF);
        fails(c.close(file), Errno::EBADF);
        fails(c.lseek(file, 0, Whence::Data), Errno::EBADF);
        let mode = sluice_vfs::FallocateMode::empty();
        fails(c.fallocate(file, mode, 0..1), Errno::EBADF);
        let dir = File { node: ROOT, ..file };
        let names = sluice_vfs::DirWant::Names;
        fails(c.readdir(dir, 0, names, 1), Errno::EBADF);
        fails(c.fsync(dir, false), Errno::EBADF);
    }
    assert_eq!(c.getattr(node).unwrap().size, 0);
}

fn a_handle_of_another_file_is_ebadf(w: &World) {
    let c = w.client();
    let a = c.create(ROOT, "a", 0o644).unwrap();
    let b = c.create(ROOT, "b", 0o644).unwrap();
    let mixed = File {
        node: a.node,
        handle: b.handle,
    };
    fails(c.read(mixed, 0, 1), Errno::EBADF);
    fails(c.write(mixed, 0, b"x"), Errno::EBADF);
    assert_eq!(c.getattr(b.node).unwrap().size, 0);
}

fn forgetting_an_open_file_harms_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let file = c.open(node, OpenFlags::READ).unwrap();
    c.forget(node, 1);
    // Peers forget what is open only when they are broken, or gone.
    match c.read(file, 0, 10) {
        Ok(bytes) => assert_eq!(bytes, b"content"),
        Err(error) => assert!([Errno::ESTALE, Errno::EBADF].contains(&error)),
    }
    let found = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(c.content(found), b"content");
}

fn sessions_forget_for_themselves(w: &World) {
    let (a, b) = (w.client(), w.client());
    let first = a.file(ROOT, "f", b"content");
    let second = b.lookup(ROOT, "f").unwrap().node;
    a.forget(first, u64::MAX);
    assert!(is_stale(&a, first));
    assert_eq!(b.content(second), b"content");
}

fn handles_of_another_session_mean_nothing(w: &World) {
    let (a, b) = (w.client(), w.client());
    let node = a.file(ROOT, "f", b"content");
    let file = a.open(node, OpenFlags::READ).unwrap();
    let seen = b.lookup(ROOT, "f").unwrap().node;
    let stolen = File {
        node: seen,
        handle: file.handle,
    };
    fails(b.read(stolen, 0, 10), Errno::EBADF);
    fails(b.close(stolen), Errno::EBADF);
    assert_eq!(a.read(file, 0, 10).unwrap(), b"content");
}

fn a_session_outlives_another(w: &World) {
    let (a, b) = (w.client(), w.client());
    let node = a.file(ROOT, "f", b"content");
    let seen = b.lookup(ROOT, "f").unwrap().node;
    let file = b.open(seen, OpenFlags::READ).unwrap();
    let _held = a.open(node, OpenFlags::READ).unwrap();
    drop(a);
    assert_eq!(b.read(file, 0, 10).unwrap(), b"content");
    assert_eq!(b.getattr(seen).unwrap().nlink, 1);
    let c = w.client();
    assert_eq!(c.names(ROOT), ["f"]);
}
