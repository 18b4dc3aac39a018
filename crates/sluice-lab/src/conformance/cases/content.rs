//! Reading and writing.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, FallocateMode, OpenFlags, Whence};

pub(super) const CASES: &[Case] = &[
    case!(what_is_written_is_read),
    case!(reading_at_and_beyond_the_end_gives_nothing),
    case!(reading_across_the_end_gives_what_is_there),
    case!(reading_nothing_gives_nothing),
    case!(writing_nothing_changes_nothing),
    case!(writing_beyond_the_end_leaves_zeros),
    case!(overwriting_keeps_the_rest),
    case!(a_megabyte_goes_through),
    case!(odd_offsets_and_lengths),
    case!(every_byte_value_survives),
    case!(reading_at_2_to_the_62_gives_nothing),
    case!(reading_beyond_2_to_the_63_is_einval),
    case!(writing_beyond_2_to_the_63_is_refused),
    case!(the_last_byte_of_the_largest_file, Needs::HUGE_FILES),
    case!(
        one_byte_beyond_the_largest_file_is_refused,
        Needs::HUGE_FILES
    ),
    case!(holes_read_as_zeros),
    case!(holes_take_no_space),
    case!(written_space_is_counted),
    case!(data_and_holes_are_found),
    case!(seeking_at_the_end_is_enxio),
    case!(a_file_of_holes_has_no_data),
    case!(truncate_shrinks),
    case!(truncate_grows_with_zeros),
    case!(truncate_to_nothing_and_back_reads_zeros),
    case!(truncate_of_a_directory_is_eisdir),
    case!(truncate_of_a_symlink_is_refused),
    case!(truncate_beyond_2_to_the_63_is_refused),
    case!(truncate_through_a_handle),
    case!(concurrent_writers_of_different_pages),
    case!(space_runs_out, Needs::SMALL_TREE),
];

fn what_is_written_is_read(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    assert_eq!(c.write(file, 0, b"hello"), Ok(5));
    assert_eq!(c.read(file, 0, 5).unwrap(), b"hello");
    assert_eq!(c.read(file, 1, 3).unwrap(), b"ell");
    assert_eq!(c.getattr(file.node).unwrap().size, 5);
}

fn reading_at_and_beyond_the_end_gives_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    for offset in [3, 4, 4096, 1 << 40] {
        assert_eq!(c.read(file, offset, 10).unwrap(), b"", "at {offset}");
    }
}

fn reading_across_the_end_gives_what_is_there(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    assert_eq!(c.read(file, 2, 1 << 20).unwrap(), b"c");
}

fn reading_nothing_gives_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    assert_eq!(c.read(file, 0, 0).unwrap(), b"");
}

fn writing_nothing_changes_nothing(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    assert_eq!(c.write(file, 100, b""), Ok(0));
    assert_eq!(c.getattr(file.node).unwrap().size, 0);
}

fn writing_beyond_the_end_leaves_zeros(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"a").unwrap();
    c.write(file, 5, b"b").unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"a\0\0\0\0b");
}

fn overwriting_keeps_the_rest(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123456789");
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    c.write(file, 3, b"xyz").unwrap();
    assert_eq!(c.content(node), b"012xyz6789");
}

fn a_megabyte_goes_through(w: &World) {
    let c = w.client();
    let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at * 7 / 3) as u8).collect();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let mut done = 0;
    while done < bytes.len() {
        done += c.write(file, done as u64, &bytes[done..]).unwrap();
    }
    assert_eq!(c.getattr(file.node).unwrap().size, 1 << 20);
    let mut back = Vec::new();
    while back.len() < bytes.len() {
        let more = c.read(file, back.len() as u64, 1 << 20).unwrap();
        assert!(!more.is_empty(), "the end came at {}", back.len());
        back.extend(more);
    }
    assert!(back == bytes, "a megabyte came back changed");
}

fn odd_offsets_and_lengths(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let mut expected = vec![0; 20_000];
    for (at, len, byte) in [
        (4095, 2, b'a'),
        (0, 1, b'b'),
        (8191, 4098, b'c'),
        (511, 3585, b'd'),
        (19_999, 1, b'e'),
    ] {
        assert_eq!(c.write(file, at, &vec![byte; len]), Ok(len));
        expected[at as usize..at as usize + len].fill(byte);
    }
    for (at, len) in [
        (0, 20_000),
        (4094, 4),
        (8190, 3),
        (12_288, 4096),
        (1, 19_998),
    ] {
        let want = &expected[at..at + len];
        assert!(
            c.read(file, at as u64, len).unwrap() == want,
            "{len} at {at}"
        );
    }
}

