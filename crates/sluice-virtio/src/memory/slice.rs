//! A borrowed piece of mapped guest memory.
#![allow(unsafe_code)]

use super::region::Region;
use super::volatile;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU16;

/// `len` mapped bytes of guest memory, which stay mapped for `'a`. Not a Rust
/// slice: the guest changes it at will.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostSlice<'a> {
    start: NonNull<u8>,
    len: usize,
    region: PhantomData<&'a Region>,
}

impl<'a> HostSlice<'a> {
    /// # Safety
    /// `start` must be mapped readable and writable for `len` bytes during `'a`, and
    /// be accessed only through volatile accesses, atomics and system calls.
    pub(super) unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        HostSlice {
            start,
            len,
            region: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// What is left behind the first `count` bytes, at most `len` of it; `None` if
    /// the slice is shorter than `count`.
    pub(crate) fn get(&self, count: usize, len: usize) -> Option<HostSlice<'a>> {
        let left = self.len.checked_sub(count)?;
        // SAFETY: `count` is at most the length, and the rest stays inside.
        Some(unsafe { HostSlice::new(self.start.add(count), left.min(len)) })
    }

    /// Copies out as much as both have; returns how many bytes.
    pub(crate) fn copy_out(&self, buf: &mut [u8]) -> usize {
        let count = self.len.min(buf.len());
        if let Some(buf) = buf.get_mut(..count) {
            // SAFETY: mapped for at least `count` bytes, as `new` was promised.
            unsafe { volatile::copy_out(self.start.as_ptr(), buf) };
        }
        count
    }

    /// Copies in as much as both have; returns how many bytes.
    pub(crate) fn copy_in(&self, bytes: &[u8]) -> usize {
        let count = self.len.min(bytes.len());
        if let Some(bytes) = bytes.get(..count) {
            // SAFETY: mapped for at least `count` bytes, as `new` was promised.
            unsafe { volatile::copy_in(bytes, self.start.as_ptr()) };
        }
        count
    }

    /// The first two bytes as an atomic, if there are two and they are aligned.
    pub(super) fn atomic_u16(&self) -> Option<&'a AtomicU16> {
        let field = self.start.cast::<u16>();
        let fits = self.len >= 2 && field.is_aligned();
        // SAFETY: mapped during 'a and aligned. This process touches ring indices
        // through atomics only; another one can at worst store any value.
        fits.then(|| unsafe { AtomicU16::from_ptr(field.as_ptr()) })
    }
}
