//! Symlinks on the way.

use super::walk::Stopped;
use super::{Fid, Tree};
use crate::error::{Error, Result};
use crate::path::{LINKS_MAX, Names, follow, names};
use crate::translate::kind_of;
use sluice_vfs::{Errno, FileType};
use std::path::Path;

impl Tree {
    /// Does something with what names lead to, following symlinks where the way
    /// is stopped by one. Those that begin with a slash begin at `from`.
    pub(crate) fn following<T>(
        &self,
        from: u32,
        mut way: Names,
        follow_last: bool,
        mut act: impl FnMut(&Names) -> std::result::Result<T, Stopped>,
    ) -> Result<T> {
        for _ in 0..=LINKS_MAX {
            let Stopped { error, link_at } = match act(&way) {
                Ok(done) => return Ok(done),
                Err(stopped) => stopped,
            };
            let is_last = link_at.is_some_and(|at| at + 1 == way.len());
            let Some(at) = link_at.filter(|_| follow_last || !is_last) else {
                return Err(error);
            };
            let to_link = way.get(..=at).unwrap_or_default();
            let (link, _) = self.walk(from, to_link).map_err(|stopped| stopped.error)?;
            let target = self.readlink(link.number())?;
            way = follow(&way, at, &target)?;
        }
        Err(Error::Refused(Errno::ELOOP))
    }

    /// A new fid for what names lead to.
    pub(crate) fn walk_following(
        &self,
        from: u32,
        way: Names,
        follow_last: bool,
    ) -> Result<Fid<'_>> {
        self.following(from, way, follow_last, |names| {
            let (fid, last) = self.walk(from, names)?;
            let is_link = last.is_some_and(|qid| kind_of(&qid) == FileType::Symlink);
            match follow_last && is_link {
                true => Err(Stopped {
                    error: Error::Refused(Errno::ELOOP),
                    link_at: names.len().checked_sub(1),
                }),
                false => Ok(fid),
            }
        })
    }

    /// A fid for a directory that takes the place of `root`, which is given back.
    pub(super) fn dir_within<'t>(&'t self, root: Fid<'t>, dir: &Path) -> Result<Fid<'t>> {
        let way = names(dir)?;
        if way.is_empty() {
            return Ok(root);
        }
        let found = self.walk_following(root.number(), way, true)?;
        match self.getattr(found.number())?.mode.is_dir() {
            true => Ok(found),
            false => Err(Errno::ENOTDIR.into()),
        }
    }
}