fn every_byte_value_survives(w: &World) {
    let c = w.client();
    let bytes: Vec<u8> = (0..=255).collect();
    let node = c.file(ROOT, "f", &bytes);
    assert_eq!(c.content(node), bytes);
}

fn reading_at_2_to_the_62_gives_nothing(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let read = c.read(file, 1 << 62, 10);
    // Beyond what the file system can hold some say EINVAL.
    assert!(
        matches!(&read, Ok(bytes) if bytes.is_empty()) || read == Err(Errno::EINVAL),
        "{read:?}"
    );
}

fn reading_beyond_2_to_the_63_is_einval(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fails(c.read(file, 1 << 63, 10), Errno::EINVAL);
    fails(c.read(file, u64::MAX, 1), Errno::EINVAL);
    fails(c.read(file, i64::MAX as u64, 10), Errno::EINVAL);
}

fn writing_beyond_2_to_the_63_is_refused(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for offset in [1 << 63, u64::MAX, i64::MAX as u64] {
        fails_with_one(c.write(file, offset, b"x"), &[Errno::EINVAL, Errno::EFBIG]);
    }
    assert_eq!(c.getattr(file.node).unwrap().size, 0);
}

fn the_last_byte_of_the_largest_file(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let last = i64::MAX as u64 - 1;
    assert_eq!(c.write(file, last, b"z"), Ok(1));
    assert_eq!(c.getattr(file.node).unwrap().size, i64::MAX as u64);
    assert_eq!(c.read(file, last, 1).unwrap(), b"z");
    c.truncate(file.node, 1).unwrap();
    assert_eq!(c.content(file.node), b"\0");
}

fn one_byte_beyond_the_largest_file_is_refused(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let last = i64::MAX as u64 - 1;
    fails_with_one(c.write(file, last, b"xy"), &[Errno::EINVAL, Errno::EFBIG]);
    c.truncate(file.node, i64::MAX as u64).unwrap();
    fails(c.truncate(file.node, 1 << 63), Errno::EINVAL);
}

fn holes_read_as_zeros(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 1 << 20, b"end").unwrap();
    assert_eq!(c.read(file, 500_000, 5000).unwrap(), vec![0; 5000]);
    assert_eq!(c.read(file, (1 << 20) - 2, 10).unwrap(), b"\0\0end");
}

fn holes_take_no_space(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.truncate(file.node, 1 << 30).unwrap();
    let attr = c.getattr(file.node).unwrap();
    assert_eq!(attr.size, 1 << 30);
    assert!(attr.blocks < 1000, "{} blocks", attr.blocks);
}

fn written_space_is_counted(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", &[7; 100_000]);
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    c.fsync(file, false).unwrap();
    let blocks = c.getattr(node).unwrap().blocks;
    assert!((195..1000).contains(&blocks), "{blocks} blocks");
}

fn data_and_holes_are_found(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    // Large enough steps for any block size.
    let step = 1 << 20;
    c.write(file, step, &[1; 4096]).unwrap();
    c.truncate(file.node, 2 * step).unwrap();
    assert_eq!(c.lseek(file, 0, Whence::Data), Ok(step));
    assert_eq!(c.lseek(file, step + 10, Whence::Data), Ok(step + 10));
    assert_eq!(c.lseek(file, 0, Whence::Hole), Ok(0));
    let hole = c.lseek(file, step, Whence::Hole).unwrap();
    assert!(hole >= step + 4096 && hole <= 2 * step, "hole at {hole}");
    fails(c.lseek(file, hole, Whence::Data), Errno::ENXIO);
    assert_eq!(c.lseek(file, 0, Whence::End), Ok(2 * step));
    let back = (-5i64).cast_unsigned();
    assert_eq!(c.lseek(file, back, Whence::End), Ok(2 * step - 5));
}

