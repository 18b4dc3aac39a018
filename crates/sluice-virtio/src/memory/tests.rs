use super::*;
use proptest::prelude::*;
use std::os::fd::{AsFd, OwnedFd};

const PAGE: u64 = 0x1000;

fn memfd(bytes: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    fd
}

fn spec(guest_addr: u64, user_addr: u64, size: u64) -> RegionSpec {
    RegionSpec {
        guest_addr,
        user_addr,
        size,
        file_offset: 0,
    }
}

fn region(guest_addr: u64, user_addr: u64, size: u64) -> Region {
    Region::map(spec(guest_addr, user_addr, size), memfd(size).as_fd()).unwrap()
}

/// Two adjacent regions, a hole, and a third.
fn three_regions() -> GuestMemory {
    GuestMemory::default()
        .with(region(5 * PAGE, 0x70_0000, PAGE))
        .and_then(|memory| memory.with(region(PAGE, 0x10_0000, PAGE)))
        .and_then(|memory| memory.with(region(2 * PAGE, 0x50_0000, 2 * PAGE)))
        .unwrap()
}

fn segments(memory: &GuestMemory, pieces: &[(u64, u32, bool)]) -> Segments {
    let mut segments = Segments::new(Arc::new(memory.clone()), Storage::default());
    for (addr, len, writable) in pieces {
        segments.push(*addr, *len, *writable).unwrap();
    }
    segments
}

#[test]
fn ranges_span_adjacent_regions_but_no_hole() {
    let memory = three_regions();
    let bytes: Vec<u8> = (0..3 * PAGE).map(|i| (i / 3) as u8).collect();
    memory.write(PAGE, &bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    memory.read(PAGE, &mut back).unwrap();
    assert!(back == bytes);

    for (addr, len) in [
        (0, 1),
        (PAGE - 1, 2),
        (4 * PAGE, 1),
        (4 * PAGE - 1, 2),
        (PAGE, 5 * PAGE),
        (6 * PAGE - 1, 2),
        (u64::MAX, 1),
        (u64::MAX, 2),
        (PAGE, u64::MAX),
    ] {
        assert!(memory.check(addr, len).is_err(), "{len} at {addr:#x}");
    }
    assert_eq!(memory.check(6 * PAGE - 1, 1), Ok(()));
    assert_eq!(memory.check(u64::MAX, 0), Ok(()));
}

#[test]
fn a_write_that_does_not_fit_changes_nothing() {
    let memory = three_regions();
    assert!(memory.write(4 * PAGE - 2, &[1; 4]).is_err());
    let mut bytes = [9; 2];
    memory.read(4 * PAGE - 2, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0]);
}

#[test]
fn windows_are_found_by_user_address_within_one_region() {
    let memory = three_regions();
    memory.write(2 * PAGE + 6, &[0x34, 0x12]).unwrap();
    let window = memory.window_at_user(0x50_0004, 4).unwrap();
    let load = |offset| window.load_le16(offset, std::sync::atomic::Ordering::Acquire);
    assert_eq!(load(2), 0x1234);
    // Outside, and unaligned.
    assert_eq!((load(4), load(1)), (0, 0));
    assert!(window.is_aligned(4) && !window.is_aligned(8));
    assert!(!window.read(1, &mut [0; 4]));
    assert!(!window.write(usize::MAX, &[1]));
    assert!(memory.window_at_user(0x10_0000, PAGE as usize + 1).is_err());
    assert!(memory.window_at_user(0x10_0000 + PAGE, 1).is_err());
    assert!(memory.window_at_user(u64::MAX, 1).is_err());
}

