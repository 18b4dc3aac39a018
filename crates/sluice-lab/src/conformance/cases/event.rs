//! What sessions are told of each other's changes.

use crate::conformance::client::ROOT;
use crate::conformance::{Case, Client, Needs, Said, World};
use sluice_vfs::{NodeId, OpenFlags};

const TOLD: Needs = Needs::EVENTS.union(Needs::SESSIONS);

pub(super) const CASES: &[Case] = &[
    case!(a_write_is_told_with_its_range, TOLD),
    case!(a_truncation_is_told_as_a_change_of_content, TOLD),
    case!(a_chmod_is_told_without_content, TOLD),
    case!(new_names_are_told, TOLD),
    case!(removed_names_are_told, TOLD),
    case!(both_names_of_a_rename_are_told, TOLD),
    case!(a_link_is_told, TOLD),
    case!(attributes_are_told, TOLD.union(Needs::XATTR)),
    case!(ones_own_changes_are_not_told, TOLD),
    case!(what_is_not_known_is_not_told, TOLD),
    case!(what_was_forgotten_is_not_told, TOLD),
    case!(refused_changes_are_not_told, TOLD),
];

/// Two sessions that know the file `f`, by their ids of it.
fn two_who_know(w: &World) -> ((Client, NodeId), (Client, NodeId)) {
    let (a, b) = (w.client(), w.client());
    let first = a.file(ROOT, "f", b"0123456789");
    let second = b.lookup(ROOT, "f").unwrap().node;
    b.events.clear();
    ((a, first), (b, second))
}

fn a_write_is_told_with_its_range(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    let file = a.open(first, OpenFlags::WRITE).unwrap();
    a.write(file, 3, b"xyz").unwrap();
    b.events.wait_for("of the write", |said| match said {
        Said::Inode(node, Some(data)) => *node == second && data.start <= 3 && data.end >= 6,
        _ => false,
    });
}

fn a_truncation_is_told_as_a_change_of_content(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    a.truncate(first, 4).unwrap();
    b.events.wait_for("of the truncation", |said| match said {
        Said::Inode(node, Some(data)) => *node == second && data.start <= 4 && data.end >= 10,
        _ => false,
    });
}

fn a_chmod_is_told_without_content(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    a.chmod(first, 0o600).unwrap();
    let told = Said::Inode(second, None);
    b.events.wait_for("of the chmod", |said| *said == told);
}

fn new_names_are_told(w: &World) {
    let ((a, _), (b, _)) = two_who_know(w);
    a.file(ROOT, "g", b"");
    a.dir(ROOT, "d");
    for name in ["g", "d"] {
        let told = Said::Entry(ROOT, name.into());
        b.events.wait_for("of the new name", |said| *said == told);
    }
}

fn removed_names_are_told(w: &World) {
    let ((a, _), (b, second)) = two_who_know(w);
    a.unlink(ROOT, "f").unwrap();
    let name = Said::Entry(ROOT, "f".into());
    b.events.wait_for("of the lost name", |said| *said == name);
    let links = Said::Inode(second, None);
    b.events.wait_for("of the lost link", |said| *said == links);
}

fn both_names_of_a_rename_are_told(w: &World) {
    let ((a, _), (b, _)) = two_who_know(w);
    a.rename((ROOT, "f"), (ROOT, "g")).unwrap();
    for name in ["f", "g"] {
        let told = Said::Entry(ROOT, name.into());
        b.events.wait_for("of the name", |said| *said == told);
    }
}

fn a_link_is_told(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    a.link(first, ROOT, "g").unwrap();
    for told in [Said::Entry(ROOT, "g".into()), Said::Inode(second, None)] {
        b.events.wait_for("of the link", |said| *said == told);
    }
}

fn attributes_are_told(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    a.setxattr(first, "user.a", b"x").unwrap();
    let told = Said::Inode(second, None);
    b.events.wait_for("of the attribute", |said| *said == told);
}

fn ones_own_changes_are_not_told(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    a.chmod(first, 0o600).unwrap();
    a.rename((ROOT, "f"), (ROOT, "g")).unwrap();
    // What the other session hears is proof that all was published.
    let told = Said::Entry(ROOT, "g".into());
    b.events.wait_for("of the name", |said| *said == told);
    assert_eq!(a.events.said(), []);
    assert!(b.events.said().contains(&Said::Inode(second, None)));
}

fn what_is_not_known_is_not_told(w: &World) {
    let (a, b) = (w.client(), w.client());
    let dir = a.dir(ROOT, "d");
    let node = a.file(dir, "f", b"");
    b.events.clear();
    a.chmod(node, 0o600).unwrap();
    a.file(dir, "g", b"");
    a.file(ROOT, "last", b"");
    let last = Said::Entry(ROOT, "last".into());
    b.events.wait_for("of the last name", |said| *said == last);
    let about_root =
        |said: &Said| matches!(said, Said::Inode(ROOT, _)) || matches!(said, Said::Entry(ROOT, _));
    assert!(
        b.events.said().iter().all(about_root),
        "{:?}",
        b.events.said()
    );
}

fn what_was_forgotten_is_not_told(w: &World) {
    let ((a, first), (b, second)) = two_who_know(w);
    b.forget(second, 1);
    a.chmod(first, 0o600).unwrap();
    a.file(ROOT, "last", b"");
    let last = Said::Entry(ROOT, "last".into());
    b.events.wait_for("of the last name", |said| *said == last);
    let about_it = |said: &Said| matches!(said, Said::Inode(node, _) if *node == second);
    assert!(
        !b.events.said().iter().any(about_it),
        "{:?}",
        b.events.said()
    );
}

fn refused_changes_are_not_told(w: &World) {
    let ((a, first), (b, _)) = two_who_know(w);
    assert!(a.mkdir(ROOT, "f", 0o755).is_err());
    assert!(a.rmdir(ROOT, "f").is_err());
    assert!(a.lookup(first, "x").is_err());
    assert!(a.truncate(ROOT, 0).is_err());
    a.file(ROOT, "last", b"");
    let last = Said::Entry(ROOT, "last".into());
    let is_last = |said: &Said| *said == last || matches!(said, Said::Inode(ROOT, _));
    b.events.wait_for("of the last name", |said| *said == last);
    assert!(b.events.said().iter().all(is_last), "{:?}", b.events.said());
}
