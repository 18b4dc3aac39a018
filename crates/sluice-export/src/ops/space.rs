//! Where in a file there is data, and moving it within the host.

use super::Target;
use crate::creds;
use crate::service::ExportSession;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range};
use sluice_vfs::{
    CopyRange, Ctx, Errno, FallocateMode, FileType, OpenFlags, Result, Stamp, Whence, Written,
};
use std::ops::Range;

pub(crate) fn fallocate(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    mode: FallocateMode,
    range: Range<u64>,
) -> Result<Stamp> {
    session.require_writable()?;
    let len = range.end.checked_sub(range.start).ok_or(Errno::EINVAL)?;
    let mode = FallocateFlags::from_bits_retain(mode.bits());
    let file = session.file(ctx, node, handle, OFlags::WRONLY)?;
    let _guard = kill_for_user(ctx)?;
    rustix::fs::fallocate(&file, mode, range.start, len)?;
    Ok(Stamp::NONE)
}

pub(crate) fn lseek(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (node, handle): Target,
    offset: u64,
    whence: Whence,
) -> Result<u64> {
    let file = session.file(ctx, node, handle, OFlags::RDONLY)?;
    // The position of an open directory belongs to its listings.
    if file.inode().file_type != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    let from = match whence {
        Whence::Data => SeekFrom::Data(offset),
        Whence::Hole => SeekFrom::Hole(offset),
        // The offset may be negative; it crosses the neck as its 64 bits.
        Whence::End => SeekFrom::End(offset as i64),
    };
    Ok(rustix::fs::seek(&file, from)?)
}

pub(crate) fn copy_range(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    copy: &CopyRange,
) -> Result<Written> {
    session.require_writable()?;
    let from = session.handle(copy.from.node, copy.from.handle)?;
    let to = session.handle(copy.to.node, copy.to.handle)?;
    if to.flags.contains(OpenFlags::APPEND) {
        // copy_file_range(2); the descriptor itself may not know.
        return Err(Errno::EBADF);
    }
    let mut at = (copy.from.offset, copy.to.offset);
    let _guard = kill_for_user(ctx)?;
    let mut done: u64 = 0;
    let stopped = loop {
        if done >= copy.len {
            break None;
        }
        if ctx.is_cancelled() {
            break Some(Errno::EINTR);
        }
        let chunk = (copy.len - done).min(COPY_CHUNK_BYTES) as usize;
        let copied = copy_file_range(from.fd(), Some(&mut at.0), to.fd(), Some(&mut at.1), chunk);
        match copied {
            // Short at the end of the source. Asking again could find more
            // there: what this very copy has appended to the same file.
            Ok(count) if count < chunk => {
                done += count as u64;
                break None;
            }
            Ok(count) => done += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => break Some(errno.into()),
        }
    };
    match stopped {
        Some(errno) if done == 0 => Err(errno),
        // What was copied before an error is reported instead of it.
        _ => Ok(Written {
            len: done as usize,
            stamp: Stamp::NONE,
        }),
    }
}

/// Bytes that are copied before looking whether anyone still waits for it.
const COPY_CHUNK_BYTES: u64 = 16 << 20;

/// Peers don't ask for set-id bits to go with these, so the caller decides.
fn kill_for_user(ctx: &Ctx<'_>) -> Result<Option<creds::Guard>> {
    (ctx.caller.uid != 0).then(creds::drop_fsetid).transpose()
}
