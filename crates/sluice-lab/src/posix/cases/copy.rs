//! Copies that the kernel makes.

use super::{fails, pattern};
use crate::posix::Place;
use rustix::fs::{OFlags, copy_file_range, sendfile};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

cases!("copy":
    a_whole_file_is_copied,
    a_part_is_copied,
    a_copy_ends_with_its_source,
    a_copy_within_a_file,
    a_copy_onto_itself_is_einval,
    a_copy_needs_a_reader_and_a_writer,
    sendfile_copies,
);

fn pair(p: &Place, content: &[u8]) -> (OwnedFd, OwnedFd) {
    p.write("from", content);
    let from = p.open("from", OFlags::RDWR).unwrap();
    (from, p.create("to", OFlags::RDWR, 0o644).unwrap())
}

/// Until nothing is left; a copy may be cut short anywhere.
fn copy(from: &OwnedFd, mut at: u64, to: &OwnedFd, mut to_at: u64, len: usize) -> usize {
    let mut done = 0;
    while done < len {
        match copy_file_range(from, Some(&mut at), to, Some(&mut to_at), len - done) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(errno) => panic!("copying: {errno}"),
        }
    }
    done
}

fn a_whole_file_is_copied(p: &Place) {
    let content = pattern(3_000_001);
    let (from, to) = pair(p, &content);
    assert_eq!(copy(&from, 0, &to, 0, content.len()), content.len());
    assert!(p.read("to") == content);
}

fn a_part_is_copied(p: &Place) {
    let content = pattern(20_000);
    let (from, to) = pair(p, &content);
    assert_eq!(copy(&from, 5000, &to, 300, 10_000), 10_000);
    let copied = p.read("to");
    assert_eq!(copied.len(), 10_300);
    assert!(copied[..300].iter().all(|byte| *byte == 0));
    assert!(copied[300..] == content[5000..15_000]);
}

fn a_copy_ends_with_its_source(p: &Place) {
    let (from, to) = pair(p, b"content");
    assert_eq!(copy(&from, 3, &to, 0, 100), 4);
    assert_eq!(copy(&from, 100, &to, 0, 100), 0);
    assert_eq!(p.read("to"), b"tent");
}

fn a_copy_within_a_file(p: &Place) {
    let content = pattern(20_000);
    let (file, _) = pair(p, &content);
    assert_eq!(copy(&file, 0, &file, 20_000, 5000), 5000);
    let copied = p.read("from");
    assert!(copied[..20_000] == content && copied[20_000..] == content[..5000]);
}

fn a_copy_onto_itself_is_einval(p: &Place) {
    let (file, _) = pair(p, &pattern(10_000));
    let outcome = copy_file_range(&file, Some(&mut 0), &file, Some(&mut 100), 5000);
    fails(outcome, Errno::INVAL);
}

fn a_copy_needs_a_reader_and_a_writer(p: &Place) {
    p.write("from", "content");
    let reader = p.open("from", OFlags::RDONLY).unwrap();
    let writer = p.create("to", OFlags::WRONLY, 0o644).unwrap();
    fails(
        copy_file_range(&reader, None, &reader, None, 1),
        Errno::BADF,
    );
    fails(
        copy_file_range(&writer, None, &writer, None, 1),
        Errno::BADF,
    );
    assert_eq!(copy_file_range(&reader, None, &writer, None, 7), Ok(7));
}

fn sendfile_copies(p: &Place) {
    let content = pattern(100_000);
    let (from, to) = pair(p, &content);
    let mut at = 0;
    while sendfile(&to, &from, Some(&mut at), 200_000).unwrap() > 0 {}
    assert!(p.read("to") == content);
}
