//! Moving names.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Device, Errno, FileType, OpenFlags, RenameFlags};

pub(super) const CASES: &[Case] = &[
    case!(rename_moves_a_name),
    case!(rename_keeps_the_file),
    case!(rename_of_a_missing_name_is_enoent),
    case!(rename_replaces_a_file),
    case!(rename_replaces_a_symlink_not_its_target),
    case!(rename_replaces_an_empty_directory),
    case!(rename_over_a_full_directory_is_enotempty),
    case!(rename_of_a_file_over_a_directory_is_eisdir),
    case!(rename_of_a_directory_over_a_file_is_enotdir),
    case!(rename_below_itself_is_einval),
    case!(rename_over_one_above_is_enotempty),
    case!(rename_to_itself_changes_nothing),
    case!(rename_onto_another_link_leaves_both),
    case!(rename_into_another_directory),
    case!(rename_of_a_directory_takes_along_what_is_below),
    case!(rename_of_a_directory_moves_link_counts),
    case!(rename_in_a_file_is_enotdir),
    case!(rename_from_a_removed_directory_is_enoent),
    case!(rename_of_one_above_into_a_removed_directory_is_enoent),
    case!(rename_moves_special_nodes),
    case!(rename_to_a_name_of_255_bytes),
    case!(rename_in_a_circle),
    case!(a_hundred_renames_over_one_name),
    case!(open_files_are_renamed),
    case!(a_replaced_file_is_still_read),
    case!(a_replaced_file_has_a_link_less),
    case!(noreplace_moves_to_a_free_name),
    case!(noreplace_of_a_taken_name_is_eexist),
    case!(noreplace_to_itself_is_eexist),
    case!(exchange_swaps_two_files),
    case!(exchange_swaps_a_file_and_a_directory),
    case!(exchange_swaps_full_directories),
    case!(exchange_across_directories_moves_link_counts),
    case!(exchange_with_a_missing_name_is_enoent),
    case!(exchange_with_one_above_is_einval),
    case!(exchange_takes_no_other_flag),
    case!(whiteout_is_left_at_the_old_name, Needs::ROOT),
    case!(whiteout_may_replace, Needs::ROOT),
    case!(a_refused_move_leaves_no_whiteout, Needs::ROOT),
];

fn rename_moves_a_name(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"content");
    c.rename((ROOT, "a"), (ROOT, "b")).unwrap();
    assert_eq!(c.names(ROOT), ["b"]);
    fails(c.lookup(ROOT, "a"), Errno::ENOENT);
    assert_eq!(c.content(c.lookup(ROOT, "b").unwrap().node), b"content");
}

fn rename_keeps_the_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"content");
    let before = c.getattr(node).unwrap();
    c.rename((ROOT, "a"), (ROOT, "b")).unwrap();
    let after = c.getattr(node).unwrap();
    assert_eq!((after.ino, after.nlink), (before.ino, 1));
    assert_eq!(c.lookup(ROOT, "b").unwrap().attr.ino, before.ino);
    assert_eq!(c.content(node), b"content");
}

fn rename_of_a_missing_name_is_enoent(w: &World) {
    let c = w.client();
    c.file(ROOT, "b", b"kept");
    fails(c.rename((ROOT, "a"), (ROOT, "b")), Errno::ENOENT);
    fails(c.rename((ROOT, "a"), (ROOT, "a")), Errno::ENOENT);
    assert_eq!(c.names(ROOT), ["b"]);
}

fn rename_replaces_a_file(w: &World) {
    let c = w.client();
    let new = c.file(ROOT, "new", b"new");
    c.file(ROOT, "old", b"old content");
    c.rename((ROOT, "new"), (ROOT, "old")).unwrap();
    assert_eq!(c.names(ROOT), ["old"]);
    let found = c.lookup(ROOT, "old").unwrap();
    assert_eq!(found.attr.ino, c.getattr(new).unwrap().ino);
    assert_eq!(c.content(found.node), b"new");
}

