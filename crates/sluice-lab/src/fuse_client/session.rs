//! Operations to requests, replies to results.

use super::client::FuseClient;
use super::translate;
use super::transport::FuseTransport;
use sluice_proto::fuse::wire::{
    AccessIn, CBytes, CopyFileRangeIn, CreateIn, Extensions, FallocateIn, FattrValid, FlushIn,
    FsyncFlags, FsyncIn, GetattrFlags, GetattrIn, GetxattrIn, GetxattrOut, Groups, IoctlFlags,
    IoctlIn, Label, LinkIn, LkFlags, LkIn, LseekIn, MkdirIn, MknodIn, OpenIn, OpenInFlags,
    Operation, Payload, ReadFlags, ReadIn, ReleaseFlags, ReleaseIn, Rename2In, RenameIn, Reply,
    Rest, SetxattrFlags, SetxattrIn, StatxIn, SyncfsIn, WriteFlags, WriteIn,
};
use sluice_vfs::{
    Access, AttrMask, Backing, BackingId, CopyRange, CreateArgs, Created, Ctx, Device, DirSink,
    DirWant, Entry, Errno, FallocateMode, FileIoctl, FileIoctlReply, FileType, HandleId, Lock,
    LockOutcome, LockStyle, Lookup, Name, NewNode, NodeId, OpenFlags, Opened, ReadSink, Release,
    RenameFlags, Renamed, Result, SYMLINK_TARGET_MAX, Session, SetAttr, Stamp, Stat, StatFs,
    WaitId, Whence, WriteArgs, WriteSource, Written, XattrFlags, XattrName,
};
use std::ops::Range;
use zerocopy::FromBytes;

/// What requests name as their handle when there is none: a number that no
/// server gives out.
const NO_HANDLE: u64 = u64::MAX;

