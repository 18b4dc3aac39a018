//! The neck: one delegating method per operation.

use super::handles::Handles;
use super::link::Link;
use super::locks::Locks;
use super::nodes::{Identity, Nodes};
use super::options::{Connect, ServiceOptions};
use super::turn::errno;
use crate::error::{Error, Result};
use crate::ops::Tree;
use sluice_vfs::{
    Access, AttachOptions, Attr, AttrMask, Backing, BackingId, CopyRange, CreateArgs, Created, Ctx,
    Device, DirSink, DirWant, Entry, Errno, FallocateMode, Features, FileIoctl, FileIoctlReply,
    FileType, HandleId, Lock, LockOutcome, Lookup, Name, NewNode, NodeId, OpenFlags, Opened,
    ReadSink, Release, RenameFlags, Renamed, Session, SetAttr, Stamp, Stat, StatFs, WaitId, Whence,
    WriteArgs, WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// What a session is, for those that use it and for threads that wait for locks.
pub(super) struct Inner {
    pub(super) link: Link,
    pub(super) nodes: Nodes,
    pub(super) handles: Handles,
    pub(super) locks: Locks,
    pub(super) has_acls: bool,
}

impl Inner {
    /// Connects, unless that was done `ahead`.
    pub(super) fn start(
        connect: Arc<dyn Connect>,
        ahead: Option<Tree>,
        options: ServiceOptions,
        attach: &AttachOptions<'_>,
    ) -> sluice_vfs::Result<(Arc<Self>, Attr)> {
        let wants_acls = options.posix_acl;
        let started = Link::start(connect, ahead, options).and_then(|(link, tree)| {
            let root = tree.getattr(tree.root)?;
            let has_acls = wants_acls && has_acls(&tree)?;
            Ok((link, root, has_acls))
        });
        let (link, root, has_acls) = started.map_err(|error| match error {
            Error::Connect(_) => Errno::ENOTCONN,
            other => errno(&other),
        })?;
        let limits = attach.limits;
        let events = Arc::clone(&attach.events);
        let inner = Inner {
            link,
            nodes: Nodes::new(&root, limits.nodes),
            handles: Handles::new(limits.handles),
            locks: Locks::new(client_name(), limits, events),
            has_acls,
        };
        Ok((Arc::new(inner), root))
    }

    /// What has to be so before a new connection is used.
    pub(super) fn restore(&self, tree: &Arc<Tree>) -> Result<()> {
        let root = Identity::of(&tree.getattr(tree.root)?);
        if root != self.nodes.identity(NodeId::ROOT)? {
            // Another export has its place: nothing known is in it.
            return Err(Errno::ESTALE.into());
        }
        self.retake_locks(tree)
    }

    pub(super) fn features(&self) -> Features {
        let is_linux = self.link.current().is_some_and(|tree| tree.is_linux());
        let mut features = Features::empty();
        features.set(Features::LOCKS, is_linux);
        features.set(Features::POSIX_ACL, self.has_acls);
        features
    }
}

fn has_acls(tree: &Tree) -> Result<bool> {
    match tree.read_xattr(tree.root, b"system.posix_acl_access") {
        Err(error) if error.is_fatal() => Err(error),
        Err(error) => Ok(!error.is_unsupported()),
        Ok(_) => Ok(true),
    }
}

/// A name that no other client of a server has.
fn client_name() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy().into_owned();
    let since = SystemTime::UNIX_EPOCH.elapsed();
    let now = since.map_or(0, |since| since.as_nanos());
    format!("{machine}.{}.{now:x}", std::process::id())
}

/// A session on a 9P server.
pub(super) struct RemoteSession(Arc<Inner>);

impl RemoteSession {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        RemoteSession(inner)
    }
}

impl Drop for RemoteSession {
    /// The server gives back what a connection held when it ends.
    fn drop(&mut self) {
        self.0.drop_locks();
        self.0.link.close();
    }
}

