//! One delegating method per operation. Payload ends are used outside the lock.

use super::ops::Call;
use super::state::{SessionId, Shared};
use sluice_vfs::{
    Access, AttachOptions, AttrMask, Backing, BackingId, Caller, CopyRange, CreateArgs, Created,
    Ctx, Device, DirSink, DirWant, Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply,
    FileType, HandleId, Lock, LockOutcome, Lookup, Name, NewNode, NodeId, OpenFlags, Opened,
    ReadSink, Release, RenameFlags, Renamed, Result, Session, SetAttr, Stamp, Stat, StatFs, WaitId,
    Whence, WriteArgs, WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;
use std::sync::Arc;

pub(super) struct ModelSession {
    shared: Arc<Shared>,
    id: SessionId,
}

impl ModelSession {
    pub(super) fn new(shared: Arc<Shared>, options: AttachOptions<'_>) -> Self {
        let id = shared.with(|state| state.open_session(options));
        ModelSession { shared, id }
    }

    pub(super) fn root(&self) -> Result<Stat> {
        self.call(&NOBODY, |call| call.getattr(NodeId::ROOT, None))
    }

    fn call<T>(&self, ctx: &Ctx<'_>, act: impl FnOnce(&mut Call<'_>) -> T) -> T {
        self.shared.with(|state| {
            act(&mut Call {
                state,
                id: self.id,
                ctx,
            })
        })
    }
}

/// For what is done on nobody's behalf.
const NOBODY: Ctx<'static> = Ctx::new(Caller::ROOT);

impl Drop for ModelSession {
    fn drop(&mut self) {
        self.shared.with(|state| state.close_session(self.id));
    }
}

impl Session for ModelSession {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        self.call(ctx, |call| call.lookup(parent, name))
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        self.call(ctx, |call| call.parent(node))
    }

    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        self.call(ctx, |call| call.remember(node))
    }

    fn forget(&self, node: NodeId, count: u64) {
        // The only error is that the session is gone, and its nodes with it.
        let _ = self.call(&NOBODY, |call| call.forget(node, count));
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        _: AttrMask,
    ) -> Result<Stat> {
        self.call(ctx, |call| call.getattr(node, handle))
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        self.call(ctx, |call| call.setattr(node, handle, changes))
    }

    fn access(&self, ctx: &Ctx<'_>, node: NodeId, access: Access) -> Result<()> {
        self.call(ctx, |call| call.access(node, access))
    }

    fn readlink(&self, ctx: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp> {
        let (target, stamp) = self.call(ctx, |call| call.readlink(node))?;
        sink.put(&target)?;
        Ok(stamp)
    }

    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<StatFs> {
        self.call(ctx, |call| call.statfs(node))
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let value = self.call(ctx, |call| call.getxattr(node, name))?;
        put_value(&value, sink)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let list = self.call(ctx, |call| call.listxattr(node))?;
        put_value(&list, sink)
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        self.call(ctx, |call| call.setxattr(node, name, value, flags))
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        self.call(ctx, |call| call.removexattr(node, name))
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.call(ctx, |call| call.mkdir(parent, name, new))
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
        self.call(ctx, |call| call.mknod(parent, name, file_type, rdev, new))
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.call(ctx, |call| call.symlink(parent, name, target, new))
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        self.call(ctx, |call| call.link(node, parent, name))
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        self.call(ctx, |call| call.unlink(parent, name))
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        self.call(ctx, |call| call.rmdir(parent, name))
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        self.call(ctx, |call| call.rename(old, new, flags))
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        self.call(ctx, |call| call.open(node, flags))
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        self.call(ctx, |call| call.create(parent, name, args))
    }

    fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> Result<Created> {
        self.call(ctx, |call| call.lookup_open(parent, name, flags))
    }

    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created> {
        self.call(ctx, |call| call.tmpfile(parent, args))
    }

    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
        self.call(ctx, |call| call.flush(node, handle))
    }

    fn release(&self, ctx: &Ctx<'_>, _: NodeId, handle: HandleId, how: &Release) -> Result<()> {
        self.call(ctx, |call| call.release(handle, how))
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
        let len = len.min(sink.remaining()) as u64;
        let bytes = self.call(ctx, |call| call.read(node, handle, offset, len))?;
        sink.put(&bytes)?;
        Ok(bytes.len())
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        let mut bytes = vec![0; source.remaining()];
        source.take(&mut bytes)?;
        self.call(ctx, |call| call.write(node, handle, args, &bytes))
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
        self.call(ctx, |call| call.readdir(node, handle, cookie, want, sink))
    }

    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        _data_only: bool,
    ) -> Result<()> {
        self.call(ctx, |call| call.fsync(node, handle))
    }

    fn syncfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<()> {
        self.call(ctx, |call| call.syncfs(node))
    }

    fn fallocate(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp> {
        self.call(ctx, |call| call.fallocate(node, handle, mode, range))
    }

    fn lseek(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        self.call(ctx, |call| call.lseek(node, handle, offset, whence))
    }

    fn copy_range(&self, ctx: &Ctx<'_>, copy: &CopyRange) -> Result<Written> {
        self.call(ctx, |call| call.copy_range(copy))
    }

    fn ioctl(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        self.call(ctx, |call| call.ioctl(node, handle, request))
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        self.call(ctx, |call| call.getlk(node, handle, lock))
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        self.call(ctx, |call| call.setlk(node, handle, lock, wait))
    }

    fn cancel_wait(&self, wait: WaitId) {
        self.call(&NOBODY, |call| call.cancel_wait(wait));
    }

    /// Content in memory has no descriptor to lend.
    fn backing(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: Range<u64>,
        _writable: bool,
    ) -> Result<Backing> {
        Err(Errno::EOPNOTSUPP)
    }

    fn release_backing(&self, _: BackingId) {}
}

/// A value into `sink`, `ERANGE` if it doesn't fit; its length in any case.
fn put_value(value: &[u8], sink: Option<&mut dyn ReadSink>) -> Result<usize> {
    if let Some(sink) = sink {
        if value.len() > sink.remaining() {
            return Err(Errno::ERANGE);
        }
        sink.put(value)?;
    }
    Ok(value.len())
}
