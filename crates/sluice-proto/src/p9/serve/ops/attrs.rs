//! Attributes as 9P2000.L has them.

use super::attr_of;
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::translate;
use crate::p9::wire::{Reply, SetAttr, Str};
use sluice_vfs::{Result, SYMLINK_TARGET_MAX, VecSink};

pub(in super::super) fn getattr(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let attr = attr_of(&*call.fid(fid)?)?;
    let attr = translate::getattr(&attr, call.config.options.qid_version);
    answer.set(&Reply::Getattr { attr })
}

pub(in super::super) fn setattr(
    call: &Call<'_>,
    fid: u32,
    changes: &SetAttr,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let changes = translate::setattr(changes)?;
    fid.session()
        .setattr(&fid.ctx(), fid.node.node, fid.handle(), &changes)?;
    answer.set(&Reply::Setattr {})
}

pub(in super::super) fn statfs(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let fid = call.fid(fid)?;
    let figures = fid.session().statfs(&fid.ctx(), fid.node.node)?;
    answer.set(&Reply::Statfs {
        statfs: translate::statfs(&figures),
    })
}

pub(in super::super) fn readlink(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let fid = call.fid(fid)?;
    let mut sink = VecSink::new(SYMLINK_TARGET_MAX);
    fid.session()
        .readlink(&fid.ctx(), fid.node.node, &mut sink)?;
    let target = sink.into_bytes();
    answer.set(&Reply::Readlink {
        target: Str(&target),
    })
}
