//! Listings.

use crate::error::Result;
use crate::file::File;
use crate::ops::Entry;
use crate::path::os;
use sluice_vfs::{Attr, FileType};
use std::ffi::OsStr;

/// The entries of a directory, but `.` and `..`, in the server's order.
pub struct ReadDir {
    dir: File,
    page: std::vec::IntoIter<Entry>,
    /// Where to go on; none at the end.
    next: Option<u64>,
}

impl ReadDir {
    pub(crate) fn new(dir: File) -> Self {
        ReadDir {
            dir,
            page: Vec::new().into_iter(),
            next: Some(0),
        }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry>;

    /// After an error nothing is left.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.find(|entry| !entry.is_dot()) {
                return Some(Ok(DirEntry { entry }));
            }
            let cookie = self.next.take()?;
            match self.dir.tree().list(self.dir.open_fid(), cookie) {
                Ok((page, next)) => {
                    self.page = page.into_iter();
                    self.next = next;
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// One of them.
#[derive(Clone, Debug)]
pub struct DirEntry {
    entry: Entry,
}

impl DirEntry {
    /// Its name, which has no slash and is neither `.` nor `..`.
    pub fn file_name(&self) -> &OsStr {
        os(&self.entry.name)
    }

    /// What it is, where the directory tells.
    pub fn file_type(&self) -> Option<FileType> {
        self.entry.file_type
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.entry.ino
    }

    /// Its attributes, where the dialect lists them (9P2000 and 9P2000.u).
    pub fn metadata(&self) -> Option<&Attr> {
        self.entry.attr.as_ref()
    }
}
