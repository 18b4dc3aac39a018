//! Copies in and out of memory that somebody else changes meanwhile.
//!
//! A guest (another process) may write any byte at any time, so no reference to
//! guest memory may exist. Every access here is volatile: it happens once, the
//! compiler neither repeats nor invents it, and whatever value comes is only
//! data. The guest's side is accessed in aligned words, ours unaligned.
#![allow(unsafe_code)]

const WORD: usize = size_of::<u64>();

/// Copies `dst.len()` bytes out of guest memory.
///
/// # Safety
/// `src` must be mapped readable for `dst.len()` bytes, and no Rust reference to
/// that memory may exist.
pub(super) unsafe fn copy_out(src: *const u8, dst: &mut [u8]) {
    let head = src.align_offset(WORD).min(dst.len());
    let (first, rest) = dst.split_at_mut(head);
    // SAFETY: `head + words + tail` is `dst.len()`, so each pointer stays in the
    // mapped range; `src + head` is aligned to a word unless `rest` is empty.
    unsafe {
        bytes_out(src, first);
        let src = src.add(head);
        let mut words = rest.chunks_exact_mut(WORD);
        let mut at = 0;
        for word in words.by_ref() {
            let value = src.add(at).cast::<u64>().read_volatile();
            word.copy_from_slice(&value.to_ne_bytes());
            at += WORD;
        }
        bytes_out(src.add(at), words.into_remainder());
    }
}

/// Copies `src` into guest memory.
///
/// # Safety
/// `dst` must be mapped writable for `src.len()` bytes, and no Rust reference to
/// that memory may exist.
pub(super) unsafe fn copy_in(src: &[u8], dst: *mut u8) {
    let head = dst.align_offset(WORD).min(src.len());
    let (first, rest) = src.split_at(head);
    // SAFETY: as in `copy_out`, with the directions exchanged.
    unsafe {
        bytes_in(first, dst);
        let dst = dst.add(head);
        let words = rest.chunks_exact(WORD);
        let tail = words.remainder();
        let mut at = 0;
        for word in words {
            let mut value = [0; WORD];
            value.copy_from_slice(word);
            dst.add(at)
                .cast::<u64>()
                .write_volatile(u64::from_ne_bytes(value));
            at += WORD;
        }
        bytes_in(tail, dst.add(at));
    }
}

/// # Safety
/// As for [`copy_out`].
unsafe fn bytes_out(src: *const u8, dst: &mut [u8]) {
    for (at, byte) in dst.iter_mut().enumerate() {
        // SAFETY: `at` is below `dst.len()`, which the caller vouches for.
        *byte = unsafe { src.add(at).read_volatile() };
    }
}

/// # Safety
/// As for [`copy_in`].
unsafe fn bytes_in(src: &[u8], dst: *mut u8) {
    for (at, byte) in src.iter().enumerate() {
        // SAFETY: `at` is below `src.len()`, which the caller vouches for.
        unsafe { dst.add(at).write_volatile(*byte) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_copies_exactly_its_bytes() {
        for offset in 0..9 {
            for len in 0..40 {
                let mut guest = [0xaau8; 64];
                let bytes: Vec<u8> = (0..len as u8).collect();
                // SAFETY: the array is 64 bytes, `offset + len` at most 48, and
                // no reference to it lives across the call.
                unsafe { copy_in(&bytes, guest.as_mut_ptr().add(offset)) };
                assert_eq!(&guest[offset..offset + len], &bytes[..]);
                assert!(guest[..offset].iter().all(|b| *b == 0xaa));
                assert!(guest[offset + len..].iter().all(|b| *b == 0xaa));

                let mut back = vec![0x55; len];
                // SAFETY: as above.
                unsafe { copy_out(guest.as_ptr().add(offset), &mut back) };
                assert_eq!(back, bytes);
            }
        }
    }
}
