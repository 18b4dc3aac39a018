//! Directory entries as the kernel lays them out.

use crate::check;
use rustix::fd::{AsRawFd, BorrowedFd};
use sluice_vfs::Result;

/// Fills `buf` with entries from the position of the directory `fd`, and
/// returns how many bytes there are; 0 at the end. `EINVAL` if not even one
/// entry fits.
pub fn getdents(fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `buf.len()` bytes into `buf`, which is
    // borrowed for as long as the call lasts.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            fd.as_raw_fd(),
            buf.as_mut_ptr(),
            buf.len(),
        )
    };
    check(outcome)
}

/// One `struct linux_dirent64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// Inode number on the directory's file system.
    pub ino: u64,
    /// Position behind this entry, to seek to.
    pub next_cookie: u64,
    /// `DT_*` value.
    pub dirent_type: u8,
    /// Bytes of the name.
    pub name: &'a [u8],
    /// Bytes that the entry takes in the buffer.
    pub record_len: usize,
}

impl<'a> Dirent<'a> {
    /// The entry at the start of `buf`, if a whole one is there.
    pub fn first(buf: &'a [u8]) -> Option<Self> {
        let (ino, rest) = buf.split_first_chunk()?;
        let (next_cookie, rest) = rest.split_first_chunk()?;
        let (record_len, rest) = rest.split_first_chunk()?;
        let (dirent_type, _) = rest.split_first()?;
        let record_len = usize::from(u16::from_ne_bytes(*record_len));
        let padded = buf.get(NAME_AT..record_len)?;
        let name_len = padded.iter().position(|byte| *byte == 0)?;
        Some(Dirent {
            ino: u64::from_ne_bytes(*ino),
            next_cookie: u64::from_ne_bytes(*next_cookie),
            dirent_type: *dirent_type,
            name: padded.get(..name_len)?,
            record_len,
        })
    }
}

/// Offset of `d_name` in `struct linux_dirent64`.
const NAME_AT: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::collections::BTreeSet;

    #[test]
    fn lists_what_the_standard_library_lists() {
        let dir = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::from([b".".to_vec(), b"..".to_vec()]);
        for count in 0..300 {
            let name = format!("{count}{}", "x".repeat(count % 200));
            std::fs::write(dir.path().join(&name), "").unwrap();
            expected.insert(name.into_bytes());
        }
        let fd = std::fs::File::open(dir.path()).unwrap();
        let mut buf = [0; 1024];
        let mut seen = BTreeSet::new();
        loop {
            let len = getdents(fd.as_fd(), &mut buf).unwrap();
            if len == 0 {
                break;
            }
            let mut rest = &buf[..len];
            while let Some(entry) = Dirent::first(rest) {
                assert!(seen.insert(entry.name.to_vec()));
                rest = &rest[entry.record_len..];
            }
            assert!(rest.is_empty());
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn cut_or_wrong_records_are_not_entries() {
        let mut record = vec![0; 24];
        record[16] = 24;
        record[18] = 8;
        record[19] = b'a';
        assert_eq!(Dirent::first(&record).unwrap().name, b"a");
        for len in 0..24 {
            assert_eq!(Dirent::first(&record[..len]), None);
        }
        record[16] = 5;
        assert_eq!(Dirent::first(&record), None);
        record[16] = 24;
        record[19..].fill(b'a');
        assert_eq!(Dirent::first(&record), None);
    }
}
