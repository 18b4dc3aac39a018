//! Finding names: lookup, walk, parent.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, FileType, Lookup};

pub(super) const CASES: &[Case] = &[
    case!(a_missing_name_is_not_an_error),
    case!(a_name_leads_to_its_node),
    case!(the_same_name_leads_to_the_same_inode),
    case!(names_are_case_sensitive),
    case!(names_need_not_be_utf8),
    case!(a_name_of_255_bytes_works),
    case!(names_with_newlines_and_spaces_work),
    case!(looking_in_a_file_is_enotdir),
    case!(looking_in_a_symlink_is_enotdir),
    case!(looking_in_a_removed_directory_finds_nothing),
    case!(a_symlink_is_found_and_not_followed),
    case!(a_new_name_is_found_after_it_was_missing),
    case!(a_removed_name_is_missing),
    case!(two_lookups_give_one_id, Needs::SAME_NODE),
    case!(parent_leads_up, Needs::PARENT),
    case!(the_roots_parent_is_the_root, Needs::PARENT),
    case!(parent_follows_a_move, Needs::PARENT),
    case!(parent_of_a_file_is_enotdir, Needs::PARENT),
    case!(a_walk_goes_down_several_names, Needs::REMEMBER),
    case!(a_walk_over_no_names_is_another_reference, Needs::REMEMBER),
    case!(a_walk_ends_at_the_first_missing_name, Needs::REMEMBER),
    case!(a_walk_through_a_file_ends_in_enotdir, Needs::REMEMBER),
    case!(a_walk_of_17_names_is_refused, Needs::REMEMBER),
];

fn a_missing_name_is_not_an_error(w: &World) {
    let c = w.client();
    let found = c.lookup_either(ROOT, "nothing");
    assert!(matches!(found, Ok(Lookup::Missing { .. })), "{found:?}");
}

fn a_name_leads_to_its_node(w: &World) {
    let c = w.client();
    let dir = c.mkdir(ROOT, "d", 0o755).unwrap();
    let found = c.lookup(ROOT, "d").unwrap();
    assert_eq!(found.attr.ino, dir.attr.ino);
    assert_eq!(found.attr.mode.file_type(), Some(FileType::Directory));
    assert_eq!(c.getattr(found.node).unwrap().ino, dir.attr.ino);
}

fn the_same_name_leads_to_the_same_inode(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"x");
    let (a, b) = (c.lookup(ROOT, "f").unwrap(), c.lookup(ROOT, "f").unwrap());
    assert_eq!(a.attr.ino, b.attr.ino);
}

fn names_are_case_sensitive(w: &World) {
    let c = w.client();
    c.file(ROOT, "name", b"1");
    c.file(ROOT, "Name", b"2");
    fails(c.lookup(ROOT, "NAME"), Errno::ENOENT);
    let (a, b) = (
        c.lookup(ROOT, "name").unwrap(),
        c.lookup(ROOT, "Name").unwrap(),
    );
    assert_ne!(a.attr.ino, b.attr.ino);
}

fn names_need_not_be_utf8(w: &World) {
    let c = w.client();
    let name = b"\xff\xfe\x80 \xc3";
    let made = c.mkdir(ROOT, name, 0o755).unwrap();
    assert_eq!(c.lookup(ROOT, name).unwrap().attr.ino, made.attr.ino);
}

fn a_name_of_255_bytes_works(w: &World) {
    let c = w.client();
    let name = [b'n'; 255];
    let made = c.mkdir(ROOT, name, 0o755).unwrap();
    assert_eq!(c.lookup(ROOT, name).unwrap().attr.ino, made.attr.ino);
    fails(c.lookup(ROOT, [b'n'; 254]), Errno::ENOENT);
}

fn names_with_newlines_and_spaces_work(w: &World) {
    let c = w.client();
    for name in ["a b", "a\nb", " ", "-rf", "...", "\\", "*"] {
        c.file(ROOT, name, name.as_bytes());
    }
    for name in ["a b", "a\nb", " ", "-rf", "...", "\\", "*"] {
        let found = c.lookup(ROOT, name).unwrap();
        assert_eq!(c.content(found.node), name.as_bytes());
    }
}

fn looking_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.lookup(file, "x"), Errno::ENOTDIR);
}

fn looking_in_a_symlink_is_enotdir(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    let link = c.symlink(ROOT, "l", "d").unwrap().node;
    fails(c.lookup(link, "x"), Errno::ENOTDIR);
}

