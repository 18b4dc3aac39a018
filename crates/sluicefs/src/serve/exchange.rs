//! A request from a virtqueue until it is answered.

use super::parked::ParkedChains;
use sluice_proto::fuse::serve::{Exchange, Parked};
use sluice_proto::fuse::wire::OutHeader;
use sluice_vfs::{Errno, ReadSink, Result, WriteFlags, WriteSource};
use sluice_virtio::queue::Chain;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use zerocopy::IntoBytes;

const HEADER_LEN: usize = size_of::<OutHeader>();

/// Request and reply are in the guest's memory, and only the kernel ever
/// touches their payload there.
pub(super) struct ChainExchange<'a> {
    chain: Chain,
    unique: u64,
    parked: &'a Arc<ParkedChains>,
    /// How far into the readable part the payload was taken.
    taken: usize,
    /// How far into the writable part the body of the reply reaches.
    filled: usize,
}

impl<'a> ChainExchange<'a> {
    /// The request named `unique`, whose payload begins at `payload_at` bytes
    /// of the readable part. If it has to wait, it does so in `parked`.
    pub(super) fn new(
        chain: Chain,
        unique: u64,
        payload_at: usize,
        parked: &'a Arc<ParkedChains>,
    ) -> Self {
        ChainExchange {
            chain,
            unique,
            parked,
            taken: payload_at,
            filled: HEADER_LEN,
        }
    }
}

impl Exchange for ChainExchange<'_> {
    fn source(&mut self) -> &mut dyn WriteSource {
        self
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        self
    }

    fn finish(self, header: OutHeader) {
        answer(self.chain, header);
    }

    fn discard(self) {
        self.chain.complete(0);
    }

    fn park(self) -> Box<dyn Parked> {
        self.parked.park(self.chain, self.unique)
    }
}

impl WriteSource for ChainExchange<'_> {
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
        self.taken += buf.len();
        Ok(())
    }
}

impl ReadSink for ChainExchange<'_> {
    fn remaining(&self) -> usize {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        writer.remaining()
    }

    fn read_from(&mut self, fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<usize> {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        let count = writer.read_from_fd(fd, offset, len)?;
        self.filled += count;
        Ok(count)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let mut writer = self.chain.writer();
        writer.skip(self.filled);
        writer.write_all(bytes).map_err(|_| Errno::EMSGSIZE)?;
        self.filled += bytes.len();
        Ok(())
    }
}

/// Completes `chain` with `header` and what is behind it in the guest's memory.
/// A guest that left no room for a header gets no reply at all.
pub(super) fn answer(chain: Chain, header: OutHeader) {
    let written = match chain.writer().write_at(0, header.as_bytes()) {
        Ok(()) => header.len as usize,
        Err(_) => 0,
    };
    chain.complete(written);
}
