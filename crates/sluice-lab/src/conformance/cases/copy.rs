//! Copies within the service (copy_file_range(2)).

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{Errno, HandleId, OpenFlags};

const COPY: Needs = Needs::COPY_RANGE;

pub(super) const CASES: &[Case] = &[
    case!(a_file_is_copied, COPY),
    case!(part_of_a_file_is_copied, COPY),
    case!(a_copy_overwrites_and_keeps_the_rest, COPY),
    case!(a_copy_beyond_the_end_leaves_zeros, COPY),
    case!(copying_from_the_end_gives_nothing, COPY),
    case!(copying_nothing_gives_nothing, COPY),
    case!(three_megabytes_are_copied, COPY),
    case!(holes_are_copied_as_zeros, COPY),
    case!(a_file_is_copied_within_itself, COPY),
    case!(a_copy_ends_where_the_source_ended, COPY),
    case!(a_copy_onto_itself_is_einval, COPY),
    case!(copying_needs_a_handle_that_reads, COPY),
    case!(copying_needs_a_handle_that_writes, COPY),
    case!(copying_to_an_append_handle_is_ebadf, COPY),
    case!(directories_are_not_copied, COPY),
    case!(copying_with_an_unknown_handle_is_ebadf, COPY),
    case!(the_source_is_left_alone, COPY),
    case!(a_cancelled_copy_is_eintr, COPY.union(Needs::CANCEL)),
];

const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

fn two_files(c: &Client, from: &[u8], to: &[u8]) -> (File, File) {
    let (from, to) = (c.file(ROOT, "from", from), c.file(ROOT, "to", to));
    (
        c.open(from, READ_WRITE).unwrap(),
        c.open(to, READ_WRITE).unwrap(),
    )
}

fn a_file_is_copied(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"content", b"");
    assert_eq!(c.copy_range((from, 0), (to, 0), 7), Ok(7));
    assert_eq!(c.content(to.node), b"content");
}

fn part_of_a_file_is_copied(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"0123456789", b"");
    assert_eq!(c.copy_range((from, 3), (to, 0), 4), Ok(4));
    assert_eq!(c.content(to.node), b"3456");
}

fn a_copy_overwrites_and_keeps_the_rest(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"0123456789", b"abcdefghij");
    assert_eq!(c.copy_range((from, 0), (to, 5), 3), Ok(3));
    assert_eq!(c.content(to.node), b"abcde012ij");
}

fn a_copy_beyond_the_end_leaves_zeros(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"x");
    assert_eq!(c.copy_range((from, 0), (to, 4), 3), Ok(3));
    assert_eq!(c.content(to.node), b"x\0\0\0abc");
}

fn copying_from_the_end_gives_nothing(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"kept");
    for offset in [3, 4, 1 << 40] {
        assert_eq!(c.copy_range((from, offset), (to, 0), 10), Ok(0));
    }
    assert_eq!(c.copy_range((from, 2), (to, 0), 10), Ok(1));
    assert_eq!(c.content(to.node), b"cept");
}

fn copying_nothing_gives_nothing(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"kept");
    assert_eq!(c.copy_range((from, 0), (to, 0), 0), Ok(0));
    assert_eq!(c.content(to.node), b"kept");
}

fn three_megabytes_are_copied(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"", b"");
    let bytes: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 253) as u8).collect();
    for (index, chunk) in bytes.chunks(1 << 16).enumerate() {
        let written = c.write(from, (index << 16) as u64, chunk);
        assert_eq!(written, Ok(chunk.len()));
    }
    let mut done = 0;
    while done < bytes.len() {
        let left = (bytes.len() - done) as u64;
        let count = c.copy_range((from, done as u64), (to, done as u64), left);
        let count = count.unwrap();
        assert_ne!(count, 0, "at {done}");
        done += count;
    }
    assert!(c.content(to.node) == bytes);
}

fn holes_are_copied_as_zeros(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"", &[7; 20_000]);
    c.write(from, 10_000, b"data").unwrap();
    assert_eq!(c.copy_range((from, 0), (to, 0), 10_004), Ok(10_004));
    let copied = c.read(to, 9_998, 8).unwrap();
    assert_eq!(copied, b"\0\0data\x07\x07");
    assert_eq!(c.read(to, 0, 10_000).unwrap(), vec![0; 10_000]);
}

fn a_file_is_copied_within_itself(w: &World) {
    let c = w.client();
    let (file, _) = two_files(&c, b"0123456789", b"");
    assert_eq!(c.copy_range((file, 0), (file, 10), 5), Ok(5));
    assert_eq!(c.copy_range((file, 8), (file, 0), 2), Ok(2));
    assert_eq!(c.content(file.node), b"892345678901234");
}

fn a_copy_ends_where_the_source_ended(w: &World) {
    let c = w.client();
    let (file, _) = two_files(&c, b"0123456789", b"");
    assert_eq!(c.copy_range((file, 5), (file, 10), 50), Ok(5));
    assert_eq!(c.content(file.node), b"012345678956789");
}

fn a_copy_onto_itself_is_einval(w: &World) {
    let c = w.client();
    let (file, _) = two_files(&c, b"0123456789", b"");
    for (from, to) in [(0, 0), (0, 4), (4, 0)] {
        let outcome = c.copy_range((file, from), (file, to), 5);
        fails(outcome, Errno::EINVAL);
    }
    assert_eq!(c.content(file.node), b"0123456789");
}

fn copying_needs_a_handle_that_reads(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"");
    let from = c.open(from.node, OpenFlags::WRITE).unwrap();
    fails(c.copy_range((from, 0), (to, 0), 3), Errno::EBADF);
}

fn copying_needs_a_handle_that_writes(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"");
    let to = c.open(to.node, OpenFlags::READ).unwrap();
    fails(c.copy_range((from, 0), (to, 0), 3), Errno::EBADF);
}

fn copying_to_an_append_handle_is_ebadf(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"");
    let to = c
        .open(to.node, OpenFlags::WRITE | OpenFlags::APPEND)
        .unwrap();
    fails(c.copy_range((from, 0), (to, 0), 3), Errno::EBADF);
}

fn directories_are_not_copied(w: &World) {
    let c = w.client();
    let (_, to) = two_files(&c, b"", b"");
    let dir = c.opendir(ROOT).unwrap();
    let outcome = c.copy_range((dir, 0), (to, 0), 3);
    fails_with_one(outcome, &[Errno::EISDIR, Errno::EINVAL]);
}

fn copying_with_an_unknown_handle_is_ebadf(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"abc", b"");
    let unknown = |file| File {
        handle: HandleId(0xdead_beef),
        ..file
    };
    fails(c.copy_range((unknown(from), 0), (to, 0), 3), Errno::EBADF);
    fails(c.copy_range((from, 0), (unknown(to), 0), 3), Errno::EBADF);
}

fn the_source_is_left_alone(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"content", b"");
    let before = c.getattr(from.node).unwrap();
    c.copy_range((from, 0), (to, 0), 7).unwrap();
    let after = c.getattr(from.node).unwrap();
    assert_eq!((after.mtime, after.ctime), (before.mtime, before.ctime));
    assert_eq!(c.content(from.node), b"content");
}

fn a_cancelled_copy_is_eintr(w: &World) {
    let c = w.client();
    let (from, to) = two_files(&c, b"content", b"");
    let outcome = c.copy_range_cancelled((from, 0), (to, 0), 7);
    fails(outcome, Errno::EINTR);
    assert_eq!(c.content(to.node), b"");
}
