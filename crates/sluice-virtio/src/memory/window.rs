//! A bounds-checked view of a piece of one region, for what is read and written in
//! place: rings.
#![allow(unsafe_code)]

use super::region::Region;
use super::slice::HostSlice;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `len` bytes of a region, which the window keeps mapped.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    start: NonNull<u8>,
    len: usize,
    region: Arc<Region>,
}

// SAFETY: see `Region`; the pointer is into the region that the window holds.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// The `len` bytes at `offset` of `region`, if it has them all.
    pub(crate) fn new(region: &Arc<Region>, offset: u64, len: usize) -> Option<Window> {
        let slice = region.slice(offset, len)?;
        (slice.len() == len).then(|| Window {
            start: slice.start(),
            len,
            region: region.clone(),
        })
    }

    /// Whether the first byte lies at a multiple of `align` (a power of two) in this
    /// process. Guest pages are host pages, so this is the guest's alignment too.
    pub(crate) fn is_aligned(&self, align: usize) -> bool {
        self.start.as_ptr().align_offset(align) == 0
    }

    /// Copies out `buf.len()` bytes from `offset`; false if they are not all inside.
    pub(crate) fn read(&self, offset: usize, buf: &mut [u8]) -> bool {
        self.exactly(offset, buf.len())
            .map(|slice| slice.copy_out(buf))
            .is_some()
    }

    /// Copies `bytes` in at `offset`; false if they don't fit, and then none is.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.exactly(offset, bytes.len())
            .map(|slice| slice.copy_in(bytes))
            .is_some()
    }

    /// Loads a little-endian 16-bit field; 0 outside of the window or unaligned.
    pub(crate) fn load_le16(&self, offset: usize, order: Ordering) -> u16 {
        self.exactly(offset, 2)
            .and_then(|slice| slice.atomic_u16())
            .map_or(0, |field| u16::from_le(field.load(order)))
    }

    /// Stores a little-endian 16-bit field; nothing outside of the window.
    pub(crate) fn store_le16(&self, offset: usize, value: u16, order: Ordering) {
        if let Some(field) = self.exactly(offset, 2).and_then(|s| s.atomic_u16()) {
            field.store(value.to_le(), order);
        }
    }

    /// Whether the region lost a page.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.region.is_poisoned()
    }

    fn exactly(&self, offset: usize, len: usize) -> Option<HostSlice<'_>> {
        // SAFETY: the whole window is mapped while `self.region` is held.
        let whole = unsafe { HostSlice::new(self.start, self.len) };
        whole.get(offset, len).filter(|slice| slice.len() == len)
    }
}