#[test]
fn regions_must_not_overlap_nor_wrap() {
    let memory = three_regions();
    let refused = |region: Region| memory.with(region).unwrap_err();
    assert!(matches!(
        refused(region(0, 0x100_0000, PAGE + 1)),
        MemoryError::Overlap(_)
    ));
    assert!(matches!(
        refused(region(3 * PAGE + 1, 0x100_0000, 1)),
        MemoryError::Overlap(_)
    ));
    assert!(matches!(
        refused(region(100 * PAGE, 0x50_1fff, 1)),
        MemoryError::Overlap(_)
    ));
    let fd = memfd(PAGE);
    for spec in [
        spec(u64::MAX, 0, 2),
        spec(0, u64::MAX, 2),
        spec(0, 0, 0),
        spec(0, 0, u64::MAX),
    ] {
        let error = Region::map(spec, fd.as_fd()).unwrap_err();
        assert!(matches!(error, MemoryError::BadRegion(_)), "{spec:?}");
    }
}

#[test]
fn a_region_is_removed_by_its_addresses_and_size() {
    let memory = three_regions();
    let less = memory
        .without(&RegionSpec {
            file_offset: 77,
            ..spec(PAGE, 0x10_0000, PAGE)
        })
        .unwrap();
    assert!(less.check(PAGE, 1).is_err());
    assert!(memory.check(PAGE, 1).is_ok());
    for wrong in [spec(PAGE, 0x10_0000, PAGE), spec(2 * PAGE, 0x50_0000, PAGE)] {
        assert!(matches!(
            less.without(&wrong),
            Err(MemoryError::NotFound(_))
        ));
    }
}

#[test]
fn a_region_needs_a_file() {
    let pipe = rustix::pipe::pipe().unwrap();
    let error = Region::map(spec(0, 0, 1), pipe.0.as_fd()).unwrap_err();
    assert!(matches!(error, MemoryError::NotAFile(_)));
}

#[test]
fn a_region_may_begin_anywhere_in_its_file() {
    let fd = memfd(2 * PAGE);
    rustix::io::pwrite(&fd, b"here", PAGE + 123).unwrap();
    let spec = RegionSpec {
        file_offset: PAGE + 123,
        ..spec(0x9000, 0x9000, 4)
    };
    let memory = GuestMemory::default()
        .with(Region::map(spec, fd.as_fd()).unwrap())
        .unwrap();
    let mut bytes = [0; 4];
    memory.read(0x9000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"here");
}

#[test]
fn data_goes_from_a_file_to_guest_memory_and_back_in_one_call() {
    let memory = three_regions();
    let list = segments(
        &memory,
        &[
            (PAGE + 10, 5, true),
            (2 * PAGE - 3, 7, true),
            (5 * PAGE, 100, true),
        ],
    );
    let file = memfd(50);
    let content: Vec<u8> = (1..=50).collect();
    rustix::io::pwrite(&file, &content, 0).unwrap();

    let mut cursor = list.writable();
    cursor.advance(2);
    assert_eq!(cursor.read_from_fd(file.as_fd(), 10, 20).unwrap(), 20);
    assert_eq!(cursor.left(), 112 - 22);
    assert_eq!(cursor.read_from_fd(file.as_fd(), 30, 1000).unwrap(), 20);
    assert_eq!(cursor.read_from_fd(file.as_fd(), 50, 1000).unwrap(), 0);
    let mut bytes = vec![0; 42];
    list.writable().copy_out(&mut bytes);
    assert_eq!(bytes[..2], [0, 0]);
    assert_eq!(bytes[2..], content[10..]);

    let copy = memfd(0);
    let mut cursor = list.writable();
    cursor.advance(2);
    assert_eq!(cursor.write_to_fd(copy.as_fd(), 3, 40, 0).unwrap(), 40);
    // RWF_APPEND takes the end of the file, whatever the offset.
    let mut start = list.writable();
    let append = libc::RWF_APPEND;
    assert_eq!(start.write_to_fd(copy.as_fd(), 0, 3, append).unwrap(), 3);
    let mut bytes = vec![9; 100];
    assert_eq!(rustix::io::pread(&copy, &mut bytes, 0).unwrap(), 46);
    assert_eq!(bytes[..3], [0, 0, 0]);
    assert_eq!(bytes[3..43], content[10..]);
    assert_eq!(bytes[43..46], [0, 0, content[10]]);
}

