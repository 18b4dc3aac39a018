//! The archive that a Linux kernel unpacks as its first root: cpio, "newc"
//! format (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

/// Writes an archive whose files belong to root and have no time stamp.
pub(super) struct Archive<W> {
    out: W,
    /// Of the last entry; each gets its own, so that none is taken for a hard link.
    inode: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Archive { out, inode: 0 }
    }

    /// A directory; those above it come first.
    pub(super) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    /// A regular file with these permissions.
    pub(super) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, REGULAR | permissions, content)
    }

    /// Writes the end of the archive.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.inode = 0;
        self.header("TRAILER!!!", 0, 0)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "file too large for cpio");
        let size = u32::try_from(content.len()).map_err(|_| too_long())?;
        self.inode += 1;
        self.header(path, mode, size)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn header(&mut self, path: &str, mode: u32, size: u32) -> io::Result<()> {
        let links = 1;
        let name_size = path.len() as u32 + 1;
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0,
        ];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(HEADER_BYTES + path.len() + 1)
    }

    /// Names and contents end on a multiple of four bytes.
    fn pad(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..missing])
    }
}

const HEADER_BYTES: usize = 110;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("bin").unwrap();
        archive.file("bin/a", 0o755, b"hello").unwrap();
        let bytes = archive.finish().unwrap();
        let expected = concat!(
            "070701", // magic
            "00000001",
            "000041ED",
            "00000000",
            "00000000", // inode, mode, user, group
            "00000001",
            "00000000",
            "00000000", // links, time, size
            "00000000",
            "00000000",
            "00000000",
            "00000000", // devices
            "00000004",
            "00000000",  // name with its NUL, checksum
            "bin\0\0\0", // 116 bytes: a multiple of four
            "070701",
            "00000002",
            "000081ED",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000005",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000006",
            "00000000",
            "bin/a\0",
            "hello\0\0\0",
            "070701",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "0000000B",
            "00000000",
            "TRAILER!!!\0\0\0\0",
        );
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