fn rename_replaces_a_symlink_not_its_target(w: &World) {
    let c = w.client();
    c.file(ROOT, "target", b"kept");
    c.symlink(ROOT, "l", "target").unwrap();
    c.file(ROOT, "f", b"new");
    c.rename((ROOT, "f"), (ROOT, "l")).unwrap();
    let found = c.lookup(ROOT, "l").unwrap();
    assert!(found.attr.mode.is_file());
    let target = c.lookup(ROOT, "target").unwrap().node;
    assert_eq!(c.content(target), b"kept");
}

fn rename_replaces_an_empty_directory(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.file(dir, "f", b"");
    let replaced = c.dir(ROOT, "e");
    c.rename((ROOT, "d"), (ROOT, "e")).unwrap();
    assert_eq!(c.names(ROOT), ["e"]);
    assert_eq!(c.names(c.lookup(ROOT, "e").unwrap().node), ["f"]);
    fails(c.create(replaced, "x", 0o644), Errno::ENOENT);
}

fn rename_over_a_full_directory_is_enotempty(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    let full = c.dir(ROOT, "e");
    c.file(full, "f", b"");
    let outcome = c.rename((ROOT, "d"), (ROOT, "e"));
    fails_with_one(outcome, &[Errno::ENOTEMPTY, Errno::EEXIST]);
    assert_eq!(c.names(ROOT), ["d", "e"]);
    assert_eq!(c.names(full), ["f"]);
}

fn rename_of_a_file_over_a_directory_is_eisdir(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.dir(ROOT, "d");
    fails(c.rename((ROOT, "f"), (ROOT, "d")), Errno::EISDIR);
    assert_eq!(c.names(ROOT), ["d", "f"]);
}

fn rename_of_a_directory_over_a_file_is_enotdir(w: &World) {
    let c = w.client();
    c.dir(ROOT, "d");
    c.file(ROOT, "f", b"");
    fails(c.rename((ROOT, "d"), (ROOT, "f")), Errno::ENOTDIR);
    assert_eq!(c.names(ROOT), ["d", "f"]);
}

fn rename_below_itself_is_einval(w: &World) {
    let c = w.client();
    let a = c.dir(ROOT, "a");
    let b = c.dir(a, "b");
    fails(c.rename((ROOT, "a"), (a, "x")), Errno::EINVAL);
    fails(c.rename((ROOT, "a"), (b, "x")), Errno::EINVAL);
    fails(c.rename((ROOT, "a"), (a, "b")), Errno::EINVAL);
    assert_eq!(c.names(ROOT), ["a"]);
    assert_eq!(c.names(a), ["b"]);
}

fn rename_over_one_above_is_enotempty(w: &World) {
    let c = w.client();
    let a = c.dir(ROOT, "a");
    c.dir(a, "b");
    fails(c.rename((a, "b"), (ROOT, "a")), Errno::ENOTEMPTY);
    assert_eq!(c.names(a), ["b"]);
}

fn rename_to_itself_changes_nothing(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"content");
    let dir = c.dir(ROOT, "d");
    c.rename((ROOT, "f"), (ROOT, "f")).unwrap();
    c.rename((ROOT, "d"), (ROOT, "d")).unwrap();
    assert_eq!(c.names(ROOT), ["d", "f"]);
    assert_eq!(c.content(file), b"content");
    assert!(c.names(dir).is_empty());
}

fn rename_onto_another_link_leaves_both(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"content");
    c.link(node, ROOT, "b").unwrap();
    c.rename((ROOT, "a"), (ROOT, "b")).unwrap();
    assert_eq!(c.names(ROOT), ["a", "b"]);
    assert_eq!(c.getattr(node).unwrap().nlink, 2);
}

fn rename_into_another_directory(w: &World) {
    let c = w.client();
    let (from, to) = (c.dir(ROOT, "from"), c.dir(ROOT, "to"));
    let node = c.file(from, "f", b"content");
    c.rename((from, "f"), (to, "g")).unwrap();
    assert!(c.names(from).is_empty());
    assert_eq!(c.names(to), ["g"]);
    assert_eq!(c.content(node), b"content");
    let found = c.lookup(to, "g").unwrap();
    assert_eq!(found.attr.ino, c.getattr(node).unwrap().ino);
}

