//! Guest memory: mapped regions, address translation and safe ways in and out.
//!
//! A [`GuestMemory`] is an immutable snapshot of the memory table. A change makes a
//! new one; whoever works with the old one (a request in flight) keeps its mappings
//! alive through an `Arc`. Guest memory is never a `&[u8]`: it is copied with
//! volatile accesses, or handed to the kernel as iovecs.

mod poison;
mod region;
mod segments;
mod slice;
mod vectored;
mod volatile;
mod window;

pub(crate) use poison::lost_pages;
pub use region::{Region, RegionSpec};
pub(crate) use segments::{Cursor, MAX_SEGMENTS, SegmentError, Segments, Storage};
pub(crate) use slice::HostSlice;
pub(crate) use window::Window;

use std::io;
use std::sync::Arc;

/// Regions a memory table may have (`VHOST_USER_GET_MAX_MEM_SLOTS`).
pub const MAX_REGIONS: usize = 509;

/// Why a change of the memory table was refused.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Empty, or its addresses wrap around.
    #[error("memory region has an impossible address or size: {0:x?}")]
    BadRegion(RegionSpec),
    /// Shares addresses with a region that is already there.
    #[error("memory region overlaps another: {0:x?}")]
    Overlap(RegionSpec),
    /// Not backed by a regular file (memfd, tmpfs, hugetlbfs).
    #[error("memory region is not backed by a file: {0:x?}")]
    NotAFile(RegionSpec),
    /// The file ends before the region does; the second value is its size in bytes.
    #[error("memory region lies outside its file of {1} bytes: {0:x?}")]
    FileTooShort(RegionSpec, u64),
    /// A system call failed.
    #[error("cannot map memory region {0:x?}: {1}")]
    Map(RegionSpec, #[source] io::Error),
    /// More regions than [`MAX_REGIONS`].
    #[error("more than {MAX_REGIONS} memory regions")]
    TooMany,
    /// To be removed, but not there.
    #[error("no such memory region: {0:x?}")]
    NotFound(RegionSpec),
}

/// An address range that is not (or not wholly) guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} bytes at {addr:#x} are not in guest memory")]
pub struct OutOfRange {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

/// A snapshot of the memory table.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory {
    /// Sorted by guest-physical address, disjoint.
    regions: Vec<Arc<Region>>,
}

impl GuestMemory {
    /// This table and one region more.
    pub fn with(&self, region: Region) -> Result<GuestMemory, MemoryError> {
        let spec = *region.spec();
        if self.regions.len() >= MAX_REGIONS {
            return Err(MemoryError::TooMany);
        }
        if self.regions.iter().any(|r| r.spec().overlaps(&spec)) {
            return Err(MemoryError::Overlap(spec));
        }
        let mut regions = self.regions.clone();
        let at = regions.partition_point(|r| r.spec().guest_addr < spec.guest_addr);
        regions.insert(at, Arc::new(region));
        Ok(GuestMemory { regions })
    }

    /// This table without the region that has `spec`'s addresses and size (the
    /// file offset is ignored, as `VHOST_USER_REM_MEM_REG` has it).
    pub fn without(&self, spec: &RegionSpec) -> Result<GuestMemory, MemoryError> {
        let same = |r: &RegionSpec| {
            (r.guest_addr, r.user_addr, r.size) == (spec.guest_addr, spec.user_addr, spec.size)
        };
        let mut regions = self.regions.clone();
        regions.retain(|r| !same(r.spec()));
        if regions.len() == self.regions.len() {
            return Err(MemoryError::NotFound(*spec));
        }
        Ok(GuestMemory { regions })
    }

    /// Where the regions lie, by ascending guest-physical address.
    pub fn regions(&self) -> impl Iterator<Item = &RegionSpec> {
        self.regions.iter().map(|region| region.spec())
    }

    /// Whether a page was lost because a file shrank: the peer broke the contract,
    /// and what was read may be zeros that it never wrote.
    pub fn is_poisoned(&self) -> bool {
        self.regions.iter().any(|region| region.is_poisoned())
    }

    /// Copies `buf.len()` bytes out, from guest-physical address `addr`. The range
    /// may span adjacent regions.
    pub fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), OutOfRange> {
        let mut at = 0;
        self.each_slice(addr, buf.len() as u64, |slice| {
            at += slice.copy_out(buf.get_mut(at..).unwrap_or_default());
        })
    }

    /// Copies `bytes` in, to guest-physical address `addr`.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), OutOfRange> {
        self.check(addr, bytes.len() as u64)?;
        let mut at = 0;
        self.each_slice(addr, bytes.len() as u64, |slice| {
            at += slice.copy_in(bytes.get(at..).unwrap_or_default());
        })
    }

    /// Whether `len` bytes at guest-physical address `addr` are all there.
    pub fn check(&self, addr: u64, len: u64) -> Result<(), OutOfRange> {
        self.each_slice(addr, len, |_| {})
    }

    /// A window on `len` bytes at user address `addr`, within one region.
    pub(crate) fn window_at_user(&self, addr: u64, len: usize) -> Result<Window, OutOfRange> {
        let outside = OutOfRange {
            addr,
            len: len as u64,
        };
        self.regions
            .iter()
            .find_map(|region| {
                let offset = addr.checked_sub(region.spec().user_addr)?;
                Window::new(region, offset, len)
            })
            .ok_or(outside)
    }

    /// Calls `each` with every piece of host memory that makes up `len` bytes at
    /// guest-physical address `addr`. Pieces before a hole have been given when the
    /// error comes.
    fn each_slice<'a>(
        &'a self,
        addr: u64,
        len: u64,
        mut each: impl FnMut(HostSlice<'a>),
    ) -> Result<(), OutOfRange> {
        let outside = OutOfRange { addr, len };
        if len == 0 {
            return Ok(());
        }
        addr.checked_add(len).ok_or(outside)?;
        let mut at = addr;
        let mut left = usize::try_from(len).map_err(|_| outside)?;
        let first = self
            .regions
            .partition_point(|region| region.spec().guest_addr <= addr)
            .checked_sub(1)
            .ok_or(outside)?;
        for region in self.regions.iter().skip(first) {
            let offset = at.checked_sub(region.spec().guest_addr).ok_or(outside)?;
            let slice = region.slice(offset, left).ok_or(outside)?;
            each(slice);
            left -= slice.len();
            if left == 0 {
                return Ok(());
            }
            at += slice.len() as u64;
        }
        Err(outside)
    }
}

#[cfg(test)]
mod tests;
