//! What is in files.

use super::{fails, pattern};
use crate::posix::Place;
use rustix::fs::{OFlags, SeekFrom, fdatasync, fstat, fsync, ftruncate, seek};
use rustix::io::{Errno, pread, preadv, pwrite, pwritev, read, write};
use std::io::{IoSlice, IoSliceMut};
use std::thread;

cases!("content":
    what_was_written_is_read,
    every_size_around_a_page_is_kept,
    a_large_file_is_kept,
    holes_read_as_zeros,
    reading_behind_the_end_gives_nothing,
    writing_nothing_changes_nothing,
    a_write_in_the_middle_leaves_the_rest,
    vectors_are_written_and_read_in_order,
    appending_goes_to_the_end,
    appending_ignores_offsets,
    two_appenders_share_the_end,
    threads_append_without_loss,
    truncation_cuts,
    truncation_extends_with_zeros,
    what_was_cut_does_not_come_back,
    truncation_of_a_path_reaches_open_descriptors,
    descriptors_see_each_others_writes,
    duplicates_share_an_offset,
    a_reader_cannot_write,
    a_writer_cannot_read,
    directories_cannot_be_read,
    truncation_needs_a_writer,
    a_negative_length_is_einval,
    a_terabyte_offset_is_kept [LargeFiles],
    seeking_knows_the_end,
    syncing_succeeds,
    synchronous_writes_are_read_back,
    direct_io_reads_and_writes [Direct],
    direct_and_buffered_io_agree [Direct],
    random_writes_match_a_buffer,
);

fn what_was_written_is_read(p: &Place) {
    p.write("f", "content");
    assert_eq!(p.read("f"), b"content");
    assert_eq!(p.stat("f").unwrap().st_size, 7);
    p.write("f", "new");
    assert_eq!(p.read("f"), b"new");
}

fn every_size_around_a_page_is_kept(p: &Place) {
    for size in [1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 131_073] {
        p.write("f", pattern(size));
        assert!(p.read("f") == pattern(size), "{size} bytes");
    }
}

fn a_large_file_is_kept(p: &Place) {
    let content = pattern(9_000_001);
    p.write("f", &content);
    assert_eq!(p.stat("f").unwrap().st_size, 9_000_001);
    assert!(p.read("f") == content);
}

fn holes_read_as_zeros(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    assert_eq!(pwrite(&file, b"end", 100_000), Ok(3));
    let content = p.read("f");
    assert_eq!(content.len(), 100_003);
    assert!(content[..100_000].iter().all(|byte| *byte == 0));
    assert_eq!(&content[100_000..], b"end");
}

fn reading_behind_the_end_gives_nothing(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDONLY).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(pread(&file, &mut buffer, 3), Ok(4));
    assert_eq!(pread(&file, &mut buffer, 7), Ok(0));
    assert_eq!(pread(&file, &mut buffer, 1 << 40), Ok(0));
}

fn writing_nothing_changes_nothing(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::WRONLY).unwrap();
    assert_eq!(pwrite(&file, b"", 100), Ok(0));
    assert_eq!(p.stat("f").unwrap().st_size, 7);
}

fn a_write_in_the_middle_leaves_the_rest(p: &Place) {
    let mut content = pattern(20_000);
    p.write("f", &content);
    let file = p.open("f", OFlags::WRONLY).unwrap();
    assert_eq!(pwrite(&file, &[0xaa; 5000], 7001), Ok(5000));
    content[7001..12_001].fill(0xaa);
    assert!(p.read("f") == content);
}

fn vectors_are_written_and_read_in_order(p: &Place) {
    let content = pattern(32 * 1000);
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    let pieces: Vec<_> = content.chunks(1000).map(IoSlice::new).collect();
    assert_eq!(pwritev(&file, &pieces, 10), Ok(content.len()));
    let mut back = vec![0; content.len()];
    let mut pieces: Vec<_> = back.chunks_mut(999).map(IoSliceMut::new).collect();
    assert_eq!(preadv(&file, &mut pieces, 10), Ok(content.len()));
    assert!(back == content);
}

fn appending_goes_to_the_end(p: &Place) {
    p.write("f", "one ");
    let file = p.open("f", OFlags::WRONLY | OFlags::APPEND).unwrap();
    write(&file, b"two ").unwrap();
    seek(&file, SeekFrom::Start(0)).unwrap();
    write(&file, b"three").unwrap();
    assert_eq!(p.read("f"), b"one two three");
}

/// pwrite(2), "Bugs": on Linux it appends whatever the offset.
fn appending_ignores_offsets(p: &Place) {
    p.write("f", "one ");
    let file = p.open("f", OFlags::WRONLY | OFlags::APPEND).unwrap();
    assert_eq!(pwrite(&file, b"two", 0), Ok(3));
    assert_eq!(p.read("f"), b"one two");
}

