//! Making, moving and removing names. A name is given by the fid of its
//! directory and itself.

use super::{Tree, qid_of};
use crate::error::{Error, Result};
use crate::translate::perm;
use sluice_proto::p9::wire::{Counted, Dialect, Extended, OpenMode, Perm, Qid, Request, Stat, Str};
use sluice_vfs::{Device, Errno, FileType, Name, UnixMode};

/// `AT_REMOVEDIR`.
const REMOVE_DIR: u32 = 0x200;

impl Tree {
    /// Makes a directory.
    pub(crate) fn mkdir(&self, dir: u32, name: Name<'_>, bits: u32, gid: u32) -> Result<Qid> {
        if self.is_linux() {
            return qid_of(&self.connection.call(&Request::Mkdir {
                dfid: dir,
                name: Str(name.as_bytes()),
                mode: bits & UnixMode::PERM_MASK,
                gid,
            })?);
        }
        self.make_by_create(dir, name, perm(bits, true, self.dialect()), b"")
    }

    /// Makes a symlink.
    pub(crate) fn symlink(&self, dir: u32, name: Name<'_>, target: &[u8], gid: u32) -> Result<Qid> {
        match self.dialect() {
            Dialect::Plan9 => Err(Error::not_in(self.dialect(), "symlinks")),
            Dialect::Unix => self.make_by_create(dir, name, Perm::SYMLINK, target),
            Dialect::Linux | Dialect::Sluice => {
                qid_of(&self.connection.call(&Request::Symlink {
                    fid: dir,
                    name: Str(name.as_bytes()),
                    target: Str(target),
                    gid,
                })?)
            }
        }
    }

    /// Makes a node that is neither directory nor symlink.
    pub(crate) fn mknod(
        &self,
        dir: u32,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        (bits, gid): (u32, u32),
    ) -> Result<Qid> {
        self.require_linux("device nodes")?;
        qid_of(&self.connection.call(&Request::Mknod {
            dfid: dir,
            name: Str(name.as_bytes()),
            mode: file_type.to_mode_bits() | (bits & UnixMode::PERM_MASK),
            major: rdev.major,
            minor: rdev.minor,
            gid,
        })?)
    }

    /// Gives the file of `fid` another name.
    pub(crate) fn link(&self, fid: u32, dir: u32, name: Name<'_>) -> Result<()> {
        match self.dialect() {
            Dialect::Plan9 => Err(Error::not_in(self.dialect(), "hard links")),
            Dialect::Unix => {
                let extension = fid.to_string();
                self.make_by_create(dir, name, Perm::LINK, extension.as_bytes())
                    .map(drop)
            }
            Dialect::Linux | Dialect::Sluice => {
                let (dfid, name) = (dir, Str(name.as_bytes()));
                self.connection
                    .call(&Request::Link { dfid, fid, name })
                    .map(drop)
            }
        }
    }

    /// Tcreate of something that is not used through its fid.
    fn make_by_create(
        &self,
        dir: u32,
        name: Name<'_>,
        perm: Perm,
        extension: &[u8],
    ) -> Result<Qid> {
        let none: [&[u8]; 0] = [];
        let (new, _) = self.walk(dir, &none).map_err(|stopped| stopped.error)?;
        qid_of(&self.connection.call(&Request::Create {
            fid: new.number(),
            name: Str(name.as_bytes()),
            perm,
            mode: OpenMode::empty(),
            extension: Extended(Str(extension)),
        })?)
    }

    /// Removes a name; `is_dir` says of which kind it must be.
    pub(crate) fn unlink(&self, dir: u32, name: Name<'_>, is_dir: bool) -> Result<()> {
        if self.is_linux() {
            let answer = self.connection.call(&Request::Unlinkat {
                dfid: dir,
                name: Str(name.as_bytes()),
                flags: if is_dir { REMOVE_DIR } else { 0 },
            });
            if !matches!(&answer, Err(error) if error.is_unsupported()) {
                return answer.map(drop);
            }
        }
        let found = self.lookup(dir, &[name.as_bytes()]);
        let (found, attr) = found.map_err(|stopped| stopped.error)?;
        match (is_dir, attr.mode.is_dir()) {
            (true, false) => Err(Error::Refused(Errno::ENOTDIR)),
            (false, true) => Err(Error::Refused(Errno::EISDIR)),
            _ => {
                let fid = found.number();
                found.end_by(&Request::Remove { fid })
            }
        }
    }

    /// Moves a name.
    pub(crate) fn rename(&self, old: (u32, Name<'_>), new: (u32, Name<'_>)) -> Result<()> {
        if self.is_linux() {
            let answer = self.connection.call(&Request::Renameat {
                old_dfid: old.0,
                old_name: Str(old.1.as_bytes()),
                new_dfid: new.0,
                new_name: Str(new.1.as_bytes()),
            });
            if !matches!(&answer, Err(error) if error.is_unsupported()) {
                return answer.map(drop);
            }
        }
        let walked = self.walk(old.0, &[old.1.as_bytes()]);
        let (file, _) = walked.map_err(|stopped| stopped.error)?;
        let fid = file.number();
        let name = Str(new.1.as_bytes());
        let request = match self.is_linux() {
            true => Request::Rename {
                fid,
                dfid: new.0,
                name,
            },
            // Twstat changes the name where it is.
            false if old.0 != new.0 => {
                let what = "moving files between directories";
                return Err(Error::not_in(self.dialect(), what));
            }
            false => Request::Wstat {
                fid,
                stat: Counted(Counted(Stat {
                    name,
                    ..Stat::LEAVE
                })),
            },
        };
        self.connection.call(&request).map(drop)
    }
}
