//! Reading, writing, space and copies.

use crate::harness::{RDWR, ROOT, Share, errno, skipped};
use rustix::fd::BorrowedFd;
use sluice_vfs::{
    Cancel, CopyRange, CopySide, Errno, FallocateMode, FileIoctl, FileIoctlReply, HandleId, NodeId,
    OpenFlags, ReadSink, Result, SliceSource, VecSink, Whence, WriteArgs, WriteFlags, WriteSource,
};
use std::fs;

/// Takes or gives a few bytes at a time, is interrupted every other time, and
/// fails once it has moved `fails_after` bytes.
struct Stutter<T> {
    inner: T,
    calls: usize,
    moved: usize,
    fails_after: usize,
}

impl<T> Stutter<T> {
    fn new(inner: T, fails_after: usize) -> Self {
        Stutter {
            inner,
            calls: 0,
            moved: 0,
            fails_after,
        }
    }

    fn step(&mut self, act: impl FnOnce(&mut T) -> Result<usize>) -> Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(2) {
            return Err(Errno::EINTR);
        }
        if self.moved >= self.fails_after {
            return Err(Errno::EIO);
        }
        let count = act(&mut self.inner)?;
        self.moved += count;
        Ok(count)
    }
}

impl ReadSink for Stutter<VecSink> {
    fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        self.step(|inner| inner.read_from(fd, offset, len.min(3)))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.put(bytes)
    }
}

impl WriteSource for Stutter<SliceSource<'_>> {
    fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize> {
        self.step(|inner| inner.write_to(fd, offset, len.min(3), flags))
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        self.inner.take(buf)
    }
}

fn file(share: &Share, bytes: &[u8]) -> (NodeId, HandleId) {
    fs::write(share.path("f"), bytes).unwrap();
    let node = share.node("f");
    (node, share.open(node, RDWR).unwrap())
}

#[test]
fn reads_go_on_until_the_end() {
    let share = Share::new();
    let (node, handle) = file(&share, b"0123456789");
    for handle in [Some(handle), None] {
        let mut sink = Stutter::new(VecSink::new(100), usize::MAX);
        let read = share.s().read(&ROOT, node, handle, 2, 50, &mut sink);
        assert_eq!(read, Ok(8));
        assert_eq!(sink.inner.into_bytes(), b"23456789");
        let mut sink = Stutter::new(VecSink::new(100), usize::MAX);
        assert_eq!(share.s().read(&ROOT, node, handle, 2, 5, &mut sink), Ok(5));
        let mut sink = VecSink::new(100);
        assert_eq!(share.s().read(&ROOT, node, handle, 10, 5, &mut sink), Ok(0));
    }
}

#[test]
fn an_error_in_the_middle_fails_a_read_and_shortens_a_write() {
    let share = Share::new();
    let (node, handle) = file(&share, b"0123456789");
    for good in [6, 0] {
        let mut sink = Stutter::new(VecSink::new(100), good);
        let read = share.s().read(&ROOT, node, Some(handle), 0, 10, &mut sink);
        assert_eq!(read, Err(Errno::EIO));
    }

    let args = WriteArgs::default();
    let mut source = Stutter::new(SliceSource::new(b"abcdefghij"), 6);
    let written = share
        .s()
        .write(&ROOT, node, Some(handle), &args, &mut source);
    assert_eq!(written.unwrap().len, 6);
    assert_eq!(fs::read(share.path("f")).unwrap(), b"abcdef6789");
    let mut source = Stutter::new(SliceSource::new(b"x"), 0);
    let written = share
        .s()
        .write(&ROOT, node, Some(handle), &args, &mut source);
    assert_eq!(errno(written), Errno::EIO);
}

#[test]
fn writes_take_everything() {
    let share = Share::new();
    let (node, handle) = file(&share, b"");
    for handle in [Some(handle), None] {
        let args = WriteArgs {
            offset: 5,
            ..WriteArgs::default()
        };
        let mut source = Stutter::new(SliceSource::new(b"abcdefghij"), usize::MAX);
        let written = share.s().write(&ROOT, node, handle, &args, &mut source);
        assert_eq!(written.unwrap().len, 10);
        let content = fs::read(share.path("f")).unwrap();
        assert_eq!(content, b"\0\0\0\0\0abcdefghij");
        fs::write(share.path("f"), "").unwrap();
    }
}

