//! Payload ends that move little at a time, as pipes, signals and busy disks
//! make them do.

use sluice_vfs::{Errno, ReadSink, Result, WriteFlags, WriteSource};
use std::os::fd::BorrowedFd;

/// How payloads move.
#[derive(Clone, Copy, Debug)]
pub struct Transfers {
    /// Bytes that one system call moves, at most.
    pub max_bytes: usize,
    /// Every second call is interrupted by a signal before it moves anything.
    pub are_interrupted: bool,
}

impl Default for Transfers {
    /// As they are.
    fn default() -> Self {
        Transfers {
            max_bytes: usize::MAX,
            are_interrupted: false,
        }
    }
}

/// Decides about one call after the other.
struct Cut {
    transfers: Transfers,
    calls: u32,
}

impl Cut {
    /// How much the next call may move; `EINTR` if nothing.
    fn next(&mut self, len: usize) -> Result<usize> {
        self.calls += 1;
        if self.transfers.are_interrupted && self.calls % 2 == 1 {
            return Err(Errno::EINTR);
        }
        Ok(len.min(self.transfers.max_bytes))
    }
}

pub(super) struct CutSink<'a> {
    inner: &'a mut dyn ReadSink,
    cut: Cut,
}

impl<'a> CutSink<'a> {
    pub(super) fn new(inner: &'a mut dyn ReadSink, transfers: Transfers) -> Self {
        let calls = 0;
        let cut = Cut { transfers, calls };
        CutSink { inner, cut }
    }
}

impl ReadSink for CutSink<'_> {
    fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let len = self.cut.next(len)?;
        self.inner.read_from(fd, offset, len)
    }

    /// Memory is copied whole.
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.put(bytes)
    }
}

pub(super) struct CutSource<'a> {
    inner: &'a mut dyn WriteSource,
    cut: Cut,
}

impl<'a> CutSource<'a> {
    pub(super) fn new(inner: &'a mut dyn WriteSource, transfers: Transfers) -> Self {
        let calls = 0;
        let cut = Cut { transfers, calls };
        CutSource { inner, cut }
    }
}

impl WriteSource for CutSource<'_> {
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
        let len = self.cut.next(len)?;
        self.inner.write_to(fd, offset, len, flags)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        self.inner.take(buf)
    }
}
