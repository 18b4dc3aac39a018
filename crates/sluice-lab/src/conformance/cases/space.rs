//! Allocating, freeing and moving space; finding data and holes.

use crate::conformance::client::{ROOT, fails, fails_with_one};
use crate::conformance::{Case, Client, File, Needs, World};
use sluice_vfs::{Errno, FallocateMode, OpenFlags, Whence};

const ZERO: Needs = Needs::ZERO_RANGE;
const SHIFT: Needs = Needs::SHIFT_RANGE;

pub(super) const CASES: &[Case] = &[
    case!(allocating_grows_the_file),
    case!(allocating_takes_space),
    case!(allocated_space_reads_as_zeros),
    case!(allocating_keeps_what_is_there),
    case!(allocating_may_keep_the_size),
    case!(allocating_inside_keeps_the_size),
    case!(allocating_nothing_is_einval),
    case!(allocating_beyond_2_to_the_63_is_efbig),
    case!(allocating_needs_a_handle_that_writes),
    case!(punching_zeros_a_range),
    case!(punching_frees_space),
    case!(punching_keeps_the_size),
    case!(punching_beyond_the_end_changes_nothing),
    case!(punching_across_the_end_keeps_the_size),
    case!(punching_without_keeping_the_size_is_refused),
    case!(unknown_combinations_are_refused),
    case!(zeroing_zeros_a_range, ZERO),
    case!(zeroing_grows_the_file, ZERO),
    case!(zeroing_may_keep_the_size, ZERO),
    case!(collapsing_cuts_a_range_out, SHIFT),
    case!(collapsing_the_end_is_einval, SHIFT),
    case!(collapsing_odd_ranges_is_einval, SHIFT),
    case!(inserting_makes_room, SHIFT),
    case!(inserting_at_the_end_is_einval, SHIFT),
    case!(inserting_odd_ranges_is_einval, SHIFT),
    case!(collapsing_undoes_inserting, SHIFT),
    case!(punched_holes_are_found),
    case!(data_behind_a_hole_is_found),
    case!(seeking_from_the_end),
    case!(seeking_needs_no_particular_handle),
];

/// What every file system allocates in multiples of, and shifts by.
const BLOCK: u64 = 65_536;

/// A file of `count` blocks, each filled with its number plus one.
fn blocks(c: &Client, count: u8) -> File {
    let file = c.create(ROOT, "f", 0o644).unwrap();
    for index in 0..count {
        let block = vec![index + 1; BLOCK as usize];
        let written = c.write(file, u64::from(index) * BLOCK, &block);
        assert_eq!(written, Ok(block.len()));
    }
    file
}

/// The first byte of each block.
fn marks(c: &Client, file: File) -> Vec<u8> {
    let size = c.fgetattr(file).unwrap().size;
    (0..size.div_ceil(BLOCK))
        .flat_map(|index| c.read(file, index * BLOCK, 1).unwrap())
        .collect()
}

fn allocating_grows_the_file(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.fallocate(file, FallocateMode::empty(), 0..10_000)
        .unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 10_000);
}

fn allocating_takes_space(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.fallocate(file, FallocateMode::empty(), 0..BLOCK).unwrap();
    let attr = c.getattr(file.node).unwrap();
    assert!(attr.blocks * 512 >= BLOCK, "{} blocks", attr.blocks);
}

fn allocated_space_reads_as_zeros(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.fallocate(file, FallocateMode::empty(), 100..5000)
        .unwrap();
    assert_eq!(c.read(file, 0, 10_000).unwrap(), vec![0; 5000]);
}

fn allocating_keeps_what_is_there(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    c.fallocate(file, FallocateMode::empty(), 0..3 * BLOCK)
        .unwrap();
    assert_eq!(marks(&c, file), [1, 2, 0]);
}

fn allocating_may_keep_the_size(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"abc").unwrap();
    c.fallocate(file, FallocateMode::KEEP_SIZE, 0..BLOCK)
        .unwrap();
    let attr = c.getattr(file.node).unwrap();
    assert_eq!(attr.size, 3);
    assert!(attr.blocks * 512 >= BLOCK, "{} blocks", attr.blocks);
    assert_eq!(c.read(file, 0, 10).unwrap(), b"abc");
}

fn allocating_inside_keeps_the_size(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    c.fallocate(file, FallocateMode::empty(), 10..20).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 2 * BLOCK);
}

fn allocating_nothing_is_einval(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    let outcome = c.fallocate(file, FallocateMode::empty(), 10..10);
    fails(outcome, Errno::EINVAL);
}