fn two_appenders_share_the_end(p: &Place) {
    p.write("f", "");
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let (one, two) = (p.open("f", flags).unwrap(), p.open("f", flags).unwrap());
    for (file, text) in [(&one, "a"), (&two, "b"), (&one, "c"), (&two, "d")] {
        write(file, text.as_bytes()).unwrap();
    }
    assert_eq!(p.read("f"), b"abcd");
}

fn threads_append_without_loss(p: &Place) {
    const ROUNDS: usize = 200;
    p.write("f", "");
    thread::scope(|scope| {
        for letter in *b"abcd" {
            scope.spawn(move || {
                let file = p.open("f", OFlags::WRONLY | OFlags::APPEND).unwrap();
                for _ in 0..ROUNDS {
                    assert_eq!(write(&file, &[letter; 10]), Ok(10));
                }
            });
        }
    });
    let content = p.read("f");
    assert_eq!(content.len(), 4 * 10 * ROUNDS);
    for letter in *b"abcd" {
        let records = content.chunks(10).filter(|record| **record == [letter; 10]);
        assert_eq!(records.count(), ROUNDS);
    }
}

fn truncation_cuts(p: &Place) {
    let content = pattern(10_000);
    p.write("f", &content);
    let file = p.open("f", OFlags::RDWR).unwrap();
    for len in [9999, 4097, 4096, 1, 0] {
        ftruncate(&file, len).unwrap();
        assert_eq!(fstat(&file).unwrap().st_size, len as i64);
        assert!(p.read("f") == content[..len as usize]);
    }
}

fn truncation_extends_with_zeros(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDWR).unwrap();
    ftruncate(&file, 10_000).unwrap();
    let content = p.read("f");
    assert_eq!((content.len(), &content[..7]), (10_000, &b"content"[..]));
    assert!(content[7..].iter().all(|byte| *byte == 0));
}

fn what_was_cut_does_not_come_back(p: &Place) {
    p.write("f", pattern(9000));
    let file = p.open("f", OFlags::RDWR).unwrap();
    ftruncate(&file, 100).unwrap();
    pwrite(&file, b"x", 8999).unwrap();
    let content = p.read("f");
    assert!(content[..100] == pattern(100));
    assert!(content[100..8999].iter().all(|byte| *byte == 0));
}

fn truncation_of_a_path_reaches_open_descriptors(p: &Place) {
    p.write("f", pattern(9000));
    let file = p.open("f", OFlags::RDONLY).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(pread(&file, &mut buffer, 8000), Ok(100));
    p.create("f", OFlags::WRONLY, 0o644).unwrap();
    assert_eq!(pread(&file, &mut buffer, 8000), Ok(0));
    assert_eq!(fstat(&file).unwrap().st_size, 0);
}

fn descriptors_see_each_others_writes(p: &Place) {
    p.write("f", "");
    let (one, two) = (
        p.open("f", OFlags::RDWR).unwrap(),
        p.open("f", OFlags::RDWR).unwrap(),
    );
    let mut buffer = [0; 8];
    for (round, (from, to)) in [(&one, &two), (&two, &one)]
        .into_iter()
        .cycle()
        .take(10)
        .enumerate()
    {
        let text = format!("round {round:02}");
        pwrite(from, text.as_bytes(), 0).unwrap();
        assert_eq!(pread(to, &mut buffer, 0), Ok(8));
        assert_eq!(buffer, text.as_bytes());
    }
}

fn duplicates_share_an_offset(p: &Place) {
    p.write("f", "abcdef");
    let one = p.open("f", OFlags::RDONLY).unwrap();
    let two = one.try_clone().unwrap();
    let mut buffer = [0; 2];
    for (file, expected) in [(&one, b"ab"), (&two, b"cd"), (&one, b"ef")] {
        assert_eq!(read(file, &mut buffer), Ok(2));
        assert_eq!(&buffer, expected);
    }
}

fn a_reader_cannot_write(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDONLY).unwrap();
    fails(write(&file, b"x"), Errno::BADF);
    assert_eq!(p.read("f"), b"content");
}

fn a_writer_cannot_read(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::WRONLY).unwrap();
    fails(read(&file, &mut [0; 4]), Errno::BADF);
}

fn directories_cannot_be_read(p: &Place) {
    let dir = p.open(".", OFlags::RDONLY).unwrap();
    fails(read(&dir, &mut [0; 4]), Errno::ISDIR);
}

fn truncation_needs_a_writer(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDONLY).unwrap();
    fails(ftruncate(&file, 0), Errno::INVAL);
    assert_eq!(p.read("f"), b"content");
}

fn a_negative_length_is_einval(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fails(ftruncate(&file, u64::MAX), Errno::INVAL);
    fails(pread(&file, &mut [0; 4], u64::MAX), Errno::INVAL);
    fails(pwrite(&file, b"x", 1 << 63), Errno::INVAL);
}

