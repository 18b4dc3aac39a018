//! Content: between the connection and the caller's memory, or through a buffer
//! where the caller's is no memory of this process.

use super::handles::Handle;
use super::session::Inner;
use super::turn::errno;

use sluice_vfs::{
    Ctx, Errno, HandleId, NodeId, OpenFlags, ReadSink, SetAttr, Stamp, WriteArgs, WriteSource,
    Written,
};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most that is buffered at a time for those that show no memory.
const BUFFER_MAX: usize = 1 << 20;

impl Inner {
    pub(super) fn read(
        &self,
        ctx: &Ctx<'_>,
        (node, handle): (NodeId, Option<HandleId>),
        offset: u64,
        len: usize,
        sink: &mut dyn ReadSink,
    ) -> sluice_vfs::Result<usize> {
        let handle = self.usable(node, handle, OpenFlags::READ | OpenFlags::EXEC)?;
        let len = len.min(sink.remaining());
        check_range(offset, len)?;
        if let Some(room) = sink.room().and_then(|room| room.get_mut(..len)) {
            let count = self.read_into(ctx, &handle, offset, room)?;
            sink.commit(count)?;
            return Ok(count);
        }
        let mut buf = vec![0; len.min(BUFFER_MAX)];
        let mut done = 0;
        while done < len {
            let want = buf.len().min(len - done);
            let room = buf.get_mut(..want).unwrap_or_default();
            let count = self.read_into(ctx, &handle, offset + done as u64, room)?;
            sink.put(room.get(..count).unwrap_or_default())?;
            done += count;
            if count < want {
                break;
            }
        }
        Ok(done)
    }

    fn read_into(
        &self,
        ctx: &Ctx<'_>,
        handle: &Handle,
        offset: u64,
        room: &mut [u8],
    ) -> sluice_vfs::Result<usize> {
        self.run(ctx, |turn| {
            let file = handle.file(turn)?;
            let mut done = 0;
            loop {
                let rest = room.get_mut(done..).unwrap_or_default();
                let is_one_message = rest.len() <= file.open.chunk;
                let mut slices = [IoSliceMut::new(rest)];
                let at = offset + done as u64;
                let count = turn.tree.read(&file.open, at, &mut slices)?;
                done += count;
                // Several that came short may hide an error, which the next one
                // has again.
                if is_one_message || count == 0 || done == room.len() {
                    return Ok(done);
                }
            }
        })
    }

    /// Clears what makes a program of others' rights, before its content changes.
    /// Kernels ask for that in direct I/O, whether it was offered or not.
    fn kill_suidgid(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
    ) -> sluice_vfs::Result<()> {
        const SET_USER: u32 = 0o4000;
        const SET_GROUP: u32 = 0o2000;
        const GROUP_RUNS: u32 = 0o0010;
        let perm = self.getattr(ctx, node, handle)?.attr.mode.perm();
        let doomed = match perm & GROUP_RUNS {
            0 => SET_USER,
            _ => SET_USER | SET_GROUP,
        };
        if perm & doomed == 0 {
            return Ok(());
        }
        let changes = SetAttr {
            perm: Some(perm & !doomed),
            ..SetAttr::default()
        };
        match self.setattr(ctx, node, handle, &changes) {
            // Not the owner: a server that checks does this itself when it writes.
            Err(Errno::EPERM | Errno::EACCES) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    pub(super) fn write(
        &self,
        ctx: &Ctx<'_>,
        (node, handle): (NodeId, Option<HandleId>),
        args: &WriteArgs,
        source: &mut dyn WriteSource,
    ) -> sluice_vfs::Result<Written> {
        if args.kill_suidgid {
            self.kill_suidgid(ctx, node, handle)?;
        }
        let handle = self.usable(node, handle, OpenFlags::WRITE)?;
        let len = source.remaining();
        check_range(args.offset, len)?;
        if let Some(bytes) = source.bytes() {
            let count = self.write_from(ctx, &handle, args.offset, bytes)?;
            source.consume(count)?;
            return Ok(written(count));
        }
        let mut done = 0;
        while done < len {
            let mut buf = vec![0; (len - done).min(BUFFER_MAX)];
            source.take(&mut buf)?;
            let wrote = self.write_from(ctx, &handle, args.offset + done as u64, &buf);
            match wrote {
                Ok(count) => {
                    done += count;
                    if count < buf.len() {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written(done))
    }

    fn write_from(
        &self,
        ctx: &Ctx<'_>,
        handle: &Handle,
        offset: u64,
        bytes: &[u8],
    ) -> sluice_vfs::Result<usize> {
        let appends = handle.flags.contains(OpenFlags::APPEND);
        handle.was_written.store(true, Ordering::Relaxed);
        self.run(ctx, |turn| {
            let file = handle.file(turn)?;
            let bufs = [IoSlice::new(bytes)];
            match appends {
                // Where it went cannot be told afterwards.
                true => turn.once(|tree| tree.write(&file.open, offset, &bufs, true)),
                false => turn.tree.write(&file.open, offset, &bufs, false),
            }
        })
    }

    /// The handle, if it was opened for this.
    fn usable(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        how: OpenFlags,
    ) -> sluice_vfs::Result<Arc<Handle>> {
        let handle = handle.ok_or(Errno::EBADF)?;
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        if handle.flags.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::EISDIR);
        }
        match handle.flags.intersects(how) {
            true => Ok(handle),
            false => Err(Errno::EBADF),
        }
    }
}

/// Files end at 2^63 − 1 bytes.
fn check_range(offset: u64, len: usize) -> sluice_vfs::Result<()> {
    let end = offset.checked_add(len as u64);
    match end.is_some_and(|end| end <= i64::MAX as u64) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

fn written(len: usize) -> Written {
    Written {
        len,
        stamp: Stamp::NONE,
    }
}