fn rename_of_a_directory_takes_along_what_is_below(w: &World) {
    let c = w.client();
    let (from, to) = (c.dir(ROOT, "from"), c.dir(ROOT, "to"));
    let dir = c.dir(from, "d");
    let inner = c.dir(dir, "e");
    c.file(inner, "f", b"content");
    c.rename((from, "d"), (to, "d")).unwrap();
    let found = c.lookup(c.lookup(to, "d").unwrap().node, "e").unwrap();
    assert_eq!(c.names(found.node), ["f"]);
    // Nodes from before the move mean the same directories.
    c.file(inner, "g", b"");
    assert_eq!(c.names(found.node), ["f", "g"]);
}

fn rename_of_a_directory_moves_link_counts(w: &World) {
    let c = w.client();
    let (from, to) = (c.dir(ROOT, "from"), c.dir(ROOT, "to"));
    c.dir(from, "d");
    let links = |node| c.getattr(node).unwrap().nlink;
    let before = (links(from), links(to));
    c.rename((from, "d"), (to, "d")).unwrap();
    assert_eq!((links(from), links(to)), (before.0 - 1, before.1 + 1));
}

fn rename_in_a_file_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.file(ROOT, "g", b"");
    fails(c.rename((file, "x"), (ROOT, "x")), Errno::ENOTDIR);
    fails(c.rename((ROOT, "g"), (file, "x")), Errno::ENOTDIR);
    assert_eq!(c.names(ROOT), ["f", "g"]);
}

fn rename_from_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.rmdir(ROOT, "d").unwrap();
    fails(c.rename((dir, "x"), (ROOT, "x")), Errno::ENOENT);
}

fn rename_of_one_above_into_a_removed_directory_is_enoent(w: &World) {
    let c = w.client();
    let above = c.dir(ROOT, "above");
    let gone = c.dir(above, "gone");
    c.rmdir(above, "gone").unwrap();
    fails(c.rename((ROOT, "above"), (gone, "x")), Errno::ENOENT);
}

fn rename_moves_special_nodes(w: &World) {
    let c = w.client();
    c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap();
    c.mknod(ROOT, "s", FileType::Socket, 0o600).unwrap();
    c.rename((ROOT, "p"), (ROOT, "q")).unwrap();
    c.rename((ROOT, "s"), (ROOT, "q")).unwrap();
    let found = c.lookup(ROOT, "q").unwrap();
    assert_eq!(found.attr.mode.file_type(), Some(FileType::Socket));
    assert_eq!(c.names(ROOT), ["q"]);
}

fn rename_to_a_name_of_255_bytes(w: &World) {
    let c = w.client();
    let long = "n".repeat(255);
    c.file(ROOT, "f", b"content");
    c.rename((ROOT, "f"), (ROOT, &long)).unwrap();
    assert_eq!(c.names(ROOT), [long.as_str()]);
    c.rename((ROOT, &long), (ROOT, "f")).unwrap();
    assert_eq!(c.names(ROOT), ["f"]);
}

fn rename_in_a_circle(w: &World) {
    let c = w.client();
    let (a, b) = (c.file(ROOT, "a", b"1"), c.file(ROOT, "b", b"2"));
    c.rename((ROOT, "a"), (ROOT, "t")).unwrap();
    c.rename((ROOT, "b"), (ROOT, "a")).unwrap();
    c.rename((ROOT, "t"), (ROOT, "b")).unwrap();
    let ino = |node| c.getattr(node).unwrap().ino;
    assert_eq!(c.lookup(ROOT, "a").unwrap().attr.ino, ino(b));
    assert_eq!(c.lookup(ROOT, "b").unwrap().attr.ino, ino(a));
}

