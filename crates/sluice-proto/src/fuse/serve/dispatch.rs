//! Operation to service call.

use super::exchange::Exchange;
use super::negotiate::Negotiated;
use super::ops::{attrs, dirs, files, locks, names, open, xattrs};
use super::server::Connection;
use super::translate::Presenter;
use crate::fuse::wire::{Operation, RequestHead};
use sluice_vfs::{Caller, Ctx, Errno, HandleId, LockOwner, NodeId, Result, Session};

/// A request that is being run.
pub(super) struct Call<'a> {
    /// The connection that it came on.
    pub(super) connection: &'a Connection,
    /// Its header.
    pub(super) head: RequestHead,
    /// The node that its header names.
    pub(super) node: NodeId,
}

/// Runs an operation. The body of its reply goes into the exchange's sink.
/// Linux stops asking for what it once got `ENOSYS` for.
#[rustfmt::skip] // one line each
pub(super) fn dispatch(call: &Call<'_>, operation: &Operation<'_>, exchange: &mut dyn Exchange) -> Result<()> {
    use Operation as Op;
    match operation {
        Op::Lookup { name } => names::lookup(call, *name, exchange.sink()),
        Op::Symlink { name, target, extensions } => names::symlink(call, *name, *target, extensions, exchange.sink()),
        Op::Mknod { args, name, extensions } => names::mknod(call, args, *name, extensions, exchange.sink()),
        Op::Mkdir { args, name, extensions } => names::mkdir(call, args, *name, extensions, exchange.sink()),
        Op::Link { args, name } => names::link(call, args, *name, exchange.sink()),
        Op::Unlink { name } => names::unlink(call, *name),
        Op::Rmdir { name } => names::rmdir(call, *name),
        Op::Rename { args, old_name, new_name } => names::rename(call, args.newdir, 0, *old_name, *new_name),
        Op::Rename2 { args, old_name, new_name } => names::rename(call, args.newdir, args.flags, *old_name, *new_name),

        Op::Getattr { args } => attrs::getattr(call, args, exchange.sink()),
        Op::Statx { args } => attrs::statx(call, args, exchange.sink()),
        Op::Setattr { args } => attrs::setattr(call, args, exchange.sink()),
        Op::Access { args } => attrs::access(call, args),
        Op::Readlink {} => attrs::readlink(call, exchange.sink()),
        Op::Statfs {} => attrs::statfs(call, exchange.sink()),

        Op::Getxattr { args, name } => xattrs::getxattr(call, args, *name, exchange.sink()),
        Op::Listxattr { args } => xattrs::listxattr(call, args, exchange.sink()),
        Op::Setxattr { args, name, value } => xattrs::setxattr(call, args, *name, value.0),
        Op::Removexattr { name } => xattrs::removexattr(call, *name),

        Op::Open { args } => open::open(call, args, exchange.sink()),
        Op::Opendir { args } => open::opendir(call, args, exchange.sink()),
        Op::Create { args, name, extensions } => open::create(call, args, *name, extensions, exchange.sink()),
        Op::Tmpfile { args, extensions, .. } => open::tmpfile(call, args, extensions, exchange.sink()),
        Op::Flush { args } => open::flush(call, args),
        Op::Release { args } => open::release(call, args),
        Op::Releasedir { args } => open::releasedir(call, args),

        Op::Read { args } => files::read(call, args, exchange.sink()),
        Op::Write { args, .. } => files::write(call, args, exchange),
        Op::Fsync { args } => files::fsync(call, args),
        Op::Syncfs { .. } => files::syncfs(call),
        Op::Fallocate { args } => files::fallocate(call, args),
        Op::Lseek { args } => files::lseek(call, args, exchange.sink()),
        Op::CopyFileRange { args } => files::copy_file_range(call, args, exchange.sink()),
        Op::CopyFileRange64 { args } => files::copy_file_range_64(call, args, exchange.sink()),
        Op::Ioctl { args, data } => files::ioctl(call, args, data.0, exchange.sink()),

        Op::Readdir { args } => dirs::readdir(call, args, exchange.sink()),
        Op::Readdirplus { args } => dirs::readdirplus(call, args, exchange.sink()),
        Op::Fsyncdir { args } => dirs::fsyncdir(call, args),

        Op::Getlk { args } => locks::getlk(call, args, exchange.sink()),
        Op::Setlk { args } => locks::setlk(call, args),

        // No block device, nothing to wait for, no window.
        Op::Bmap { .. } | Op::Poll { .. } => Err(Errno::ENOSYS),
        Op::Setupmapping { .. } | Op::Removemapping { .. } => Err(Errno::ENOSYS),

        // The server answers these itself.
        Op::Init { .. } | Op::Destroy {} | Op::Forget { .. } | Op::BatchForget { .. } => Err(Errno::EIO),
        Op::Interrupt { .. } | Op::NotifyReply { .. } | Op::Setlkw { .. } => Err(Errno::EIO),
    }
}

impl<'a> Call<'a> {
    /// A request with this header.
    pub(super) fn new(connection: &'a Connection, head: RequestHead) -> Self {
        Call {
            connection,
            head,
            node: NodeId(head.nodeid),
        }
    }

    /// Who answers.
    pub(super) fn session(&self) -> &'a dyn Session {
        &*self.connection.session
    }

    /// What INIT settled.
    pub(super) fn negotiated(&self) -> &'a Negotiated {
        &self.connection.negotiated
    }

    /// How nodes are shown.
    pub(super) fn presenter(&self) -> &'a Presenter {
        &self.connection.presenter
    }

    /// Context with the caller of the header.
    pub(super) fn ctx(&self) -> Ctx<'a> {
        self.ctx_in(&[])
    }

    /// The same with supplementary groups.
    pub(super) fn ctx_in<'g>(&self, groups: &'g [u32]) -> Ctx<'g>
    where
        'a: 'g,
    {
        let caller = Caller {
            uid: self.head.uid,
            gid: self.head.gid,
            groups,
            pid: self.head.pid,
        };
        Ctx::new(caller).with_cancel(&self.connection.gone)
    }

    /// The same with a lock owner.
    pub(super) fn ctx_of(&self, lock_owner: u64) -> Ctx<'a> {
        self.ctx().with_lock_owner(LockOwner(lock_owner))
    }

    /// The handle of a file; none where files are used without being opened.
    pub(super) fn file_handle(&self, fh: u64) -> Option<HandleId> {
        (!self.negotiated().is_without_open).then_some(HandleId(fh))
    }

    /// The handle of a directory; as [`Call::file_handle`].
    pub(super) fn dir_handle(&self, fh: u64) -> Option<HandleId> {
        (!self.negotiated().is_without_opendir).then_some(HandleId(fh))
    }
}
