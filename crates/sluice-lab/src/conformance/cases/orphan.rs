//! Files and directories that have lost their last name and are still held.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{
    DirWant, Errno, FallocateMode, FileType, OpenFlags, SetAttr, SetTime, Timestamp, Whence,
};

pub(super) const CASES: &[Case] = &[
    case!(an_unlinked_file_is_read_and_written),
    case!(an_unlinked_file_grows),
    case!(an_unlinked_file_has_no_links),
    case!(an_unlinked_file_is_truncated_by_handle),
    case!(an_unlinked_file_is_truncated_by_node),
    case!(an_unlinked_file_changes_mode),
    case!(an_unlinked_file_changes_times),
    case!(an_unlinked_file_changes_owner, Needs::ROOT),
    case!(an_unlinked_file_is_synced),
    case!(an_unlinked_file_takes_space),
    case!(an_unlinked_file_is_opened_again),
    case!(an_unlinked_file_is_not_the_one_made_again),
    case!(an_unlinked_file_goes_on_in_other_sessions, Needs::SESSIONS),
    case!(an_unlinked_file_is_copied_from, Needs::COPY_RANGE),
    case!(a_node_without_handle_outlives_its_name),
    case!(a_symlink_outlives_its_name),
    case!(a_pipe_outlives_its_name),
    case!(a_removed_directory_has_no_links),
    case!(a_removed_directory_changes_mode),
    case!(a_removed_directory_is_synced),
    case!(a_removed_directory_lists_no_names),
    case!(a_hundred_unlinked_files),
    case!(a_file_loses_its_name_while_it_is_made_again),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

/// An open file with content that has no name.
fn orphan(c: &Client, content: &[u8]) -> File {
    let node = c.file(ROOT, "orphan", content);
    let file = c.open(node, READ_WRITE).unwrap();
    c.unlink(ROOT, "orphan").unwrap();
    file
}

fn an_unlinked_file_is_read_and_written(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"content");
    assert_eq!(c.read(file, 0, 10).unwrap(), b"content");
    c.write(file, 0, b"CON").unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"CONtent");
    assert!(c.names(ROOT).is_empty());
    c.close(file).unwrap();
}

fn an_unlinked_file_grows(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    let block = vec![7; 65_536];
    for index in 0..8 {
        assert_eq!(c.write(file, index * 65_536, &block), Ok(block.len()));
    }
    assert_eq!(c.fgetattr(file).unwrap().size, 8 * 65_536);
    assert_eq!(c.read(file, 8 * 65_536 - 1, 10).unwrap(), [7]);
}

fn an_unlinked_file_has_no_links(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    assert_eq!(c.fgetattr(file).unwrap().nlink, 0);
    assert_eq!(c.getattr(file.node).unwrap().nlink, 0);
}

fn an_unlinked_file_is_truncated_by_handle(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"0123456789");
    let changes = SetAttr {
        size: Some(4),
        ..SetAttr::default()
    };
    assert_eq!(c.fsetattr(file, changes).unwrap().size, 4);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"0123");
}

fn an_unlinked_file_is_truncated_by_node(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"0123456789");
    assert_eq!(c.truncate(file.node, 2).unwrap().size, 2);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"01");
}

fn an_unlinked_file_changes_mode(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    let changes = SetAttr {
        perm: Some(0o600),
        ..SetAttr::default()
    };
    assert_eq!(c.fsetattr(file, changes).unwrap().mode.perm(), 0o600);
    assert_eq!(c.chmod(file.node, 0o640).unwrap().mode.perm(), 0o640);
}

fn an_unlinked_file_changes_times(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    let time = Timestamp {
        sec: 1_000_000_000,
        nsec: 5,
    };
    let changes = SetAttr {
        mtime: Some(SetTime::To(time)),
        ..SetAttr::default()
    };
    assert_eq!(c.fsetattr(file, changes).unwrap().mtime, time);
    assert_eq!(c.setattr(file.node, changes).unwrap().mtime, time);
}

fn an_unlinked_file_changes_owner(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    let attr = c.chown(file.node, Some(1000), Some(2000)).unwrap();
    assert_eq!((attr.uid, attr.gid), (1000, 2000));
}

fn an_unlinked_file_is_synced(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"content");
    c.fsync(file, false).unwrap();
    c.fsync(file, true).unwrap();
    c.flush(file).unwrap();
}

fn an_unlinked_file_takes_space(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"");
    c.fallocate(file, FallocateMode::empty(), 0..8192).unwrap();
    assert_eq!(c.fgetattr(file).unwrap().size, 8192);
    c.lseek(file, 0, Whence::Hole).unwrap();
}

fn an_unlinked_file_is_opened_again(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"content");
    let again = c.open(file.node, READ_WRITE).unwrap();
    c.write(again, 0, b"C").unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"Content");
}

