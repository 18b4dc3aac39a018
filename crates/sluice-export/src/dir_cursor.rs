//! Where a listing stands, between one request and the next.

use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, seek};
use sluice_sys::{Dirent, getdents};
use sluice_vfs::Result;

/// Bytes of directory entries that are read at a time.
const BUFFER_BYTES: usize = 16 * 1024;

/// Entries that were read from a directory but not asked for yet. They go on
/// being used as long as the requests follow one another; any other cookie
/// makes the descriptor seek, so readers that take turns on one handle don't
/// disturb each other.
#[derive(Default)]
pub(crate) struct DirCursor {
    buf: Vec<u8>,
    /// Bytes of `buf` that are used up.
    used: usize,
    /// Cookie of the first entry in `buf` that isn't, if there is one.
    cookie: u64,
    /// Where the descriptor stands: behind the last entry in `buf`.
    fd_cookie: u64,
}

impl DirCursor {
    /// Moves to `cookie`. A listing from the start is always read afresh.
    pub(crate) fn seek(&mut self, fd: BorrowedFd<'_>, cookie: u64) -> Result<()> {
        if cookie != 0 && self.has_unused() && cookie == self.cookie {
            return Ok(());
        }
        self.clear();
        if cookie != self.fd_cookie {
            // A cookie may use all 64 bits; the kernel sees the same bits.
            seek(fd, SeekFrom::Start(cookie))?;
            self.fd_cookie = cookie;
        }
        Ok(())
    }

    /// The next entry, read from the directory if need be; `None` at the end.
    pub(crate) fn peek(&mut self, fd: BorrowedFd<'_>) -> Result<Option<Dirent<'_>>> {
        if !self.has_unused() && !self.fill(fd)? {
            return Ok(None);
        }
        Ok(Dirent::first(self.buf.get(self.used..).unwrap_or_default()))
    }

    /// Goes past an entry that was peeked at.
    pub(crate) fn advance(&mut self, record_len: usize, next_cookie: u64) {
        self.used += record_len;
        self.cookie = next_cookie;
    }

    fn has_unused(&self) -> bool {
        self.used < self.buf.len()
    }

    /// Whether there was anything to read.
    fn fill(&mut self, fd: BorrowedFd<'_>) -> Result<bool> {
        self.used = 0;
        self.buf.resize(BUFFER_BYTES, 0);
        let outcome = getdents(fd, &mut self.buf);
        self.buf.truncate(*outcome.as_ref().unwrap_or(&0));
        if outcome? == 0 {
            self.clear();
            return Ok(false);
        }
        self.fd_cookie = last_cookie(&self.buf).unwrap_or(self.fd_cookie);
        Ok(true)
    }

    /// Drops what was read. The descriptor stays where it is.
    fn clear(&mut self) {
        self.buf = Vec::new();
        self.used = 0;
    }
}

fn last_cookie(mut entries: &[u8]) -> Option<u64> {
    let mut last = None;
    while let Some(entry) = Dirent::first(entries) {
        last = Some(entry.next_cookie);
        entries = entries.get(entry.record_len..)?;
    }
    last
}
