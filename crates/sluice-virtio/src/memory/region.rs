//! One mapped region of guest memory.
#![allow(unsafe_code)]

use super::MemoryError;
use super::poison::Watch;
use super::slice::HostSlice;
use rustix::fs::FileType;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;

/// Where a region lies, as a vhost-user front-end describes it ("Memory regions
/// description" in the vhost-user specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Guest-physical address of the first byte.
    pub guest_addr: u64,
    /// Address of the first byte in the front-end's own address space; ring
    /// addresses are given in these.
    pub user_addr: u64,
    /// Bytes.
    pub size: u64,
    /// Where the region begins in its file.
    pub file_offset: u64,
}

impl RegionSpec {
    /// First guest-physical address behind the region, if that fits.
    pub(super) fn guest_end(&self) -> Option<u64> {
        self.guest_addr.checked_add(self.size)
    }

    fn user_end(&self) -> Option<u64> {
        self.user_addr.checked_add(self.size)
    }

    /// Whether the two share a guest-physical or a user address.
    pub(super) fn overlaps(&self, other: &RegionSpec) -> bool {
        let share = |a: u64, b: u64| a.abs_diff(b) < if a < b { self.size } else { other.size };
        share(self.guest_addr, other.guest_addr) || share(self.user_addr, other.user_addr)
    }
}

/// A region of guest memory mapped into this process until it is dropped.
#[derive(Debug)]
pub struct Region {
    spec: RegionSpec,
    len: usize,
    /// The region's first byte, somewhere in the first page of the mapping.
    first: NonNull<u8>,
    map_start: NonNull<libc::c_void>,
    map_len: usize,
    /// `None` only while the region is being dropped.
    watch: Option<Watch>,
}

// SAFETY: the mapping has no ties to a thread, and all access to it is through
// volatile copies, atomics and system calls.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `spec` from `fd`, a regular file (a memfd, hugetlbfs, tmpfs) that is at
    /// least as long as the region needs.
    pub fn map(spec: RegionSpec, fd: BorrowedFd<'_>) -> Result<Region, MemoryError> {
        let len = checked_len(&spec)?;
        let page_bytes = check_file(&spec, fd)?;
        let lead = spec.file_offset % page_bytes as u64;
        let map_len = (lead as usize)
            .checked_add(len)
            .and_then(|bytes| bytes.checked_next_multiple_of(page_bytes))
            .ok_or(MemoryError::BadRegion(spec))?;

        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                map_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                spec.file_offset - lead,
            )
        }
        .map_err(|error| MemoryError::Map(spec, error.into()))?;
        let map_start = NonNull::new(start).ok_or(MemoryError::BadRegion(spec))?;
        // SAFETY: `lead` is less than `map_len`.
        let first = unsafe { map_start.cast::<u8>().add(lead as usize) };
        let mut region = Region {
            spec,
            len,
            first,
            map_start,
            map_len,
            watch: None,
        };
        let watch = Watch::new(start as usize, map_len, page_bytes)
            .map_err(|error| MemoryError::Map(spec, error))?;
        region.watch = Some(watch);
        // A core dump of this process has no business with the guest's memory.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe { rustix::mm::madvise(start, map_len, Advice::LinuxDontDump) };
        Ok(region)
    }

    /// Where the region lies.
    pub fn spec(&self) -> &RegionSpec {
        &self.spec
    }

    /// Whether a page was lost because the file shrank.
    pub fn is_poisoned(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_poisoned)
    }

    /// What the region has from `offset` on, at most `len` bytes of it; `None` if
    /// `offset` lies outside.
    pub(super) fn slice(&self, offset: u64, len: usize) -> Option<HostSlice<'_>> {
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: mapped readable and writable until the region is dropped, and
        // handed out only as `HostSlice`s.
        let whole = unsafe { HostSlice::new(self.first, self.len) };
        whole.get(offset, len).filter(|slice| slice.len() > 0)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // The watch ends first: from here on nobody can fault in this mapping.
        self.watch = None;
        // SAFETY: made by `map`, and every pointer into it came with a borrow or
        // an `Arc` of this region.
        if let Err(error) = unsafe { rustix::mm::munmap(self.map_start.as_ptr(), self.map_len) } {
            tracing::error!(%error, "cannot unmap guest memory");
        }
    }
}

fn checked_len(spec: &RegionSpec) -> Result<usize, MemoryError> {
    let fits = spec.guest_end().is_some() && spec.user_end().is_some();
    usize::try_from(spec.size)
        .ok()
        .filter(|len| fits && (1..=isize::MAX as usize).contains(len))
        .ok_or(MemoryError::BadRegion(*spec))
}

/// Checks that the file has what the region claims, and returns its page size.
fn check_file(spec: &RegionSpec, fd: BorrowedFd<'_>) -> Result<usize, MemoryError> {
    let failed = |error: rustix::io::Errno| MemoryError::Map(*spec, error.into());
    let stat = rustix::fs::fstat(fd.as_fd()).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(MemoryError::NotAFile(*spec));
    }
    let end = spec.file_offset.checked_add(spec.size);
    if end.is_none_or(|end| end > stat.st_size as u64) {
        return Err(MemoryError::FileTooShort(*spec, stat.st_size as u64));
    }
    let page_bytes = rustix::param::page_size();
    let fs = rustix::fs::fstatfs(fd).map_err(failed)?;
    if fs.f_type as u64 == libc::HUGETLBFS_MAGIC as u64 {
        return Ok((fs.f_bsize as usize).max(page_bytes));
    }
    Ok(page_bytes)
}
