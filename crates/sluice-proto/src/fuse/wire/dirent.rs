//! Entries of READDIR and READDIRPLUS replies.

use super::args::wire_structs;
use super::field::{Field, Reader, Writer, fixed};
use super::message::Dialect;
use super::out::EntryOut;
use crate::codec::{BufferTooSmall, Malformed};
use sluice_vfs::NAME_MAX;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Entries are padded to this many bytes (`FUSE_DIRENT_ALIGN`).
const ALIGN: usize = 8;

/// Bytes of the longest entry, with attributes and a name of [`NAME_MAX`].
pub const DIRENT_MAX: usize = direntplus_len(NAME_MAX);

wire_structs! {
    /// Fixed part of a directory entry; the name follows.
    struct Dirent {
        /// Inode number.
        ino: u64,
        /// Where to go on after this entry.
        off: u64,
        /// Bytes of the name.
        namelen: u32,
        /// `DT_*`.
        kind: u32,
    }

    /// Fixed part of a directory entry of READDIRPLUS; the name follows.
    struct Direntplus {
        /// The entry, as LOOKUP would give it; all zero if there is none.
        entry_out: EntryOut,
        /// Names and type.
        dirent: Dirent,
    }
}

fixed! { Dirent: 24, Direntplus: 152 }

/// Bytes that an entry takes in a READDIR reply.
pub const fn dirent_len(name_len: usize) -> usize {
    (size_of::<Dirent>() + name_len).next_multiple_of(ALIGN)
}

/// Bytes that an entry takes in a READDIRPLUS reply.
pub const fn direntplus_len(name_len: usize) -> usize {
    (size_of::<Direntplus>() + name_len).next_multiple_of(ALIGN)
}

/// Writes an entry to the start of `buf`; returns its bytes, padding included.
/// `namelen` comes from `name`.
pub fn encode_dirent(
    dirent: &Dirent,
    name: &[u8],
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    encode_padded(buf, name, |writer| {
        with_name_len(dirent, name)?.encode(writer)
    })
}

/// Writes an entry with attributes to the start of `buf`; as [`encode_dirent`].
pub fn encode_direntplus(
    entry: &Direntplus,
    name: &[u8],
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    encode_padded(buf, name, |writer| {
        let entry = Direntplus {
            dirent: with_name_len(&entry.dirent, name)?,
            ..*entry
        };
        entry.encode(writer)
    })
}

/// An entry with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirentRecord<'a> {
    /// Fixed part.
    pub dirent: Dirent,
    /// Name.
    pub name: &'a [u8],
}

/// An entry of READDIRPLUS with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirentplusRecord<'a> {
    /// Fixed part.
    pub entry: Direntplus,
    /// Name.
    pub name: &'a [u8],
}

/// Reads the entries of a READDIR reply.
#[derive(Clone, Copy, Debug)]
pub struct Dirents<'a>(pub &'a [u8]);

impl<'a> Iterator for Dirents<'a> {
    type Item = Result<DirentRecord<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.0, |dirent: &Dirent| dirent.namelen)
            .map(|record| record.map(|(dirent, name)| DirentRecord { dirent, name }))
    }
}

/// Reads the entries of a READDIRPLUS reply.
#[derive(Clone, Copy, Debug)]
pub struct Direntpluses<'a>(pub &'a [u8]);

impl<'a> Iterator for Direntpluses<'a> {
    type Item = Result<DirentplusRecord<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        next_record(&mut self.0, |entry: &Direntplus| entry.dirent.namelen)
            .map(|record| record.map(|(entry, name)| DirentplusRecord { entry, name }))
    }
}

/// Takes a fixed part, its name and the padding. After an error nothing is left.
fn next_record<'a, T: super::field::Fixed>(
    rest: &mut &'a [u8],
    name_len: impl FnOnce(&T) -> u32,
) -> Option<Result<(T, &'a [u8]), Malformed>> {
    let bytes = std::mem::take(rest);
    if bytes.is_empty() {
        return None;
    }
    let mut reader = Reader::new(bytes);
    let record = reader.fixed::<T>().and_then(|fixed| {
        let len = name_len(&fixed) as usize;
        let name = reader.bytes(len, "name of an entry")?;
        let unpadded = size_of::<T>() + len;
        reader.bytes(
            unpadded.next_multiple_of(ALIGN) - unpadded,
            "padding of an entry",
        )?;
        Ok((fixed, name))
    });
    if record.is_ok() {
        *rest = reader.main;
    }
    Some(record)
}

fn with_name_len(dirent: &Dirent, name: &[u8]) -> Result<Dirent, BufferTooSmall> {
    Ok(Dirent {
        namelen: u32::try_from(name.len()).map_err(|_| BufferTooSmall)?,
        ..*dirent
    })
}

fn encode_padded(
    buf: &mut [u8],
    name: &[u8],
    head: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferTooSmall>,
) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, Dialect::default());
    head(&mut writer)?;
    writer.put(name)?;
    let unpadded = writer.len();
    writer.put(&[0; ALIGN][..unpadded.next_multiple_of(ALIGN) - unpadded])?;
    Ok(writer.len())
}
