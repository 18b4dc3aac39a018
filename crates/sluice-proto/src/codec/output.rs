//! A message in the making.

use super::error::BufferTooSmall;

/// Fills a buffer from its start.
#[derive(Debug)]
pub(crate) struct Output<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> Output<'b> {
    pub(crate) fn new(buf: &'b mut [u8]) -> Self {
        Output { buf, len: 0 }
    }

    /// Appends `bytes`.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        let end = self.len.checked_add(bytes.len()).ok_or(BufferTooSmall)?;
        let room = self.buf.get_mut(self.len..end).ok_or(BufferTooSmall)?;
        room.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Overwrites what stands at `at`, which was put there before.
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        let end = at.checked_add(bytes.len()).ok_or(BufferTooSmall)?;
        let room = self.buf.get_mut(at..end).ok_or(BufferTooSmall)?;
        room.copy_from_slice(bytes);
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