/// From how many bytes on a copy is asked for in the form that counts in 64 bits.
const COPY_64_FROM: u64 = 1 << 16;

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
        let mut getattr_flags = GetattrFlags::empty();
        getattr_flags.set(GetattrFlags::FH, handle.is_some());
        let fh = fh(handle);
        let operation = if AttrMask::BASIC.contains(mask) {
            Operation::Getattr {
                args: GetattrIn {
                    getattr_flags,
                    fh,
                    ..GetattrIn::default()
                },
            }
        } else {
            Operation::Statx {
                args: StatxIn {
                    getattr_flags,
                    fh,
                    sx_mask: mask.bits(),
                    ..StatxIn::default()
                },
            }
        };
        let reply = self.call(ctx, node, &operation)?;
        Ok(stat(reply.get()))
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
        args.fh = fh(handle);
        args.valid.set(FattrValid::FH, handle.is_some());
        let reply = self.call(ctx, node, &Operation::Setattr { args })?;
        Ok(stat(reply.get()))
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
        sink.put(rest(reply.get()))?;
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
            extensions: extensions(ctx, new),
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
            extensions: extensions(ctx, new),
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
            extensions: extensions(ctx, new),
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
            open_flags: open_in_flags(flags),
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
            args: create_in(args),
            name: CBytes(name.as_bytes()),
            extensions: extensions(ctx, &args.new),
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
            args: create_in(args),
            name: CBytes(b"/"),
            extensions: extensions(ctx, &args.new),
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
                fh: fh(handle),
                offset: offset.wrapping_add(done as u64),
                size: size as u32,
                read_flags: ReadFlags::LOCKOWNER,
                lock_owner: ctx.lock_owner.0,
                ..ReadIn::default()
            };
            let reply = self.call_with_room(ctx, node, &Operation::Read { args }, size)?;
            let bytes = rest(reply.get());
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
                    fh: fh(handle),
                    offset: args.offset.wrapping_add(len as u64),
                    size: bytes.len() as u32,
                    write_flags,
                    lock_owner: ctx.lock_owner.0,
                    ..WriteIn::default()
                },
                data: Payload { len: bytes.len() },
            };
            let written = match self.call_with_payload(ctx, node, &operation, &bytes, 0) {
                Ok(reply) => written(reply.get()),
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
        self.list(ctx, node, fh(handle), cookie, want, sink)?;
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
            fh: fh(handle),
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
            fh: fh(handle),
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
            fh: fh(handle),
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
        let args = CopyFileRangeIn {
            fh_in: copy.from.handle.0,
            off_in: copy.from.offset,
            nodeid_out: copy.to.node.0,
            fh_out: copy.to.handle.0,
            off_out: copy.to.offset,
            len: copy.len,
            flags: 0,
        };
        let operation = if copy.len < COPY_64_FROM {
            Operation::CopyFileRange { args }
        } else {
            Operation::CopyFileRange64 { args }
        };
        let reply = self.call(ctx, copy.from.node, &operation)?;
        Ok(Written {
            len: written(reply.get()),
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
                fh: fh(handle),
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
        let args = lk_in(ctx, handle, lock);
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
        let args = lk_in(ctx, handle, lock);
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

impl<T: FuseTransport> FuseClient<T> {
    /// CREATE and TMPFILE.
    fn make(&self, ctx: &Ctx<'_>, parent: NodeId, operation: &Operation<'_>) -> Result<Created> {
        let reply = self.call(ctx, parent, operation)?;
        let (entry, open) = match reply.get() {
            Reply::Create { entry, open } | Reply::Tmpfile { entry, open } => (entry, open),
            other => panic!("{other:?} answers CREATE"),
        };
        Ok(Created {
            entry: translate::entry(&entry),
            opened: translate::opened(&open),
            is_new: false,
        })
    }

    /// GETXATTR and LISTXATTR: a value, or with no room at all its length.
    fn sized<'a>(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
        operation: impl FnOnce(GetxattrIn) -> Operation<'a>,
    ) -> Result<usize> {
        let size = sink.as_ref().map_or(0, |sink| sink.remaining());
        let operation = operation(GetxattrIn {
            size: size as u32,
            padding: 0,
        });
        let room = size.max(size_of::<GetxattrOut>());
        let reply = self.call_with_room(ctx, node, &operation, room)?;
        let bytes = rest(reply.get());
        match sink {
            Some(sink) if size > 0 => {
                sink.put(bytes)?;
                Ok(bytes.len())
            }
            _ => {
                let out = GetxattrOut::read_from_bytes(bytes).expect("a length was asked for");
                Ok(out.size as usize)
            }
        }
    }
}

fn fh(handle: Option<HandleId>) -> u64 {
    handle.map_or(NO_HANDLE, |handle| handle.0)
}

fn stat(reply: Reply<'_>) -> Stat {
    let attr = match reply {
        Reply::Getattr { attr } | Reply::Setattr { attr } => translate::attr(&attr.attr),
        Reply::Statx { stat } => translate::statx(&stat),
        other => panic!("{other:?} has no attributes"),
    };
    Stat {
        attr,
        stamp: Stamp::NONE,
    }
}

fn rest(reply: Reply<'_>) -> &[u8] {
    match reply {
        Reply::Readlink { target: bytes }
        | Reply::Read { data: bytes }
        | Reply::Getxattr { value: bytes }
        | Reply::Listxattr { names: bytes } => bytes.0,
        other => panic!("{other:?} has no bytes"),
    }
}

fn written(reply: Reply<'_>) -> usize {
    match reply {
        Reply::Write { written } | Reply::CopyFileRange { written } => written.size as usize,
        Reply::CopyFileRange64 { copied } => copied.bytes_copied as usize,
        other => panic!("{other:?} counts nothing"),
    }
}

/// Label and supplementary groups, which only requests that make nodes carry.
fn extensions<'a>(ctx: &Ctx<'a>, new: &NewNode<'a>) -> Extensions<'a> {
    Extensions {
        label: new.label.map(|label| Label {
            name: label.name.as_bytes(),
            value: label.value,
        }),
        groups: Groups::new(ctx.caller.groups),
    }
}

fn create_in(args: &CreateArgs<'_>) -> CreateIn {
    CreateIn {
        flags: translate::open_flags(args.flags),
        mode: args.new.mode(FileType::Regular).0,
        umask: args.new.umask,
        open_flags: open_in_flags(args.flags),
    }
}

fn open_in_flags(flags: OpenFlags) -> OpenInFlags {
    let mut open_flags = OpenInFlags::empty();
    let kills = flags.contains(OpenFlags::KILL_SUIDGID);
    open_flags.set(OpenInFlags::KILL_SUIDGID, kills);
    open_flags
}

fn lk_in(ctx: &Ctx<'_>, handle: HandleId, lock: &Lock) -> LkIn {
    let mut lk_flags = LkFlags::empty();
    lk_flags.set(LkFlags::FLOCK, lock.style == LockStyle::Flock);
    LkIn {
        fh: handle.0,
        owner: ctx.lock_owner.0,
        lk: translate::file_lock(lock),
        lk_flags,
        padding: 0,
    }
}
