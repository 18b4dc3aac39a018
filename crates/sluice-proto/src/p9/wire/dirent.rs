//! Entries of Rreaddir.

use super::dialect::Dialect;
use super::field::{Field, Reader, Str, Writer, structures};
use super::qid::{QID_LEN, Qid};
use crate::codec::{BufferTooSmall, Malformed};
use sluice_vfs::NAME_MAX;

structures! {
    /// A directory entry.
    struct Dirent<'a> {
        /// The file.
        qid: Qid,
        /// Where to go on after this entry.
        offset: u64,
        /// `DT_*` of getdents64(2).
        kind: u8,
        /// Name.
        name: Str<'a>,
    }
}

/// Bytes that an entry takes.
pub const fn dirent_len(name_len: usize) -> usize {
    QID_LEN + 8 + 1 + 2 + name_len
}

/// Bytes of the longest entry.
pub const DIRENT_MAX: usize = dirent_len(NAME_MAX);

/// Writes an entry to the start of `buf`; returns its bytes.
pub fn encode_dirent(dirent: &Dirent<'_>, buf: &mut [u8]) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, Dialect::Linux);
    dirent.encode(&mut writer)?;
    Ok(writer.len())
}

/// Reads the entries of an Rreaddir.
#[derive(Clone, Copy, Debug)]
pub struct Dirents<'a>(pub &'a [u8]);

impl<'a> Iterator for Dirents<'a> {
    type Item = Result<Dirent<'a>, Malformed>;

    /// After an error nothing is left.
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut reader = Reader::new(std::mem::take(&mut self.0), Dialect::Linux);
        let dirent = Dirent::decode(&mut reader);
        if dirent.is_ok() {
            self.0 = reader.main;
        }
        Some(dirent)
    }
}
