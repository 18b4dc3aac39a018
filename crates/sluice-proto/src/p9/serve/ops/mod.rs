//! Operations: arguments and results, translated.

pub(super) mod attach;
pub(super) mod attrs;
pub(super) mod content;
pub(super) mod dirs;
pub(super) mod fused;
pub(super) mod locks;
pub(super) mod make;
pub(super) mod names;
pub(super) mod open;
pub(super) mod stat;
pub(super) mod walk;
pub(super) mod xattrs;

use super::config::QidVersion;
use super::dispatch::Call;
use super::fids::Fid;
use super::translate::{ATTRS, qid};
use crate::p9::wire::Qid;
use sluice_vfs::{Attr, Errno, Result};

/// The attributes of a fid's file, as they are now.
fn attr_of(fid: &Fid) -> Result<Attr> {
    let stat = fid
        .session()
        .getattr(&fid.ctx(), fid.node.node, fid.handle(), ATTRS)?;
    Ok(stat.attr)
}

/// The qid of a fid's file. Where its version stays, that is known already.
fn qid_of(call: &Call<'_>, fid: &Fid) -> Result<Qid> {
    match call.config.options.qid_version {
        QidVersion::Stable => Ok(fid.node.qid),
        QidVersion::Content => attr_of(fid).map(|attr| qid(&attr, QidVersion::Content)),
    }
}

/// End of a range that a file could have.
fn check_range(offset: u64, len: u64) -> Result<u64> {
    let end = offset.checked_add(len);
    end.filter(|end| i64::try_from(*end).is_ok())
        .ok_or(Errno::EINVAL)
}
