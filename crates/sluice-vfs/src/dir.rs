//! Names in directories: what lookups, walks and listings hand out.

use crate::attr::{Attr, AttrMask, FileType};
use crate::errno::Errno;
use crate::ids::{NodeId, Stamp};
use crate::limits::WALK_MAX;
use arrayvec::ArrayVec;

/// A name that was found. Handing one out takes a reference to `node`, which
/// the peer gives back through [`Session::forget`](crate::Session::forget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node behind the name.
    pub node: NodeId,
    /// Its attributes.
    pub attr: Attr,
    /// Version of the node, for what is cached of it.
    pub stamp: Stamp,
    /// Version of the directory's names, for caching that the name leads here.
    pub dir_stamp: Stamp,
}

/// Outcome of looking a name up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The name exists.
    Found(Entry),
    /// It doesn't, as of this version of the directory's names.
    Missing {
        /// Version of the directory's names.
        dir_stamp: Stamp,
    },
}

impl Lookup {
    /// The entry, or `ENOENT`.
    pub fn found(self) -> crate::Result<Entry> {
        match self {
            Lookup::Found(entry) => Ok(entry),
            Lookup::Missing { .. } => Err(Errno::ENOENT),
        }
    }
}

/// One component that a walk passed or ended at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// Inode number, unique within the export.
    pub ino: u64,
    /// Kind of object.
    pub file_type: FileType,
    /// Version of the node.
    pub stamp: Stamp,
}

/// Outcome of a walk over several names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// A step for each name that was found, in order.
    pub steps: ArrayVec<WalkStep, WALK_MAX>,
    /// The last node, with a reference taken, if every name was found.
    pub last: Option<Entry>,
    /// Why the walk ended early, if it did.
    pub error: Option<Errno>,
}

/// What a listing should carry besides names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirWant {
    /// Name, inode number and type.
    Names,
    /// Full entries with references taken (FUSE's READDIRPLUS); at least these
    /// attributes are filled.
    Entries(AttrMask),
}

/// One entry of a listing.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// The bytes of the name. Unlike a [`Name`](crate::Name) it may be `.` or `..`.
    pub name: &'a [u8],
    /// Inode number, unique within the export.
    pub ino: u64,
    /// Kind of object, where the directory tells.
    pub file_type: Option<FileType>,
    /// Where to go on after this entry. Opaque; valid for as long as the
    /// directory exists, whatever is added or removed meanwhile.
    pub next_cookie: u64,
    /// The entry, for [`DirWant::Entries`]; `None` for `.` and `..` and for
    /// names that went away while they were listed.
    pub entry: Option<Entry>,
}

/// Takes the entries of a listing.
///
/// The service asks [`DirSink::fits`] before it takes a reference for an
/// entry, and pushes only what fits: so a peer is never charged for an entry
/// that it does not see.
pub trait DirSink {
    /// Whether an entry with a name of `name_len` bytes still fits.
    fn fits(&self, name_len: usize) -> bool;

    /// Takes an entry that fits.
    fn push(&mut self, entry: &DirEntry<'_>);
}