fn a_hundred_renames_over_one_name(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"first");
    for round in 0..100 {
        let text = format!("round {round}");
        c.file(ROOT, "f.tmp", text.as_bytes());
        c.rename((ROOT, "f.tmp"), (ROOT, "f")).unwrap();
        let found = c.lookup(ROOT, "f").unwrap().node;
        assert_eq!(c.content(found), text.as_bytes());
    }
    assert_eq!(c.names(ROOT), ["f"]);
}

fn open_files_are_renamed(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let file = c.create(ROOT, "a", 0o644).unwrap();
    c.write(file, 0, b"before").unwrap();
    c.rename((ROOT, "a"), (dir, "b")).unwrap();
    c.write(file, 6, b" and after").unwrap();
    let found = c.lookup(dir, "b").unwrap().node;
    assert_eq!(c.content(found), b"before and after");
}

fn a_replaced_file_is_still_read(w: &World) {
    let c = w.client();
    let old = c.file(ROOT, "f", b"old");
    let open = c.open(old, OpenFlags::READ | OpenFlags::WRITE).unwrap();
    c.file(ROOT, "g", b"new");
    c.rename((ROOT, "g"), (ROOT, "f")).unwrap();
    assert_eq!(c.read(open, 0, 10).unwrap(), b"old");
    c.write(open, 0, b"OLD").unwrap();
    assert_eq!(c.read(open, 0, 10).unwrap(), b"OLD");
    assert_eq!(c.content(c.lookup(ROOT, "f").unwrap().node), b"new");
}

fn a_replaced_file_has_a_link_less(w: &World) {
    let c = w.client();
    let old = c.file(ROOT, "f", b"");
    c.link(old, ROOT, "other").unwrap();
    c.file(ROOT, "g", b"");
    c.rename((ROOT, "g"), (ROOT, "f")).unwrap();
    assert_eq!(c.getattr(old).unwrap().nlink, 1);
    c.file(ROOT, "h", b"");
    c.rename((ROOT, "h"), (ROOT, "other")).unwrap();
    assert_eq!(c.getattr(old).unwrap().nlink, 0);
}

fn noreplace_moves_to_a_free_name(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"");
    c.rename_with((ROOT, "a"), (ROOT, "b"), RenameFlags::NOREPLACE)
        .unwrap();
    assert_eq!(c.names(ROOT), ["b"]);
}

fn noreplace_of_a_taken_name_is_eexist(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"a");
    let kept = c.file(ROOT, "b", b"b");
    c.dir(ROOT, "d");
    for name in ["b", "d"] {
        let outcome = c.rename_with((ROOT, "a"), (ROOT, name), RenameFlags::NOREPLACE);
        fails(outcome, Errno::EEXIST);
    }
    assert_eq!(c.names(ROOT), ["a", "b", "d"]);
    assert_eq!(c.content(kept), b"b");
}

fn noreplace_to_itself_is_eexist(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"");
    let outcome = c.rename_with((ROOT, "a"), (ROOT, "a"), RenameFlags::NOREPLACE);
    fails(outcome, Errno::EEXIST);
}

fn exchange_swaps_two_files(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"was a");
    c.file(ROOT, "b", b"was b");
    c.rename_with((ROOT, "a"), (ROOT, "b"), RenameFlags::EXCHANGE)
        .unwrap();
    let content = |name| c.content(c.lookup(ROOT, name).unwrap().node);
    assert_eq!(content("a"), b"was b");
    assert_eq!(content("b"), b"was a");
}

fn exchange_swaps_a_file_and_a_directory(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    c.dir(ROOT, "d");
    c.rename_with((ROOT, "f"), (ROOT, "d"), RenameFlags::EXCHANGE)
        .unwrap();
    assert!(c.lookup(ROOT, "f").unwrap().attr.mode.is_dir());
    assert!(c.lookup(ROOT, "d").unwrap().attr.mode.is_file());
}

