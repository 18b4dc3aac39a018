//! Message to service call.

use super::answer::Answer;
use super::config::ServerConfig;
use super::connection::Connection;
use super::exchange::Exchange;
use super::fids::Fid;
use super::ops::{
    attach, attrs, content, dirs, fused, locks, make, names, open, stat, walk, xattrs,
};
use crate::p9::wire::{Dialect, Request};
use sluice_vfs::{Errno, FileService, Result};
use std::sync::Arc;

/// A request that is being run.
pub(super) struct Call<'a> {
    pub(super) service: &'a dyn FileService,
    pub(super) config: &'a ServerConfig,
    pub(super) connection: &'a Connection,
}

impl Call<'_> {
    /// What `fid` stands for.
    pub(super) fn fid(&self, fid: u32) -> Result<Arc<Fid>> {
        self.connection.fids.get(fid)
    }

    /// Whether numbers of users travel beside names, and modes are Unix's.
    pub(super) fn is_unix(&self) -> bool {
        self.connection.dialect != Dialect::Plan9
    }
}

/// Runs a request and sets its reply.
#[rustfmt::skip] // one line each
pub(super) fn dispatch(
    call: &Call<'_>, request: &Request<'_>, exchange: &mut dyn Exchange, answer: &mut Answer,
) -> Result<()> {
    use Request as R;
    match *request {
        R::Auth { .. } => Err(Errno::ENOENT), // nobody needs it
        R::Attach { fid, afid, uname, aname, n_uname } => attach::attach(call, (fid, afid), uname.0, aname.0, n_uname.0, answer),
        R::Walk { fid, newfid, names } => walk::walk(call, fid, newfid, &names, answer),
        R::Clunk { fid } => attach::clunk(call, fid, answer),
        R::Remove { fid } => names::remove(call, fid, answer),

        R::Lopen { fid, flags } => open::lopen(call, fid, flags, answer),
        R::Lcreate { fid, name, flags, mode, gid } => open::lcreate(call, fid, name.0, flags, mode, gid, answer),
        R::Open { fid, mode } => open::open(call, fid, mode, answer),
        R::Create { fid, name, perm, mode, extension } => make::create(call, fid, name.0, perm, mode, extension.0.0, answer),

        R::Read { fid, offset, count } => content::read(call, fid, offset, count, exchange, answer),
        R::Write { fid, offset, .. } => content::write(call, fid, offset, exchange, answer),
        R::Fsync { fid, datasync } => content::fsync(call, fid, datasync, answer),
        R::Readdir { fid, offset, count } => dirs::readdir(call, fid, offset, count, exchange, answer),

        R::Getattr { fid, .. } => attrs::getattr(call, fid, answer),
        R::Setattr { fid, changes } => attrs::setattr(call, fid, &changes, answer),
        R::Statfs { fid } => attrs::statfs(call, fid, answer),
        R::Readlink { fid } => attrs::readlink(call, fid, answer),
        R::Stat { fid } => stat::stat(call, fid, answer),
        R::Wstat { fid, stat } => stat::wstat(call, fid, &stat.0.0, answer),

        R::Xattrwalk { fid, newfid, name } => xattrs::xattrwalk(call, fid, newfid, name.0, answer),
        R::Xattrcreate { fid, name, size, flags } => xattrs::xattrcreate(call, fid, name.0, size, flags, answer),

        R::Symlink { fid, name, target, gid } => make::symlink(call, fid, name.0, target.0, gid, answer),
        R::Mknod { dfid, name, mode, major, minor, gid } => make::mknod(call, dfid, name.0, mode, (major, minor), gid, answer),
        R::Mkdir { dfid, name, mode, gid } => make::mkdir(call, dfid, name.0, mode, gid, answer),
        R::Link { dfid, fid, name } => make::link(call, dfid, fid, name.0, answer),
        R::Rename { fid, dfid, name } => names::rename(call, fid, dfid, name.0, answer),
        R::Renameat { old_dfid, old_name, new_dfid, new_name } => names::renameat(call, (old_dfid, old_name.0), (new_dfid, new_name.0), answer),
        R::Unlinkat { dfid, name, flags } => names::unlinkat(call, dfid, name.0, flags, answer),

        R::Lock { fid, args } => locks::lock(call, fid, &args, answer),
        R::Getlock { fid, args } => locks::getlock(call, fid, &args, answer),

        R::OpenAt { fid, newfid, flags, names } => fused::open_at(call, (fid, newfid), flags, &names, answer),
        R::CreateAt { fid, newfid, flags, mode, gid, names } => fused::create_at(call, (fid, newfid), flags, (mode, gid), &names, answer),
        R::StatAt { fid, newfid, names } => fused::stat_at(call, (fid, newfid), &names, answer),

        // The server answers these itself.
        R::Version { .. } | R::Flush { .. } => Err(Errno::EIO),
    }
}
