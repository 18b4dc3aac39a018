//! Reading a request from its chain, and writing the answer.

use crate::memory::Cursor;
use std::io;
use std::os::fd::BorrowedFd;

/// Fewer bytes were left than were asked for; nothing was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes wanted, {left} left")]
pub struct Exhausted {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes that were there.
    pub left: usize,
}

/// A place in the readable part of a chain.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(cursor: Option<Cursor<'a>>) -> Self {
        let cursor = cursor.unwrap_or_default();
        Reader { cursor }
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.cursor.left()
    }

    /// Copies out as much as there is for `buf`; returns how many bytes.
    pub fn read(&mut self, buf: &mut [u8]) -> usize {
        self.cursor.copy_out(buf)
    }

    /// Fills `buf`, or moves nothing.
    pub fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), Exhausted> {
        check_left(&self.cursor, buf.len())?;
        self.cursor.copy_out(buf);
        Ok(())
    }

    /// Moves forward by `count` bytes, at most to the end.
    pub fn skip(&mut self, count: usize) {
        self.cursor.advance(count);
    }

    /// The next `count` bytes, and what is behind them; `None` if there are fewer.
    pub fn split_at(&self, count: usize) -> Option<(Reader<'a>, Reader<'a>)> {
        let (head, tail) = self.cursor.split_at(count)?;
        Some((Reader { cursor: head }, Reader { cursor: tail }))
    }

    /// Gives up to `len` of the bytes left to `fd` at `offset`, by one `pwritev2` with
    /// `flags` (`RWF_*`). Returns how many went. Fails with `EINVAL` for an offset of
    /// 2^63 or more, `EFAULT` if the guest's memory is gone, and as the call does.
    pub fn write_to_fd(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: i32,
    ) -> io::Result<usize> {
        self.cursor.write_to_fd(fd, offset, len, flags)
    }
}

/// A place in the writable part of a chain.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(cursor: Option<Cursor<'a>>) -> Self {
        let cursor = cursor.unwrap_or_default();
        Writer { cursor }
    }

    /// Room that is left, in bytes.
    pub fn remaining(&self) -> usize {
        self.cursor.left()
    }

    /// Copies in as much of `bytes` as fits; returns how many bytes.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        self.cursor.copy_in(bytes)
    }

    /// Copies in all of `bytes`, or nothing.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        check_left(&self.cursor, bytes.len())?;
        self.cursor.copy_in(bytes);
        Ok(())
    }

    /// Copies all of `bytes` in at `offset` bytes from here, without moving; nothing
    /// if they don't fit.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), Exhausted> {
        let wanted = offset.saturating_add(bytes.len());
        check_left(&self.cursor, wanted)?;
        let mut cursor = self.cursor.clone();
        cursor.advance(offset);
        cursor.copy_in(bytes);
        Ok(())
    }

    /// Leaves `count` bytes as they are, at most up to the end.
    pub fn skip(&mut self, count: usize) {
        self.cursor.advance(count);
    }

    /// The next `count` bytes, and what is behind them; `None` if there are fewer.
    pub fn split_at(&self, count: usize) -> Option<(Writer<'a>, Writer<'a>)> {
        let (head, tail) = self.cursor.split_at(count)?;
        Some((Writer { cursor: head }, Writer { cursor: tail }))
    }

    /// Takes up to `len` bytes of `fd` at `offset`, as far as there is room, by one
    /// `preadv` straight into guest memory. Returns how many came, 0 at the end of the
    /// file. Fails with `EINVAL` for an offset of 2^63 or more, `EFAULT` if the guest's
    /// memory is gone, and as the call does.
    pub fn read_from_fd(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        self.cursor.read_from_fd(fd, offset, len)
    }
}

fn check_left(cursor: &Cursor<'_>, wanted: usize) -> Result<(), Exhausted> {
    let left = cursor.left();
    match wanted <= left {
        true => Ok(()),
        false => Err(Exhausted { wanted, left }),
    }
}
