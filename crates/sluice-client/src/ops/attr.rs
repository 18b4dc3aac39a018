//! Attributes.

use super::fused::attr_at;
use super::walk::{NAMES_ROOM, Stopped, names};
use super::{Fid, Tree, odd};
use crate::connection::Flights;
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate;
use sluice_proto::p9::wire::{
    Counted, Dialect, GetattrMask, NOFID, QidType, Reply, Request, Stat, Trailing,
};
use sluice_vfs::{Attr, Errno, SetAttr, StatFs};

/// What is asked for, always: it is one call for the server.
const MASK: GetattrMask = GetattrMask::BASIC.union(GetattrMask::BTIME);

impl Tree {
    /// Attributes of a fid's file.
    pub(crate) fn getattr(&self, fid: u32) -> Result<Attr> {
        let answer = self.connection.call(&self.getattr_request(fid))?;
        self.attr_in(&answer)
    }

    /// Attributes of what names lead to, and a fid for it.
    pub(crate) fn lookup(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
    ) -> std::result::Result<(Fid<'_>, Attr), Stopped> {
        if let Some(done) = self.lookup_fused(fid, list) {
            return done;
        }
        let (new, _, answer) = self.walk_and_ask(fid, list, |new| self.getattr_request(new))?;
        let attr = answer.and_then(|answer| self.attr_in(&answer))?;
        Ok((new, attr))
    }

    /// Attributes of what names lead to.
    pub(crate) fn stat_at(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
    ) -> std::result::Result<Attr, Stopped> {
        if let Some(done) = self.stat_fused(fid, list) {
            return done;
        }
        self.lookup(fid, list).map(|(_, attr)| attr)
    }

    /// Attributes of what each of the names in a directory leads to, asked for at
    /// once.
    pub(crate) fn stat_many(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        match self.is_fused() {
            true => self.stat_many_fused(dir, list),
            false => self.stat_many_by_walks(dir, list),
        }
    }

    /// All ways at once, and then all questions.
    fn stat_many_by_walks(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        let found = self.each(
            list.iter().copied(),
            |flights, name| {
                let mut room = [0; NAMES_ROOM];
                let names = names(&[name], &mut room)?;
                let mut new = self.new_fid();
                let (fid, newfid) = (dir, new.number());
                let [tag] = flights.send_all([&Request::Walk { fid, newfid, names }])?;
                new.is_asked_for();
                Ok((name, new, tag))
            },
            |flights, (name, mut new, tag)| {
                let walked = self.judge_walk(dir, &mut new, &[name], flights.wait(tag));
                walked.map(|_| new).map_err(|stopped| stopped.error)
            },
        )?;
        self.each(
            found.into_iter(),
            |flights, found| {
                let fid = found?;
                let [tag] = flights.send_all([&self.getattr_request(fid.number())])?;
                Ok((fid, tag))
            },
            |flights, (_fid, tag)| flights.wait(tag).and_then(|answer| self.attr_in(&answer)),
        )
    }

    fn stat_many_fused(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        self.each(
            list.iter().copied(),
            |flights, name| {
                let mut room = [0; NAMES_ROOM];
                flights.send_all([&Request::StatAt {
                    fid: dir,
                    newfid: NOFID,
                    names: names(&[name], &mut room)?,
                }])
            },
            |flights, [tag]| flights.wait(tag).and_then(|answer| attr_at(&answer)),
        )
    }

    /// Asks about each of a list, all at once: `answer` waits for what was sent.
    fn each<I, S, T>(
        &self,
        list: impl Iterator<Item = Option<I>>,
        send: impl Fn(&mut Flights<'_, '_>, I) -> Result<S>,
        answer: impl Fn(&mut Flights<'_, '_>, S) -> Result<T>,
    ) -> Result<Vec<Option<Result<T>>>> {
        let mut flights = Flights::new(&self.connection);
        let sent: Vec<Option<Result<S>>> = list
            .map(|item| item.map(|item| send(&mut flights, item)))
            .collect();
        let mut told = Vec::with_capacity(sent.len());
        for sent in sent {
            match sent.map(|sent| answer(&mut flights, sent?)) {
                Some(Err(error)) if error.is_fatal() => return Err(error),
                outcome => told.push(outcome),
            }
        }
        Ok(told)
    }