fn an_unlinked_file_is_not_the_one_made_again(w: &World) {
    let c = w.client();
    let file = orphan(&c, b"old");
    let new = c.file(ROOT, "orphan", b"new");
    let ino = c.getattr(new).unwrap().ino;
    assert_ne!(c.fgetattr(file).unwrap().ino, ino);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"old");
    c.write(file, 0, b"OLD").unwrap();
    assert_eq!(c.content(new), b"new");
}

fn an_unlinked_file_goes_on_in_other_sessions(w: &World) {
    let (a, b) = (w.client(), w.client());
    a.file(ROOT, "f", b"content");
    let node = b.lookup(ROOT, "f").unwrap().node;
    let file = b.open(node, READ_WRITE).unwrap();
    a.unlink(ROOT, "f").unwrap();
    drop(a);
    assert_eq!(b.read(file, 0, 10).unwrap(), b"content");
    b.write(file, 0, b"C").unwrap();
    assert_eq!(b.fgetattr(file).unwrap().nlink, 0);
    fails(b.lookup(ROOT, "f"), Errno::ENOENT);
}

fn an_unlinked_file_is_copied_from(w: &World) {
    let c = w.client();
    let from = orphan(&c, b"content");
    let to = c.create(ROOT, "copy", 0o644).unwrap();
    assert_eq!(c.copy_range((from, 0), (to, 0), 100), Ok(7));
    assert_eq!(c.content(to.node), b"content");
}

fn a_node_without_handle_outlives_its_name(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    c.unlink(ROOT, "f").unwrap();
    let attr = c.getattr(node).unwrap();
    assert_eq!((attr.nlink, attr.size), (0, 7));
    assert_eq!(c.content(node), b"content");
}

fn a_symlink_outlives_its_name(w: &World) {
    let c = w.client();
    let link = c.symlink(ROOT, "l", "target").unwrap().node;
    c.unlink(ROOT, "l").unwrap();
    assert_eq!(c.getattr(link).unwrap().nlink, 0);
    assert_eq!(c.readlink(link).unwrap(), b"target");
}

fn a_pipe_outlives_its_name(w: &World) {
    let c = w.client();
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node;
    c.unlink(ROOT, "p").unwrap();
    assert_eq!(c.chmod(pipe, 0o640).unwrap().mode.perm(), 0o640);
    assert_eq!(c.getattr(pipe).unwrap().nlink, 0);
}

/// An open directory that was removed.
fn removed_dir(c: &Client) -> File {
    let node = c.dir(ROOT, "d");
    let dir = c.opendir(node).unwrap();
    c.rmdir(ROOT, "d").unwrap();
    dir
}

fn a_removed_directory_has_no_links(w: &World) {
    let c = w.client();
    let dir = removed_dir(&c);
    let attr = c.getattr(dir.node).unwrap();
    assert!(attr.mode.is_dir());
    assert_eq!(attr.nlink, 0);
}

fn a_removed_directory_changes_mode(w: &World) {
    let c = w.client();
    let dir = removed_dir(&c);
    assert_eq!(c.chmod(dir.node, 0o700).unwrap().mode.perm(), 0o700);
}

fn a_removed_directory_is_synced(w: &World) {
    let c = w.client();
    let dir = removed_dir(&c);
    c.fsync(dir, false).unwrap();
    c.close(dir).unwrap();
}

fn a_removed_directory_lists_no_names(w: &World) {
    let c = w.client();
    let dir = removed_dir(&c);
    match c.list(dir, DirWant::Names) {
        Ok(listed) => {
            let is_dot = |name: &[u8]| name == b"." || name == b"..";
            assert!(listed.iter().all(|entry| is_dot(&entry.name)), "{listed:?}");
        }
        Err(error) => assert_eq!(error, Errno::ENOENT),
    }
    fails(c.lookup(dir.node, "x"), Errno::ENOENT);
}

fn a_hundred_unlinked_files(w: &World) {
    let c = w.client();
    let files: Vec<File> = (0..100u8).map(|index| orphan(&c, &[index])).collect();
    for (index, file) in files.iter().enumerate() {
        assert_eq!(c.read(*file, 0, 2).unwrap(), [index as u8]);
        c.close(*file).unwrap();
    }
    assert!(c.names(ROOT).is_empty());
}

fn a_file_loses_its_name_while_it_is_made_again(w: &World) {
    let c = w.client();
    let mut held = Vec::new();
    for index in 0..20u8 {
        let node = c.file(ROOT, "f", &[index]);
        held.push(c.open(node, READ_WRITE).unwrap());
        c.file(ROOT, "g", &[100 + index]);
        c.rename((ROOT, "g"), (ROOT, "f")).unwrap();
        c.unlink(ROOT, "f").unwrap();
    }
    for (index, file) in held.iter().enumerate() {
        assert_eq!(c.read(*file, 0, 2).unwrap(), [index as u8]);
    }
    fails(c.unlink(ROOT, "f"), Errno::ENOENT);
}
