//! The two ends of a request on a virtqueue: what the guest sent, and room for
//! the reply.

use crate::serve::copied;
use sluice_vfs::{Errno, ReadSink, Result, WriteFlags, WriteSource};
use sluice_virtio::queue::Chain;
use std::os::fd::BorrowedFd;

/// A request whose payload only the kernel ever touches, in the guest's memory.
pub(super) struct ChainEnds {
    chain: Chain,
    /// How far into the readable part the payload was taken.
    taken: usize,
    /// How far into the writable part the payload of the reply reaches.
    filled: usize,
    /// How far something may have been written there, by reads that failed, too.
    touched: usize,
}

impl ChainEnds {
    /// The payload of the request begins at `payload_at` bytes of the readable
    /// part, that of the reply at `reply_payload_at` bytes of the writable part.
    pub(super) fn new(chain: Chain, payload_at: usize, reply_payload_at: usize) -> Self {
        ChainEnds {
            chain,
            taken: payload_at,
            filled: reply_payload_at,
            touched: 0,
        }
    }

    /// Bytes of the longest reply.
    pub(super) fn room(&self) -> usize {
        self.chain.writer().remaining()
    }

    /// Completes the chain with `message` and the first `payload_len` bytes of
    /// the payload, which is right behind it. Nothing else that was read for
    /// the reply stays in the guest's memory. A guest that left no room for the
    /// message gets no reply at all.
    pub(super) fn finish(self, message: &[u8], payload_len: usize) {
        let end = message.len().saturating_add(payload_len);
        let written = match self.chain.writer().write_at(0, message) {
            Ok(()) => end,
            Err(_) => 0,
        };
        erase(&self.chain, written, self.touched);
        self.chain.complete(written);
    }

    /// The chain alone, to be answered later without a payload.
    pub(super) fn into_chain(self) -> Chain {
        erase(&self.chain, 0, self.touched);
        self.chain
    }
}

impl WriteSource for ChainEnds {
    fn remaining(&self) -> usize {
        let mut reader = self.chain.reader();
        reader.skip(self.taken);
        reader.remaining()
    }

    fn write_to(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: WriteFlags,
    ) -> Result<usize> {
        let mut reader = self.chain.reader();
        reader.skip(self.taken);
        let flags = rustix::io::ReadWriteFlags::from(flags).bits().cast_signed();
        let count = reader.write_to_fd(fd, offset, len, flags)?;
        self.taken += count;
        Ok(count)
    }

    fn take(&mut self, buf: &mut [u8]) -> Result<()> {
        let mut reader = self.chain.reader();
        reader.skip(self.taken);
        reader.read_exact(buf).map_err(|_| Errno::EMSGSIZE)?;
        copied::count(buf.len());
        self.taken += buf.len();
        Ok(())
    }
}

impl ReadSink for ChainEnds {
    fn remaining(&self) -> usize {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        writer.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        // A read that fails may have moved something all the same.
        let before = self.touched;
        let reach = self.filled.saturating_add(len.min(writer.remaining()));
        self.touched = before.max(reach);
        let count = writer.read_from_fd(fd, offset, len)?;
        self.filled += count;
        self.touched = before.max(self.filled);
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        writer.write_all(bytes).map_err(|_| Errno::EMSGSIZE)?;
        copied::count(bytes.len());
        self.filled += bytes.len();
        self.touched = self.touched.max(self.filled);
        Ok(())
    }
}

/// Copies the start of a request out of the guest's memory into `prefix`, each
/// byte once: first `header_len` bytes, then as much as `wanted` says in all when
/// it sees those. What the guest did not send is missing at the end.
pub(super) fn copy_prefix(
    chain: &Chain,
    header_len: usize,
    wanted: impl FnOnce(&[u8]) -> usize,
    prefix: &mut Vec<u8>,
) {
    let mut reader = chain.reader();
    let header_len = header_len.min(reader.remaining());
    prefix.clear();
    prefix.resize(header_len, 0);
    reader.read(prefix);
    let rest = wanted(prefix)
        .saturating_sub(header_len)
        .min(reader.remaining());
    prefix.resize(header_len + rest, 0);
    if let Some(tail) = prefix.get_mut(header_len..) {
        reader.read(tail);
    }
}

/// Zeroes bytes of the writable part. A reply usually ends where the last read
/// did, and then there are none.
fn erase(chain: &Chain, from: usize, to: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut writer = chain.writer();
    writer.skip(from);
    let mut left = to.saturating_sub(from).min(writer.remaining());
    while left > 0 {
        let piece = ZEROS.get(..left.min(ZEROS.len())).unwrap_or(&ZEROS);
        left -= writer.write(piece).clamp(1, left);
    }
}
