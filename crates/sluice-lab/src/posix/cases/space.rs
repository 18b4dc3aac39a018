//! Room for content, and where there is none.

use super::{fails, pattern};
use crate::posix::Place;
use rustix::fs::{
    AtFlags, FallocateFlags, IFlags, OFlags, SeekFrom, StatxFlags, fallocate, fstat, fstatvfs, seek,
};
use rustix::io::{Errno, pwrite};

cases!("space":
    allocation_extends_with_zeros,
    allocation_can_keep_the_size,
    allocation_keeps_content,
    allocation_needs_a_writer,
    an_empty_allocation_is_einval,
    a_punched_hole_reads_as_zeros [PunchHole],
    a_hole_must_keep_the_size [PunchHole],
    a_zeroed_range_reads_as_zeros [ZeroRange],
    data_and_holes_are_found [Holes],
    what_was_just_written_is_no_hole,
    seeking_behind_the_end_is_enxio,
    blocks_are_counted,
    the_file_system_tells_its_size,
    the_file_system_tells_its_longest_name,
    an_append_only_file_only_grows [Root, FileFlags],
    an_immutable_file_stays [Root, FileFlags],
);

fn allocation_extends_with_zeros(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 10_000).unwrap();
    assert_eq!(fstat(&file).unwrap().st_size, 10_000);
    assert!(p.read("f") == [0; 10_000]);
}

fn allocation_can_keep_the_size(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!(stat.st_size, 0);
    assert!(
        stat.st_blocks >= (1 << 20) / 512,
        "{} blocks",
        stat.st_blocks
    );
}

fn allocation_keeps_content(p: &Place) {
    p.write("f", pattern(9000));
    let file = p.open("f", OFlags::RDWR).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 20_000).unwrap();
    let content = p.read("f");
    assert_eq!(content.len(), 20_000);
    assert!(content[..9000] == pattern(9000));
}

fn allocation_needs_a_writer(p: &Place) {
    p.write("f", "");
    let file = p.open("f", OFlags::RDONLY).unwrap();
    fails(
        fallocate(&file, FallocateFlags::empty(), 0, 100),
        Errno::BADF,
    );
}

fn an_empty_allocation_is_einval(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    fails(
        fallocate(&file, FallocateFlags::empty(), 0, 0),
        Errno::INVAL,
    );
}

const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

fn a_punched_hole_reads_as_zeros(p: &Place) {
    let mut content = pattern(50_000);
    p.write("f", &content);
    assert!(p.read("f") == content);
    let file = p.open("f", OFlags::RDWR).unwrap();
    fallocate(&file, PUNCH, 5000, 30_000).unwrap();
    content[5000..35_000].fill(0);
    assert!(p.read("f") == content);
    fallocate(&file, PUNCH, 49_000, 100_000).unwrap();
    content[49_000..].fill(0);
    assert!(p.read("f") == content);
}

fn a_hole_must_keep_the_size(p: &Place) {
    p.write("f", pattern(9000));
    let file = p.open("f", OFlags::RDWR).unwrap();
    fails(
        fallocate(&file, FallocateFlags::PUNCH_HOLE, 0, 4096),
        Errno::OPNOTSUPP,
    );
}

fn a_zeroed_range_reads_as_zeros(p: &Place) {
    let mut content = pattern(50_000);
    p.write("f", &content);
    let file = p.open("f", OFlags::RDWR).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 5000, 30_000).unwrap();
    content[5000..35_000].fill(0);
    assert!(p.read("f") == content);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 49_000, 11_000).unwrap();
    content[49_000..].fill(0);
    content.resize(60_000, 0);
    assert!(p.read("f") == content);
}

fn data_and_holes_are_found(p: &Place) {
    const MIB: u64 = 1 << 20;
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    pwrite(&file, &[1; 65_536], 4 * MIB).unwrap();
    pwrite(&file, &[1; 65_536], 8 * MIB).unwrap();
    rustix::fs::fsync(&file).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(4 * MIB));
    assert_eq!(seek(&file, SeekFrom::Hole(4 * MIB)), Ok(4 * MIB + 65_536));
    assert_eq!(seek(&file, SeekFrom::Data(5 * MIB)), Ok(8 * MIB));
    assert_eq!(
        seek(&file, SeekFrom::Hole(8 * MIB + 5)),
        Ok(8 * MIB + 65_536)
    );
}

fn what_was_just_written_is_no_hole(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    pwrite(&file, &[1; 65_536], 0).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(0));
    assert_eq!(seek(&file, SeekFrom::Data(5000)), Ok(5000));
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(65_536));

    rustix::fs::ftruncate(&file, 1 << 20).unwrap();
    pwrite(&file, &[1; 65_536], 512 << 10).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(512 << 10)), Ok(512 << 10));
    let hole = seek(&file, SeekFrom::Hole(512 << 10)).unwrap();
    assert!(hole >= (512 << 10) + 65_536, "a hole at {hole}");
}

fn seeking_behind_the_end_is_enxio(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::RDONLY).unwrap();
    fails(seek(&file, SeekFrom::Data(7)), Errno::NXIO);
    fails(seek(&file, SeekFrom::Hole(8)), Errno::NXIO);
    assert_eq!(seek(&file, SeekFrom::Hole(2)), Ok(7));
}

fn blocks_are_counted(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    assert_eq!(fstat(&file).unwrap().st_blocks, 0);
    pwrite(&file, &[1; 1 << 20], 0).unwrap();
    rustix::fs::fsync(&file).unwrap();
    let mask = StatxFlags::BLOCKS;
    let found = rustix::fs::statx(p.dir(), "f", AtFlags::STATX_FORCE_SYNC, mask).unwrap();
    let blocks = found.stx_blocks;
    assert!((2048..4096).contains(&blocks), "{blocks} blocks for a MiB");
}

fn the_file_system_tells_its_size(p: &Place) {
    let found = fstatvfs(p.dir()).unwrap();
    assert!(found.f_frsize > 0 && found.f_blocks > 0);
    assert!(found.f_bavail <= found.f_bfree && found.f_bfree <= found.f_blocks);
    assert!(found.f_ffree <= found.f_files);
}

fn the_file_system_tells_its_longest_name(p: &Place) {
    assert_eq!(fstatvfs(p.dir()).unwrap().f_namemax, 255);
}

fn an_append_only_file_only_grows(p: &Place) {
    p.write("f", "one ");
    p.set_flags("f", IFlags::APPEND).unwrap();
    let outcomes = (
        p.open("f", OFlags::WRONLY).err(),
        p.unlink("f").err(),
        p.open("f", OFlags::WRONLY | OFlags::APPEND)
            .map(|file| pwrite(&file, b"two", 0)),
    );
    p.set_flags("f", IFlags::empty()).unwrap();
    assert_eq!(outcomes.0, Some(Errno::PERM));
    assert_eq!(outcomes.1, Some(Errno::PERM));
    assert_eq!(outcomes.2, Ok(Ok(3)));
    assert_eq!(p.read("f"), b"one two");
}

fn an_immutable_file_stays(p: &Place) {
    p.write("f", "content");
    p.set_flags("f", IFlags::IMMUTABLE).unwrap();
    let outcomes = [
        p.open("f", OFlags::WRONLY).err(),
        p.unlink("f").err(),
        p.rename("f", "g").err(),
        p.link("f", "g").err(),
        p.chmod("f", 0o600).err(),
    ];
    p.set_flags("f", IFlags::empty()).unwrap();
    assert_eq!(outcomes, [Some(Errno::PERM); 5]);
    p.write("f", "new");
    assert_eq!(p.read("f"), b"new");
}