#[test]
fn appending_ignores_the_offset() {
    let share = Share::new();
    let (node, _) = file(&share, b"one");
    let flags = OpenFlags::WRITE | OpenFlags::APPEND;
    let handle = share.open(node, flags).unwrap();
    fs::write(share.path("f"), "onetwo").unwrap();
    share.write(node, Some(handle), 0, b"three").unwrap();
    assert_eq!(fs::read(share.path("f")).unwrap(), b"onetwothree");
}

#[test]
fn offsets_beyond_any_file_are_invalid() {
    let share = Share::new();
    let (node, handle) = file(&share, b"abc");
    let flags = OpenFlags::WRITE | OpenFlags::APPEND;
    let appending = share.open(node, flags).unwrap();
    for offset in [1 << 63, u64::MAX] {
        // preadv2(2) takes −1 for the current position.
        let written = share.write(node, Some(appending), offset, b"x");
        assert_eq!(written, Err(Errno::EINVAL));
        let mut sink = VecSink::new(10);
        let read = share
            .s()
            .read(&ROOT, node, Some(handle), offset, 10, &mut sink);
        assert_eq!(read, Err(Errno::EINVAL));
        let written = share.write(node, Some(handle), offset, b"x");
        assert_eq!(written, Err(Errno::EINVAL));
        let huge = offset..u64::MAX;
        let mode = FallocateMode::empty();
        let outcome = share.s().fallocate(&ROOT, node, Some(handle), mode, huge);
        assert_eq!(errno(outcome), Errno::EINVAL);
    }
    assert_eq!(fs::read(share.path("f")).unwrap(), b"abc");
}

#[test]
fn directories_have_no_content() {
    let share = Share::new();
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let handle = share.open(NodeId::ROOT, flags).unwrap();
    assert_eq!(errno(share.read(NodeId::ROOT, Some(handle))), Errno::EISDIR);
    assert_eq!(errno(share.read(NodeId::ROOT, None)), Errno::EISDIR);
    let written = share.write(NodeId::ROOT, None, 0, b"x");
    assert_eq!(errno(written), Errno::EISDIR);
    for handle in [Some(handle), None] {
        share.s().fsync(&ROOT, NodeId::ROOT, handle, false).unwrap();
        share.s().fsync(&ROOT, NodeId::ROOT, handle, true).unwrap();
    }
    share.s().syncfs(&ROOT, NodeId::ROOT).unwrap();
    let end = share
        .s()
        .lseek(&ROOT, NodeId::ROOT, Some(handle), 0, Whence::End);
    assert_eq!(end, Err(Errno::EINVAL));
}

#[test]
fn space_can_be_taken_and_found() {
    let share = Share::new();
    let (node, handle) = file(&share, &[7; 3 << 16]);
    let s = share.s();
    let hole = FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE;
    let range = 1 << 16..2 << 16;
    match s.fallocate(&ROOT, node, Some(handle), hole, range) {
        Err(Errno::EOPNOTSUPP) => skipped("no holes here"),
        outcome => {
            outcome.unwrap();
            let seek = |at, whence| s.lseek(&ROOT, node, Some(handle), at, whence);
            assert_eq!(seek(0, Whence::Hole), Ok(1 << 16));
            assert_eq!(seek(1 << 16, Whence::Data), Ok(2 << 16));
            assert_eq!(seek(4 << 16, Whence::Data), Err(Errno::ENXIO));
        }
    }
    assert_eq!(s.lseek(&ROOT, node, None, 0, Whence::End), Ok(3 << 16));
    let grow = s.fallocate(&ROOT, node, None, FallocateMode::empty(), 0..4 << 16);
    grow.unwrap();
    assert_eq!(share.attr(node).size, 4 << 16);
    let wrong = FallocateMode::from_bits_retain(0x8000);
    let outcome = s.fallocate(&ROOT, node, None, wrong, 0..1);
    assert_eq!(errno(outcome), Errno::EOPNOTSUPP);
    #[expect(clippy::reversed_empty_ranges)]
    let outcome = s.fallocate(&ROOT, node, None, FallocateMode::empty(), 2..1);
    assert_eq!(errno(outcome), Errno::EINVAL);
}

