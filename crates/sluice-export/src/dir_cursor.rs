//! Where a listing stands, between one request and the next.

use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, seek};
use sluice_sys::{Dirent, getdents};
use sluice_vfs::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    permit: Option<Permit>,
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

    /// Ends a request. What was read beyond it is kept if `budget` allows.
    pub(crate) fn rest(&mut self, budget: &Arc<Budget>) {
        if self.has_unused() && self.permit.is_none() {
            self.permit = Permit::get(budget);
        }
        if !self.has_unused() || self.permit.is_none() {
            self.clear();
        }
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
            return Ok(false);
        }
        self.fd_cookie = last_cookie(&self.buf).unwrap_or(self.fd_cookie);
        Ok(true)
    }

    /// Drops what was read. The descriptor stays where it is.
    fn clear(&mut self) {
        self.buf = Vec::new();
        self.used = 0;
        self.permit = None;
    }
}

/// How many buffers a session may keep between requests. A peer that opens
/// many directories and reads each in part costs more system calls then, not
/// more memory.
pub(crate) struct Budget {
    left: AtomicU32,
}

impl Budget {
    pub(crate) fn new(buffers: u32) -> Arc<Self> {
        Arc::new(Budget {
            left: AtomicU32::new(buffers),
        })
    }
}

/// The right to keep a buffer.
struct Permit(Arc<Budget>);

impl Permit {
    fn get(budget: &Arc<Budget>) -> Option<Self> {
        let take = |left: u32| left.checked_sub(1);
        let taken = budget
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok().then(|| Permit(budget.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn next(cursor: &mut DirCursor, fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let entry = cursor.peek(fd).unwrap()?;
        let (name, len, cookie) = (entry.name.to_vec(), entry.record_len, entry.next_cookie);
        cursor.advance(len, cookie);
        Some(name)
    }

    #[test]
    fn buffers_are_kept_while_there_is_a_budget() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            File::create(dir.path().join(name)).unwrap();
        }
        let fd = File::open(dir.path()).unwrap();
        let budget = Budget::new(1);
        let (mut first, mut second) = (DirCursor::default(), DirCursor::default());
        for cursor in [&mut first, &mut second] {
            cursor.seek(fd.as_fd(), 0).unwrap();
            next(cursor, fd.as_fd());
            seek(&fd, SeekFrom::Start(0)).unwrap();
            cursor.rest(&budget);
        }
        assert!(first.has_unused() && !second.has_unused());
        while next(&mut first, fd.as_fd()).is_some() {}
        first.rest(&budget);
        assert_eq!(budget.left.load(Ordering::Relaxed), 1);
    }
}
