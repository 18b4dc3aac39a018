//! From names to files.

use crate::p9::serve::answer::Answer;
use crate::p9::serve::config::QidVersion;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, FidState, NodeRef, Place};
use crate::p9::serve::translate::{ATTRS, qid};
use crate::p9::wire::{Names, QID_LEN, Qids, Reply};
use arrayvec::ArrayVec;
use sluice_vfs::{Attr, Entry, Errno, Lookup, Name, NodeId, Result, WALK_MAX};

/// An error only if the first name already fails; else the reply has as many
/// qids as there were names, and `newfid` stays what it was (walk(5)).
pub(in super::super) fn walk(
    call: &Call<'_>,
    fid: u32,
    newfid: u32,
    names: &Names<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let from = call.fid(fid)?;
    let fids = &call.connection.fids;
    check_start(&from, fid == newfid, names)?;
    let made = match fid == newfid {
        true => None,
        false => Some(fids.reserve(newfid)?),
    };
    let mut at = from.cloned();
    let mut qids: ArrayVec<[u8; QID_LEN], WALK_MAX> = ArrayVec::new();
    for name in names.iter() {
        match step(&mut at, name) {
            Ok(attr) => qids.push(qid(&attr, call.config.options.qid_version).to_bytes()),
            Err(error) if qids.is_empty() => return Err(error),
            Err(_) => return answer.set(&Reply::Walk { qids: Qids(&qids) }),
        }
    }
    match made {
        Some(made) => made.fill(at),
        None if names.is_empty() => {}
        None => fids.replace(fid, at),
    }
    answer.set(&Reply::Walk { qids: Qids(&qids) })
}

pub(super) fn check_start(from: &Fid, is_to_move: bool, names: &Names<'_>) -> Result<()> {
    match from.state {
        FidState::XattrRead(_) | FidState::XattrWrite(_) => Err(Errno::EBADF),
        FidState::Open(_) if is_to_move && !names.is_empty() => Err(Errno::EBADF),
        FidState::Open(_) | FidState::Path => Ok(()),
    }
}

/// Goes to `name`. The root is above itself.
pub(super) fn step(at: &mut Fid, name: &[u8]) -> Result<Attr> {
    if !at.node.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    match name {
        b"." => at.attr_now(),
        b".." if at.node.node == NodeId::ROOT => at.attr_now(),
        b".." => {
            let above = at.session().parent(&at.ctx(), at.node.node)?;
            // Where that is in turn is not known, but for the root, which has no place.
            at.go(&above, None);
            Ok(above.attr)
        }
        _ => {
            let name = Name::new(name)?;
            let found = at.session().lookup(&at.ctx(), at.node.node, name);
            let entry = found.and_then(Lookup::found)?;
            let place = Place::new(&at.node, name.as_bytes());
            at.go(&entry, Some(place));
            Ok(entry.attr)
        }
    }
}

impl Fid {
    fn attr_now(&self) -> Result<Attr> {
        let stat = self
            .session()
            .getattr(&self.ctx(), self.node.node, None, ATTRS)?;
        Ok(stat.attr)
    }

    fn go(&mut self, entry: &Entry, place: Option<Place>) {
        let node = NodeRef::new(&self.node.tree, entry);
        *self = Fid::new(&self.user, node, place, FidState::Path);
    }
}

/// The qid of an entry that a request made, whose reference is not kept.
pub(super) fn qid_of_new(fid: &Fid, entry: &Entry, how: QidVersion) -> crate::p9::wire::Qid {
    fid.session().forget(entry.node, 1);
    qid(&entry.attr, how)
}