#[test]
fn copies_stay_on_the_host_and_can_be_called_off() {
    let share = Share::new();
    let content: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
    let (node, handle) = file(&share, &content);
    let made = share.create("copy");
    let copy = CopyRange {
        from: CopySide {
            node,
            handle,
            offset: 10,
        },
        to: CopySide {
            node: made.entry.node,
            handle: made.opened.handle,
            offset: 5,
        },
        len: 1 << 40,
    };
    let copied = share.s().copy_range(&ROOT, &copy).unwrap();
    assert_eq!(copied.len, content.len() - 10);
    assert_eq!(fs::read(share.path("copy")).unwrap()[5..], content[10..]);

    let cancel = Cancel::new();
    cancel.cancel();
    let outcome = share.s().copy_range(&ROOT.with_cancel(&cancel), &copy);
    assert_eq!(errno(outcome), Errno::EINTR);
    let backwards = CopyRange {
        from: copy.to,
        to: CopySide {
            handle: share.open(node, OpenFlags::READ).unwrap(),
            ..copy.from
        },
        len: 1,
    };
    let outcome = share.s().copy_range(&ROOT, &backwards);
    assert_eq!(errno(outcome), Errno::EBADF);
}

#[test]
fn file_flags_reach_the_file() {
    let share = Share::new();
    let (node, handle) = file(&share, b"");
    let flags = match share.s().ioctl(&ROOT, node, None, &FileIoctl::GetFlags) {
        Ok(FileIoctlReply::Flags(flags)) => flags,
        Ok(other) => panic!("{other:?}"),
        Err(errno) => {
            assert!(matches!(errno, Errno::ENOTTY | Errno::EOPNOTSUPP));
            return;
        }
    };
    let no_dump = 0x40;
    let set = FileIoctl::SetFlags(flags | no_dump);
    let outcome = share.s().ioctl(&ROOT, node, Some(handle), &set);
    assert_eq!(outcome, Ok(FileIoctlReply::Done));
    let now = share.s().ioctl(&ROOT, node, None, &FileIoctl::GetFlags);
    assert_eq!(now, Ok(FileIoctlReply::Flags(flags | no_dump)));
}

/// A sink that counts the system calls made for it.
struct Counting {
    sink: VecSink,
    calls: usize,
}

impl ReadSink for Counting {
    fn remaining(&self) -> usize {
        self.sink.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        self.calls += 1;
        self.sink.read_from(fd, offset, len)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.put(bytes)
    }
}

#[test]
fn a_read_to_the_end_that_the_peer_knows_of_is_one_call() {
    let share = Share::new();
    fs::write(share.path("f"), [1; 5000]).unwrap();
    let node = share.node("f");
    let handle = share.open(node, RDWR).unwrap();
    let read = |offset| {
        let mut counting = Counting {
            sink: VecSink::new(4096),
            calls: 0,
        };
        let s = share.s();
        let len = s
            .read(&ROOT, node, Some(handle), offset, 4096, &mut counting)
            .unwrap();
        (len, counting.calls)
    };
    assert_eq!(read(0), (4096, 1));
    assert_eq!(read(4096), (904, 1));
    share.write(node, Some(handle), 5000, &[2; 500]).unwrap();
    assert_eq!(read(4096), (1404, 1));
    // What the host adds is found all the same.
    fs::write(share.path("f"), [3; 6000]).unwrap();
    assert_eq!(read(4096).0, 1904);
    fs::write(share.path("f"), [4; 4500]).unwrap();
    assert_eq!(read(4096).0, 404);
    assert_eq!(share.attr(node).size, 4500);
    assert_eq!(read(4096), (404, 1));
}
