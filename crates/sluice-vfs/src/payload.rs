//! The two ends of a payload. They make the system call, so that an engine
//! moves file data without ever seeing the buffer it goes to or comes from.

use crate::Result;
use crate::errno::Errno;
use bitflags::bitflags;
use std::os::fd::BorrowedFd;

/// Where the bytes of a read go.
pub trait ReadSink {
    /// Room that is left, in bytes.
    fn remaining(&self) -> usize;

    /// Takes up to `len` bytes (and no more than [`ReadSink::remaining`]) from
    /// `fd` at `offset`, by one system call. Returns how many came; 0 means
    /// end of file, or no room.
    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize>;

    /// Takes `bytes`, for what is not in any file. `EMSGSIZE` if they don't fit,
    /// and then none is taken.
    fn put(&mut self, bytes: &[u8]) -> Result<()>;

    /// The room that is left, where it is memory of this process: for whoever
    /// receives from something that has no offsets, such as a socket. A sink in
    /// a guest's memory has none to show.
    fn room(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Takes the first `len` bytes of [`ReadSink::room`], which were filled.
    /// `EMSGSIZE` if there is less room.
    fn commit(&mut self, len: usize) -> Result<()> {
        match len {
            0 => Ok(()),
            _ => Err(Errno::EMSGSIZE),
        }
    }
}

bitflags! {
    /// How data is written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct WriteFlags: u32 {
        /// At the end of the file, whatever the offset (`RWF_APPEND`).
        const APPEND = 1 << 0;
        /// Data reaches the disk before the call ends (`RWF_DSYNC`).
        const DSYNC = 1 << 1;
    }
}

/// Where the bytes of a write come from.
pub trait WriteSource {
    /// Bytes that are left.
    fn remaining(&self) -> usize;

    /// Gives up to `len` bytes (and no more than [`WriteSource::remaining`]) to
    /// `fd` at `offset`, by one system call. Returns how many went.
    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize>;

    /// Copies the next `buf.len()` bytes out, for what is not meant for a file.
    /// `EMSGSIZE` if fewer are left, and then none is taken.
    fn take(&mut self, buf: &mut [u8]) -> Result<()>;

    /// The bytes that are left, where they are in memory of this process: for
    /// whoever sends them to something that has no offsets, such as a socket.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }

    /// Gives the first `len` of [`WriteSource::bytes`] up, which were sent.
    /// `EMSGSIZE` if fewer are left.
    fn consume(&mut self, len: usize) -> Result<()> {
        match len {
            0 => Ok(()),
            _ => Err(Errno::EMSGSIZE),
        }
    }
}

/// Reads into a slice.
#[derive(Debug)]
pub struct SliceSink<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> SliceSink<'a> {
    /// A sink that fills `buf` from its start.
    pub fn new(buf: &'a mut [u8]) -> Self {
        SliceSink { buf, len: 0 }
    }

    /// The bytes taken so far.
    pub fn filled(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// How many bytes were taken so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was taken yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl ReadSink for SliceSink<'_> {
    fn remaining(&self) -> usize {
        self.buf.len() - self.len
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let end = self.len + len.min(self.remaining());
        let count = rustix::io::pread(fd, &mut self.buf[self.len..end], offset)?;
        self.len += count;
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let room = self.buf[self.len..]
            .get_mut(..bytes.len())
            .ok_or(Errno::EMSGSIZE)?;
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    fn room(&mut self) -> Option<&mut [u8]> {
        self.buf.get_mut(self.len..)
    }

    fn commit(&mut self, len: usize) -> Result<()> {
        match len <= self.remaining() {
            true => self.len += len,
            false => return Err(Errno::EMSGSIZE),
        }
        Ok(())
    }
}

/// Reads into a vector that grows up to a limit.
#[derive(Debug)]
pub struct VecSink {
    bytes: Vec<u8>,
    limit: usize,
}

impl VecSink {
    /// A sink that takes up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        VecSink {
            bytes: Vec::new(),
            limit,
        }
    }

    /// What was taken.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl ReadSink for VecSink {
    fn remaining(&self) -> usize {
        self.limit - self.bytes.len()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let start = self.bytes.len();
        self.bytes.resize(start + len.min(self.remaining()), 0);
        let outcome = rustix::io::pread(fd, &mut self.bytes[start..], offset);
        self.bytes.truncate(start + outcome.unwrap_or(0));
        Ok(outcome?)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.remaining() {
            return Err(Errno::EMSGSIZE);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// Writes from a slice.
#[derive(Debug)]
pub struct SliceSource<'a> {
    bytes: &'a [u8],
}

impl<'a> SliceSource<'a> {
    /// A source that gives `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        SliceSource { bytes }
    }
}