fn allocating_beyond_2_to_the_63_is_efbig(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    let end = 1 << 63;
    let outcome = c.fallocate(file, FallocateMode::empty(), end - 10..end);
    fails_with_one(outcome, &[Errno::EFBIG, Errno::EINVAL]);
    let outcome = c.fallocate(file, FallocateMode::empty(), u64::MAX - 10..u64::MAX);
    fails_with_one(outcome, &[Errno::EFBIG, Errno::EINVAL]);
    assert_eq!(c.getattr(file.node).unwrap().size, BLOCK);
}

fn allocating_needs_a_handle_that_writes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let file = c.open(node, OpenFlags::READ).unwrap();
    let outcome = c.fallocate(file, FallocateMode::empty(), 0..10);
    fails(outcome, Errno::EBADF);
    let dir = c.opendir(ROOT).unwrap();
    let outcome = c.fallocate(dir, FallocateMode::empty(), 0..10);
    fails_with_one(outcome, &[Errno::EBADF, Errno::EISDIR]);
}

const PUNCH: FallocateMode = FallocateMode::PUNCH_HOLE.union(FallocateMode::KEEP_SIZE);

fn punching_zeros_a_range(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"0123456789").unwrap();
    c.fallocate(file, PUNCH, 3..6).unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"012\0\0\x006789");
}

fn punching_frees_space(w: &World) {
    let c = w.client();
    let file = blocks(&c, 4);
    c.fsync(file, false).unwrap();
    let before = c.getattr(file.node).unwrap().blocks;
    c.fallocate(file, PUNCH, BLOCK..3 * BLOCK).unwrap();
    let after = c.getattr(file.node).unwrap().blocks;
    assert!(after < before, "{after} of {before} blocks are left");
    assert_eq!(marks(&c, file), [1, 0, 0, 4]);
}

fn punching_keeps_the_size(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    c.fallocate(file, PUNCH, 0..2 * BLOCK).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 2 * BLOCK);
    assert_eq!(marks(&c, file), [0, 0]);
}

fn punching_beyond_the_end_changes_nothing(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    c.fallocate(file, PUNCH, 2 * BLOCK..3 * BLOCK).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, BLOCK);
    assert_eq!(marks(&c, file), [1]);
}

fn punching_across_the_end_keeps_the_size(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    c.fallocate(file, PUNCH, BLOCK..9 * BLOCK).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 2 * BLOCK);
    assert_eq!(marks(&c, file), [1, 0]);
}

fn punching_without_keeping_the_size_is_refused(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    let outcome = c.fallocate(file, FallocateMode::PUNCH_HOLE, 0..BLOCK);
    fails_with_one(outcome, &[Errno::EOPNOTSUPP, Errno::EINVAL]);
    assert_eq!(marks(&c, file), [1]);
}

fn unknown_combinations_are_refused(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    type M = FallocateMode;
    for mode in [
        M::COLLAPSE_RANGE | M::KEEP_SIZE,
        M::INSERT_RANGE | M::ZERO_RANGE,
        M::PUNCH_HOLE | M::ZERO_RANGE | M::KEEP_SIZE,
    ] {
        let outcome = c.fallocate(file, mode, 0..BLOCK);
        fails_with_one(outcome, &[Errno::EOPNOTSUPP, Errno::EINVAL]);
    }
    assert_eq!(marks(&c, file), [1, 2]);
}

fn zeroing_zeros_a_range(w: &World) {
    let c = w.client();
    let file = blocks(&c, 3);
    c.fallocate(file, FallocateMode::ZERO_RANGE, BLOCK..2 * BLOCK)
        .unwrap();
    assert_eq!(marks(&c, file), [1, 0, 3]);
    c.fallocate(file, FallocateMode::ZERO_RANGE, 1..3).unwrap();
    assert_eq!(c.read(file, 0, 4).unwrap(), [1, 0, 0, 1]);
}

fn zeroing_grows_the_file(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    c.fallocate(file, FallocateMode::ZERO_RANGE, 10..2 * BLOCK)
        .unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 2 * BLOCK);
    assert_eq!(c.read(file, 9, 2).unwrap(), [1, 0]);
}

fn zeroing_may_keep_the_size(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    let mode = FallocateMode::ZERO_RANGE | FallocateMode::KEEP_SIZE;
    c.fallocate(file, mode, 10..2 * BLOCK).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, BLOCK);
    assert_eq!(c.read(file, 9, 2).unwrap(), [1, 0]);
}

fn collapsing_cuts_a_range_out(w: &World) {
    let c = w.client();
    let file = blocks(&c, 4);
    c.fallocate(file, FallocateMode::COLLAPSE_RANGE, BLOCK..3 * BLOCK)
        .unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 2 * BLOCK);
    assert_eq!(marks(&c, file), [1, 4]);
}

