//! Messages that do what takes several elsewhere (docs/9p-extension.md).

use super::walk::{NAMES_ROOM, Stopped, names};
use super::{Fid, OpenFid, Tree, odd};
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate;
use sluice_proto::p9::wire::{LopenFlags, NOFID, Names, QidType, Reply, Request};
use sluice_vfs::{Attr, Errno, OpenFlags, UnixMode, WALK_MAX};
use std::sync::atomic::Ordering;

/// What came of a fused message, if the server has it.
type Fused<T> = Option<std::result::Result<T, Stopped>>;

impl Tree {
    /// Topenat.
    pub(super) fn open_fused(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        flags: OpenFlags,
    ) -> Fused<OpenFid> {
        let done = self.making(fid, list, |newfid, names| Request::OpenAt {
            fid,
            newfid,
            flags: translate::lopen_flags(flags),
            names,
        })?;
        Some(done.and_then(|(new, answer)| Ok(self.opened(new, &answer)?)))
    }

    /// Tcreateat, whose last name is that of the file.
    pub(super) fn create_fused(
        &self,
        fid: u32,
        dir: &[impl AsRef<[u8]>],
        name: &[u8],
        flags: OpenFlags,
        (bits, gid): (u32, u32),
    ) -> Fused<OpenFid> {
        let mut list: Vec<&[u8]> = dir.iter().map(AsRef::as_ref).collect();
        list.push(name);
        let done = self.making(fid, &list, |newfid, names| Request::CreateAt {
            fid,
            newfid,
            flags: translate::lopen_flags(flags) | LopenFlags::CREATE,
            mode: bits & UnixMode::PERM_MASK,
            gid,
            names,
        })?;
        Some(match done {
            Ok((new, answer)) => self.opened(new, &answer).map_err(Stopped::from),
            // Whatever the file is, the way to it was found.
            Err(stopped) if stopped.link_at == Some(dir.len()) => Err(stopped.error.into()),
            Err(stopped) => Err(stopped),
        })
    }

    /// Tcreateat in a directory, and a fid for what was made that is not open, if
    /// there could be one: two messages at once.
    pub(super) fn create_kept_fused(
        &self,
        dir: u32,
        name: &[u8],
        flags: OpenFlags,
        (bits, gid): (u32, u32),
    ) -> Option<Result<(OpenFid, Option<Fid<'_>>)>> {
        if !self.is_fused() {
            return None;
        }
        let (mut room, mut no_room) = ([0; NAMES_ROOM], [0; NAMES_ROOM]);
        let none: [&[u8]; 0] = [];
        let lists = names(&[name], &mut room).and_then(|it| Ok((it, names(&none, &mut no_room)?)));
        let (name, none) = match lists {
            Ok(lists) => lists,
            Err(error) => return Some(Err(error)),
        };
        let (mut open, mut kept) = (self.new_fid(), self.new_fid());
        let create = Request::CreateAt {
            fid: dir,
            newfid: open.number(),
            flags: translate::lopen_flags(flags) | LopenFlags::CREATE,
            mode: bits & UnixMode::PERM_MASK,
            gid,
            names: name,
        };
        let walk = Request::Walk {
            fid: open.number(),
            newfid: kept.number(),
            names: none,
        };
        let [created, walked] = match self.connection.call_all([&create, &walk]) {
            Ok(answers) => answers,
            Err(lost) => return Some(Err(lost)),
        };
        kept.note(walked.as_ref().err());
        open.note(created.as_ref().err());
        match created {
            Err(error) if self.is_at_a_loss(&error) => None,
            created => Some(
                created
                    .and_then(|answer| self.opened(open, &answer))
                    .map(|opened| (opened, walked.is_ok().then_some(kept))),
            ),
        }
    }

    /// Tstatat, with a fid for what is there.
    pub(super) fn lookup_fused(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
    ) -> Fused<(Fid<'_>, Attr)> {
        let done = self.making(fid, list, |newfid, names| Request::StatAt {
            fid,
            newfid,
            names,
        })?;
        Some(done.and_then(|(new, answer)| Ok((new, attr_at(&answer)?))))
    }

    /// Tstatat, without one.
    pub(super) fn stat_fused(&self, fid: u32, list: &[impl AsRef<[u8]>]) -> Fused<Attr> {
        let done = self.fused(fid, list, |names| Request::StatAt {
            fid,
            newfid: NOFID,
            names,
        })?;
        Some(done.and_then(|answer| Ok(attr_at(&answer)?)))
    }

    /// Whether the server is asked for it.
    pub(super) fn is_fused(&self) -> bool {
        self.is_fused.load(Ordering::Relaxed)
    }

    /// Sends one that makes a fid; that and the answer.
    fn making<N: AsRef<[u8]>>(
        &self,
        fid: u32,
        list: &[N],
        request: impl for<'n> FnOnce(u32, Names<'n>) -> Request<'n>,
    ) -> Fused<(Fid<'_>, Answer)> {
        if !self.is_fused() {
            return None;
        }
        let mut new = self.new_fid();
        let newfid = new.number();
        let done = self.fused(fid, list, |names| request(newfid, names))?;
        new.note(done.as_ref().err().map(|stopped| &stopped.error));
        Some(done.map(|answer| (new, answer)))
    }

    fn fused<N: AsRef<[u8]>>(
        &self,
        fid: u32,
        list: &[N],
        request: impl for<'n> FnOnce(Names<'n>) -> Request<'n>,
    ) -> Fused<Answer> {
        if !self.is_fused() || list.len() > WALK_MAX {
            return None;
        }
        let mut room = [0; NAMES_ROOM];
        let names = match names(list, &mut room) {
            Ok(names) => names,
            Err(error) => return Some(Err(error.into())),
        };
        let error = match self.connection.call(&request(names)) {
            Ok(answer) => return Some(Ok(answer)),
            Err(error) => error,
        };
        if self.is_at_a_loss(&error) {
            return None;
        }
        match error.errno() {
            Errno::ELOOP | Errno::ENOTDIR => Some(Err(Stopped {
                link_at: self.link_on_the_way(fid, list),
                error,
            })),
            _ => Some(Err(error.into())),
        }
    }

    /// Whether the server took the version for its own, and does not know what that
    /// means: it is not asked again.
    fn is_at_a_loss(&self, error: &Error) -> bool {
        let is_unknown = error.is_unsupported();
        if is_unknown {
            self.is_fused.store(false, Ordering::Relaxed);
        }
        is_unknown
    }

    /// Which of the names is a symlink, if one is: an error does not say.
    fn link_on_the_way(&self, fid: u32, list: &[impl AsRef<[u8]>]) -> Option<usize> {
        match self.walk(fid, list) {
            Err(stopped) => stopped.link_at,
            Ok((_, last)) => {
                let is_link = last?.kind.contains(QidType::SYMLINK);
                is_link.then_some(list.len().checked_sub(1)?)
            }
        }
    }
}

pub(super) fn attr_at(answer: &Answer) -> Result<Attr> {
    match answer.get()? {
        Reply::StatAt { attr, .. } => Ok(translate::attr(&attr)),
        other => Err(odd(&other)),
    }
}
