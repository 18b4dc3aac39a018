//! System calls that move data between a file and guest memory.
#![allow(unsafe_code)]

use super::segments::{Cursor, MAX_SEGMENTS};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

impl Cursor<'_> {
    /// Reads up to `len` bytes of `fd` at `offset` into the pieces ahead, by one
    /// `preadv`, and moves on by what came.
    pub(crate) fn read_from_fd(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        let offset = file_offset(offset)?;
        self.transfer(len, |vecs| {
            // SAFETY: the iovecs name mapped guest memory, which the cursor's borrow
            // keeps; that the guest may change it meanwhile is the kernel's to bear.
            unsafe { libc::preadv(fd.as_raw_fd(), vecs.as_ptr(), vecs.len() as _, offset) }
        })
    }

    /// Writes up to `len` bytes of the pieces ahead to `fd` at `offset`, by one
    /// `pwritev2` with `flags` (`RWF_*`), and moves on by what went.
    pub(crate) fn write_to_fd(
        &mut self,
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        flags: i32,
    ) -> io::Result<usize> {
        let offset = file_offset(offset)?;
        self.transfer(len, |vecs| {
            let (fd, first, count) = (fd.as_raw_fd(), vecs.as_ptr(), vecs.len() as _);
            // SAFETY: as in `read_from_fd`.
            unsafe {
                match flags {
                    0 => libc::pwritev(fd, first, count, offset),
                    flags => libc::pwritev2(fd, first, count, offset, flags),
                }
            }
        })
    }

    fn transfer(
        &mut self,
        len: usize,
        call: impl Fn(&[libc::iovec]) -> isize,
    ) -> io::Result<usize> {
        if len == 0 || self.left() == 0 {
            return Ok(0);
        }
        let mut array = [const { MaybeUninit::uninit() }; MAX_SEGMENTS];
        let vecs = self.gather(len, &mut array);
        let count = loop {
            match usize::try_from(call(vecs)) {
                Ok(count) => break count,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        };
        self.advance(count);
        Ok(count)
    }

    fn gather<'b>(
        &self,
        len: usize,
        array: &'b mut [MaybeUninit<libc::iovec>; MAX_SEGMENTS],
    ) -> &'b [libc::iovec] {
        let mut count = 0;
        for (slot, slice) in array.iter_mut().zip(self.slices(len)) {
            slot.write(libc::iovec {
                iov_base: slice.start().as_ptr().cast(),
                iov_len: slice.len(),
            });
            count += 1;
        }
        let filled = array.get(..count).unwrap_or_default();
        // SAFETY: the first `count` elements were written just now, and
        // `MaybeUninit<T>` has the layout of `T`.
        unsafe { std::slice::from_raw_parts(filled.as_ptr().cast(), filled.len()) }
    }
}

/// Offsets are signed in the kernel; what does not fit gets its answer here.
fn file_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
