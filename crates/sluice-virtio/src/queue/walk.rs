//! From a head to the buffers of its chain (VIRTIO 1.3, section 2.7.5).

use super::layout::{DESCRIPTOR_BYTES, Descriptor, DescriptorFlags};
use super::split::SplitQueue;
use crate::memory::{GuestMemory, MAX_SEGMENTS, OutOfRange, SegmentError, Segments};

/// What is wrong with a chain. The ring itself is sound, so the chain is returned
/// unused and the ring goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Longer than the queue (a loop, usually), or than an indirect table, or than
    /// the 1024 buffers this crate takes.
    #[error("chain too long or in a loop")]
    TooLong,
    /// `next` is no index of the table.
    #[error("next descriptor {0} is not in its table")]
    BadNext(u16),
    /// A buffer is not wholly in guest memory.
    #[error("buffer outside of guest memory: {0}")]
    OutOfRange(OutOfRange),
    /// A readable buffer after a writable one (section 2.7.4.2).
    #[error("readable buffer after a writable one")]
    ReadableAfterWritable,
    /// An indirect descriptor though the feature was not negotiated.
    #[error("indirect descriptor without VIRTIO_RING_F_INDIRECT_DESC")]
    IndirectNotNegotiated,
    /// An indirect descriptor inside an indirect table (section 2.7.5.3.1).
    #[error("indirect descriptor inside an indirect table")]
    NestedIndirect,
    /// An indirect descriptor that also has a next one.
    #[error("indirect descriptor with a next one")]
    IndirectWithNext,
    /// An indirect table that is empty or no multiple of a descriptor.
    #[error("indirect table of {0} bytes")]
    BadIndirectLen(u32),
}

impl From<SegmentError> for ChainError {
    fn from(error: SegmentError) -> Self {
        match error {
            SegmentError::OutOfRange(range) => ChainError::OutOfRange(range),
            SegmentError::TooMany => ChainError::TooLong,
        }
    }
}

/// Adds the buffers of the chain at `head` to `segments`.
pub(super) fn walk_chain(
    queue: &SplitQueue,
    memory: &GuestMemory,
    head: u16,
    indirect_allowed: bool,
    segments: &mut Segments,
) -> Result<(), ChainError> {
    let ring = |index| queue.descriptor(index);
    match walk_table(ring, head, u32::from(queue.size()), segments)? {
        None => Ok(()),
        Some(_) if !indirect_allowed => Err(ChainError::IndirectNotNegotiated),
        Some(table) => walk_indirect(memory, table, segments),
    }
}

fn walk_indirect(
    memory: &GuestMemory,
    table: Descriptor,
    segments: &mut Segments,
) -> Result<(), ChainError> {
    let entries = table.len / DESCRIPTOR_BYTES as u32;
    if entries == 0 || !(table.len as usize).is_multiple_of(DESCRIPTOR_BYTES) {
        return Err(ChainError::BadIndirectLen(table.len));
    }
    memory
        .check(table.addr, u64::from(table.len))
        .map_err(ChainError::OutOfRange)?;
    let entry = |index| read_entry(memory, table.addr, index);
    match walk_table(entry, 0, entries, segments)? {
        None => Ok(()),
        Some(_) => Err(ChainError::NestedIndirect),
    }
}

/// Follows a chain within one table of `entries` descriptors. Returns the indirect
/// descriptor that it ends with, if it does.
fn walk_table(
    descriptor: impl Fn(u16) -> Option<Descriptor>,
    first: u16,
    entries: u32,
    segments: &mut Segments,
) -> Result<Option<Descriptor>, ChainError> {
    let mut index = first;
    // A chain that visits more descriptors than there are has a loop.
    for _ in 0..entries.min(MAX_SEGMENTS as u32) {
        let found = descriptor(index).filter(|_| u32::from(index) < entries);
        let found = found.ok_or(ChainError::BadNext(index))?;
        if found.flags.contains(DescriptorFlags::INDIRECT) {
            // WRITE is ignored here, as section 2.7.5.3.2 has it.
            return match found.flags.contains(DescriptorFlags::NEXT) {
                true => Err(ChainError::IndirectWithNext),
                false => Ok(Some(found)),
            };
        }
        add_buffer(&found, segments)?;
        if !found.flags.contains(DescriptorFlags::NEXT) {
            return Ok(None);
        }
        index = found.next;
    }
    Err(ChainError::TooLong)
}

fn add_buffer(buffer: &Descriptor, segments: &mut Segments) -> Result<(), ChainError> {
    let writable = buffer.flags.contains(DescriptorFlags::WRITE);
    if !writable && segments.has_writable() {
        return Err(ChainError::ReadableAfterWritable);
    }
    Ok(segments.push(buffer.addr, buffer.len, writable)?)
}

fn read_entry(memory: &GuestMemory, table: u64, index: u16) -> Option<Descriptor> {
    let addr = table.checked_add(u64::from(index) * DESCRIPTOR_BYTES as u64)?;
    let mut bytes = [0; DESCRIPTOR_BYTES];
    memory.read(addr, &mut bytes).ok()?;
    Some(Descriptor::from_bytes(bytes))
}
