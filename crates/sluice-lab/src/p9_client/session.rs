//! Operations to requests, replies to results.

use super::client::P9Client;
use super::transport::P9Transport;
use super::{locks, translate, values};
use crate::conformance::not_expressible;
use sluice_proto::p9::wire::{Getlock, LockFlags, Payload, Reply, Request, Str, Trailing};
use sluice_vfs::{
    Access, AttrMask, Backing, BackingId, CopyRange, CreateArgs, Created, Ctx, Device, DirSink,
    DirWant, Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply, FileType, HandleId, Lock,
    LockOutcome, Lookup, Name, NewNode, NodeId, OpenFlags, OpenHints, Opened, ReadSink, Release,
    RenameFlags, Renamed, Result, Session, SetAttr, Stamp, Stat, StatFs, WaitId, Whence, WriteArgs,
    WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;

/// `AT_REMOVEDIR`.
const REMOVE_DIR: u32 = 0x200;

impl<T: P9Transport> P9Client<T> {
    fn fid(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<u32> {
        self.fid_of(&ctx.caller, node)
    }

    /// The fid of the handle, or without one of the node.
    fn fid_or_file(&self, ctx: &Ctx<'_>, node: NodeId, handle: Option<HandleId>) -> Result<u32> {
        match handle {
            Some(handle) => self.file(node, handle),
            None => self.fid(ctx, node),
        }
    }

    /// The fid of the handle.
    fn file_of(&self, node: NodeId, handle: Option<HandleId>) -> Result<u32> {
        match handle {
            Some(handle) => self.file(node, handle),
            None => not_expressible("using a file without opening it"),
        }
    }

    /// The mode to ask for: Linux takes the umask off before, unless a default ACL
    /// takes its place.
    fn mode(&self, dir: u32, new: &NewNode<'_>) -> Result<u32> {
        if new.label.is_some() {
            not_expressible::<()>("labels of new files");
        }
        let has_acl = new.umask != 0 && self.read_xattr(dir, b"system.posix_acl_default").is_ok();
        Ok(match has_acl {
            true => new.perm,
            false => new.perm & !new.umask,
        })
    }
}

impl<T: P9Transport> Session for P9Client<T> {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        match self.find(&ctx.caller, parent, name.as_bytes()) {
            Ok(entry) => Ok(Lookup::Found(entry)),
            Err(Errno::ENOENT) => Ok(Lookup::Missing {
                dir_stamp: Stamp::NONE,
            }),
            Err(error) => Err(error),
        }
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        self.find(&ctx.caller, node, b"..")
    }

    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        let attr = self.getattr_fid(self.fid(ctx, node)?)?;
        self.refer_again(node)?;
        Ok(Entry {
            node,
            attr: translate::attr(&attr),
            stamp: Stamp::NONE,
            dir_stamp: Stamp::NONE,
        })
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.give_back(node, count);
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        _: AttrMask,
    ) -> Result<Stat> {
        let attr = self.getattr_fid(self.fid_or_file(ctx, node, handle)?)?;
        Ok(Stat {
            attr: translate::attr(&attr),
            stamp: Stamp::NONE,
        })
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        if changes.kill_suidgid {
            not_expressible::<()>("clearing set-id bits");
        }
        let fid = self.fid_or_file(ctx, node, handle)?;
        let changes = translate::setattr(changes);
        self.call(&Request::Setattr { fid, changes })?;
        self.getattr(ctx, node, handle, AttrMask::BASIC)
    }

    fn access(&self, _: &Ctx<'_>, _: NodeId, _: Access) -> Result<()> {
        not_expressible("access(2)")
    }

    fn readlink(&self, ctx: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp> {
        let fid = self.fid(ctx, node)?;
        match self.call(&Request::Readlink { fid })?.get() {
            Reply::Readlink { target } => sink.put(target.0)?,
            other => panic!("{other:?} answers Treadlink"),
        }
        Ok(Stamp::NONE)
    }

    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<StatFs> {
        let fid = self.fid(ctx, node)?;
        match self.call(&Request::Statfs { fid })?.get() {
            Reply::Statfs { statfs } => Ok(translate::statfs(&statfs)),
            other => panic!("{other:?} answers Tstatfs"),
        }
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let value = self.read_xattr(self.fid(ctx, node)?, name.as_bytes())?;
        values::hand_out(&value, sink)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let list = self.read_xattr(self.fid(ctx, node)?, b"")?;
        values::hand_out(&list, sink)
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        if flags.contains(XattrFlags::KILL_SGID) {
            not_expressible::<()>("clearing set-group-id with an ACL");
        }
        if value.is_empty() {
            not_expressible::<()>("empty values");
        }
        let fid = self.fid(ctx, node)?;
        self.write_xattr(fid, name.as_bytes(), value, flags.bits())?;
        Ok(Stamp::NONE)
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        let fid = self.fid(ctx, node)?;
        let flags = XattrFlags::REPLACE.bits();
        self.write_xattr(fid, name.as_bytes(), b"", flags)?;
        Ok(Stamp::NONE)
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let dfid = self.fid(ctx, parent)?;
        self.call(&Request::Mkdir {
            dfid,
            name: Str(name.as_bytes()),
            mode: self.mode(dfid, new)?,
            gid: ctx.caller.gid,
        })?;
        self.find(&ctx.caller, parent, name.as_bytes())
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
        let dfid = self.fid(ctx, parent)?;
        self.call(&Request::Mknod {
            dfid,
            name: Str(name.as_bytes()),
            mode: file_type.to_mode_bits() | self.mode(dfid, new)?,
            major: rdev.major,
            minor: rdev.minor,
            gid: ctx.caller.gid,
        })?;
        self.find(&ctx.caller, parent, name.as_bytes())
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let fid = self.fid(ctx, parent)?;
        self.mode(fid, new)?;
        self.call(&Request::Symlink {
            fid,
            name: Str(name.as_bytes()),
            target: Str(target),
            gid: ctx.caller.gid,
        })?;
        self.find(&ctx.caller, parent, name.as_bytes())
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        let (dfid, fid) = (self.fid(ctx, parent)?, self.fid(ctx, node)?);
        let name = Str(name.as_bytes());
        self.call(&Request::Link { dfid, fid, name })?;
        self.find(&ctx.caller, parent, name.0)
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let dfid = self.fid(ctx, parent)?;
        let name = Str(name.as_bytes());
        let flags = 0;
        self.call(&Request::Unlinkat { dfid, name, flags })?;
        Ok(Stamp::NONE)
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let dfid = self.fid(ctx, parent)?;
        let name = Str(name.as_bytes());
        let flags = REMOVE_DIR;
        self.call(&Request::Unlinkat { dfid, name, flags })?;
        Ok(Stamp::NONE)
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        if !flags.is_empty() {
            not_expressible::<()>("flags of renameat2(2)");
        }
        self.call(&Request::Renameat {
            old_dfid: self.fid(ctx, old.0)?,
            old_name: Str(old.1.as_bytes()),
            new_dfid: self.fid(ctx, new.0)?,
            new_name: Str(new.1.as_bytes()),
        })?;
        self.moved((old.0, old.1.as_bytes()), (new.0, new.1.as_bytes()));
        Ok(Renamed::default())
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        if flags.intersects(OpenFlags::EXEC | OpenFlags::KILL_SUIDGID) {
            not_expressible::<()>("opening for execution");
        }
        let (fid, _) = self.walk(self.fid(ctx, node)?, None)?;
        let flags = translate::lopen_flags(flags);
        if let Err(error) = self.call(&Request::Lopen { fid, flags }) {
            self.clunk(fid)?;
            return Err(error);
        }
        Ok(opened(self.note_open(fid, node)))
    }

    /// 9P doesn't tell whether the file was there.
    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        if args.flags.contains(OpenFlags::KILL_SUIDGID) {
            not_expressible::<()>("clearing set-id bits");
        }
        let dir = self.fid(ctx, parent)?;
        let mode = FileType::Regular.to_mode_bits() | self.mode(dir, &args.new)?;
        let (fid, _) = self.walk(dir, None)?;
        let created = self.call(&Request::Lcreate {
            fid,
            name: Str(name.as_bytes()),
            flags: translate::lopen_flags(args.flags),
            mode,
            gid: ctx.caller.gid,
        });
        let qid = match created {
            Ok(answer) => answer.qid(),
            Err(error) => {
                self.clunk(fid)?;
                return Err(error);
            }
        };
        let entry = match self.find(&ctx.caller, parent, name.as_bytes()) {
            Ok(entry) => entry,
            Err(error) => {
                self.clunk(fid)?;
                return Err(error);
            }
        };
        assert_eq!(entry.attr.ino, qid.path, "what was made is what is there");
        Ok(Created {
            entry,
            opened: opened(self.note_open(fid, entry.node)),
            is_new: false,
        })
    }

    fn lookup_open(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Name<'_>,
        _flags: OpenFlags,
    ) -> Result<Created> {
        not_expressible("opening by name")
    }

    fn tmpfile(&self, _: &Ctx<'_>, _: NodeId, _: &CreateArgs<'_>) -> Result<Created> {
        not_expressible("files without a name")
    }

    /// What close(2) does in Linux: nothing but give the owner's locks up.
    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
        self.unlock_all(ctx, self.file(node, handle)?)
    }

    fn release(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId, how: &Release) -> Result<()> {
        let fid = self.file(node, handle)?;
        if how.flush {
            self.unlock_all(ctx, fid)?;
        }
        self.lock_files().remove(&handle);
        self.clunk(fid)
    }

    fn read(
        &self,
        _: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        len: usize,
        sink: &mut dyn ReadSink,
    ) -> Result<usize> {
        let fid = self.file_of(node, handle)?;
        let mut done = 0;
        loop {
            let size = (len - done).min(self.payload_max());
            let reply = self.call(&Request::Read {
                fid,
                offset: offset.wrapping_add(done as u64),
                count: size as u32,
            })?;
            let bytes = reply.payload();
            sink.put(bytes)?;
            done += bytes.len();
            if bytes.len() < size || done == len {
                return Ok(done);
            }
        }
    }

    fn write(
        &self,
        _: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        if args.kill_suidgid || args.is_writeback {
            not_expressible::<()>("writes that clear set-id bits or come from a cache");
        }
        let fid = self.file_of(node, handle)?;
        let mut len = 0;
        loop {
            let mut bytes = vec![0; source.remaining().min(self.payload_max())];
            source.take(&mut bytes)?;
            let request = Request::Write {
                fid,
                offset: args.offset.wrapping_add(len as u64),
                data: Payload { len: bytes.len() },
            };
            let written = match self.call_with(&request, &bytes) {
                Ok(answer) => match answer.get() {
                    Reply::Write { count } => count as usize,
                    other => panic!("{other:?} answers Twrite"),
                },
                Err(error) if len == 0 => return Err(error),
                Err(_) => 0,
            };
            len += written;
            if written < bytes.len() || source.remaining() == 0 {
                let stamp = Stamp::NONE;
                return Ok(Written { len, stamp });
            }
        }
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
        let fid = self.file_of(node, handle)?;
        self.list(ctx, (node, fid), cookie, want, sink)?;
        Ok(Stamp::NONE)
    }

    fn fsync(
        &self,
        _: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> Result<()> {
        let fid = self.file_of(node, handle)?;
        let datasync = Trailing(Some(data_only.into()));
        self.call(&Request::Fsync { fid, datasync }).map(drop)
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
        locks::require_posix(lock);
        let fid = self.file(node, handle)?;
        let owner = locks::owner_name(ctx);
        let args = Getlock {
            kind: translate::lock_kind(lock.kind),
            start: lock.range.start,
            length: translate::lock_length(lock.range),
            proc_id: lock.pid,
            client_id: Str(&owner),
        };
        match self.call(&Request::Getlock { fid, args })?.get() {
            Reply::Getlock { lock } => Ok(translate::held_lock(&lock)),
            other => panic!("{other:?} answers Tgetlock"),
        }
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        locks::require_posix(lock);
        let fid = self.file(node, handle)?;
        let owner = locks::owner_name(ctx);
        if let Some(wait) = wait {
            let args = locks::lock_args(lock, LockFlags::BLOCK, &owner);
            return self.lock_or_wait(fid, args, wait);
        }
        let args = locks::lock_args(lock, LockFlags::empty(), &owner);
        match self.call(&Request::Lock { fid, args })?.get() {
            Reply::Lock { status } => translate::lock_status(status)?,
            other => panic!("{other:?} answers Tlock"),
        }
        Ok(LockOutcome::Done)
    }

    fn cancel_wait(&self, wait: WaitId) {
        self.take_back(wait);
    }

    /// Descriptors don't travel in messages.
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

fn opened(handle: HandleId) -> Opened {
    Opened {
        handle,
        hints: OpenHints::NO_FLUSH,
        stamp: Stamp::NONE,
    }
}
