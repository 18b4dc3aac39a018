//! Open files.

use crate::error::{Error, Result};
use crate::ops::{LockWait, OpenFid, Tree};
use crate::stream::{Reader, Writer};
use sluice_vfs::{Attr, Errno, Lock, OpenFlags, SetAttr};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An open file or directory, for any number of threads. It is closed when it
/// is dropped, but only [`File::close`] tells what came of that.
pub struct File {
    tree: Arc<Tree>,
    open: OpenFid,
    is_append: bool,
    was_written: AtomicBool,
    is_closed: bool,
}

impl File {
    pub(crate) fn new(tree: Arc<Tree>, open: OpenFid, flags: OpenFlags) -> Self {
        File {
            tree,
            open,
            is_append: flags.contains(OpenFlags::APPEND),
            was_written: AtomicBool::new(false),
            is_closed: false,
        }
    }

    /// Reads from `offset` (bytes) on until the buffer is full or the file ends;
    /// how many bytes. More than a message holds takes several, some of them
    /// under way at a time.
    ///
    /// # Errors
    /// What the server answers, if nothing could be read before it.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset)
    }

    /// The same into several buffers, of any length and alignment: as few
    /// messages as for one buffer.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        self.tree.read(&self.open, offset, bufs)
    }

    /// Writes all of the buffer at `offset` (bytes), or at the end of a file
    /// that was opened for appending; how many bytes. Plain 9P2000 cannot append:
    /// there it is the end that the file had a moment before, and another client's
    /// bytes may be written over.
    ///
    /// # Errors
    /// What the server answers, if nothing could be written before it. What lies
    /// behind the place of an error may have been written all the same.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.write_vectored_at(&[IoSlice::new(buf)], offset)
    }

    /// The same from several buffers.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<usize> {
        self.was_written.store(true, Ordering::Relaxed);
        self.tree.write(&self.open, offset, bufs, self.is_append)
    }

    /// Writes all of the buffer at `offset` (bytes).
    ///
    /// # Errors
    /// What the server answers; `EIO` if it takes nothing in and does not say why.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let (mut rest, mut offset) = (buf, offset);
        while !rest.is_empty() {
            let len = self.write_at(rest, offset)?;
            if len == 0 {
                return Err(Error::Refused(Errno::EIO));
            }
            rest = rest.get(len..).unwrap_or_default();
            offset = offset.saturating_add(len as u64);
        }
        Ok(())
    }

    /// Reads the file from `offset` (bytes) on, ahead of whoever takes the bytes.
    pub fn reader(&self, offset: u64) -> Reader<'_> {
        Reader::new(self, offset)
    }

    /// Writes the file from `offset` (bytes) on, behind whoever brings the bytes.
    pub fn writer(&self, offset: u64) -> Writer<'_> {
        Writer::new(self, offset)
    }

    /// Attributes.
    ///
    /// # Errors
    /// What the server answers.
    pub fn metadata(&self) -> Result<Attr> {
        self.tree.getattr(self.open.fid)
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// What the server answers.
    pub fn set_metadata(&self, changes: &SetAttr) -> Result<()> {
        self.tree.setattr(self.open.fid, changes)
    }

    /// Brings it to the server's disk; with `data_only`, without attributes that
    /// reading the content does not need.
    ///
    /// # Errors
    /// What the server answers.
    pub fn sync(&self, data_only: bool) -> Result<()> {
        self.tree.fsync(self.open.fid, data_only)
    }

    /// Takes a lock, however long others hold one in its way, or gives it up. An owner
    /// is a name, unique among all clients of the server, and the process id that the
    /// lock carries. 9P has one family of locks: the lock's style makes no difference.
    ///
    /// There is no limit to this but the connection's end; see [`File::lock_within`].
    ///
    /// # Errors
    /// What the server answers; `EINVAL` for a range without a byte, or beyond
    /// [`LockRange::EOF`](crate::LockRange::EOF).
    pub fn lock(&self, owner: &[u8], lock: &Lock) -> Result<()> {
        let wait = LockWait::ForEver;
        self.tree.lock(self.open.fid, owner, lock, wait)
    }

    /// The same, if it is to be had within `limit`. Answers of the server have the time of
    /// [`ConnectOptions`](crate::ConnectOptions) besides.
    ///
    /// # Errors
    /// `EAGAIN` if another owner held one in its way all the time; what the server
    /// answers.
    pub fn lock_within(&self, owner: &[u8], lock: &Lock, limit: Duration) -> Result<()> {
        let end = Instant::now().checked_add(limit);
        let wait = end.map_or(LockWait::ForEver, LockWait::Until);
        self.tree.lock(self.open.fid, owner, lock, wait)
    }

    /// The same, if it is to be had at once.
    ///
    /// # Errors
    /// `EAGAIN` if another owner holds one in its way; what the server answers.
    pub fn try_lock(&self, owner: &[u8], lock: &Lock) -> Result<()> {
        let wait = LockWait::No;
        self.tree.lock(self.open.fid, owner, lock, wait)
    }

    /// A lock in the way of `lock`, if there is one.
    ///
    /// # Errors
    /// What the server answers.
    pub fn lock_in_the_way(&self, owner: &[u8], lock: &Lock) -> Result<Option<Lock>> {
        self.tree.getlock(self.open.fid, owner, lock)
    }

    /// Closes it. If it was written to, this waits for what the server says to
    /// that; otherwise nobody waits.
    ///
    /// # Errors
    /// What the server answers: the error of a write that it had put off.
    pub fn close(mut self) -> Result<()> {
        self.is_closed = true;
        if self.was_written.load(Ordering::Relaxed) {
            return self.tree.clunk_and_wait(self.open.fid);
        }
        self.tree.clunk(self.open.fid);
        Ok(())
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn open_fid(&self) -> &OpenFid {
        &self.open
    }

    pub(crate) fn is_append(&self) -> bool {
        self.is_append
    }

    pub(crate) fn note_write(&self) {
        self.was_written.store(true, Ordering::Relaxed);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.is_closed {
            self.tree.clunk(self.open.fid);
        }
    }
}
