//! Opening nodes, and what handles allow.

use crate::conformance::client::{File, ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, HandleId, OpenFlags, Release};

pub(super) const CASES: &[Case] = &[
    case!(a_handle_for_reading_does_not_write),
    case!(a_handle_for_writing_does_not_read),
    case!(open_of_a_symlink_is_eloop),
    case!(open_of_a_directory_for_writing_is_eisdir),
    case!(open_of_a_file_as_a_directory_is_enotdir),
    case!(open_truncates_if_told),
    case!(open_with_truncate_needs_no_write_handle),
    case!(append_writes_at_the_end_whatever_the_offset),
    case!(append_from_two_handles_loses_nothing),
    case!(append_handles_read_anywhere),
    case!(reading_a_directory_handle_is_eisdir),
    case!(two_handles_see_one_content),
    case!(a_handle_outlives_chmod),
    case!(an_unknown_handle_is_ebadf),
    case!(a_released_handle_is_ebadf),
    case!(release_twice_is_ebadf),
    case!(flush_may_come_several_times),
    case!(fsync_works_on_files_and_directories),
    case!(syncfs_works),
    case!(sync_handles_write),
    case!(noatime_handles_read),
    case!(handles_of_different_files_differ),
    case!(a_hundred_handles_on_one_file),
    case!(content_without_a_handle, Needs::NO_OPEN),
    case!(reading_a_directory_without_a_handle_fails, Needs::NO_OPEN),
];

fn a_handle_for_reading_does_not_write(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"kept");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fails(c.write(file, 0, b"x"), Errno::EBADF);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"kept");
}

fn a_handle_for_writing_does_not_read(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"text");
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    fails(c.read(file, 0, 10), Errno::EBADF);
    assert_eq!(c.write(file, 0, b"T"), Ok(1));
    assert_eq!(c.content(node), b"Text");
}

fn open_of_a_symlink_is_eloop(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    fails(c.open(link, OpenFlags::READ), Errno::ELOOP);
}

fn open_of_a_directory_for_writing_is_eisdir(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fails(c.open(dir, OpenFlags::WRITE), Errno::EISDIR);
    fails(
        c.open(dir, OpenFlags::READ | OpenFlags::WRITE),
        Errno::EISDIR,
    );
}

fn open_of_a_file_as_a_directory_is_enotdir(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.opendir(file), Errno::ENOTDIR);
}

fn open_truncates_if_told(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let file = c
        .open(node, OpenFlags::WRITE | OpenFlags::TRUNCATE)
        .unwrap();
    assert_eq!(c.getattr(node).unwrap().size, 0);
    c.write(file, 0, b"new").unwrap();
    assert_eq!(c.content(node), b"new");
}

fn open_with_truncate_needs_no_write_handle(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let file = c.open(node, OpenFlags::READ | OpenFlags::TRUNCATE).unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"");
    fails(c.write(file, 0, b"x"), Errno::EBADF);
}

fn append_writes_at_the_end_whatever_the_offset(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123");
    let file = c.open(node, OpenFlags::WRITE | OpenFlags::APPEND).unwrap();
    assert_eq!(c.write(file, 0, b"ab"), Ok(2));
    assert_eq!(c.write(file, 1000, b"cd"), Ok(2));
    assert_eq!(c.content(node), b"0123abcd");
}

fn append_from_two_handles_loses_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let flags = OpenFlags::WRITE | OpenFlags::APPEND;
    let writers: Vec<_> = [b'a', b'b']
        .into_iter()
        .map(|byte| {
            let c = c.clone();
            let file = c.open(node, flags).unwrap();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    // The peer's idea of the end is stale on purpose.
                    assert_eq!(c.write(file, 0, &[byte; 7]), Ok(7));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("the writer succeeds");
    }
    let content = c.content(node);
    assert_eq!(content.len(), 700);
    for record in content.chunks(7) {
        assert!(
            record.iter().all(|byte| *byte == record[0]),
            "torn: {record:?}"
        );
    }
    assert_eq!(content.iter().filter(|byte| **byte == b'a').count(), 350);
}

fn append_handles_read_anywhere(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123");
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::APPEND;
    let file = c.open(node, flags).unwrap();
    c.write(file, 0, b"45").unwrap();
    assert_eq!(c.read(file, 1, 3).unwrap(), b"123");
}

fn reading_a_directory_handle_is_eisdir(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let handle = c.opendir(dir).unwrap();
    fails(c.read(handle, 0, 10), Errno::EISDIR);
    fails_with_one(c.write(handle, 0, b"x"), &[Errno::EBADF, Errno::EISDIR]);
}