    fn getattr_request(&self, fid: u32) -> Request<'static> {
        match self.is_linux() {
            true => Request::Getattr { fid, mask: MASK },
            false => Request::Stat { fid },
        }
    }

    fn attr_in(&self, answer: &Answer) -> Result<Attr> {
        match answer.get()? {
            Reply::Getattr { attr } => Ok(translate::attr(&attr)),
            Reply::Stat { stat } => Ok(translate::attr_of_stat(&stat.0.0, self.dialect())),
            other => Err(odd(&other)),
        }
    }

    /// Changes attributes.
    pub(crate) fn setattr(&self, fid: u32, changes: &SetAttr) -> Result<()> {
        self.check_words_for(changes)?;
        let request = match self.is_linux() {
            true => Request::Setattr {
                fid,
                changes: translate::setattr(changes),
            },
            false => {
                let is_dir = changes.perm.is_some() && self.getattr(fid)?.mode.is_dir();
                let stat = translate::wstat(changes, is_dir, self.dialect());
                Request::Wstat {
                    fid,
                    stat: Counted(Counted(stat)),
                }
            }
        };
        self.connection.call(&request).map(drop)
    }

    /// Plain 9P2000 would leave out what it has no words for, as if it were done.
    fn check_words_for(&self, changes: &SetAttr) -> Result<()> {
        let has_all = self.dialect() != Dialect::Plan9;
        let has_owner = changes.uid.or(changes.gid).is_some();
        match changes.perm {
            _ if has_all => Ok(()),
            _ if has_owner => Err(Error::not_in(self.dialect(), "owners by number")),
            Some(bits) if bits & !0o777 != 0 => {
                Err(Error::not_in(self.dialect(), "set-id and sticky bits"))
            }
            _ => Ok(()),
        }
    }

    /// Figures of the file system.
    pub(crate) fn statfs(&self, fid: u32) -> Result<StatFs> {
        self.require_linux("statfs(2)")?;
        match self.connection.call(&Request::Statfs { fid })?.get()? {
            Reply::Statfs { statfs } => Ok(translate::statfs(&statfs)),
            other => Err(odd(&other)),
        }
    }

    /// Where a symlink leads. Plain 9P2000 tells that something is one, and no more.
    pub(crate) fn readlink(&self, fid: u32) -> Result<Vec<u8>> {
        if self.dialect() == Dialect::Plan9 {
            return Err(Error::not_in(self.dialect(), "symlinks"));
        }
        if self.is_linux() {
            return match self.connection.call(&Request::Readlink { fid })?.get()? {
                Reply::Readlink { target } => Ok(target.0.to_vec()),
                other => Err(odd(&other)),
            };
        }
        match self.connection.call(&Request::Stat { fid })?.get()? {
            Reply::Stat { stat } => {
                let Stat { qid, extension, .. } = stat.0.0;
                match qid.kind.contains(QidType::SYMLINK) {
                    true => Ok(extension.0.0.to_vec()),
                    false => Err(Error::Refused(Errno::EINVAL)),
                }
            }
            other => Err(odd(&other)),
        }
    }

    /// Brings a file to the disk.
    pub(crate) fn fsync(&self, fid: u32, data_only: bool) -> Result<()> {
        let request = match self.is_linux() {
            true => Request::Fsync {
                fid,
                datasync: Trailing(Some(data_only.into())),
            },
            // All at "leave it" asks for this (stat(5)).
            false => Request::Wstat {
                fid,
                stat: Counted(Counted(Stat::LEAVE)),
            },
        };
        self.connection.call(&request).map(drop)
    }
}
