//! Operations to requests, replies to results.

use super::arguments;
use super::client::FuseClient;
use super::translate;
use super::transport::FuseTransport;
use sluice_proto::fuse::wire::{
    AccessIn, CBytes, FallocateIn, FattrValid, FlushIn, FsyncFlags, FsyncIn, IoctlFlags, IoctlIn,
    LinkIn, LseekIn, MkdirIn, MknodIn, OpenIn, Operation, Payload, ReadFlags, ReadIn, ReleaseFlags,
    ReleaseIn, Rename2In, RenameIn, Reply, Rest, SetxattrFlags, SetxattrIn, SyncfsIn, WriteFlags,
    WriteIn,
};
use sluice_vfs::{
    Access, AttrMask, Backing, BackingId, CopyRange, CreateArgs, Created, Ctx, Device, DirSink,
    DirWant, Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply, FileType, HandleId, Lock,
    LockOutcome, Lookup, Name, NewNode, NodeId, OpenFlags, Opened, ReadSink, Release, RenameFlags,
    Renamed, Result, SYMLINK_TARGET_MAX, Session, SetAttr, Stamp, Stat, StatFs, WaitId, Whence,
    WriteArgs, WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;

impl<T: FuseTransport> Session for FuseClient<T> {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        let name = CBytes(name.as_bytes());
        let missing = Lookup::Missing {
            dir_stamp: Stamp::NONE,
        };
        match self.call_for_entry(ctx, parent, &Operation::Lookup { name }) {
            // A reply with node 0 says "missing" and for how long to believe it.
            Ok(entry) if entry.node == NodeId(0) => Ok(missing),
            Ok(entry) => Ok(Lookup::Found(entry)),
            Err(Errno::ENOENT) => Ok(missing),
            Err(error) => Err(error),
        }
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        let name = CBytes(b"..");
        self.call_for_entry(ctx, node, &Operation::Lookup { name })
    }

    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        let name = CBytes(b".");
        self.call_for_entry(ctx, node, &Operation::Lookup { name })
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.give_back(node, count);
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat> {
        let operation = arguments::getattr(handle, mask);
        let reply = self.call(ctx, node, &operation)?;
        Ok(reply.stat())
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        let mut args = translate::setattr(changes);
        args.lock_owner = ctx.lock_owner.0;
        args.fh = arguments::fh(handle);
        args.valid.set(FattrValid::FH, handle.is_some());
        let reply = self.call(ctx, node, &Operation::Setattr { args })?;
        Ok(reply.stat())
    }

    fn access(&self, ctx: &Ctx<'_>, node: NodeId, access: Access) -> Result<()> {
        let args = AccessIn {
            mask: access.bits(),
            padding: 0,
        };
        self.call(ctx, node, &Operation::Access { args }).map(drop)
    }

    fn readlink(&self, ctx: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp> {
        let operation = Operation::Readlink {};
        let reply = self.call_with_room(ctx, node, &operation, SYMLINK_TARGET_MAX)?;
        sink.put(reply.bytes())?;
        Ok(Stamp::NONE)
    }

    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<StatFs> {
        let reply = self.call(ctx, node, &Operation::Statfs {})?;
        match reply.get() {
            Reply::Statfs { statfs } => Ok(translate::statfs(&statfs.st)),
            other => panic!("{other:?} answers STATFS"),
        }
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let name = CBytes(name.as_bytes());
        self.sized(ctx, node, sink, |args| Operation::Getxattr { args, name })
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        self.sized(ctx, node, sink, |args| Operation::Listxattr { args })
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let mut setxattr_flags = SetxattrFlags::empty();
        let kills = flags.contains(XattrFlags::KILL_SGID);
        setxattr_flags.set(SetxattrFlags::ACL_KILL_SGID, kills);
        let operation = Operation::Setxattr {
            args: SetxattrIn {
                size: value.len() as u32,
                flags: (flags - XattrFlags::KILL_SGID).bits(),
                setxattr_flags,
                padding: 0,
            },
            name: CBytes(name.as_bytes()),
            value: Rest(value),
        };
        self.call(ctx, node, &operation)?;
        Ok(Stamp::NONE)
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        let name = CBytes(name.as_bytes());
        self.call(ctx, node, &Operation::Removexattr { name })?;
        Ok(Stamp::NONE)
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let operation = Operation::Mkdir {
            args: MkdirIn {
                mode: new.perm,
                umask: new.umask,
            },
            name: CBytes(name.as_bytes()),
            extensions: arguments::extensions(ctx, new),
        };
        self.call_for_entry(ctx, parent, &operation)
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
        let operation = Operation::Mknod {
            args: MknodIn {
                mode: new.mode(file_type).0,
                rdev: rdev.to_u32(),
                umask: new.umask,
                padding: 0,
            },
            name: CBytes(name.as_bytes()),
            extensions: arguments::extensions(ctx, new),
        };
        self.call_for_entry(ctx, parent, &operation)
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let operation = Operation::Symlink {
            name: CBytes(name.as_bytes()),
            target: CBytes(target),
            extensions: arguments::extensions(ctx, new),
        };
        self.call_for_entry(ctx, parent, &operation)
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        let operation = Operation::Link {
            args: LinkIn { oldnodeid: node.0 },
            name: CBytes(name.as_bytes()),
        };
        self.call_for_entry(ctx, parent, &operation)
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let name = CBytes(name.as_bytes());
        self.call(ctx, parent, &Operation::Unlink { name })?;
        Ok(Stamp::NONE)
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let name = CBytes(name.as_bytes());
        self.call(ctx, parent, &Operation::Rmdir { name })?;
        Ok(Stamp::NONE)
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        let old_name = CBytes(old.1.as_bytes());
        let new_name = CBytes(new.1.as_bytes());
        let newdir = new.0.0;
        let operation = if flags.is_empty() {
            Operation::Rename {
                args: RenameIn { newdir },
                old_name,
                new_name,
            }
        } else {
            Operation::Rename2 {
                args: Rename2In {
                    newdir,
                    flags: flags.bits(),
                    padding: 0,
                },
                old_name,
                new_name,
            }
        };
        self.call(ctx, old.0, &operation)?;
        Ok(Renamed::default())
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        let args = OpenIn {
            flags: translate::open_flags(flags),
            open_flags: arguments::open_in_flags(flags),
        };
        let is_dir = flags.contains(OpenFlags::DIRECTORY);
        let operation = match is_dir {
            true => Operation::Opendir { args },
            false => Operation::Open { args },
        };
        let reply = self.call(ctx, node, &operation)?;
        let opened = match reply.get() {
            Reply::Open { open } | Reply::Opendir { open } => translate::opened(&open),
            other => panic!("{other:?} answers OPEN"),
        };
        if is_dir {
            self.note_dir(opened.handle);
        }
        Ok(opened)
    }

    /// FUSE doesn't tell whether the file was there.
    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        let operation = Operation::Create {
            args: arguments::create_in(args),
            name: CBytes(name.as_bytes()),
            extensions: arguments::extensions(ctx, &args.new),
        };
        self.make(ctx, parent, &operation)
    }

    /// FUSE has no such request.
    fn lookup_open(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Name<'_>,
        _flags: OpenFlags,
    ) -> Result<Created> {
        Err(Errno::ENOSYS)
    }

    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created> {
        let operation = Operation::Tmpfile {
            args: arguments::create_in(args),
            name: CBytes(b"/"),
            extensions: arguments::extensions(ctx, &args.new),
        };
        self.make(ctx, parent, &operation)
    }

    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
        let args = FlushIn {
            fh: handle.0,
            lock_owner: ctx.lock_owner.0,
            ..FlushIn::default()
        };
        self.call(ctx, node, &Operation::Flush { args }).map(drop)
    }

    fn release(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId, how: &Release) -> Result<()> {
        let mut release_flags = ReleaseFlags::empty();
        release_flags.set(ReleaseFlags::FLUSH, how.flush);
        release_flags.set(ReleaseFlags::FLOCK_UNLOCK, how.unlock_flock);
        let args = ReleaseIn {
            fh: handle.0,
            flags: 0,
            release_flags,
            lock_owner: ctx.lock_owner.0,
        };
        let operation = match self.drop_dir(handle) {
            true => Operation::Releasedir { args },
            false => Operation::Release { args },
        };
        self.call(ctx, node, &operation).map(drop)
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
        let mut done = 0;
        loop {
            let size = (len - done).min(self.payload_max());
            let args = ReadIn {
                fh: arguments::fh(handle),
                offset: offset.wrapping_add(done as u64),
                size: size as u32,
                read_flags: ReadFlags::LOCKOWNER,
                lock_owner: ctx.lock_owner.0,
                ..ReadIn::default()
            };
            let reply = self.call_with_room(ctx, node, &Operation::Read { args }, size)?;
            let bytes = reply.bytes();
            sink.put(bytes)?;
            done += bytes.len();
            if bytes.len() < size || done == len {
                return Ok(done);
            }
        }
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        let mut len = 0;
        loop {
            let mut bytes = vec![0; source.remaining().min(self.payload_max())];
            source.take(&mut bytes)?;
            let mut write_flags = WriteFlags::LOCKOWNER;
            write_flags.set(WriteFlags::KILL_SUIDGID, args.kill_suidgid);
            write_flags.set(WriteFlags::CACHE, args.is_writeback);
            let operation = Operation::Write {
                args: WriteIn {
                    fh: arguments::fh(handle),
                    offset: args.offset.wrapping_add(len as u64),
                    size: bytes.len() as u32,
                    write_flags,
                    lock_owner: ctx.lock_owner.0,
                    ..WriteIn::default()
                },
                data: Payload { len: bytes.len() },
            };
            let written = match self.call_with_payload(ctx, node, &operation, &bytes, 0) {
                Ok(reply) => reply.count(),
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
        self.list(ctx, node, arguments::fh(handle), cookie, want, sink)?;
        Ok(Stamp::NONE)
    }

    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> Result<()> {
        let mut fsync_flags = FsyncFlags::empty();
        fsync_flags.set(FsyncFlags::FDATASYNC, data_only);
        let args = FsyncIn {
            fh: arguments::fh(handle),
            fsync_flags,
            padding: 0,
        };
        let operation = match handle.is_some_and(|handle| self.is_dir(handle)) {
            true => Operation::Fsyncdir { args },
            false => Operation::Fsync { args },
        };
        self.call(ctx, node, &operation).map(drop)
    }

    fn syncfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<()> {
        let args = SyncfsIn::default();
        self.call(ctx, node, &Operation::Syncfs { args }).map(drop)
    }

    fn fallocate(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp> {
        let args = FallocateIn {
            fh: arguments::fh(handle),
            offset: range.start,
            length: range.end.wrapping_sub(range.start),
            mode: mode.bits(),
            padding: 0,
        };
        self.call(ctx, node, &Operation::Fallocate { args })?;
        Ok(Stamp::NONE)
    }

    fn lseek(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        let args = LseekIn {
            fh: arguments::fh(handle),
            offset,
            whence: translate::whence(whence),
            padding: 0,
        };
        let reply = self.call(ctx, node, &Operation::Lseek { args })?;
        match reply.get() {
            Reply::Lseek { position } => Ok(position.offset),
            other => panic!("{other:?} answers LSEEK"),
        }
    }

    fn copy_range(&self, ctx: &Ctx<'_>, copy: &CopyRange) -> Result<Written> {
        let operation = arguments::copy_range(copy);
        let reply = self.call(ctx, copy.from.node, &operation)?;
        Ok(Written {
            len: reply.count(),
            stamp: Stamp::NONE,
        })
    }

    fn ioctl(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        let (cmd, data, out_size) = translate::ioctl(request);
        let mut flags = IoctlFlags::empty();
        let is_dir = handle.is_some_and(|handle| self.is_dir(handle));
        flags.set(IoctlFlags::DIR, is_dir);
        let operation = Operation::Ioctl {
            args: IoctlIn {
                fh: arguments::fh(handle),
                flags,
                cmd,
                arg: 0,
                in_size: data.len() as u32,
                out_size,
            },
            data: Rest(&data),
        };
        let reply = self.call_with_room(ctx, node, &operation, out_size as usize)?;
        match reply.get() {
            Reply::Ioctl { result, data } => {
                assert_eq!(result.result, 0, "success has no other value");
                Ok(translate::ioctl_reply(request, data.0))
            }
            other => panic!("{other:?} answers IOCTL"),
        }
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        let args = arguments::lk_in(ctx, handle, lock);
        let reply = self.call(ctx, node, &Operation::Getlk { args })?;
        match reply.get() {
            Reply::Getlk { lock: held } => Ok(translate::held_lock(&held.lk, lock.style)),
            other => panic!("{other:?} answers GETLK"),
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
        let args = arguments::lk_in(ctx, handle, lock);
        if let Some(wait) = wait {
            return self.lock_or_wait(ctx, node, args, wait);
        }
        self.call(ctx, node, &Operation::Setlk { args })?;
        Ok(LockOutcome::Done)
    }

    fn cancel_wait(&self, wait: WaitId) {
        self.interrupt(wait);
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
