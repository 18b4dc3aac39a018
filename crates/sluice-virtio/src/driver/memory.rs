//! The memory that a driver shares with a device.

use super::DriverError;
use crate::memory::{GuestMemory, Region, RegionSpec};
use crate::vhost_user::message::MemoryTable;
use rustix::fs::MemfdFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Guest-physical address of the first byte.
const GUEST_BASE: u64 = 0x10_0000;
/// User address of the first byte; nothing is mapped there, it only names memory.
const USER_BASE: u64 = 0x5000_0000_0000;
/// Hole in user addresses between two regions, so that nothing relies on there being
/// none.
const USER_GAP: u64 = 0x1000_0000;

/// Shared memory in one file, as one or more regions that are adjacent for the guest.
#[derive(Debug)]
pub(super) struct SharedMemory {
    file: OwnedFd,
    specs: Vec<RegionSpec>,
    mapped: Arc<GuestMemory>,
    region_bytes: u64,
    /// Offset of the first byte that nobody has yet.
    free: u64,
}

impl SharedMemory {
    pub(super) fn new(bytes: u64, regions: u64) -> Result<Self, DriverError> {
        let page = rustix::param::page_size() as u64;
        let regions = regions.max(1);
        let region_bytes = (bytes / regions).max(1).next_multiple_of(page);
        let file = rustix::fs::memfd_create(
            "driver-memory",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        rustix::fs::ftruncate(&file, region_bytes * regions)?;
        let specs: Vec<_> = (0..regions)
            .map(|index| RegionSpec {
                guest_addr: GUEST_BASE + index * region_bytes,
                user_addr: USER_BASE + index * (region_bytes + USER_GAP),
                size: region_bytes,
                file_offset: index * region_bytes,
            })
            .collect();
        let mut mapped = GuestMemory::default();
        for spec in &specs {
            mapped = mapped.with(Region::map(*spec, file.as_fd())?)?;
        }
        Ok(SharedMemory {
            file,
            specs,
            mapped: Arc::new(mapped),
            region_bytes,
            free: 0,
        })
    }

    pub(super) fn mapped(&self) -> &Arc<GuestMemory> {
        &self.mapped
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn table(&self) -> MemoryTable {
        MemoryTable(self.specs.clone())
    }

    /// `bytes` at a multiple of `align` that nobody has yet; their guest address. They
    /// lie in one region unless they are more than one has.
    pub(super) fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64, DriverError> {
        let mut start = self.free.next_multiple_of(align);
        let end_of_region = (start / self.region_bytes + 1) * self.region_bytes;
        if start + bytes > end_of_region && bytes <= self.region_bytes {
            start = end_of_region;
        }
        if start + bytes > self.region_bytes * self.specs.len() as u64 {
            return Err(DriverError::OutOfMemory(bytes));
        }
        self.free = start + bytes;
        Ok(GUEST_BASE + start)
    }

    /// User address of a guest address.
    pub(super) fn user_addr(&self, guest_addr: u64) -> Option<u64> {
        self.specs.iter().find_map(|spec| {
            let offset = guest_addr.checked_sub(spec.guest_addr)?;
            (offset < spec.size).then_some(spec.user_addr + offset)
        })
    }
}