fn looking_in_a_removed_directory_finds_nothing(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.lookup(dir, "x"), Errno::ENOENT);
}

fn a_symlink_is_found_and_not_followed(w: &World) {
    let c = w.client();
    c.symlink(ROOT, "l", "nowhere").unwrap();
    let found = c.lookup(ROOT, "l").unwrap();
    assert_eq!(found.attr.mode.file_type(), Some(FileType::Symlink));
}

fn a_new_name_is_found_after_it_was_missing(w: &World) {
    let c = w.client();
    fails(c.lookup(ROOT, "f"), Errno::ENOENT);
    c.file(ROOT, "f", b"");
    assert!(c.lookup(ROOT, "f").is_ok());
}

fn a_removed_name_is_missing(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.lookup(ROOT, "f").unwrap();
    c.unlink(ROOT, "f").unwrap();
    fails(c.lookup(ROOT, "f"), Errno::ENOENT);
}

fn two_lookups_give_one_id(w: &World) {
    let c = w.client();
    let made = c.mkdir(ROOT, "d", 0o755).unwrap();
    let file = c.file(ROOT, "f", b"");
    c.link(file, made.node, "hard").unwrap();
    assert_eq!(c.lookup(ROOT, "d").unwrap().node, made.node);
    assert_eq!(c.lookup(made.node, "hard").unwrap().node, file);
}

fn parent_leads_up(w: &World) {
    let c = w.client();
    let a = c.dir(ROOT, "a");
    let b = c.dir(a, "b");
    assert_eq!(c.parent(b).unwrap().attr.ino, c.getattr(a).unwrap().ino);
    assert_eq!(c.parent(a).unwrap().attr.ino, c.root.attr.ino);
}

fn the_roots_parent_is_the_root(w: &World) {
    let c = w.client();
    let above = c.parent(ROOT).unwrap();
    assert_eq!(above.node, ROOT);
    assert_eq!(above.attr.ino, c.root.attr.ino);
}

fn parent_follows_a_move(w: &World) {
    let c = w.client();
    let (a, b) = (c.dir(ROOT, "a"), c.dir(ROOT, "b"));
    let moved = c.dir(a, "d");
    c.rename((a, "d"), (b, "d")).unwrap();
    assert_eq!(c.parent(moved).unwrap().attr.ino, c.getattr(b).unwrap().ino);
}

fn parent_of_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.parent(file), Errno::ENOTDIR);
}

fn a_walk_goes_down_several_names(w: &World) {
    let c = w.client();
    let a = c.dir(ROOT, "a");
    let b = c.dir(a, "b");
    let file = c.file(b, "f", b"x");
    let walk = c.walk(ROOT, &["a", "b", "f"]).unwrap();
    let types: Vec<FileType> = walk.steps.iter().map(|step| step.file_type).collect();
    let dir = FileType::Directory;
    assert_eq!(types, [dir, dir, FileType::Regular]);
    assert_eq!(walk.error, None);
    let ino = c.getattr(file).unwrap().ino;
    assert_eq!(walk.steps[2].ino, ino);
    assert_eq!(walk.last.map(|entry| entry.attr.ino), Some(ino));
}

fn a_walk_over_no_names_is_another_reference(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let walk = c.walk(dir, &[]).unwrap();
    assert!(walk.steps.is_empty());
    assert_eq!(walk.last.map(|entry| entry.node), Some(dir));
    // The reference from mkdir goes, the one from the walk remains.
    c.forget(dir, 1);
    assert!(c.getattr(dir).is_ok());
    c.forget(dir, 1);
    fails(c.getattr(dir), Errno::ESTALE);
}

fn a_walk_ends_at_the_first_missing_name(w: &World) {
    let c = w.client();
    c.dir(ROOT, "a");
    let walk = c.walk(ROOT, &["a", "b", "c"]).unwrap();
    assert_eq!(walk.steps.len(), 1);
    assert_eq!(walk.error, Some(Errno::ENOENT));
    assert_eq!(walk.last, None);
}

fn a_walk_through_a_file_ends_in_enotdir(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    let walk = c.walk(ROOT, &["f", "x"]).unwrap();
    assert_eq!(walk.steps.len(), 1);
    assert_eq!(walk.error, Some(Errno::ENOTDIR));
}

fn a_walk_of_17_names_is_refused(w: &World) {
    let c = w.client();
    fails(c.walk(ROOT, &["a"; 17]), Errno::EINVAL);
}