fn exchange_swaps_full_directories(w: &World) {
    let c = w.client();
    let (a, b) = (c.dir(ROOT, "a"), c.dir(ROOT, "b"));
    c.file(a, "in a", b"");
    c.file(b, "in b", b"");
    c.rename_with((ROOT, "a"), (ROOT, "b"), RenameFlags::EXCHANGE)
        .unwrap();
    assert_eq!(c.names(c.lookup(ROOT, "a").unwrap().node), ["in b"]);
    assert_eq!(c.names(c.lookup(ROOT, "b").unwrap().node), ["in a"]);
    assert_eq!(c.names(a), ["in a"]);
}

fn exchange_across_directories_moves_link_counts(w: &World) {
    let c = w.client();
    let (a, b) = (c.dir(ROOT, "a"), c.dir(ROOT, "b"));
    c.dir(a, "d");
    c.file(b, "f", b"");
    let links = |node| c.getattr(node).unwrap().nlink;
    let before = (links(a), links(b));
    c.rename_with((a, "d"), (b, "f"), RenameFlags::EXCHANGE)
        .unwrap();
    assert_eq!((links(a), links(b)), (before.0 - 1, before.1 + 1));
    assert!(c.lookup(a, "d").unwrap().attr.mode.is_file());
}

fn exchange_with_a_missing_name_is_enoent(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"");
    for (old, new) in [("a", "b"), ("b", "a")] {
        let outcome = c.rename_with((ROOT, old), (ROOT, new), RenameFlags::EXCHANGE);
        fails(outcome, Errno::ENOENT);
    }
    assert_eq!(c.names(ROOT), ["a"]);
}

fn exchange_with_one_above_is_einval(w: &World) {
    let c = w.client();
    let a = c.dir(ROOT, "a");
    c.dir(a, "b");
    let down = c.rename_with((ROOT, "a"), (a, "b"), RenameFlags::EXCHANGE);
    fails(down, Errno::EINVAL);
    let up = c.rename_with((a, "b"), (ROOT, "a"), RenameFlags::EXCHANGE);
    fails(up, Errno::EINVAL);
}

fn exchange_takes_no_other_flag(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"");
    c.file(ROOT, "b", b"");
    for other in [RenameFlags::NOREPLACE, RenameFlags::WHITEOUT] {
        let flags = RenameFlags::EXCHANGE | other;
        fails(
            c.rename_with((ROOT, "a"), (ROOT, "b"), flags),
            Errno::EINVAL,
        );
    }
}

fn whiteout_is_left_at_the_old_name(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "a", b"content");
    c.rename_with((ROOT, "a"), (ROOT, "b"), RenameFlags::WHITEOUT)
        .unwrap();
    assert_eq!(c.names(ROOT), ["a", "b"]);
    let left = c.lookup(ROOT, "a").unwrap().attr;
    assert_eq!(left.mode.file_type(), Some(FileType::CharDevice));
    assert_eq!((left.rdev, left.nlink), (Device::default(), 1));
    let moved = c.lookup(ROOT, "b").unwrap();
    assert_eq!(moved.attr.ino, c.getattr(node).unwrap().ino);
}

fn whiteout_may_replace(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"new");
    let old = c.file(ROOT, "b", b"old");
    c.rename_with((ROOT, "a"), (ROOT, "b"), RenameFlags::WHITEOUT)
        .unwrap();
    assert_eq!(c.names(ROOT), ["a", "b"]);
    assert_eq!(c.getattr(old).unwrap().nlink, 0);
    assert_eq!(c.content(c.lookup(ROOT, "b").unwrap().node), b"new");
}

fn a_refused_move_leaves_no_whiteout(w: &World) {
    let c = w.client();
    c.file(ROOT, "a", b"");
    c.file(ROOT, "b", b"");
    let flags = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
    fails(
        c.rename_with((ROOT, "a"), (ROOT, "b"), flags),
        Errno::EEXIST,
    );
    assert!(c.lookup(ROOT, "a").unwrap().attr.mode.is_file());
    c.rename_with((ROOT, "a"), (ROOT, "c"), flags).unwrap();
    assert_eq!(c.names(ROOT), ["a", "b", "c"]);
}
