//! File content.

use super::Target;
use crate::service::{ExportSession, File};
use rustix::fd::AsFd;
use rustix::fs::OFlags;
use sluice_vfs::{
    Backing, BackingId, Ctx, Errno, FileType, NodeId, OpenFlags, ReadSink, Result, Stamp,
    WriteArgs, WriteFlags, WriteSource, Written,
};
use std::ops::Range;
use std::sync::atomic::Ordering;

pub(crate) fn read(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    offset: u64,
    len: usize,
    sink: &mut dyn ReadSink,
) -> Result<usize> {
    let file = session.file(ctx, node, handle, OFlags::RDONLY)?;
    let mut done = 0;
    while done < len && sink.remaining() > 0 {
        let at = position(offset, done)?;
        // Short at the very size that the peer was told: the file ends there.
        if done > 0 && at == file.inode().size_told() {
            break;
        }
        match sink.read_from(file.as_fd(), at, len - done) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            // Not what came so far: peers take a short read for the end of the
            // file, and fill their cache with zeros behind it.
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

pub(crate) fn write(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    args: &WriteArgs,
    source: &mut dyn WriteSource,
) -> Result<Written> {
    session.require_writable()?;
    let file = session.file(ctx, node, handle, OFlags::WRONLY)?;
    let flags = write_flags(&file, args);
    let _guard = session.kill_suidgid(ctx, args.kill_suidgid)?;
    let mut done = 0;
    while source.remaining() > 0 {
        let at = position(args.offset, done)?;
        match source.write_to(file.as_fd(), at, source.remaining(), flags) {
            // A file that takes nothing and says nothing would never end.
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    if !flags.contains(WriteFlags::APPEND) {
        let end = args.offset.saturating_add(done as u64);
        file.inode().grow_to(end);
    }
    if let File::ForNow(_, fd) = file {
        // Some file systems (NFS) say only then that there is no room.
        sluice_sys::close(fd)?;
    }
    Ok(Written {
        len: done,
        stamp: Stamp::NONE,
    })
}

pub(crate) fn fsync(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    data_only: bool,
) -> Result<()> {
    let file = session.file(ctx, node, handle, OFlags::RDONLY)?;
    match data_only {
        true => rustix::fs::fdatasync(&file)?,
        false => rustix::fs::fsync(&file)?,
    }
    Ok(())
}

pub(crate) fn syncfs(session: &ExportSession, ctx: &Ctx<'_>, node: NodeId) -> Result<()> {
    let file = session.file(ctx, node, None, OFlags::RDONLY)?;
    Ok(rustix::fs::syncfs(&file)?)
}

/// The descriptor is opened afresh, so that it is no wider than asked for and
/// shares no position or flags with a handle.
pub(crate) fn backing(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    range: Range<u64>,
    writable: bool,
) -> Result<Backing> {
    let inode = session.inode_of(node, handle)?;
    if inode.file_type != FileType::Regular || (writable && session.require_writable().is_err()) {
        return Err(Errno::EOPNOTSUPP);
    }
    let flags = match writable {
        true => OFlags::RDWR,
        false => OFlags::RDONLY,
    };
    let _as_caller = session.as_caller(ctx)?;
    let fd = session.host.descriptors.reopen(&inode, flags)?;
    Ok(Backing {
        id: BackingId(session.next_backing.fetch_add(1, Ordering::Relaxed)),
        fd,
        offset: range.start,
        stamp: Stamp::NONE,
    })
}

/// Where to go on. No file reaches beyond `i64::MAX`, and some calls take
/// larger numbers for "the current position".
fn position(offset: u64, done: usize) -> Result<u64> {
    let at = offset.checked_add(done as u64);
    at.filter(|at| i64::try_from(*at).is_ok())
        .ok_or(Errno::EINVAL)
}

/// What comes from a peer's page cache has its place already, whatever the
/// handle it comes through.
fn write_flags(file: &File, args: &WriteArgs) -> WriteFlags {
    match file.flags().contains(OpenFlags::APPEND) && !args.is_writeback {
        true => WriteFlags::APPEND,
        false => WriteFlags::empty(),
    }
}
