//! Listing directories.

use super::handles::Handle;
use super::open::entry;
use super::session::Inner;
use super::turn::{Turn, errno};
use crate::error::{Error, Result};
use crate::ops::Entry as Listed;
use sluice_vfs::{
    Attr, Ctx, DirEntry, DirSink, DirWant, Errno, HandleId, NodeId, OpenFlags, Stamp,
};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// Entries whose attributes are asked for at once.
const BATCH: usize = 32;

/// Most entries of a directory in 9P2000 and 9P2000.u, whose listings have no
/// places to go on from and so are kept whole.
const WHOLE_MAX: usize = 1 << 20;

/// Entries that follow a cookie.
pub(super) struct Page {
    cookie: u64,
    entries: VecDeque<Listed>,
    /// Nothing comes behind them.
    is_last: bool,
}

impl Inner {
    pub(super) fn readdir(
        &self,
        ctx: &Ctx<'_>,
        (node, handle): (NodeId, Option<HandleId>),
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> sluice_vfs::Result<Stamp> {
        let handle = handle.ok_or(Errno::EBADF)?;
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        if !handle.flags.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::ENOTDIR);
        }
        let kept = handle.page.lock();
        let kept = kept.unwrap_or_else(PoisonError::into_inner).take();
        // From the start it is listed anew.
        let mut page = kept.filter(|page| cookie != 0 && page.cookie == cookie);
        let mut at = cookie;
        loop {
            let next = match page.take() {
                Some(page) => Ok(page),
                None => self.run(ctx, |turn| turn.page(&handle, at)),
            };
            let pushed = next.and_then(|mut now| {
                let pushed = self.push_all(ctx, &mut now, want, node, sink);
                at = now.cookie;
                pushed.map(|is_full| (now, is_full))
            });
            let (now, is_full) = match pushed {
                Ok(pushed) => pushed,
                // What was pushed has references; who goes on there meets it again.
                Err(_) if at != cookie => return Ok(Stamp::NONE),
                Err(error) => return Err(error),
            };
            if is_full || now.is_last {
                if !now.entries.is_empty() {
                    let mut kept = handle.page.lock().unwrap_or_else(PoisonError::into_inner);
                    *kept = Some(now);
                }
                return Ok(Stamp::NONE);
            }
        }
    }

    /// Pushes what fits; whether that is not all.
    fn push_all(
        &self,
        ctx: &Ctx<'_>,
        page: &mut Page,
        want: DirWant,
        node: NodeId,
        sink: &mut dyn DirSink,
    ) -> sluice_vfs::Result<bool> {
        while !page.entries.is_empty() {
            let batch = page.entries.len().min(BATCH);
            let names = page.entries.iter().take(batch);
            let attrs = match want {
                DirWant::Names => vec![None; batch],
                DirWant::Entries(_) => {
                    let names: Vec<_> = names.map(|entry| &entry.name[..]).collect();
                    self.run(ctx, |turn| turn.attrs_of(node, &names))?
                }
            };
            for attr in attrs {
                let Some(next) = page.entries.front() else {
                    break;
                };
                if !sink.fits(next.name.len()) {
                    return Ok(true);
                }
                let place = Some((node, &next.name[..]));
                let found = attr.and_then(|attr| {
                    let node = self.nodes.refer(&attr, place, None).ok()?;
                    Some(entry(node, attr))
                });
                sink.push(&DirEntry {
                    name: &next.name,
                    ino: next.ino,
                    file_type: next.file_type,
                    next_cookie: next.cookie,
                    entry: found,
                });
                page.cookie = next.cookie;
                page.entries.pop_front();
            }
        }
        Ok(false)
    }
}

impl Turn<'_> {
    /// Entries behind a cookie.
    fn page(&self, handle: &Handle, cookie: u64) -> Result<Page> {
        let file = handle.file(self)?;
        if !self.tree.is_linux() {
            return self.whole(&file.open, cookie);
        }
        let (entries, _) = self.tree.list(&file.open, cookie)?;
        Ok(Page {
            cookie,
            is_last: entries.is_empty(),
            entries: entries.into(),
        })
    }

    /// All of a directory, numbered through, behind the first `cookie` entries.
    fn whole(&self, open: &crate::ops::OpenFid, cookie: u64) -> Result<Page> {
        let dots = [b".".to_vec(), b"..".to_vec()].map(|name| Listed {
            name,
            ino: open.qid.path,
            file_type: Some(sluice_vfs::FileType::Directory),
            cookie: 0,
            attr: None,
        });
        let mut entries = VecDeque::from(dots);
        let mut at = Some(0);
        while let Some(offset) = at {
            let (page, next) = self.tree.list(open, offset)?;
            entries.extend(page.into_iter().filter(|entry| !entry.is_dot()));
            at = next;
            if entries.len() > WHOLE_MAX {
                return Err(Errno::EOVERFLOW.into());
            }
        }
        for (number, entry) in (1..).zip(entries.iter_mut()) {
            entry.cookie = number;
        }
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        entries.drain(..skip.min(entries.len()));
        Ok(Page {
            cookie,
            entries,
            is_last: true,
        })
    }

    /// Attributes of names, all asked for at once; none of what is gone, or where the
    /// server refuses them.
    fn attrs_of(&self, dir: NodeId, names: &[&[u8]]) -> Result<Vec<Option<Attr>>> {
        let fid = self.fid(dir)?;
        let asked: Vec<_> = names
            .iter()
            .map(|name| (!matches!(*name, b"." | b"..")).then_some(*name))
            .collect();
        let told = self.tree.stat_many(fid.number(), &asked)?;
        told.into_iter()
            .map(|outcome| match outcome {
                None => Ok(None),
                Some(Ok(attr)) => Ok(Some(self.owned(attr))),
                Some(Err(Error::Refused(_) | Error::Told { .. })) => Ok(None),
                Some(Err(error)) => Err(error),
            })
            .collect()
    }
}
