//! Messages that do what takes several elsewhere (docs/9p-extension.md).

use super::walk::{NAMES_ROOM, Stopped, names};
use super::{OpenFid, Tree, odd};
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate;
use sluice_proto::p9::wire::{LopenFlags, NOFID, QidType, Reply, Request};
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
        self.fused(fid, list, true, |newfid, names| Request::OpenAt {
            fid,
            newfid,
            flags: translate::lopen_flags(flags),
            names,
        })
        .map(|done| done.and_then(|(newfid, answer)| Ok(self.opened(newfid, &answer)?)))
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
        let done = self.fused(fid, &list, true, |newfid, names| Request::CreateAt {
            fid,
            newfid,
            flags: translate::lopen_flags(flags) | LopenFlags::CREATE,
            mode: bits & UnixMode::PERM_MASK,
            gid,
            names,
        })?;
        Some(match done {
            Ok((newfid, answer)) => self.opened(newfid, &answer).map_err(Stopped::from),
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
    ) -> Option<Result<(OpenFid, Option<u32>)>> {
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
        let (fid, newfid) = (self.connection.take_fid(), self.connection.take_fid());
        let create = Request::CreateAt {
            fid: dir,
            newfid: fid,
            flags: translate::lopen_flags(flags) | LopenFlags::CREATE,
            mode: bits & UnixMode::PERM_MASK,
            gid,
            names: name,
        };
        let walk = Request::Walk {
            fid,
            newfid,
            names: none,
        };
        let [created, walked] = match self.connection.call_all([&create, &walk]) {
            Ok(answers) => answers,
            Err(lost) => return Some(Err(lost)),
        };
        if let Err(error) = &walked {
            self.connection.give_back_unmade_fid(newfid, error);
        }
        let kept = walked.is_ok().then_some(newfid);
        match created {
            Ok(answer) => Some(self.opened(fid, &answer).map(|opened| (opened, kept))),
            Err(error) => {
                self.connection.give_back_unmade_fid(fid, &error);
                (!self.is_at_a_loss(&error)).then_some(Err(error))
            }
        }
    }

    /// Tstatat; with a fid for what is there, or without.
    pub(super) fn stat_fused(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        keeps: bool,
    ) -> Fused<(u32, Attr)> {
        self.fused(fid, list, keeps, |newfid, names| Request::StatAt {
            fid,
            newfid,
            names,
        })
        .map(|done| done.and_then(|(newfid, answer)| Ok((newfid, attr_at(&answer)?))))
    }

    /// Whether the server is asked for it.
    pub(super) fn is_fused(&self) -> bool {
        self.is_fused.load(Ordering::Relaxed)
    }

    /// Sends one; the fid that it made, and the answer.
    fn fused<'r, N: AsRef<[u8]>>(
        &self,
        fid: u32,
        list: &[N],
        keeps: bool,
        request: impl for<'n> FnOnce(u32, sluice_proto::p9::wire::Names<'n>) -> Request<'n> + 'r,
    ) -> Fused<(u32, Answer)> {
        if !self.is_fused() || list.len() > WALK_MAX {
            return None;
        }
        let mut room = [0; NAMES_ROOM];
        let names = match names(list, &mut room) {
            Ok(names) => names,
            Err(error) => return Some(Err(error.into())),
        };
        let newfid = match keeps {
            true => self.connection.take_fid(),
            false => NOFID,
        };
        let error = match self.connection.call(&request(newfid, names)) {
            Ok(answer) => return Some(Ok((newfid, answer))),
            Err(error) => error,
        };
        if keeps {
            self.connection.give_back_unmade_fid(newfid, &error);
        }
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
            Ok((found, last)) => {
                self.clunk(found);
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