#[test]
fn offsets_beyond_what_a_file_can_have_are_refused() {
    let memory = three_regions();
    let list = segments(&memory, &[(PAGE, 8, true)]);
    let file = memfd(8);
    for offset in [1 << 63, u64::MAX] {
        let error = list.writable().read_from_fd(file.as_fd(), offset, 8);
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let error = list.writable().write_to_fd(file.as_fd(), offset, 8, 0);
        assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}

#[test]
fn system_calls_on_lost_memory_fail_with_efault() {
    let fd = memfd(2 * PAGE);
    let region = Region::map(spec(0x9000, 0, 2 * PAGE), fd.as_fd()).unwrap();
    let memory = GuestMemory::default().with(region).unwrap();
    let list = segments(&memory, &[(0x9000, 2 * PAGE as u32, true)]);
    rustix::fs::ftruncate(&fd, 0).unwrap();
    let file = memfd(2 * PAGE);
    let error = list.writable().read_from_fd(file.as_fd(), 0, 4096);
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    let error = list.writable().write_to_fd(file.as_fd(), 0, 4096, 0);
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    assert!(!memory.is_poisoned(), "no page was touched by this process");
}

#[test]
fn adjacent_pieces_are_joined_but_not_across_the_direction() {
    let memory = GuestMemory::default().with(region(0, 0, PAGE)).unwrap();
    let list = segments(
        &memory,
        &[(0, 8, false), (8, 8, false), (16, 8, true), (24, 8, true)],
    );
    assert_eq!(list.readable().slices(usize::MAX).count(), 1);
    assert_eq!(list.readable().left(), 16);
    assert_eq!(list.writable().slices(usize::MAX).count(), 1);
    assert_eq!(list.writable().left(), 16);
}

proptest! {
    /// A cursor over pieces behaves as one over their concatenation.
    #[test]
    fn cursors_are_like_slices(
        pieces in proptest::collection::vec((0..PAGE, 0u32..64), 0..12),
        steps in proptest::collection::vec((0usize..4, 0usize..100), 0..12),
    ) {
        let memory = three_regions();
        let fill: Vec<u8> = (0..3 * PAGE).map(|i| (i % 251) as u8).collect();
        memory.write(PAGE, &fill).unwrap();
        let mut flat = Vec::new();
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|(offset, len)| (PAGE + PAGE / 2 + offset, len, false))
            .collect();
        for (addr, len, _) in &pieces {
            let start = (addr - PAGE) as usize;
            flat.extend(&fill[start..start + *len as usize]);
        }
        let list = segments(&memory, &pieces);
        let mut cursor = list.readable();
        let mut rest = &flat[..];
        for (what, count) in steps {
            prop_assert_eq!(cursor.left(), rest.len());
            let within = count.min(rest.len());
            match what {
                0 => cursor.advance(count),
                1 => {
                    let mut bytes = vec![0; count];
                    prop_assert_eq!(cursor.copy_out(&mut bytes), within);
                    prop_assert_eq!(&bytes[..within], &rest[..within]);
                }
                2 => {
                    let split = cursor.split_at(count);
                    prop_assert_eq!(split.is_some(), count <= rest.len());
                    let Some((mut head, tail)) = split else { continue };
                    let mut bytes = vec![0; count + 1];
                    prop_assert_eq!(head.copy_out(&mut bytes), count);
                    prop_assert_eq!(&bytes[..count], &rest[..count]);
                    cursor = tail;
                }
                _ => {
                    let lens: usize = cursor.slices(count).map(|slice| slice.len()).sum();
                    prop_assert_eq!(lens, within);
                    continue;
                }
            }
            rest = &rest[within..];
        }
    }
}
