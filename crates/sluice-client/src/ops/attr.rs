//! Attributes.

use super::fused::attr_at;
use super::walk::{NAMES_ROOM, Stopped, names};
use super::{Tree, odd};
use crate::connection::Flights;
use crate::error::{Error, Result};
use crate::requests::Answer;
use crate::translate;
use sluice_proto::p9::wire::{
    Counted, Dialect, GetattrMask, NOFID, QidType, Reply, Request, Stat, Trailing,
};
use sluice_vfs::{Attr, Errno, SetAttr, StatFs, WALK_MAX};

/// What is asked for, always: it is one call for the server.
const MASK: GetattrMask = GetattrMask::BASIC.union(GetattrMask::BTIME);

/// A name, the fid that it gets, and the tags of both messages.
type WalkAndGetattr<'a> = (&'a [u8], u32, [u16; 2]);

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
    ) -> std::result::Result<(u32, Attr), Stopped> {
        if let Some(done) = self.stat_fused(fid, list, true) {
            return done;
        }
        if list.len() > WALK_MAX || !self.is_orderly() {
            let (newfid, _) = self.walk(fid, list)?;
            return self.asked(newfid);
        }
        let newfid = self.connection.take_fid();
        let mut room = [0; NAMES_ROOM];
        let names = names(list, &mut room)?;
        let walk = Request::Walk { fid, newfid, names };
        let getattr = self.getattr_request(newfid);
        let [walked, asked] = self.connection.call_all([&walk, &getattr])?;
        let walked = walked
            .map_err(Stopped::from)
            .and_then(|answer| self.judge_walk(fid, list, &answer));
        let last = match walked {
            Ok(last) => last,
            Err(stopped) => {
                self.connection.give_back_unmade_fid(newfid, &stopped.error);
                return Err(stopped);
            }
        };
        match asked.and_then(|answer| self.attr_in(&answer)) {
            // Or else it was asked for half-way.
            Ok(attr) if last.is_none_or(|qid| qid.path == attr.ino) => Ok((newfid, attr)),
            _ => {
                let found = self.asked(newfid)?;
                self.note_disorder();
                Ok(found)
            }
        }
    }

    /// Attributes of what names lead to.
    pub(crate) fn stat_at(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
    ) -> std::result::Result<Attr, Stopped> {
        if let Some(done) = self.stat_fused(fid, list, false) {
            return done.map(|(_, attr)| attr);
        }
        let (newfid, attr) = self.lookup(fid, list)?;
        self.clunk(newfid);
        Ok(attr)
    }

    /// Attributes of what each of the names in a directory leads to, asked for at
    /// once, unless the server has no order.
    pub(crate) fn stat_many(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        match (self.is_fused(), self.is_orderly()) {
            (true, _) => self.stat_many_fused(dir, list),
            (false, true) => self.stat_many_in_order(dir, list),
            (false, false) => Ok(list
                .iter()
                .map(|name| Some(self.stat_at(dir, &[(*name)?]).map_err(|it| it.error)))
                .collect()),
        }
    }

    /// Asks about each name, all at once: `answer` waits for what was sent.
    fn about_each<'n, S>(
        &self,
        list: &[Option<&'n [u8]>],
        send: impl Fn(&mut Flights<'_, '_>, &'n [u8]) -> Result<S>,
        answer: impl Fn(&mut Flights<'_, '_>, S) -> Result<Result<Attr>>,
    ) -> Result<Vec<Option<Result<Attr>>>> {
        let mut flights = Flights::new(&self.connection);
        let sent = list
            .iter()
            .map(|name| name.map(|name| send(&mut flights, name)).transpose());
        let sent: Vec<Option<S>> = sent.collect::<Result<_>>()?;
        sent.into_iter()
            .map(|sent| sent.map(|it| answer(&mut flights, it)).transpose())
            .collect()
    }

    /// The way to each and the question about it, all at once.
    fn stat_many_in_order(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        let send = |flights: &mut Flights<'_, '_>, name| {
            let mut room = [0; NAMES_ROOM];
            let names = names(&[name], &mut room)?;
            let newfid = self.connection.take_fid();
            let walk = Request::Walk {
                fid: dir,
                newfid,
                names,
            };
            let tags = flights.send_all([&walk, &self.getattr_request(newfid)])?;
            Ok((name, newfid, tags))
        };
        self.about_each(list, send, |flights, sent| {
            self.answer_in_order(dir, sent, flights)
        })
    }

    /// What the two come to.
    fn answer_in_order(
        &self,
        dir: u32,
        (name, newfid, [walk, getattr]): WalkAndGetattr<'_>,
        flights: &mut Flights<'_, '_>,
    ) -> Result<Result<Attr>> {
        let (walked, attr) = (flights.wait(walk), flights.wait(getattr));
        for outcome in [&walked, &attr] {
            if let Err(error) = outcome
                && error.is_fatal()
            {
                return Err(error.clone());
            }
        }
        let walked = walked
            .map_err(Stopped::from)
            .and_then(|answer| self.judge_walk(dir, &[name], &answer));
        Ok(match walked {
            Err(stopped) => {
                let error = stopped.error;
                self.connection.give_back_unmade_fid(newfid, &error);
                Err(error)
            }
            Ok(_) => {
                let attr = attr.and_then(|answer| self.attr_in(&answer));
                self.told_in_order(newfid, attr)
            }
        })
    }

    /// What was asked right behind a walk; once more if that was too early.
    fn told_in_order(&self, fid: u32, told: Result<Attr>) -> Result<Attr> {
        let told = told.or_else(|_| {
            let attr = self.getattr(fid)?;
            self.note_disorder();
            Ok(attr)
        });
        self.clunk(fid);
        told
    }

    fn stat_many_fused(
        &self,
        dir: u32,
        list: &[Option<&[u8]>],
    ) -> Result<Vec<Option<Result<Attr>>>> {
        let send = |flights: &mut Flights<'_, '_>, name| {
            let mut room = [0; NAMES_ROOM];
            let request = Request::StatAt {
                fid: dir,
                newfid: NOFID,
                names: names(&[name], &mut room)?,
            };
            flights.send_all([&request])
        };
        self.about_each(list, send, |flights, [tag]| match flights.wait(tag) {
            Err(error) if error.is_fatal() => Err(error),
            answer => Ok(answer.and_then(|answer| attr_at(&answer))),
        })
    }

    /// Attributes of a fid that was walked to; without success it is given back.
    fn asked(&self, fid: u32) -> std::result::Result<(u32, Attr), Stopped> {
        match self.getattr(fid) {
            Ok(attr) => Ok((fid, attr)),
            Err(error) => {
                self.clunk(fid);
                Err(error.into())
            }
        }
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

    /// Where a symlink leads.
    pub(crate) fn readlink(&self, fid: u32) -> Result<Vec<u8>> {
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
