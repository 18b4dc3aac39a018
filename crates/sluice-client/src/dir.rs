//! Directories and listings.

use crate::error::Result;
use crate::file::File;
use crate::ops::{Entry, Tree};
use crate::path::os;
use sluice_proto::p9::wire::QidType;
use sluice_vfs::{Attr, Errno, FileType, Name, OpenFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// A directory, whatever becomes of its name. What is done in it takes as many
/// messages however deep it lies, and follows no symlinks.
pub struct Dir {
    tree: Arc<Tree>,
    fid: u32,
}

impl Dir {
    /// Takes over a fid that is not open.
    pub(crate) fn new(tree: Arc<Tree>, fid: u32) -> Self {
        Dir { tree, fid }
    }

    /// A directory in it.
    ///
    /// # Errors
    /// What the server answers; `ENOTDIR` for a symlink, too.
    pub fn dir(&self, name: impl AsRef<OsStr>) -> Result<Dir> {
        let name = Name::new(name.as_ref().as_bytes())?;
        let walked = self.tree.walk(self.fid, &[name.as_bytes()]);
        let (fid, last) = walked.map_err(|stopped| stopped.error)?;
        match last.is_some_and(|qid| qid.kind.contains(QidType::DIR)) {
            true => Ok(Dir::new(Arc::clone(&self.tree), fid.keep())),
            false => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Lists it, but for `.` and `..`.
    ///
    /// # Errors
    /// What the server answers.
    pub fn entries(&self) -> Result<ReadDir> {
        let none: [&[u8]; 0] = [];
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        let opened = self.tree.open_at(self.fid, &none, flags);
        let opened = opened.map_err(|stopped| stopped.error)?;
        let file = File::new(Arc::clone(&self.tree), opened, flags);
        Ok(ReadDir::new(file))
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// What the server answers.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.unlink(name.as_ref(), false)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What the server answers.
    pub fn remove_dir(&self, name: impl AsRef<OsStr>) -> Result<()> {
        self.unlink(name.as_ref(), true)
    }

    fn unlink(&self, name: &OsStr, is_dir: bool) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        self.tree.unlink(self.fid, name, is_dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        self.tree.clunk(self.fid);
    }
}

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