fn collapsing_the_end_is_einval(w: &World) {
    let c = w.client();
    let file = blocks(&c, 2);
    for range in [BLOCK..2 * BLOCK, BLOCK..3 * BLOCK, 4 * BLOCK..5 * BLOCK] {
        let outcome = c.fallocate(file, FallocateMode::COLLAPSE_RANGE, range);
        fails(outcome, Errno::EINVAL);
    }
    assert_eq!(marks(&c, file), [1, 2]);
}

fn collapsing_odd_ranges_is_einval(w: &World) {
    let c = w.client();
    let file = blocks(&c, 3);
    for range in [1..BLOCK, 0..BLOCK - 1, 10..BLOCK + 10] {
        let outcome = c.fallocate(file, FallocateMode::COLLAPSE_RANGE, range);
        fails(outcome, Errno::EINVAL);
    }
}

fn inserting_makes_room(w: &World) {
    let c = w.client();
    let file = blocks(&c, 3);
    c.fallocate(file, FallocateMode::INSERT_RANGE, BLOCK..3 * BLOCK)
        .unwrap();
    assert_eq!(c.getattr(file.node).unwrap().size, 5 * BLOCK);
    assert_eq!(marks(&c, file), [1, 0, 0, 2, 3]);
}

fn inserting_at_the_end_is_einval(w: &World) {
    let c = w.client();
    let file = blocks(&c, 1);
    for range in [BLOCK..2 * BLOCK, 5 * BLOCK..6 * BLOCK] {
        let outcome = c.fallocate(file, FallocateMode::INSERT_RANGE, range);
        fails(outcome, Errno::EINVAL);
    }
}

fn inserting_odd_ranges_is_einval(w: &World) {
    let c = w.client();
    let file = blocks(&c, 3);
    for range in [1..BLOCK, 0..BLOCK - 1, 10..BLOCK + 10] {
        let outcome = c.fallocate(file, FallocateMode::INSERT_RANGE, range);
        fails(outcome, Errno::EINVAL);
    }
    assert_eq!(marks(&c, file), [1, 2, 3]);
}

fn collapsing_undoes_inserting(w: &World) {
    let c = w.client();
    let file = blocks(&c, 3);
    let range = BLOCK..2 * BLOCK;
    c.fallocate(file, FallocateMode::INSERT_RANGE, range.clone())
        .unwrap();
    c.fallocate(file, FallocateMode::COLLAPSE_RANGE, range)
        .unwrap();
    assert_eq!(marks(&c, file), [1, 2, 3]);
    let tail = c.read(file, 3 * BLOCK - 1, 10).unwrap();
    assert_eq!(tail, [3]);
}

fn punched_holes_are_found(w: &World) {
    let c = w.client();
    let file = blocks(&c, 4);
    c.fallocate(file, PUNCH, BLOCK..2 * BLOCK).unwrap();
    assert_eq!(c.lseek(file, 0, Whence::Hole), Ok(BLOCK));
    assert_eq!(c.lseek(file, BLOCK, Whence::Data), Ok(2 * BLOCK));
    assert_eq!(c.lseek(file, BLOCK + 10, Whence::Hole), Ok(BLOCK + 10));
    assert_eq!(c.lseek(file, 2 * BLOCK, Whence::Hole), Ok(4 * BLOCK));
}

fn data_behind_a_hole_is_found(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 16 * BLOCK, b"data").unwrap();
    assert_eq!(c.lseek(file, 0, Whence::Data), Ok(16 * BLOCK));
    assert_eq!(c.lseek(file, 16 * BLOCK, Whence::Data), Ok(16 * BLOCK));
    assert_eq!(c.lseek(file, 16 * BLOCK, Whence::Hole), Ok(16 * BLOCK + 4));
}

fn seeking_from_the_end(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"0123456789").unwrap();
    assert_eq!(c.lseek(file, 0, Whence::End), Ok(10));
    assert_eq!(c.lseek(file, 5, Whence::End), Ok(15));
    assert_eq!(c.lseek(file, (-4i64).cast_unsigned(), Whence::End), Ok(6));
    let before = (-11i64).cast_unsigned();
    fails(c.lseek(file, before, Whence::End), Errno::EINVAL);
}

fn seeking_needs_no_particular_handle(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"0123456789");
    for flags in [OpenFlags::READ, OpenFlags::WRITE] {
        let file = c.open(node, flags).unwrap();
        assert_eq!(c.lseek(file, 3, Whence::Data), Ok(3));
        assert_eq!(c.lseek(file, 3, Whence::Hole), Ok(10));
        fails(c.lseek(file, 10, Whence::Data), Errno::ENXIO);
    }
}
