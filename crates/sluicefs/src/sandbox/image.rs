//! What kind of program or kernel a file is, from its first bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// As much of a file as tells what it is.
const HEAD_BYTES: u64 = 64 * 1024;

/// A file that a guest can be started from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// A program for this machine.
    Program {
        /// It needs nothing but the kernel.
        is_static: bool,
    },
    /// A bzImage, with the release that it says it is.
    Kernel {
        /// As `uname -r` would print it.
        release: String,
    },
    /// None of these.
    Other,
}

impl Image {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut head = Vec::new();
        File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self::from_head(&head))
    }

    fn from_head(head: &[u8]) -> Self {
        let head = Head(head);
        if let Some(is_static) = head.elf() {
            Image::Program { is_static }
        } else if let Some(release) = head.linux_release() {
            Image::Kernel { release }
        } else {
            Image::Other
        }
    }
}

struct Head<'a>(&'a [u8]);

impl Head<'_> {
    /// Whether a 64-bit little-endian ELF program has no interpreter (System V
    /// ABI, program header: PT_INTERP); `None` if it is something else.
    fn elf(&self) -> Option<bool> {
        if self.bytes::<6>(0)? != *b"\x7fELF\x02\x01" {
            return None;
        }
        let table = usize::try_from(u64::from_le_bytes(self.bytes(32)?)).ok()?;
        let entry_bytes = usize::from(self.u16(54)?);
        let entries = usize::from(self.u16(56)?);
        for index in 0..entries {
            let at = index.checked_mul(entry_bytes)?.checked_add(table)?;
            if u32::from_le_bytes(self.bytes(at)?) == PT_INTERP {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The kernel's Documentation/arch/x86/boot.rst: `HdrS` at 0x202, and at
    /// 0x20E where the version string is, minus 0x200.
    fn linux_release(&self) -> Option<String> {
        if self.bytes::<4>(0x202)? != *b"HdrS" {
            return None;
        }
        let at = usize::from(self.u16(0x20E)?) + 0x200;
        let text = self.0.get(at..)?.split(|byte| *byte == 0 || *byte == b' ');
        let release = text.into_iter().next()?;
        String::from_utf8(release.to_vec()).ok()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(at)?))
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
}

const PT_INTERP: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_say_their_release() {
        let mut head = vec![0; 0x400];
        head[0x202..0x206].copy_from_slice(b"HdrS");
        head[0x20E..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        head[0x300..0x310].copy_from_slice(b"7.2.12+x (me) #1");
        let kernel = Image::Kernel {
            release: "7.2.12+x".into(),
        };
        assert_eq!(Image::from_head(&head), kernel);
        head[0x20E..0x210].copy_from_slice(&0xfff0_u16.to_le_bytes());
        assert_eq!(Image::from_head(&head), Image::Other);
    }

    #[test]
    fn programs_say_whether_they_stand_alone() {
        let own = Image::of(Path::new("/proc/self/exe")).unwrap();
        assert!(matches!(own, Image::Program { .. }));
        let mut head = vec![0; 64 + 2 * 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[32] = 64;
        head[54] = 56;
        head[56] = 2;
        assert_eq!(Image::from_head(&head), Image::Program { is_static: true });
        head[64 + 56] = 3;
        assert_eq!(Image::from_head(&head), Image::Program { is_static: false });
        // A table that lies outside the file, and hostile sizes.
        head[56] = 9;
        head[64 + 56] = 0;
        assert_eq!(Image::from_head(&head), Image::Other);
        head[32..40].fill(0xff);
        assert_eq!(Image::from_head(&head), Image::Other);
    }

    #[test]
    fn anything_else_is_nothing() {
        for head in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 0x203]] {
            assert_eq!(Image::from_head(head), Image::Other);
        }
        assert!(Image::of(Path::new("/nonexistent")).is_err());
    }
}