fn two_handles_see_one_content(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let writer = c.open(node, OpenFlags::WRITE).unwrap();
    let reader = c.open(node, OpenFlags::READ).unwrap();
    c.write(writer, 2, b"xy").unwrap();
    assert_eq!(c.read(reader, 0, 10).unwrap(), b"\0\0xy");
    c.close(writer).unwrap();
    assert_eq!(c.read(reader, 3, 10).unwrap(), b"y");
}

fn a_handle_outlives_chmod(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ | OpenFlags::WRITE).unwrap();
    c.chmod(node, 0).unwrap();
    assert_eq!(c.read(file, 0, 3).unwrap(), b"abc");
    assert_eq!(c.write(file, 3, b"d"), Ok(1));
}

fn an_unknown_handle_is_ebadf(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    for handle in [0, 4000, u64::MAX, 1 << 40].map(HandleId) {
        let file = File { node, handle };
        fails(c.read(file, 0, 3), Errno::EBADF);
        fails(c.write(file, 0, b"x"), Errno::EBADF);
        fails(c.flush(file), Errno::EBADF);
        fails(c.fsync(file, false), Errno::EBADF);
        fails(c.release(file, Release::default()), Errno::EBADF);
    }
    assert_eq!(c.content(node), b"abc");
}

fn a_released_handle_is_ebadf(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    c.close(file).unwrap();
    let again = c.open(node, OpenFlags::READ).unwrap();
    assert_ne!(file.handle, again.handle, "ids are not reused at once");
    fails(c.read(file, 0, 3), Errno::EBADF);
    assert_eq!(c.read(again, 0, 3).unwrap(), b"abc");
}

fn release_twice_is_ebadf(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::READ).unwrap();
    c.close(file).unwrap();
    fails(c.close(file), Errno::EBADF);
}

fn flush_may_come_several_times(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    c.write(file, 0, b"abc").unwrap();
    c.flush(file).unwrap();
    c.flush(file).unwrap();
    assert_eq!(c.write(file, 3, b"d"), Ok(1));
    assert_eq!(c.content(node), b"abcd");
}

fn fsync_works_on_files_and_directories(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"abc").unwrap();
    c.fsync(file, false).unwrap();
    c.fsync(file, true).unwrap();
    let dir = c.opendir(ROOT).unwrap();
    c.fsync(dir, false).unwrap();
    c.fsync(dir, true).unwrap();
}

fn syncfs_works(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"abc");
    c.session().syncfs(&c.ctx(), ROOT).unwrap();
}

fn sync_handles_write(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for flag in [OpenFlags::SYNC, OpenFlags::DSYNC] {
        let file = c.open(node, OpenFlags::WRITE | flag).unwrap();
        assert_eq!(c.write(file, 0, b"abc"), Ok(3));
        c.close(file).unwrap();
    }
    assert_eq!(c.content(node), b"abc");
}

fn noatime_handles_read(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let before = c.getattr(node).unwrap().atime;
    let file = c.open(node, OpenFlags::READ | OpenFlags::NOATIME).unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"abc");
    assert_eq!(c.getattr(node).unwrap().atime, before);
}

fn handles_of_different_files_differ(w: &World) {
    let c = w.client();
    let (a, b) = (c.file(ROOT, "a", b"a"), c.file(ROOT, "b", b"b"));
    let (a, b) = (
        c.open(a, OpenFlags::READ).unwrap(),
        c.open(b, OpenFlags::READ).unwrap(),
    );
    assert_ne!(a.handle, b.handle);
    assert_eq!(c.read(b, 0, 1).unwrap(), b"b");
    assert_eq!(c.read(a, 0, 1).unwrap(), b"a");
}

fn a_hundred_handles_on_one_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"x");
    let open = |_| c.open(node, OpenFlags::READ).unwrap();
    let files: Vec<File> = (0..100).map(open).collect();
    for file in &files {
        assert_eq!(c.read(*file, 0, 2).unwrap(), b"x");
    }
    for file in files {
        c.close(file).unwrap();
    }
}

fn content_without_a_handle(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    assert_eq!(c.read_from(node, None, 1, 10).unwrap(), b"bc");
    let args = sluice_vfs::WriteArgs {
        offset: 2,
        ..Default::default()
    };
    assert_eq!(c.write_with(node, None, &args, b"xyz").unwrap().len, 3);
    assert_eq!(c.content(node), b"abxyz");
    let names = sluice_vfs::DirWant::Names;
    let listed = c.readdir_from(ROOT, None, 0, names, 10).unwrap();
    assert!(listed.iter().any(|entry| entry.name == b"f"));
}

fn reading_a_directory_without_a_handle_fails(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fails(c.read_from(dir, None, 0, 10), Errno::EISDIR);
    let link = c.symlink(ROOT, "l", "d").unwrap().node;
    fails(c.read_from(link, None, 0, 10), Errno::ELOOP);
}
