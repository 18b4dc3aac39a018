//! Memory for messages and payloads, in two sizes: a small one that every
//! request gets by with, and large ones that are there while a payload is.
//!
//! Buffers are kept for the next request, a few of each size. Fresh ones are
//! zeros that the kernel only makes room for when they are touched.

use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Enough for any request without its payload, and for most with it, in bytes.
pub(super) const SMALL: usize = 16 * 1024;

/// The sizes that are kept, in bytes, and how many of each: 5 MiB in all.
const KEPT: [(usize, usize); 3] = [(SMALL, 64), (128 * 1024, 8), (1 << 20, 3)];

static POOL: Pool = Pool([const { Mutex::new(Vec::new()) }; KEPT.len()]);

struct Pool([Mutex<Vec<Vec<u8>>>; KEPT.len()]);

/// Bytes of payloads that are in use, in buffers that are not small and in pipes.
/// Whoever waits for some to come back says so before it looks here once more: either it
/// sees that some has, or who gave it back sees that somebody waits.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// How many bytes payloads on 9P sockets take in this process now.
pub fn held_bytes() -> usize {
    HELD.load(Ordering::SeqCst)
}

/// Room that a payload takes, until dropped; by default none.
#[derive(Debug, Default)]
pub(super) struct Held(usize);

impl Held {
    /// So many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        HELD.fetch_add(bytes, Ordering::SeqCst);
        Held(bytes)
    }

    /// So many bytes, unless `most` or more are in use already.
    pub(super) fn below(most: usize, bytes: usize) -> Option<Self> {
        let add = |held: usize| (held < most).then_some(held.saturating_add(bytes));
        let added = HELD.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
        added.is_ok().then(|| Held(bytes))
    }

    /// The same, for so many bytes instead.
    fn resized(mut self, bytes: usize) -> Self {
        match bytes.checked_sub(self.0) {
            Some(more) => HELD.fetch_add(more, Ordering::SeqCst),
            None => HELD.fetch_sub(self.0 - bytes, Ordering::SeqCst),
        };
        self.0 = bytes;
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Most requests have none, and all threads share this.
        if self.0 > 0 {
            HELD.fetch_sub(self.0, Ordering::SeqCst);
        }
    }
}

/// Bytes that go back to where they came from.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    held: Option<Held>,
}

impl Buffer {
    /// At least `len` bytes, of which none means anything.
    pub(super) fn new(len: usize) -> Self {
        Buffer::with(len, None)
    }

    /// The same with memory that was set aside, maybe for more than that.
    pub(super) fn with(len: usize, reserved: Option<Held>) -> Self {
        let fitting = KEPT.iter().zip(&POOL.0).find(|((size, _), _)| len <= *size);
        let bytes = match fitting {
            Some(((size, _), shelf)) => {
                let kept = lock(shelf).pop();
                kept.unwrap_or_else(|| vec![0; *size])
            }
            None => vec![0; len],
        };
        let held = match reserved {
            Some(held) => {
                let most = held.0.max(bytes.len());
                Some(held.resized(most))
            }
            None => (bytes.len() > SMALL).then(|| Held::new(bytes.len())),
        };
        Buffer { bytes, held }
    }

    /// Becomes one of at least `len` bytes, of which the first `taken` stay.
    pub(super) fn grow(&mut self, len: usize, taken: usize) {
        let mut larger = Buffer::with(len, self.held.take());
        let (from, to) = (self.get(..taken), larger.get_mut(..taken));
        if let (Some(from), Some(to)) = (from, to) {
            to.copy_from_slice(from);
        }
        *self = larger;
    }

    /// Bytes that count for it: none if it is small.
    pub(super) fn counted(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.0)
    }

    /// Gives back what was set aside beyond what it takes.
    pub(super) fn settle(&mut self) {
        let held = self.held.take().filter(|_| self.bytes.len() > SMALL);
        self.held = held.map(|held| held.resized(self.bytes.len()));
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut fitting = KEPT.iter().zip(&POOL.0);
        let found = fitting.find(|((size, _), _)| self.bytes.len() == *size);
        if let Some(((_, most), shelf)) = found {
            let mut shelf = lock(shelf);
            if shelf.len() < *most {
                shelf.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Some bytes of a buffer, which others may have others of.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Bytes {
    /// The first `len` bytes of `buffer`, or all.
    pub(super) fn new(buffer: Buffer, len: usize) -> Self {
        let range = 0..len.min(buffer.len());
        let buffer = Arc::new(buffer);
        Bytes { buffer, range }
    }

    /// Bytes that count for the buffer, whoever else has some of it.
    pub(super) fn counted(&self) -> usize {
        self.buffer.counted()
    }

    /// Takes up to `len` bytes off the front.
    pub(super) fn split_front(&mut self, len: usize) -> Bytes {
        let mid = self.range.start + len.min(self.range.len());
        let front = Bytes {
            buffer: Arc::clone(&self.buffer),
            range: self.range.start..mid,
        };
        self.range.start = mid;
        front
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(self.range.clone()).unwrap_or_default()
    }
}

fn lock(shelf: &Mutex<Vec<Vec<u8>>>) -> MutexGuard<'_, Vec<Vec<u8>>> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_large_as_it_must_be() {
        for (asked, got) in [
            (0, SMALL),
            (SMALL, SMALL),
            (SMALL + 1, 128 * 1024),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, (1 << 20) + 1),
        ] {
            assert_eq!(Buffer::new(asked).len(), got);
        }
    }

    #[test]
    fn what_was_set_aside_counts_until_it_is_known_what_is_needed() {
        let aside = 8 * SMALL;
        let mut buffer = Buffer::with(10, Some(Held::new(aside)));
        assert_eq!((buffer.len(), buffer.counted()), (SMALL, aside));
        buffer[..3].copy_from_slice(b"abc");
        buffer.grow(SMALL + 1, 3);
        assert_eq!((&buffer[..3], buffer.counted()), (&b"abc"[..], aside));
        buffer.grow(aside + 1, 3);
        assert_eq!(buffer.counted(), buffer.len());
        let mut buffer = Buffer::with(10, Some(Held::new(aside)));
        buffer.settle();
        assert_eq!(buffer.counted(), 0);
        let mut buffer = Buffer::with(SMALL + 1, Some(Held::new(100 * SMALL)));
        buffer.settle();
        assert_eq!(buffer.counted(), buffer.len());
    }

    #[test]
    fn bytes_are_taken_off_the_front() {
        let mut buffer = Buffer::new(10);
        buffer[..4].copy_from_slice(b"abcd");
        let mut bytes = Bytes::new(buffer, 4);
        let front = bytes.split_front(3);
        assert_eq!((&*front, &*bytes), (&b"abc"[..], &b"d"[..]));
        assert_eq!(&*bytes.split_front(9), b"d");
        assert!(bytes.is_empty());
    }
}
