//! Another path's service behind 9P on a socket, with the client that `sluice
//! mount` uses before it.

use super::p9::not_in_9p;
use crate::conformance::{Fresh, Needs, Path, not_expressible};
use crate::p9_stream::{Run, serve_stream};
use sluice_client::{
    ConnectOptions, Dialect, Error, RemoteService, ServiceOptions, Socket, Transport,
};
use sluice_proto::p9::serve::{Bounds, NumericUsers, ServeOptions, ServerConfig};
use sluice_vfs::{
    Access, AccessChecks, AttachOptions, Attached, CopyRange, CreateArgs, Created, Ctx,
    FallocateMode, FileIoctl, FileIoctlReply, FileService, HandleId, Lock, LockOutcome, LockStyle,
    Name, NodeId, OpenFlags, Opened, Peer, RenameFlags, Renamed, Result, Session, SessionLimits,
    SetAttr, Stamp, Stat, WaitId, Whence, WriteArgs, WriteSource, Written, XattrFlags, XattrName,
    forward_session,
};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// 9P on a socket, as one dialect has it.
pub struct RemotePath<P> {
    inner: P,
    dialect: Dialect,
    name: String,
}

impl<P: Path> RemotePath<P> {
    /// Over what `inner` offers.
    pub fn over(inner: P, dialect: Dialect) -> Self {
        let version = String::from_utf8_lossy(dialect.version());
        let name = format!("the client in {version} over {}", inner.name());
        RemotePath {
            inner,
            dialect,
            name,
        }
    }
}

impl<P: Path> Path for RemotePath<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_the_client() - not_in(self.dialect)
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let service = Arc::clone(&fresh.service);
        let connect = move || {
            let (ours, theirs) =
                UnixStream::pair().map_err(|error| Error::Connect(error.to_string()))?;
            serve_stream(Arc::clone(&service), theirs, Run::Threads, |link| {
                ServerConfig {
                    peer: Peer {
                        label: "conformance".to_owned(),
                        checks: AccessChecks::Peer,
                    },
                    limits: SessionLimits::default(),
                    bounds: Bounds::default(),
                    options: ServeOptions::default(),
                    users: Arc::new(NumericUsers),
                    link,
                }
            });
            Ok(Box::new(Socket::new(ours.into())?) as Box<dyn Transport>)
        };
        let options = ServiceOptions {
            connect: ConnectOptions {
                dialects: vec![self.dialect],
                uid: 0,
                ..ConnectOptions::default()
            },
            posix_acl: self.dialect.is_linux(),
            ..ServiceOptions::default()
        };
        Fresh {
            service: Arc::new(InWords(Arc::new(RemoteService::over(connect, options)))),
            ..fresh
        }
    }
}

/// What the protocol has no words for. Permissions are left to the client's side,
/// and the server knows nothing of a user's groups.
fn not_in_the_client() -> Needs {
    (not_in_9p() - Needs::LOOKUP_OPEN)
        | Needs::SERVICE_CHECKS
        | Needs::GROUPS
        | Needs::MAKERS_GROUPS
}

/// What the older dialects lack besides.
fn not_in(dialect: Dialect) -> Needs {
    let linux_only = Needs::XATTR
        | Needs::TRUSTED_XATTR
        | Needs::BIG_XATTR
        | Needs::POSIX_ACL
        | Needs::LOCKS
        | Needs::LOCK_WAITS
        | Needs::BTIME
        | Needs::TOUCH_CTIME
        | Needs::HUGE_FILES;
    match dialect {
        Dialect::Linux | Dialect::Sluice => Needs::empty(),
        Dialect::Unix | Dialect::Plan9 => linux_only,
    }
}

/// A service in front of which cases end that ask for what 9P has no message for:
/// the client answers that with an error, as kernels expect it.
struct InWords(Arc<dyn FileService>);

impl FileService for InWords {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let attached = self.0.attach(options)?;
        let inner = attached.session;
        Ok(Attached {
            session: Arc::new(SessionInWords { inner }),
            ..attached
        })
    }
}

struct SessionInWords {
    inner: Arc<dyn Session>,
}

fn only_if(can_be_said: bool, what: &str) {
    if !can_be_said {
        not_expressible::<()>(what);
    }
}

impl Session for SessionInWords {
    forward_session! { inner =>
        lookup, parent, walk, remember, forget, getattr, readlink, statfs, getxattr, listxattr,
        removexattr, mkdir, mknod, symlink, link, unlink, rmdir, lookup_open, flush, release,
        read, readdir, fsync, cancel_wait, backing, release_backing
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        only_if(!changes.kill_suidgid, "clearing set-id bits");
        self.inner.setattr(ctx, node, handle, changes)
    }

    fn access(&self, _: &Ctx<'_>, _: NodeId, _: Access) -> Result<()> {
        not_expressible("access(2)")
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        only_if(!value.is_empty(), "empty values");
        let keeps = !flags.contains(XattrFlags::KILL_SGID);
        only_if(keeps, "clearing set-group-id with an ACL");
        self.inner.setxattr(ctx, node, name, value, flags)
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        only_if(flags.is_empty(), "flags of renameat2(2)");
        self.inner.rename(ctx, old, new, flags)
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        let keeps = !flags.contains(OpenFlags::KILL_SUIDGID);
        only_if(keeps, "clearing set-id bits");
        self.inner.open(ctx, node, flags)
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        let keeps = !args.flags.contains(OpenFlags::KILL_SUIDGID);
        only_if(keeps, "clearing set-id bits");
        self.inner.create(ctx, parent, name, args)
    }

    fn tmpfile(&self, _: &Ctx<'_>, _: NodeId, _: &CreateArgs<'_>) -> Result<Created> {
        not_expressible("files without a name")
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        only_if(!args.kill_suidgid, "clearing set-id bits");
        self.inner.write(ctx, node, handle, args, source)
    }

    fn syncfs(&self, _: &Ctx<'_>, _: NodeId) -> Result<()> {
        not_expressible("syncfs(2)")
    }

    fn fallocate(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: FallocateMode,
        _: Range<u64>,
    ) -> Result<Stamp> {
        not_expressible("fallocate(2)")
    }

    fn lseek(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _offset: u64,
        _: Whence,
    ) -> Result<u64> {
        not_expressible("finding data and holes")
    }

    fn copy_range(&self, _: &Ctx<'_>, _: &CopyRange) -> Result<Written> {
        not_expressible("copy_file_range(2)")
    }

    fn ioctl(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        not_expressible("ioctl(2)")
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        only_if(lock.style == LockStyle::Posix, "flock(2)");
        self.inner.getlk(ctx, node, handle, lock)
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        only_if(lock.style == LockStyle::Posix, "flock(2)");
        self.inner.setlk(ctx, node, handle, lock, wait)
    }
}
