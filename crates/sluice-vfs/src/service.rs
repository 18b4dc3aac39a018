//! The neck itself.

use crate::Result;
use crate::attr::{Attr, AttrMask, Device, FileType, SetAttr, Stat, StatFs};
use crate::context::{Ctx, Peer};
use crate::dir::{DirSink, DirWant, Entry, Lookup, Walk, WalkStep};
use crate::errno::Errno;
use crate::event::EventSink;
use crate::file::{
    Access, Backing, CopyRange, CreateArgs, Created, FallocateMode, FileIoctl, FileIoctlReply,
    NewNode, OpenFlags, Opened, Release, RenameFlags, Renamed, Whence, WriteArgs, Written,
    XattrFlags,
};
use crate::ids::{BackingId, HandleId, NodeId, Stamp, WaitId};
use crate::limits::{SessionLimits, WALK_MAX};
use crate::lock::{Lock, LockOutcome};
use crate::name::{Name, XattrName};
use crate::payload::{ReadSink, WriteSource};
use bitflags::bitflags;
use std::ops::Range;
use std::sync::Arc;

bitflags! {
    /// What a session can do beyond the operations every service has. A
    /// frontend offers its peer no more than this.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Features: u32 {
        /// POSIX ACLs are kept as extended attributes and obeyed when nodes are made.
        const POSIX_ACL = 1 << 0;
        /// Locks reach beyond the peer.
        const LOCKS = 1 << 1;
        /// Unnamed files can be made.
        const TMPFILE = 1 << 2;
        /// `kill_suidgid` is honoured wherever it can be given.
        const KILL_SUIDGID = 1 << 3;
        /// `backing` may lend descriptors.
        const BACKING = 1 << 4;
        /// Reads, writes and listings work without a handle.
        const NO_OPEN = 1 << 5;
        /// Changes made elsewhere are published as events.
        const EVENTS = 1 << 6;
        /// Nothing can be changed.
        const READ_ONLY = 1 << 7;
    }
}

/// What to attach to, and on which terms.
pub struct AttachOptions<'a> {
    /// Who attaches.
    pub peer: Peer,
    /// Which export; empty for the only or default one (9P's `aname`).
    pub export: &'a [u8],
    /// Takes the session's events.
    pub events: Arc<dyn EventSink>,
    /// What the session may hold.
    pub limits: SessionLimits,
}

/// An attached session.
pub struct Attached {
    /// The session; the last reference dropped releases everything it holds.
    pub session: Arc<dyn Session>,
    /// Attributes of [`NodeId::ROOT`].
    pub root: Stat,
    /// What the session can do.
    pub features: Features,
}

/// Something that peers attach to.
pub trait FileService: Send + Sync {
    /// Opens a session. `ENOENT` if there is no such export, `EACCES` if it is
    /// not for this peer.
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached>;
}

/// The file operations, for one peer.
///
/// Every call may block for as long as the disk takes, except lock requests,
/// which wait through events. A reply follows its effect: when a call returns,
/// what it did is visible to every other session and to the host.
///
/// Errors common to all: `ESTALE` for a node that isn't known, `EBADF` for a
/// handle that isn't open or was opened the wrong way, `ENOSYS` for an
/// operation the service doesn't have, `EIO` for what the backend can't name.
///
/// Symlinks are never followed: a node that is one is itself what is meant.
pub trait Session: Send + Sync {
    // ---- names -----------------------------------------------------------

    /// Finds `name` in `parent`. A name that doesn't exist is not an error
    /// here, since its absence can be cached.
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup>;

    /// Finds the directory above `node`, or the root for the root. `ENOTDIR`
    /// unless `node` is a directory.
    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry>;

