//! The recorder's session: one line for each call.

use crate::recorder::{ENTRY, HANDLE, STAT, Shared};
use sluice_vfs::*;
use std::fmt::Arguments;
use std::ops::Range;
use std::sync::Arc;

/// A session of the recorder.
pub(crate) struct RecordedSession(Arc<Shared>);

impl Drop for RecordedSession {
    fn drop(&mut self) {
        self.0.calls.lock().unwrap().push("session ends".to_owned());
    }
}

/// Who calls, where it is not the usual caller.
fn who(ctx: &Ctx<'_>) -> String {
    let Caller {
        uid,
        gid,
        groups,
        pid,
    } = ctx.caller;
    let mut out = String::new();
    if (uid, gid, pid) != (1000, 1001, 1234) {
        out += &format!(" by {uid}:{gid}:{pid}");
    }
    if !groups.is_empty() {
        out += &format!(" in {groups:?}");
    }
    if ctx.lock_owner.0 != 0 {
        out += &format!(" owner {:#x}", ctx.lock_owner.0);
    }
    out
}

fn of(handle: Option<HandleId>) -> String {
    handle.map_or_else(
        || " without handle".to_owned(),
        |handle| format!(" {handle:?}"),
    )
}

fn made(new: &NewNode<'_>) -> String {
    let label = new.label.map_or_else(String::new, |label| {
        format!(" {:?}={}", label.name, label.value.escape_ascii())
    });
    format!("{:#o} umask {:#o}{label}", new.perm, new.umask)
}

impl RecordedSession {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        RecordedSession(shared)
    }

    fn log(&self, ctx: &Ctx<'_>, call: Arguments<'_>) -> Result<()> {
        self.0.log(format_args!("{call}{}", who(ctx)))
    }

    fn opened(&self, flags: OpenFlags) -> Result<Opened> {
        let script = self.0.script();
        if script.is_unreadable && flags.contains(OpenFlags::READ) {
            return Err(Errno::EACCES);
        }
        Ok(Opened {
            handle: HANDLE,
            hints: script.hints,
            stamp: Stamp(9),
        })
    }

    fn created(&self, flags: OpenFlags) -> Result<Created> {
        Ok(Created {
            entry: ENTRY,
            opened: self.opened(flags)?,
            is_new: true,
        })
    }
}

impl Session for RecordedSession {
    fn lookup(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        self.log(ctx, format_args!("lookup {name:?} in {parent:?}"))?;
        Ok(if self.0.script().is_missing {
            Lookup::Missing {
                dir_stamp: Stamp(10),
            }
        } else {
            Lookup::Found(ENTRY)
        })
    }

    fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        self.log(ctx, format_args!("parent of {node:?}"))?;
        Ok(ENTRY)
    }

    fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
        self.log(ctx, format_args!("remember {node:?}"))?;
        Ok(ENTRY)
    }

    fn forget(&self, node: NodeId, count: u64) {
        let _ = self.0.log(format_args!("forget {node:?} x{count}"));
    }

    fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mask: AttrMask,
    ) -> Result<Stat> {
        let mask = mask.bits();
        self.log(
            ctx,
            format_args!("getattr {node:?}{} {mask:#x}", of(handle)),
        )?;
        Ok(STAT)
    }

    fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        self.log(
            ctx,
            format_args!("setattr {node:?}{} {changes:?}", of(handle)),
        )?;
        Ok(STAT)
    }

    fn access(&self, ctx: &Ctx<'_>, node: NodeId, access: Access) -> Result<()> {
        self.log(ctx, format_args!("access {node:?} {:#o}", access.bits()))
    }

    fn readlink(&self, ctx: &Ctx<'_>, node: NodeId, sink: &mut dyn ReadSink) -> Result<Stamp> {
        self.log(ctx, format_args!("readlink {node:?}"))?;
        sink.put(b"target")?;
        Ok(Stamp(9))
    }

    fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<StatFs> {
        self.log(ctx, format_args!("statfs {node:?}"))?;
        Ok(StatFs {
            fs_type: 1,
            bsize: 2,
            frsize: 3,
            blocks: 4,
            bfree: 5,
            bavail: 6,
            files: 7,
            ffree: 8,
            fsid: 9,
            namelen: 255,
        })
    }

    fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let room = sink.as_ref().map(|sink| sink.remaining());
        self.log(
            ctx,
            format_args!("getxattr {node:?} {name:?} room {room:?}"),
        )?;
        sink.map_or(Ok(()), |sink| sink.put(b"value").map_err(|_| Errno::ERANGE))?;
        Ok(5)
    }

    fn listxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: Option<&mut dyn ReadSink>,
    ) -> Result<usize> {
        let room = sink.as_ref().map(|sink| sink.remaining());
        self.log(ctx, format_args!("listxattr {node:?} room {room:?}"))?;
        sink.map_or(Ok(()), |sink| sink.put(b"user.a\0"))?;
        Ok(7)
    }

    fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let (value, flags) = (value.escape_ascii(), flags.bits());
        self.log(
            ctx,
            format_args!("setxattr {node:?} {name:?}={value} {flags:#x}"),
        )?;
        Ok(Stamp(9))
    }

    fn removexattr(&self, ctx: &Ctx<'_>, node: NodeId, name: XattrName<'_>) -> Result<Stamp> {
        self.log(ctx, format_args!("removexattr {node:?} {name:?}"))?;
        Ok(Stamp(9))
    }

    fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.log(
            ctx,
            format_args!("mkdir {name:?} in {parent:?} {}", made(new)),
        )?;
        Ok(ENTRY)
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
        let Device { major, minor } = rdev;
        self.log(
            ctx,
            format_args!(
                "mknod {name:?} in {parent:?} {file_type:?} {major}:{minor} {}",
                made(new)
            ),
        )?;
        Ok(ENTRY)
    }

    fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let target = target.escape_ascii();
        self.log(
            ctx,
            format_args!("symlink {name:?} in {parent:?} to {target} {}", made(new)),
        )?;
        Ok(ENTRY)
    }

    fn link(&self, ctx: &Ctx<'_>, node: NodeId, parent: NodeId, name: Name<'_>) -> Result<Entry> {
        self.log(ctx, format_args!("link {node:?} as {name:?} in {parent:?}"))?;
        Ok(ENTRY)
    }

    fn unlink(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        self.log(ctx, format_args!("unlink {name:?} in {parent:?}"))?;
        Ok(Stamp(9))
    }

    fn rmdir(&self, ctx: &Ctx<'_>, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        self.log(ctx, format_args!("rmdir {name:?} in {parent:?}"))?;
        Ok(Stamp(9))
    }

    fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        let flags = flags.bits();
        self.log(ctx, format_args!("rename {old:?} to {new:?} {flags}"))?;
        Ok(Renamed::default())
    }

    fn open(&self, ctx: &Ctx<'_>, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        self.log(ctx, format_args!("open {node:?} {}", shown(flags)))?;
        self.opened(flags)
    }

    fn create(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        let (flags, new) = (shown(args.flags), made(&args.new));
        self.log(
            ctx,
            format_args!("create {name:?} in {parent:?} {flags} {new}"),
        )?;
        self.created(args.flags)
    }

    fn lookup_open(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> Result<Created> {
        self.log(
            ctx,
            format_args!("lookup_open {name:?} in {parent:?} {}", shown(flags)),
        )?;
        self.created(flags)
    }

    fn tmpfile(&self, ctx: &Ctx<'_>, parent: NodeId, args: &CreateArgs<'_>) -> Result<Created> {
        let (flags, new) = (shown(args.flags), made(&args.new));
        self.log(ctx, format_args!("tmpfile in {parent:?} {flags} {new}"))?;
        self.created(args.flags)
    }

    fn flush(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId) -> Result<()> {
        self.log(ctx, format_args!("flush {node:?} {handle:?}"))
    }

    fn release(&self, ctx: &Ctx<'_>, node: NodeId, handle: HandleId, how: &Release) -> Result<()> {
        let Release {
            unlock_flock,
            flush,
        } = how;
        self.log(
            ctx,
            format_args!("release {node:?} {handle:?} unlock {unlock_flock} flush {flush}"),
        )
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
        self.log(
            ctx,
            format_args!("read {node:?}{} {len}@{offset}", of(handle)),
        )?;
        sink.put(b"data")?;
        Ok(4)
    }

    fn write(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> Result<Written> {
        let mut data = vec![0; source.remaining()];
        source.take(&mut data)?;
        let WriteArgs {
            offset,
            kill_suidgid,
            is_writeback,
        } = args;
        self.log(
            ctx,
            format_args!(
                "write {node:?}{} {}@{offset} kill {kill_suidgid} writeback {is_writeback}",
                of(handle),
                data.escape_ascii()
            ),
        )?;
        Ok(Written {
            len: data.len(),
            stamp: Stamp(9),
        })
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
        self.log(
            ctx,
            format_args!("readdir {node:?}{} from {cookie} {want:?}", of(handle)),
        )?;
        let names: [&[u8]; 4] = [b".", b"..", b"file", b"another-file"];
        for (name, index) in names.into_iter().zip(0..).skip(cookie as usize) {
            if !sink.fits(name.len()) {
                break;
            }
            let is_dots = name.starts_with(b".");
            sink.push(&DirEntry {
                name,
                ino: 100 + index,
                file_type: is_dots.then_some(FileType::Directory),
                next_cookie: index + 1,
                entry: (want != DirWant::Names && !is_dots).then_some(ENTRY),
            });
        }
        Ok(Stamp(9))
    }

    fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> Result<()> {
        self.log(
            ctx,
            format_args!("fsync {node:?}{} data only {data_only}", of(handle)),
        )
    }

    fn syncfs(&self, ctx: &Ctx<'_>, node: NodeId) -> Result<()> {
        self.log(ctx, format_args!("syncfs {node:?}"))
    }

    fn fallocate(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp> {
        let mode = mode.bits();
        self.log(
            ctx,
            format_args!("fallocate {node:?}{} {mode:#x} {range:?}", of(handle)),
        )?;
        Ok(Stamp(9))
    }

    fn lseek(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        self.log(
            ctx,
            format_args!("lseek {node:?}{} {whence:?} {offset}", of(handle)),
        )?;
        Ok(4096)
    }

    fn copy_range(&self, ctx: &Ctx<'_>, copy: &CopyRange) -> Result<Written> {
        let CopyRange { from, to, len } = copy;
        self.log(
            ctx,
            format_args!(
                "copy {len} from {:?} {:?}@{} to {:?} {:?}@{}",
                from.node, from.handle, from.offset, to.node, to.handle, to.offset
            ),
        )?;
        Ok(Written {
            len: *len as usize,
            stamp: Stamp(9),
        })
    }

    fn ioctl(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        self.log(
            ctx,
            format_args!("ioctl {node:?}{} {request:?}", of(handle)),
        )?;
        Ok(match request {
            FileIoctl::GetFlags => FileIoctlReply::Flags(0x10),
            FileIoctl::GetFsx => FileIoctlReply::Fsx(Fsx {
                xflags: 1,
                extent_size: 2,
                extents: 3,
                project_id: 4,
                cow_extent_size: 5,
            }),
            FileIoctl::SetFlags(_) | FileIoctl::SetFsx(_) => FileIoctlReply::Done,
        })
    }

    fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        self.log(ctx, format_args!("getlk {node:?} {handle:?} {lock:?}"))?;
        Ok((lock.kind == LockKind::Write).then_some(Lock {
            kind: LockKind::Read,
            pid: 55,
            ..*lock
        }))
    }

    fn setlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        let waits = wait.is_some();
        self.log(
            ctx,
            format_args!("setlk {node:?} {handle:?} {lock:?} waits {waits}"),
        )?;
        let script = self.0.script();
        let Some(wait) = wait else {
            return script.lock_error.map_or(Ok(LockOutcome::Done), Err);
        };
        *self.0.last_wait.lock().unwrap() = Some(wait);
        if script.grants_at_once {
            let events = self.0.events.lock().unwrap().clone();
            if let Some(events) = events {
                events.publish(&Event::LockSettled {
                    wait,
                    result: Ok(()),
                });
            }
        }
        script.wait_error.map_or(Ok(LockOutcome::Waiting), Err)
    }

    fn cancel_wait(&self, wait: WaitId) {
        let _ = self.0.log(format_args!("cancel a wait"));
        let events = self.0.events.lock().unwrap().clone();
        if let Some(events) = events {
            events.publish(&Event::LockSettled {
                wait,
                result: Err(Errno::EINTR),
            });
        }
    }

    fn backing(
        &self,
        _: &Ctx<'_>,
        _: NodeId,
        _: Option<HandleId>,
        _: Range<u64>,
        _: bool,
    ) -> Result<Backing> {
        Err(Errno::EOPNOTSUPP)
    }

    fn release_backing(&self, _: BackingId) {}
}

/// Open flags by name.
fn shown(flags: OpenFlags) -> String {
    let names: Vec<_> = flags.iter_names().map(|(name, _)| name).collect();
    names.join("|")
}