impl WriteSource for SliceSource<'_> {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize> {
        let bytes = &self.bytes[..len.min(self.bytes.len())];
        let count = if flags.is_empty() {
            rustix::io::pwrite(fd, bytes, offset)?
        } else {
            let slices = [std::io::IoSlice::new(bytes)];
            rustix::io::pwritev2(fd, &slices, offset, flags.into())?
        };
        self.bytes = &self.bytes[count..];
        Ok(count)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        let (head, rest) = self
            .bytes
            .split_at_checked(buf.len())
            .ok_or(Errno::EMSGSIZE)?;
        buf.copy_from_slice(head);
        self.bytes = rest;
        Ok(())
    }

    fn bytes(&self) -> Option<&[u8]> {
        Some(self.bytes)
    }

    fn consume(&mut self, len: usize) -> Result<()> {
        self.bytes = self.bytes.get(len..).ok_or(Errno::EMSGSIZE)?;
        Ok(())
    }
}

impl From<WriteFlags> for rustix::io::ReadWriteFlags {
    fn from(flags: WriteFlags) -> Self {
        let mut out = Self::empty();
        out.set(Self::APPEND, flags.contains(WriteFlags::APPEND));
        out.set(Self::DSYNC, flags.contains(WriteFlags::DSYNC));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    fn file_with(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn sinks_never_take_more_than_they_have_room_for() {
        let file = file_with(b"0123456789");
        let mut buf = [0xaa; 6];
        let mut sink = SliceSink::new(&mut buf);
        assert_eq!(sink.read_from(file.as_fd(), 2, 4), Ok(4));
        assert_eq!(sink.read_from(file.as_fd(), 0, 100), Ok(2));
        assert_eq!(sink.read_from(file.as_fd(), 0, 100), Ok(0));
        assert_eq!(sink.put(b"x"), Err(Errno::EMSGSIZE));
        assert_eq!(sink.filled(), b"234501");
        assert_eq!(&buf, b"234501");

        let mut sink = VecSink::new(5);
        assert_eq!(sink.read_from(file.as_fd(), 8, 100), Ok(2));
        assert_eq!(sink.put(b"abcd"), Err(Errno::EMSGSIZE));
        assert_eq!(sink.put(b"abc"), Ok(()));
        assert_eq!(sink.into_bytes(), b"89abc");
    }

    #[test]
    fn memory_is_taken_as_far_as_it_was_used() {
        let mut buf = [0; 4];
        let mut sink = SliceSink::new(&mut buf);
        sink.put(b"a").unwrap();
        sink.room().unwrap()[..2].copy_from_slice(b"bc");
        sink.commit(2).unwrap();
        assert_eq!(sink.commit(2), Err(Errno::EMSGSIZE));
        assert_eq!((sink.filled(), sink.remaining()), (&b"abc"[..], 1));
        let mut source = SliceSource::new(b"abc");
        source.consume(1).unwrap();
        assert_eq!(source.bytes(), Some(&b"bc"[..]));
        assert_eq!(source.consume(3), Err(Errno::EMSGSIZE));
        assert_eq!(source.remaining(), 2);
    }

    #[test]
    fn a_failed_read_leaves_nothing_in_the_vector() {
        let file = file_with(b"0123");
        let mut sink = VecSink::new(8);
        assert_eq!(
            sink.read_from(file.as_fd(), u64::MAX, 4),
            Err(Errno::EINVAL)
        );
        assert_eq!(sink.into_bytes(), b"");
    }

    #[test]
    fn sources_write_where_they_are_told() {
        let file = file_with(b"0123456789");
        let mut source = SliceSource::new(b"abcdef");
        assert_eq!(
            source.write_to(file.as_fd(), 1, 2, WriteFlags::empty()),
            Ok(2)
        );
        assert_eq!(
            source.write_to(file.as_fd(), 0, 2, WriteFlags::APPEND),
            Ok(2)
        );
        let mut rest = [0; 3];
        assert_eq!(source.take(&mut rest), Err(Errno::EMSGSIZE));
        assert_eq!(source.take(&mut rest[..2]), Ok(()));
        assert_eq!(&rest[..2], b"ef");
        let mut sink = VecSink::new(64);
        sink.read_from(file.as_fd(), 0, 64).unwrap();
        assert_eq!(sink.into_bytes(), b"0ab3456789cd");
    }
}
