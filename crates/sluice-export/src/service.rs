//! One peer's view of an export: the [`Session`] trait, one line for each
//! operation, and what the operations have in common.

use crate::attr::{FULL, HostStat};
use crate::creds::{self, Guard, Identity, Powers};
use crate::dir_cursor::Budget;
use crate::export::Host;
use crate::fd_budget::{PROCESS, Share};
use crate::fd_cache::{FdCache, PathFd};
use crate::handle_table::{Handle, HandleTable};
use crate::inode::Node;
use crate::inode_table::InodeTable;
use crate::lock_table::LockTable;
use crate::ops::{attr, create, dir, io, ioctl, lock, lookup, open, remove, space, xattr};
use crate::reach;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::process::{Gid, Uid};
use sluice_vfs::{
    Access, AccessChecks, AttachOptions, AttrMask, Backing, BackingId, CopyRange, CreateArgs,
    Created, Ctx, Device, DirSink, DirWant, Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply,
    FileType, HandleId, Lock, LockOutcome, Lookup, Name, NewNode, NodeId, OpenFlags, Opened,
    ReadSink, Release, RenameFlags, Renamed, Result, Session, SetAttr, Stamp, Stat, StatFs, WaitId,
    Whence, WriteArgs, WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What one peer holds of an export. Dropping it lets go of all of it.
pub(crate) struct ExportSession {
    /// The export.
    pub(crate) host: Arc<Host>,
    /// Who decides what callers may do.
    pub(crate) checks: AccessChecks,
    /// The nodes the peer knows.
    pub(crate) inodes: InodeTable,
    /// What the peer has open.
    pub(crate) handles: HandleTable,
    /// The descriptors of nodes that are kept for a while.
    pub(crate) fds: Arc<FdCache>,
    /// What the session may hold of the process' descriptors.
    pub(crate) share: Arc<Share>,
    /// What file handles are opened by, where the daemon may do that.
    pub(crate) mount: Option<OwnedFd>,
    /// Who holds locks and who waits for them.
    pub(crate) locks: LockTable,
    /// What listings may keep between requests.
    pub(crate) listings: Arc<Budget>,
    /// Names the next loan.
    pub(crate) next_backing: AtomicU64,
}

/// Listings of a session that may keep what they read ahead: 4 MiB in all.
const KEPT_LISTINGS: u32 = 256;

impl ExportSession {
    pub(crate) fn new(host: Arc<Host>, options: AttachOptions<'_>) -> Result<Self> {
        let AttachOptions {
            peer,
            limits,
            events,
            ..
        } = options;
        let stat = HostStat::of_fd(host.root.as_fd(), FULL)?;
        let root = PathFd::new(host.root.try_clone()?, stat.identity.btime);
        let share = PROCESS.share();
        let fds = Arc::new(FdCache::new(share.clone()));
        PROCESS.watch(&fds);
        Ok(ExportSession {
            inodes: InodeTable::new(stat.identity, root, fds.clone(), limits.nodes),
            handles: HandleTable::new(limits.handles, share.clone()),
            listings: Budget::new(KEPT_LISTINGS),
            locks: LockTable::new(&limits, share.clone(), events),
            checks: peer.checks,
            next_backing: AtomicU64::new(1),
            mount: reach::mount_for_handles(&host).ok(),
            fds,
            share,
            host,
        })
    }

    /// The node with this id, with a descriptor; `ESTALE`. To be asked for
    /// before anything is done as someone else, who may not be able to reach it.
    pub(crate) fn inode(&self, node: NodeId) -> Result<Node> {
        reach::reach(self, self.inodes.get(node)?)
    }

    /// The open handle of this node; `EBADF`.
    pub(crate) fn handle(&self, node: NodeId, handle: HandleId) -> Result<Arc<Handle>> {
        self.handles.get(handle, node)
    }

    /// The node, found through its handle if there is one: a handle outlives
    /// what the peer knows of its node.
    pub(crate) fn inode_of(&self, node: NodeId, handle: Option<HandleId>) -> Result<Node> {
        match handle {
            Some(handle) => Ok(self.handle(node, handle)?.inode.clone()),
            None => self.inode(node),
        }
    }

    /// The open handle, or without one the node opened for this one request.
    pub(crate) fn file(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        flags: OFlags,
    ) -> Result<File> {
        match handle {
            Some(handle) => Ok(File::Open(self.handle(node, handle)?)),
            None => {
                let inode = self.inode(node)?;
                let _as_caller = self.as_caller(ctx)?;
                let fd = self.host.descriptors.reopen(&inode, flags)?;
                Ok(File::ForNow(inode, fd))
            }
        }
    }

    /// `EROFS` if nothing may be changed.
    pub(crate) fn require_writable(&self) -> Result<()> {
        match self.host.options.read_only {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Makes a file lose its set-id bits by what is done to it through an open
    /// descriptor, where `asked`, or where the peer checks nothing and so does
    /// not know when to ask.
    pub(crate) fn kill_suidgid(&self, ctx: &Ctx<'_>, asked: bool) -> Result<Option<Guard>> {
        let is_own_duty = self.checks == AccessChecks::Service && ctx.caller.uid != 0;
        (asked || is_own_duty).then(creds::drop_fsetid).transpose()
    }

    /// Acts as the caller, with the caller's own rights and no others, if it
    /// is the service that checks them.
    pub(crate) fn as_caller(&self, ctx: &Ctx<'_>) -> Result<Option<Guard>> {
        match self.checks {
            AccessChecks::Peer => Ok(None),
            AccessChecks::Service => self.as_plain_caller(ctx),
        }
    }

    /// Acts as the caller with the caller's own rights, whoever checks them. A
    /// daemon that can't act for others goes on as itself.
    pub(crate) fn as_plain_caller(&self, ctx: &Ctx<'_>) -> Result<Option<Guard>> {
        if !creds::can_switch()? {
            return Ok(None);
        }
        creds::assume(&self.identity(ctx)?, Powers::None).map(Some)
    }

    /// Acts as the caller in making a node, which will be the caller's. `EPERM`
    /// if the daemon is an ordinary user and the caller another.
    pub(crate) fn as_maker(&self, ctx: &Ctx<'_>) -> Result<Option<Guard>> {
        let identity = self.identity(ctx)?;
        if !creds::can_switch()? {
            return match identity.uid.is_root() || creds::is_own(identity.uid)? {
                true => Ok(None),
                false => Err(Errno::EPERM),
            };
        }
        let powers = match self.checks {
            AccessChecks::Peer => Powers::Access,
            AccessChecks::Service => Powers::None,
        };
        creds::assume(&identity, powers).map(Some)
    }

    /// Acts as the caller in changing a file; with `kill_suidgid` in such a way
    /// that it loses its set-id bits.
    pub(crate) fn as_changer(&self, ctx: &Ctx<'_>, kill_suidgid: bool) -> Result<Option<Guard>> {
        match self.checks {
            AccessChecks::Service if ctx.caller.uid != 0 => self.as_caller(ctx),
            _ => kill_suidgid.then(creds::drop_fsetid).transpose(),
        }
    }

    fn identity(&self, ctx: &Ctx<'_>) -> Result<Identity> {
        let options = &self.host.options;
        let host_gid = |peer: &u32| options.gid_map.to_host(*peer).ok().map(Gid::from_raw);
        Ok(Identity {
            uid: Uid::from_raw(options.uid_map.to_host(ctx.caller.uid)?),
            gid: Gid::from_raw(options.gid_map.to_host(ctx.caller.gid)?),
            groups: ctx.caller.groups.iter().filter_map(host_gid).collect(),
        })
    }
}

/// What a request that may come without a handle works on.
pub(crate) enum File {
    /// A handle of the peer's.
    Open(Arc<Handle>),
    /// Opened for this request.
    ForNow(Node, OwnedFd),
}

impl File {
    pub(crate) fn inode(&self) -> &Node {
        match self {
            File::Open(handle) => &handle.inode,
            File::ForNow(node, _) => node,
        }
    }

    /// How the peer opened it.
    pub(crate) fn flags(&self) -> OpenFlags {
        match self {
            File::Open(handle) => handle.flags,
            File::ForNow(..) => OpenFlags::empty(),
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            File::Open(handle) => handle.fd(),
            File::ForNow(_, fd) => fd.as_fd(),
        }
    }
}

impl Session for ExportSession {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        lookup::lookup(self, ctx, parent, name)
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        lookup::parent(self, ctx, node)
    }

    fn remember(&self, _: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        lookup::remember(self, node)
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.inodes.forget(node, count);
    }

    fn getattr(
        &self,
        _: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat> {
        attr::getattr(self, node, handle, mask)
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        attr::setattr(self, ctx, node, handle, changes)
    }

    fn access(&self, ctx: &Ctx<'_>, node: NodeId, access: Access) -> Result<()> {
        attr::access(self, ctx, node, access)
    }

    fn readlink(&self, _: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp> {
        attr::readlink(self, node, sink)
    }

    fn statfs(&self, _: &Ctx<'_>, node: NodeId) -> Result<StatFs> {
        attr::statfs(self, node)
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        xattr::get(self, ctx, node, name, sink)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        xattr::list(self, ctx, node, sink)
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        xattr::set(self, ctx, node, name, value, flags)
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        xattr::remove(self, ctx, node, name)
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        create::mkdir(self, ctx, parent, name, new)
    }

    fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        create::mknod(self, ctx, (parent, name), file_type, rdev, new)
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        create::symlink(self, ctx, (parent, name), target, new)
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        create::link(self, ctx, node, parent, name)
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        remove::unlink(self, ctx, parent, name)
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        remove::rmdir(self, ctx, parent, name)
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        remove::rename(self, ctx, old, new, flags)
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        open::open(self, ctx, node, flags)
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        create::create(self, ctx, parent, name, args)
    }

    fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> Result<Created> {
        open::lookup_open(self, ctx, parent, name, flags)
    }

    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created> {
        create::tmpfile(self, ctx, parent, args)
    }

    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
        open::flush(self, ctx, node, handle)
    }

    fn release(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId, how: &Release) -> Result<()> {
        open::release(self, ctx, node, handle, how)
    }

    fn read(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: usize,
        sink: &mut dyn ReadSink,
    ) -> Result<usize> {
        io::read(self, ctx, (node, handle), offset, len, sink)
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        io::write(self, ctx, (node, handle), args, source)
    }

    fn readdir(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<Stamp> {
        dir::readdir(self, ctx, (node, handle), cookie, want, sink)
    }

    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> Result<()> {
        io::fsync(self, ctx, (node, handle), data_only)
    }

    fn syncfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<()> {
        io::syncfs(self, ctx, node)
    }

    fn fallocate(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp> {
        space::fallocate(self, ctx, (node, handle), mode, range)
    }

    fn lseek(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        space::lseek(self, ctx, (node, handle), offset, whence)
    }

    fn copy_range(&self, ctx: &Ctx<'_>, copy: &CopyRange) -> Result<Written> {
        space::copy_range(self, ctx, copy)
    }

    fn ioctl(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        ioctl::ioctl(self, ctx, (node, handle), request)
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        lock::getlk(self, ctx, node, handle, lock)
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        lock::setlk(self, ctx, node, handle, lock, wait)
    }

    fn cancel_wait(&self, wait: WaitId) {
        lock::cancel_wait(self, wait);
    }

    fn backing(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        range: Range<u64>,
        writable: bool,
    ) -> Result<Backing> {
        io::backing(self, ctx, (node, handle), range, writable)
    }

    fn release_backing(&self, _: BackingId) {
        // Nothing is held for a loan: the descriptor was the borrower's.
    }
}
