//! The buffers of one descriptor chain, as iovecs, and cursors over them.
#![allow(unsafe_code)]

use super::slice::HostSlice;
use super::{GuestMemory, OutOfRange};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// Pieces a chain may have: what one `preadv` takes (`IOV_MAX`).
pub(crate) const MAX_SEGMENTS: usize = 1024;

/// The list of a chain's pieces, empty, kept for the next chain.
#[derive(Debug, Default)]
pub(crate) struct Storage(Vec<IoVec>);

/// A piece of memory, laid out as the kernel wants it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct IoVec(pub(super) libc::iovec);

// SAFETY: address and length; all use goes through `Segments`, which holds the
// memory.
unsafe impl Send for IoVec {}
// SAFETY: as above.
unsafe impl Sync for IoVec {}

/// The readable and then the writable pieces of guest memory of one chain. Every
/// piece lies in a mapping that `memory` keeps.
#[derive(Debug)]
pub(crate) struct Segments {
    memory: Arc<GuestMemory>,
    list: Vec<IoVec>,
    /// How many of `list` are readable; the others are writable.
    readable_count: usize,
    readable_bytes: usize,
    writable_bytes: usize,
}

/// Why a piece was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentError {
    OutOfRange(OutOfRange),
    TooMany,
}

impl Segments {
    pub(crate) fn new(memory: Arc<GuestMemory>, storage: Storage) -> Self {
        Segments {
            memory,
            list: storage.0,
            readable_count: 0,
            readable_bytes: 0,
            writable_bytes: 0,
        }
    }

    /// Adds `len` bytes at guest-physical address `addr`. All readable pieces come
    /// before the first writable one.
    pub(crate) fn push(&mut self, addr: u64, len: u32, writable: bool) -> Result<(), SegmentError> {
        debug_assert!(writable || self.readable_count == self.list.len());
        let first = if writable { self.readable_count } else { 0 };
        let list = &mut self.list;
        let mut full = false;
        self.memory
            .each_slice(addr, u64::from(len), |slice| {
                full |= !append(list, first, slice);
            })
            .map_err(SegmentError::OutOfRange)?;
        if full {
            return Err(SegmentError::TooMany);
        }
        if writable {
            self.writable_bytes += len as usize;
        } else {
            self.readable_bytes += len as usize;
            self.readable_count = self.list.len();
        }
        Ok(())
    }

    pub(crate) fn has_writable(&self) -> bool {
        self.writable_bytes > 0
    }

    pub(crate) fn readable(&self) -> Cursor<'_> {
        let list = self.list.get(..self.readable_count).unwrap_or_default();
        Cursor::new(list, self.readable_bytes)
    }

    pub(crate) fn writable(&self) -> Cursor<'_> {
        let list = self.list.get(self.readable_count..).unwrap_or_default();
        Cursor::new(list, self.writable_bytes)
    }

    /// Gives the list back for the next chain.
    pub(crate) fn into_storage(mut self) -> Storage {
        self.list.clear();
        Storage(self.list)
    }
}

/// Appends a piece, or lengthens the last one if they are adjacent and both belong
/// to the list from `first` on. False if the list is full.
fn append(list: &mut Vec<IoVec>, first: usize, slice: HostSlice<'_>) -> bool {
    let start = slice.start().as_ptr();
    let count = list.len();
    let last = list.last_mut().filter(|_| count > first);
    if let Some(IoVec(last)) = last
        && last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == start
    {
        last.iov_len += slice.len();
        return true;
    }
    if count >= MAX_SEGMENTS {
        return false;
    }
    list.push(IoVec(libc::iovec {
        iov_base: start.cast(),
        iov_len: slice.len(),
    }));
    true
}

/// A place in a list of pieces, with what lies behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor<'a> {
    list: &'a [IoVec],
    /// Bytes of the first piece that are already behind the cursor.
    skip: usize,
    left: usize,
    memory: PhantomData<&'a GuestMemory>,
}

impl<'a> Cursor<'a> {
    fn new(list: &'a [IoVec], left: usize) -> Self {
        Cursor {
            list,
            skip: 0,
            left,
            memory: PhantomData,
        }
    }

    /// Bytes ahead.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The pieces ahead, at most `len` bytes of them.
    pub(crate) fn slices(&self, len: usize) -> impl Iterator<Item = HostSlice<'a>> + use<'a> {
        let mut skip = self.skip;
        let mut left = self.left.min(len);
        self.list.iter().map_while(move |IoVec(vec)| {
            let start = NonNull::new(vec.iov_base.cast::<u8>())?;
            // SAFETY: the piece lies in memory that the `Segments` borrowed for 'a
            // keeps mapped.
            let piece = unsafe { HostSlice::<'a>::new(start, vec.iov_len) };
            let slice = piece.get(std::mem::take(&mut skip), left)?;
            left -= slice.len();
            (slice.len() > 0).then_some(slice)
        })
    }

    /// Moves forward by `count` bytes, at most to the end.
    pub(crate) fn advance(&mut self, count: usize) {
        let count = count.min(self.left);
        self.left -= count;
        self.skip += count;
        while let Some((IoVec(first), rest)) = self.list.split_first() {
            if self.skip < first.iov_len {
                break;
            }
            self.skip -= first.iov_len;
            self.list = rest;
        }
    }

    /// Splits off what lies behind the next `count` bytes; `None` if there are fewer.
    pub(crate) fn split_at(&self, count: usize) -> Option<(Cursor<'a>, Cursor<'a>)> {
        let mut head = self.clone();
        let mut tail = self.clone();
        if count > self.left {
            return None;
        }
        head.left = count;
        tail.advance(count);
        Some((head, tail))
    }

    /// Copies out as much as there is for `buf`, and moves on.
    pub(crate) fn copy_out(&mut self, buf: &mut [u8]) -> usize {
        let mut done = 0;
        for slice in self.slices(buf.len()) {
            let Some(rest) = buf.get_mut(done..) else {
                break;
            };
            done += slice.copy_out(rest);
        }
        self.advance(done);
        done
    }

    /// Copies in as much of `bytes` as there is room for, and moves on.
    pub(crate) fn copy_in(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        for slice in self.slices(bytes.len()) {
            let Some(rest) = bytes.get(done..) else {
                break;
            };
            done += slice.copy_in(rest);
        }
        self.advance(done);
        done
    }
}
