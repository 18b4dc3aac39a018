//! Content of files, and of values that are read and written like files.

use super::check_range;
use super::dirs;
use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::exchange::Exchange;
use crate::p9::serve::fids::{Fid, FidState, XattrWrite};
use crate::p9::wire::{Payload, Reply, Trailing};
use sluice_vfs::{Errno, ReadSink, Result, WriteArgs, WriteSource};
use std::sync::PoisonError;

/// A count beyond what a reply can carry is cut, not refused.
pub(in super::super) fn read(
    call: &Call<'_>,
    fid: u32,
    offset: u64,
    count: u32,
    exchange: &mut dyn Exchange,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let sink = exchange.sink();
    let room = (count as usize)
        .min(call.connection.payload_max())
        .min(sink.remaining());
    let len = match &fid.state {
        FidState::Open(_) if !fid.node.is_dir() => read_file(&fid, offset, room, sink)?,
        FidState::Open(_) if call.connection.dialect.is_linux() => {
            return Err(Errno::EISDIR);
        }
        FidState::Open(open) => dirs::read_stats(call, &fid, open, offset, room, sink)?,
        FidState::XattrRead(xattr) => read_value(&xattr.value, offset, room, sink)?,
        FidState::Path | FidState::XattrWrite(_) => return Err(Errno::EBADF),
    };
    answer.set(&Reply::Read {
        data: Payload { len },
    })
}

pub(in super::super) fn write(
    call: &Call<'_>,
    fid: u32,
    offset: u64,
    exchange: &mut dyn Exchange,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let source = exchange.source();
    let len = match &fid.state {
        FidState::Open(_) => write_file(&fid, offset, source)?,
        FidState::XattrWrite(xattr) => write_value(xattr, offset, source)?,
        FidState::Path | FidState::XattrRead(_) => return Err(Errno::EBADF),
    };
    let count = u32::try_from(len).map_err(|_| Errno::EIO)?;
    answer.set(&Reply::Write { count })
}

pub(in super::super) fn fsync(
    call: &Call<'_>,
    fid: u32,
    datasync: Trailing,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let handle = Some(fid.require_open()?.handle);
    fid.session().fsync(
        &fid.ctx(),
        fid.node.node,
        handle,
        datasync.0.is_some_and(|flag| flag != 0),
    )?;
    answer.set(&Reply::Fsync {})
}

fn read_file(fid: &Fid, offset: u64, room: usize, sink: &mut dyn ReadSink) -> Result<usize> {
    check_range(offset, room as u64)?;
    let before = sink.remaining();
    let (ctx, node, handle) = (fid.ctx(), fid.node.node, fid.handle());
    let len = fid.session().read(&ctx, node, handle, offset, room, sink)?;
    // The reply must not promise more than there is.
    Ok(len.min(before.saturating_sub(sink.remaining())))
}

fn read_value(value: &[u8], offset: u64, room: usize, sink: &mut dyn ReadSink) -> Result<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = value.get(start..).unwrap_or_default();
    let bytes = rest.get(..room.min(rest.len())).unwrap_or_default();
    sink.put(bytes)?;
    Ok(bytes.len())
}

fn write_file(fid: &Fid, offset: u64, source: &mut dyn WriteSource) -> Result<usize> {
    if fid.node.is_dir() {
        return Err(Errno::EISDIR);
    }
    check_range(offset, source.remaining() as u64)?;
    let args = WriteArgs {
        offset,
        ..WriteArgs::default()
    };
    let written = fid
        .session()
        .write(&fid.ctx(), fid.node.node, fid.handle(), &args, source)?;
    Ok(written.len)
}

/// Pieces may come in any order, within the size that was announced.
fn write_value(xattr: &XattrWrite, offset: u64, source: &mut dyn WriteSource) -> Result<usize> {
    let len = source.remaining();
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = start.checked_add(len).filter(|end| *end <= xattr.size);
    let end = end.ok_or(Errno::EINVAL)?;
    let mut value = xattr.value.lock().unwrap_or_else(PoisonError::into_inner);
    if value.bytes.len() < end {
        value.bytes.resize(end, 0);
    }
    let room = value.bytes.get_mut(start..end).ok_or(Errno::EIO)?;
    source.take(room)?;
    value.count = value.count.saturating_add(len);
    Ok(len)
}