fn a_terabyte_offset_is_kept(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    assert_eq!(pwrite(&file, b"far", 1 << 40), Ok(3));
    assert_eq!(fstat(&file).unwrap().st_size, (1 << 40) + 3);
    let mut buffer = [1; 5];
    assert_eq!(pread(&file, &mut buffer, (1 << 40) - 2), Ok(5));
    assert_eq!(&buffer, b"\0\0far");
}

fn seeking_knows_the_end(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDWR).unwrap();
    assert_eq!(seek(&file, SeekFrom::End(0)), Ok(7));
    assert_eq!(seek(&file, SeekFrom::End(-2)), Ok(5));
    assert_eq!(seek(&file, SeekFrom::Current(1)), Ok(6));
    fails(seek(&file, SeekFrom::Current(-7)), Errno::INVAL);
    p.open("f", OFlags::WRONLY | OFlags::APPEND)
        .map(|file| write(&file, b"more"))
        .unwrap()
        .unwrap();
    assert_eq!(seek(&file, SeekFrom::End(0)), Ok(11));
}

fn syncing_succeeds(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    write(&file, b"content").unwrap();
    fdatasync(&file).unwrap();
    fsync(&file).unwrap();
    fsync(p.open("f", OFlags::RDONLY).unwrap()).unwrap();
    fsync(p.open(".", OFlags::RDONLY).unwrap()).unwrap();
    rustix::fs::syncfs(&file).unwrap();
    assert_eq!(p.read("f"), b"content");
}

fn synchronous_writes_are_read_back(p: &Place) {
    for flags in [OFlags::SYNC, OFlags::DSYNC] {
        let file = p.create("f", OFlags::WRONLY | flags, 0o644).unwrap();
        assert_eq!(write(&file, b"content"), Ok(7));
        assert_eq!(p.read("f"), b"content");
    }
}

const BLOCK: usize = 4096;

/// Blocks in memory as direct I/O wants them.
#[repr(align(4096))]
struct Blocks([u8; 4 * BLOCK]);

fn direct_io_reads_and_writes(p: &Place) {
    let mut blocks = Blocks([0; 4 * BLOCK]);
    blocks.0.copy_from_slice(&pattern(4 * BLOCK));
    let file = p.create("f", OFlags::RDWR | OFlags::DIRECT, 0o644).unwrap();
    assert_eq!(pwrite(&file, &blocks.0, BLOCK as u64), Ok(4 * BLOCK));
    blocks.0.fill(0);
    assert_eq!(pread(&file, &mut blocks.0, BLOCK as u64), Ok(4 * BLOCK));
    assert!(blocks.0 == *pattern(4 * BLOCK));
    assert_eq!(pread(&file, &mut blocks.0, 4 * BLOCK as u64), Ok(BLOCK));
    assert_eq!(pread(&file, &mut blocks.0, 5 * BLOCK as u64), Ok(0));
}

fn direct_and_buffered_io_agree(p: &Place) {
    let mut blocks = Blocks([1; 4 * BLOCK]);
    p.write("f", blocks.0);
    let buffered = p.open("f", OFlags::RDWR).unwrap();
    let direct = p.open("f", OFlags::RDWR | OFlags::DIRECT).unwrap();
    let mut byte = [0];
    assert_eq!(pread(&buffered, &mut byte, 5000), Ok(1));
    blocks.0.fill(2);
    assert_eq!(pwrite(&direct, &blocks.0[..BLOCK], BLOCK as u64), Ok(BLOCK));
    assert_eq!(pread(&buffered, &mut byte, 5000), Ok(1));
    assert_eq!(byte, [2]);
    assert_eq!(pwrite(&buffered, &[3], 5000), Ok(1));
    assert_eq!(pread(&direct, &mut blocks.0, 0), Ok(4 * BLOCK));
    assert_eq!((blocks.0[4999], blocks.0[5000], blocks.0[5001]), (2, 3, 2));
}

fn random_writes_match_a_buffer(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    let mut expected: Vec<u8> = Vec::new();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below) as usize
    };
    for round in 0..400 {
        let (at, len) = (next(150_000), 1 + next(20_000));
        match next(8) {
            0 => {
                ftruncate(&file, at as u64).unwrap();
                expected.resize(at, 0);
            }
            1..4 => {
                let mut got = vec![0; len];
                let count = pread(&file, &mut got, at as u64).unwrap();
                let start = at.min(expected.len());
                let end = (at + len).min(expected.len());
                assert!(got[..count] == expected[start..end], "round {round}");
            }
            _ => {
                let data = vec![round as u8 | 1; len];
                assert_eq!(pwrite(&file, &data, at as u64), Ok(len));
                expected.resize(expected.len().max(at + len), 0);
                expected[at..at + len].copy_from_slice(&data);
            }
        }
    }
    assert!(p.read("f") == expected);
}