    /// Follows up to [`WALK_MAX`] names from `from`; only the last node gets a
    /// reference. With no names it is another reference to `from`. A name that
    /// isn't found ends the walk, with what was found and the error in it.
    fn walk(&self, ctx: &Ctx<'_>, from: NodeId, names: &[Name<'_>]) -> Result<Walk> {
        walk_by_lookups(self, ctx, from, names)
    }

    /// Takes another reference to a node that is known.
    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry>;

    /// Gives `count` references back. Ids that are not known, the root, and
    /// counts beyond what is held are ignored.
    fn forget(&self, node: NodeId, count: u64);

    // ---- attributes ------------------------------------------------------

    /// Attributes of a node: at least those in `mask` that the service has.
    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat>;

    /// Changes attributes and reports them as they are afterwards. With a
    /// handle it also works on what was unlinked.
    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat>;

    /// Whether the caller may do this to the node; `EACCES` if not.
    fn access(&self, ctx: &Ctx<'_>, node: NodeId, access: Access) -> Result<()>;

    /// Target of a symlink, as bytes into `sink`. `EINVAL` for other nodes.
    fn readlink(&self, ctx: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp>;

    /// The file system that holds the node.
    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<StatFs>;

    // ---- extended attributes ---------------------------------------------

    /// Value of an attribute into `sink`, and its length. Without a sink only
    /// the length. `ENODATA` if there is none, `ERANGE` if it doesn't fit.
    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize>;

    /// Names of all attributes, each ended by a NUL; as [`Session::getxattr`].
    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize>;

    /// Sets an attribute.
    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp>;

    /// Removes an attribute; `ENODATA` if there is none.
    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp>;

    // ---- making and removing names ---------------------------------------

    /// Makes a directory.
    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry>;

    /// Makes a node of any type but directory and symlink. `rdev` counts for
    /// devices only.
    fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry>;

    /// Makes a symlink to `target` (1 to 4095 bytes without NUL). Of `new` only
    /// the label counts.
    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry>;

    /// Gives `node` another name.
    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry>;

    /// Removes a name that isn't a directory's. Open handles go on working.
    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp>;

    /// Removes an empty directory.
    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp>;

    /// Moves a name.
    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed>;

    // ---- opening and closing ---------------------------------------------

    /// Opens a file or, with [`OpenFlags::DIRECTORY`], a directory. Devices,
    /// pipes and sockets are never opened: `EOPNOTSUPP`; symlinks: `ELOOP`.
    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened>;

    /// Opens `name` in `parent`, making it first if it doesn't exist.
    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created>;

    /// Looks `name` up and opens it in one step; never makes it. Who asks need not know
    /// what it is: a directory is opened for listing without
    /// [`OpenFlags::DIRECTORY`], too, if it is to be opened to read; `EISDIR` if it is to
    /// be written or emptied.
    fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> Result<Created>;

    /// Makes a file without a name, which [`Session::link`] can give one.
    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created>;

    /// What close(2) does while other descriptors may remain: reports write
    /// errors and drops the lock owner's POSIX locks.
    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()>;

    /// Gives a handle back, and with it the POSIX locks of owners that last
    /// used it for them. It is gone even if an error is reported.
    fn release(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId, how: &Release) -> Result<()>;

    // ---- content ---------------------------------------------------------

    /// Reads up to `len` bytes at `offset` into `sink`; fewer only at the end of
    /// the file or for want of room. An error in the middle is the whole call's.
    fn read(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: usize,
        sink: &mut dyn ReadSink,
    ) -> Result<usize>;

    /// Writes all of `source`.
    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written>;

    /// Lists a directory from `cookie` (0: the start) until `sink` is full or
    /// the end is reached; pushing nothing means the end. The listing has `.`
    /// and `..` in it.
    fn readdir(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        cookie: u64,
        want: DirWant,
        sink: &mut dyn DirSink,
    ) -> Result<Stamp>;

    /// Brings a file's or directory's changes to the disk; with `data_only`
    /// without attributes that reading the content doesn't need.
    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> Result<()>;

    /// Brings everything on the node's file system to the disk.
    fn syncfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<()>;

    /// Allocates, frees or moves space.
    fn fallocate(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp>;

    /// Finds data, a hole or the end. `ENXIO` beyond the end.
    fn lseek(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64>;

    /// Copies between two open files without the data passing the peer.
    fn copy_range(&self, ctx: &Ctx<'_>, copy: &CopyRange) -> Result<Written>;

    /// Reads or sets file flags.
    fn ioctl(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply>;

    // ---- locks -----------------------------------------------------------

    /// A lock in the way of `lock`, if there is one.
    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>>;

    /// Takes or gives up a lock for the context's owner. If it is held by
    /// someone else: `EAGAIN` without `wait`; with it
    /// [`LockOutcome::Waiting`], and [`Event::LockSettled`](crate::Event::LockSettled)
    /// follows exactly once. `ENOLCK` beyond the session's limits.
    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome>;

    /// Takes a waiting request back; it settles with `EINTR` unless it was
    /// granted first. Unknown ids are ignored.
    fn cancel_wait(&self, wait: WaitId);

    // ---- lending ---------------------------------------------------------

    /// Lends a descriptor for `range` (bytes) of the file's content, for
    /// reading, or with `writable` for writing too. A layer may refuse with
    /// `EOPNOTSUPP`, and may revoke it later by
    /// [`Event::BackingRevoked`](crate::Event::BackingRevoked).
    fn backing(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        range: Range<u64>,
        writable: bool,
    ) -> Result<Backing>;

    /// Gives a loan back. Unknown ids are ignored.
    fn release_backing(&self, id: BackingId);
}

/// [`Session::walk`] for services that have no shorter way.
fn walk_by_lookups<S: Session + ?Sized>(
    session: &S,
    ctx: &Ctx<'_>,
    from: NodeId,
    names: &[Name<'_>],
) -> Result<Walk> {
    if names.len() > WALK_MAX {
        return Err(Errno::EINVAL);
    }
    let mut walk = Walk::default();
    let mut current = session.remember(ctx, from)?;
    for &name in names {
        let found = session
            .lookup(ctx, current.node, name)
            .and_then(Lookup::found);
        session.forget(current.node, 1);
        match found {
            Ok(entry) => {
                walk.steps.push(step_to(&entry));
                current = entry;
            }
            Err(error) => {
                walk.error = Some(error);
                return Ok(walk);
            }
        }
    }
    walk.last = Some(current);
    Ok(walk)
}

fn step_to(entry: &Entry) -> WalkStep {
    let Attr { ino, mode, .. } = entry.attr;
    WalkStep {
        ino,
        file_type: mode.file_type().unwrap_or(FileType::Regular),
        stamp: entry.stamp,
    }
}
