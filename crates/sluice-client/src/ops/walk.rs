//! From names to fids.

use super::{Fid, Tree, odd};
use crate::error::{Error, Result, Violation};
use crate::requests::Answer;
use sluice_proto::p9::wire::{Names, Qid, QidType, Reply, Request};
use sluice_vfs::{Errno, NAME_MAX, WALK_MAX};

/// Room for the names of one Twalk.
pub(super) const NAMES_ROOM: usize = WALK_MAX * (2 + NAME_MAX);

/// A walk that did not get to its end.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) error: Error,
    /// The name, counted from 0, that turned out to be a symlink.
    pub(crate) link_at: Option<usize>,
}

impl<E: Into<Error>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Stopped {
            error: error.into(),
            link_at: None,
        }
    }
}

/// The names of one message.
pub(super) fn names<'a>(
    list: &[impl AsRef<[u8]>],
    room: &'a mut [u8; NAMES_ROOM],
) -> Result<Names<'a>> {
    if list.iter().any(|name| name.as_ref().len() > NAME_MAX) {
        return Err(Error::Refused(Errno::ENAMETOOLONG));
    }
    let list: arrayvec::ArrayVec<&[u8], WALK_MAX> =
        list.iter().map(AsRef::as_ref).take(WALK_MAX).collect();
    Names::new(&list, room).map_err(|_| Error::TooLong)
}

impl Tree {
    /// A new fid for what names lead to; without names for the same file.
    pub(crate) fn walk(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
    ) -> std::result::Result<(Fid<'_>, Option<Qid>), Stopped> {
        let mut new = self.new_fid();
        let (mut from, mut last) = (fid, None);
        for (index, piece) in pieces(list).enumerate() {
            let base = index * WALK_MAX;
            let step = self.walk_step(from, &mut new, piece);
            let qid = step.map_err(|stopped| Stopped {
                link_at: stopped.link_at.map(|at| at + base),
                ..stopped
            })?;
            last = qid.or(last);
            from = new.number();
        }
        Ok((new, last))
    }

    fn walk_step(
        &self,
        fid: u32,
        new: &mut Fid<'_>,
        list: &[impl AsRef<[u8]>],
    ) -> std::result::Result<Option<Qid>, Stopped> {
        let mut room = [0; NAMES_ROOM];
        let (newfid, names) = (new.number(), names(list, &mut room)?);
        let answer = self.connection.call(&Request::Walk { fid, newfid, names });
        self.judge_walk(fid, new, list, answer)
    }

    /// What came of a walk: its last qid, if it got to the end and has made the fid.
    pub(super) fn judge_walk(
        &self,
        fid: u32,
        new: &mut Fid<'_>,
        list: &[impl AsRef<[u8]>],
        answer: Result<Answer>,
    ) -> std::result::Result<Option<Qid>, Stopped> {
        let walked = answer
            .map_err(Stopped::from)
            .and_then(|answer| self.end_of_walk(fid, list, &answer));
        new.note(walked.as_ref().err().map(|stopped| &stopped.error));
        walked
    }

    fn end_of_walk(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        answer: &Answer,
    ) -> std::result::Result<Option<Qid>, Stopped> {
        let qids = match answer.get()? {
            Reply::Walk { qids } => qids,
            other => return Err(odd(&other).into()),
        };
        let last = qids.iter().last();
        let got = qids.iter().count();
        if got > list.len() {
            let (asked, got) = (list.len() as u64, got as u64);
            let what = "qids";
            return Err(Violation::Excess { what, asked, got }.into());
        }
        if got == list.len() {
            return Ok(last);
        }
        if got == 0 {
            // Or else it would be asked why, and again.
            return Err(Violation::Value("an Rwalk that got nowhere").into());
        }
        let is_link = last.is_some_and(|qid| qid.kind.contains(QidType::SYMLINK));
        Err(Stopped {
            link_at: is_link.then_some(got.wrapping_sub(1)),
            error: self.why_short(fid, list, got, last),
        })
    }

    /// Walks, and asks something of what is found: the fid for it, the last qid, and
    /// the answer to that.
    pub(super) fn walk_and_ask(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        question: impl FnOnce(u32) -> Request<'static>,
    ) -> std::result::Result<(Fid<'_>, Option<Qid>, Result<Answer>), Stopped> {
        if !self.is_orderly || list.len() > WALK_MAX {
            let (new, last) = self.walk(fid, list)?;
            let answer = self.connection.call(&question(new.number()));
            return Ok((new, last, answer));
        }
        let mut new = self.new_fid();
        let mut room = [0; NAMES_ROOM];
        let (newfid, names) = (new.number(), names(list, &mut room)?);
        let walk = Request::Walk { fid, newfid, names };
        let [walked, answer] = self.connection.call_all([&walk, &question(newfid)])?;
        let last = self.judge_walk(fid, &mut new, list, walked)?;
        Ok((new, last, answer))
    }

    /// Rwalk does not say why it got no further; the rest of the way does.
    fn why_short(
        &self,
        fid: u32,
        list: &[impl AsRef<[u8]>],
        got: usize,
        last: Option<Qid>,
    ) -> Error {
        if last.is_some_and(|qid| !qid.kind.contains(QidType::DIR)) {
            return Error::Refused(Errno::ENOTDIR);
        }
        let (done, rest) = list.split_at(got);
        let ask = || {
            let mut between = self.new_fid();
            self.walk_step(fid, &mut between, done)?;
            let from = between.number();
            self.walk_step(from, &mut between, rest.get(..1).unwrap_or_default())
        };
        match ask() {
            Err(stopped) => stopped.error,
            // It is there now.
            Ok(_) => Error::Refused(Errno::ENOENT),
        }
    }
}

/// As many names at a time as a message holds; at least one message.
fn pieces<N>(list: &[N]) -> impl Iterator<Item = &[N]> {
    let empty: Option<&[N]> = list.is_empty().then_some(&[]);
    empty.into_iter().chain(list.chunks(WALK_MAX))
}