fn seeking_at_the_end_is_enxio(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"abc");
    let file = c.open(node, OpenFlags::READ).unwrap();
    assert_eq!(c.lseek(file, 0, Whence::Data), Ok(0));
    assert_eq!(c.lseek(file, 2, Whence::Hole), Ok(3));
    for offset in [3, 4, 1 << 40] {
        fails(c.lseek(file, offset, Whence::Data), Errno::ENXIO);
        fails(c.lseek(file, offset, Whence::Hole), Errno::ENXIO);
    }
}

fn a_file_of_holes_has_no_data(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.truncate(file.node, 1 << 20).unwrap();
    fails(c.lseek(file, 0, Whence::Data), Errno::ENXIO);
    assert_eq!(c.lseek(file, 5, Whence::Hole), Ok(5));
}

fn truncate_shrinks(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123456789");
    assert_eq!(c.truncate(node, 4).unwrap().size, 4);
    assert_eq!(c.content(node), b"0123");
}

fn truncate_grows_with_zeros(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"01");
    assert_eq!(c.truncate(node, 5).unwrap().size, 5);
    assert_eq!(c.content(node), b"01\0\0\0");
}

fn truncate_to_nothing_and_back_reads_zeros(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", &[7; 10_000]);
    c.truncate(node, 5000).unwrap();
    c.truncate(node, 10_000).unwrap();
    let content = c.content(node);
    assert_eq!(&content[..5000], [7; 5000]);
    assert_eq!(&content[5000..], [0; 5000]);
}

fn truncate_of_a_directory_is_eisdir(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fails(c.truncate(dir, 0), Errno::EISDIR);
}

fn truncate_of_a_symlink_is_refused(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"kept");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    fails_with_one(c.truncate(link, 0), &[Errno::EINVAL, Errno::ELOOP]);
    let file = c.lookup(ROOT, "f").unwrap().node;
    assert_eq!(c.content(file), b"kept");
}

fn truncate_beyond_2_to_the_63_is_refused(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"kept");
    fails_with_one(c.truncate(node, 1 << 63), &[Errno::EINVAL, Errno::EFBIG]);
    fails_with_one(c.truncate(node, u64::MAX), &[Errno::EINVAL, Errno::EFBIG]);
    assert_eq!(c.content(node), b"kept");
}

fn truncate_through_a_handle(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123456789");
    let file = c.open(node, OpenFlags::WRITE).unwrap();
    let changes = sluice_vfs::SetAttr {
        size: Some(3),
        ..Default::default()
    };
    assert_eq!(c.fsetattr(file, changes).unwrap().size, 3);
    assert_eq!(c.content(node), b"012");
}

fn concurrent_writers_of_different_pages(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let writers: Vec<_> = (0..4u8)
        .map(|index| {
            let c = c.clone();
            std::thread::spawn(move || {
                let file = c.open(node, OpenFlags::WRITE).unwrap();
                for page in 0..16u64 {
                    let at = (page * 4 + u64::from(index)) * 4096;
                    assert_eq!(c.write(file, at, &[index; 4096]), Ok(4096));
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("the writer succeeds");
    }
    let content = c.content(node);
    assert_eq!(content.len(), 64 * 4096);
    for (at, page) in content.chunks(4096).enumerate() {
        assert!(page.iter().all(|byte| *byte == (at % 4) as u8), "page {at}");
    }
}

fn space_runs_out(w: &World) {
    let c = w.client();
    let statfs = c.statfs(ROOT).unwrap();
    let free = statfs.bavail * u64::from(statfs.frsize);
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let chunk = vec![1; 1 << 16];
    let mut at = 0;
    let error = loop {
        match c.write(file, at, &chunk) {
            Ok(written) => at += written as u64,
            Err(error) => break error,
        }
        assert!(at <= free, "more was written than there is room for");
    };
    assert_eq!(error, Errno::ENOSPC);
    assert_eq!(c.getattr(file.node).unwrap().size, at);
    fails(
        c.fallocate(file, FallocateMode::empty(), at..at + free),
        Errno::ENOSPC,
    );
    // What was there can still be read, changed and given back.
    assert_eq!(c.read(file, 0, 4).unwrap(), [1; 4]);
    assert_eq!(c.write(file, 0, b"x"), Ok(1));
    c.truncate(file.node, 0).unwrap();
    assert_eq!(c.write(file, 0, &chunk), Ok(chunk.len()));
}
