//! What is copied that need not be.

use std::sync::atomic::{AtomicU64, Ordering};

static COPIED: AtomicU64 = AtomicU64::new(0);

/// How many bytes of payloads this process has copied between buffers of its own, or
/// to a guest's memory: directories, attributes and their values are, the content of
/// files is not.
pub fn copied_bytes() -> u64 {
    COPIED.load(Ordering::Relaxed)
}

/// So many more were.
pub(super) fn count(bytes: usize) {
    COPIED.fetch_add(bytes as u64, Ordering::Relaxed);
}
