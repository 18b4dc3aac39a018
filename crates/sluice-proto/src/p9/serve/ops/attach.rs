//! Beginning and end of a fid.

use super::{names, qid_of, xattrs};
use crate::p9::serve::answer::Answer;
use crate::p9::serve::connection::Connection;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::{Fid, FidState, NodeRef};
use crate::p9::serve::translate::ATTRS;
use crate::p9::wire::{NOFID, Reply, UnixId};
use sluice_vfs::{Ctx, Errno, NodeId, Result};

pub(in super::super) fn attach(
    call: &Call<'_>,
    (fid, afid): (u32, u32),
    uname: &[u8],
    aname: &[u8],
    n_uname: UnixId,
    answer: &mut Answer,
) -> Result<()> {
    // Nothing but Tauth, which is refused, makes fids for authentication.
    if afid != NOFID {
        return Err(Errno::EBADF);
    }
    let connection = call.connection;
    let fid = connection.fids.reserve(fid)?;
    let user = Connection::user(call.config, uname, n_uname.get())?;
    let tree = connection.tree(call.service, call.config, aname)?;
    let ctx = Ctx::new(user.caller());
    let root = tree.session.getattr(&ctx, NodeId::ROOT, None, ATTRS)?;
    let node = NodeRef::root(&tree, &root.attr);
    let meaning = Fid::new(&user, node, None, FidState::Path);
    let qid = qid_of(call, &meaning)?;
    fid.fill(meaning);
    answer.set(&Reply::Attach { qid })
}

/// The fid is gone, whatever comes of closing it.
pub(in super::super) fn clunk(call: &Call<'_>, fid: u32, answer: &mut Answer) -> Result<()> {
    let fid = call.connection.fids.remove(fid)?;
    match &fid.state {
        FidState::XattrWrite(write) => xattrs::commit(&fid, write)?,
        FidState::Open(open) if open.removes => {
            let removed = names::remove_file(&fid);
            fid.close().and(removed)?;
        }
        _ => fid.close()?,
    }
    answer.set(&Reply::Clunk {})
}
