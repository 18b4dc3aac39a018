//! Message buffers whose payload begins on a page boundary: the kernel copies
//! such pages whole, and direct I/O needs it.

use std::ops::{Deref, DerefMut};

const PAGE_BYTES: usize = 4096;

/// A byte buffer of fixed length.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes, the one at `aligned_at` (less than a page) on a page boundary.
    pub(super) fn new(len: usize, aligned_at: usize) -> Self {
        let bytes = vec![0; len + 2 * PAGE_BYTES];
        let to_boundary = bytes.as_ptr().align_offset(PAGE_BYTES);
        // `align_offset` may give up by contract; it does not for bytes, and
        // then alignment is lost and nothing else.
        let start = match to_boundary {
            ..PAGE_BYTES => to_boundary + PAGE_BYTES - aligned_at % PAGE_BYTES,
            _ => 0,
        };
        AlignedBuffer { bytes, start, len }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_on_a_page() {
        for aligned_at in [0, 80, PAGE_BYTES - 1] {
            let mut buffer = AlignedBuffer::new(3 * PAGE_BYTES, aligned_at);
            assert_eq!(buffer.len(), 3 * PAGE_BYTES);
            assert_eq!(buffer[aligned_at..].as_ptr().align_offset(PAGE_BYTES), 0);
            buffer.fill(1);
        }
    }
}