impl Session for RemoteSession {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> sluice_vfs::Result<Lookup> {
        self.0.lookup(ctx, parent, name)
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<Entry> {
        self.0.parent(ctx, node)
    }

    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<Entry> {
        self.0.remember(ctx, node)
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.0.nodes.forget(node, count);
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        _: AttrMask,
    ) -> sluice_vfs::Result<Stat> {
        self.0.getattr(ctx, node, handle)
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> sluice_vfs::Result<Stat> {
        self.0.setattr(ctx, node, handle, changes)
    }

    fn access(&self, _: &Ctx<'_>, _: NodeId, _: Access) -> sluice_vfs::Result<()> {
        Err(Errno::ENOSYS)
    }

    fn readlink(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: &mut dyn ReadSink,
    ) -> sluice_vfs::Result<Stamp> {
        self.0.readlink(ctx, node, sink)
    }

    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<StatFs> {
        self.0.statfs(ctx, node)
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> sluice_vfs::Result<usize> {
        self.0.getxattr(ctx, node, name.as_bytes(), sink)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> sluice_vfs::Result<usize> {
        self.0.getxattr(ctx, node, b"", sink)
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> sluice_vfs::Result<Stamp> {
        self.0.setxattr(ctx, node, name, value, flags)
    }

    fn removexattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
    ) -> sluice_vfs::Result<Stamp> {
        self.0.removexattr(ctx, node, name)
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        self.0.mkdir(ctx, parent, name, new)
    }

    fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        self.0.mknod(ctx, parent, name, (file_type, rdev), new)
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        self.0.symlink(ctx, parent, name, target, new)
    }

    fn link(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        parent: NodeId,
        name: Name<'_>,
    ) -> sluice_vfs::Result<Entry> {
        self.0.link(ctx, node, parent, name)
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> sluice_vfs::Result<Stamp> {
        self.0.unlink(ctx, parent, name, false)
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> sluice_vfs::Result<Stamp> {
        self.0.unlink(ctx, parent, name, true)
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> sluice_vfs::Result<Renamed> {
        self.0.rename(ctx, old, new, flags)
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> sluice_vfs::Result<Opened> {
        self.0.open(ctx, node, flags)
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> sluice_vfs::Result<Created> {
        self.0.create(ctx, parent, name, args)
    }

    fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> sluice_vfs::Result<Created> {
        self.0.lookup_open(ctx, parent, name, flags)
    }

    fn tmpfile(&self, _: &Ctx<'_>, _: NodeId, _: &CreateArgs<'_>) -> sluice_vfs::Result<Created> {
        Err(Errno::ENOSYS)
    }

    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> sluice_vfs::Result<()> {
        self.0.flush(ctx, node, handle)
    }

    fn release(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        how: &Release,
    ) -> sluice_vfs::Result<()> {
        self.0.release(ctx, node, handle, how)
    }

    fn read(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: usize,
        sink: &mut dyn ReadSink,
    ) -> sluice_vfs::Result<usize> {
        self.0.read(ctx, (node, handle), offset, len, sink)
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> sluice_vfs::Result<Written> {
        self.0.write(ctx, (node, handle), args, source)
    }

    fn readdir(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> sluice_vfs::Result<Stamp> {
        self.0.readdir(ctx, (node, handle), cookie, want, sink)
    }

    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> sluice_vfs::Result<()> {
        self.0.fsync(ctx, node, handle, data_only)
    }

    fn syncfs(&self, _: &Ctx<'_>, _: NodeId) -> sluice_vfs::Result<()> {
        Err(Errno::ENOSYS)
    }

    fn fallocate(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: FallocateMode,
        _: Range<u64>,
    ) -> sluice_vfs::Result<Stamp> {
        Err(Errno::ENOSYS)
    }

    fn lseek(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _offset: u64,
        _: Whence,
    ) -> sluice_vfs::Result<u64> {
        Err(Errno::ENOSYS)
    }

    fn copy_range(&self, _: &Ctx<'_>, _: &CopyRange) -> sluice_vfs::Result<Written> {
        Err(Errno::ENOSYS)
    }

    fn ioctl(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: &FileIoctl,
    ) -> sluice_vfs::Result<FileIoctlReply> {
        Err(Errno::ENOTTY)
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> sluice_vfs::Result<Option<Lock>> {
        self.0.getlk(ctx, node, handle, lock)
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> sluice_vfs::Result<LockOutcome> {
        self.0.setlk(ctx, (node, handle), lock, wait)
    }

    fn cancel_wait(&self, wait: WaitId) {
        self.0.cancel_wait(wait);
    }

    /// Descriptors don't travel in messages.
    fn backing(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: Range<u64>,
        _writable: bool,
    ) -> sluice_vfs::Result<Backing> {
        Err(Errno::EOPNOTSUPP)
    }

    fn release_backing(&self, _: BackingId) {}
}
