//! Content of files.

use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::serve::exchange::Exchange;
use crate::fuse::wire::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, FsyncFlags, FsyncIn, InitFlags, IoctlIn,
    IoctlOut, LseekIn, LseekOut, ReadFlags, ReadIn, WriteFlags, WriteIn, WriteOut,
};
use sluice_vfs::{
    CopyRange, CopySide, Errno, FallocateMode, FileIoctl, FileIoctlReply, Fsx, HandleId, NodeId,
    ReadSink, Result, Whence, WriteArgs, Written,
};

pub(in super::super) fn read(
    call: &Call<'_>,
    args: &ReadIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let len = args.size as usize;
    // A shorter read would look like the end of the file.
    if len > sink.remaining() {
        return Err(Errno::EINVAL);
    }
    check_range(args.offset, u64::from(args.size))?;
    let ctx = match args.read_flags.contains(ReadFlags::LOCKOWNER) {
        true => call.ctx_of(args.lock_owner),
        false => call.ctx(),
    };
    let handle = call.file_handle(args.fh);
    call.session()
        .read(&ctx, call.node, handle, args.offset, len, sink)?;
    Ok(())
}

pub(in super::super) fn write(
    call: &Call<'_>,
    args: &WriteIn,
    exchange: &mut dyn Exchange,
) -> Result<()> {
    check_range(args.offset, u64::from(args.size))?;
    let ctx = match args.write_flags.contains(WriteFlags::LOCKOWNER) {
        true => call.ctx_of(args.lock_owner),
        false => call.ctx(),
    };
    let how = WriteArgs {
        offset: args.offset,
        kill_suidgid: args.write_flags.contains(WriteFlags::KILL_SUIDGID),
        is_writeback: args.write_flags.contains(WriteFlags::CACHE),
    };
    let handle = call.file_handle(args.fh);
    let written = call
        .session()
        .write(&ctx, call.node, handle, &how, exchange.source())?;
    put(exchange.sink(), &write_out(&written))
}

pub(in super::super) fn fsync(call: &Call<'_>, args: &FsyncIn) -> Result<()> {
    call.session().fsync(
        &call.ctx(),
        call.node,
        call.file_handle(args.fh),
        args.fsync_flags.contains(FsyncFlags::FDATASYNC),
    )
}

pub(in super::super) fn syncfs(call: &Call<'_>) -> Result<()> {
    call.session().syncfs(&call.ctx(), call.node)
}

pub(in super::super) fn fallocate(call: &Call<'_>, args: &FallocateIn) -> Result<()> {
    let mode = FallocateMode::from_bits(args.mode).ok_or(Errno::EOPNOTSUPP)?;
    let end = check_range(args.offset, args.length)?;
    call.session().fallocate(
        &call.ctx(),
        call.node,
        call.file_handle(args.fh),
        mode,
        args.offset..end,
    )?;
    Ok(())
}

/// A kernel that collects writes asks without sending them first: what it has not
/// written yet would be a hole, and be lost to whoever copies. Told that nobody
/// searches here, it takes a file for data as far as its own idea of the size.
pub(in super::super) fn lseek(
    call: &Call<'_>,
    args: &LseekIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    if call.negotiated().has(InitFlags::WRITEBACK_CACHE) {
        return Err(Errno::ENOSYS);
    }
    let whence = match args.whence {
        2 => Whence::End,  // SEEK_END
        3 => Whence::Data, // SEEK_DATA
        4 => Whence::Hole, // SEEK_HOLE
        _ => return Err(Errno::EINVAL),
    };
    let handle = call.file_handle(args.fh);
    let offset = call
        .session()
        .lseek(&call.ctx(), call.node, handle, args.offset, whence)?;
    put(sink, &LseekOut { offset })
}

/// The reply counts in 32 bits; Linux asks for no more than it can hold.
pub(in super::super) fn copy_file_range(
    call: &Call<'_>,
    args: &CopyFileRangeIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let len = args.len.min(u64::from(u32::MAX));
    let written = copy(call, &CopyFileRangeIn { len, ..*args })?;
    put(sink, &write_out(&written))
}

pub(in super::super) fn copy_file_range_64(
    call: &Call<'_>,
    args: &CopyFileRangeIn,
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let written = copy(call, args)?;
    put(
        sink,
        &CopyFileRangeOut {
            bytes_copied: written.len as u64,
        },
    )
}

/// Only requests that mean the same on any file are known: a server can't tell
/// what another one's argument points to.
pub(in super::super) fn ioctl(
    call: &Call<'_>,
    args: &IoctlIn,
    data: &[u8],
    sink: &mut dyn ReadSink,
) -> Result<()> {
    let request = ioctl_request(args.cmd, data)?;
    let handle = call.file_handle(args.fh);
    let reply = call
        .session()
        .ioctl(&call.ctx(), call.node, handle, &request)?;
    put(sink, &IoctlOut::default())?;
    match reply {
        FileIoctlReply::Done => Ok(()),
        FileIoctlReply::Flags(flags) => put_sized(sink, args.out_size, &flags.to_ne_bytes()),
        FileIoctlReply::Fsx(fsx) => put_sized(sink, args.out_size, &encode_fsx(&fsx)),
    }
}

/// End of a range that a file could have.
fn check_range(offset: u64, len: u64) -> Result<u64> {
    offset
        .checked_add(len)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or(Errno::EINVAL)
}

fn write_out(written: &Written) -> WriteOut {
    WriteOut {
        size: written.len as u32,
        padding: 0,
    }
}

/// It takes two handles; without them Linux copies through its cache.
fn copy(call: &Call<'_>, args: &CopyFileRangeIn) -> Result<Written> {
    if call.negotiated().is_without_open {
        return Err(Errno::ENOSYS);
    }
    if args.flags != 0 {
        return Err(Errno::EINVAL);
    }
    check_range(args.off_in, args.len)?;
    check_range(args.off_out, args.len)?;
    let copy = CopyRange {
        from: CopySide {
            node: call.node,
            handle: HandleId(args.fh_in),
            offset: args.off_in,
        },
        to: CopySide {
            node: NodeId(args.nodeid_out),
            handle: HandleId(args.fh_out),
            offset: args.off_out,
        },
        len: args.len,
    };
    call.session().copy_range(&call.ctx(), &copy)
}

/// Bytes of `struct fsxattr` of linux/fs.h.
const FSX_LEN: usize = 28;

/// Request numbers of linux/fs.h, in their 64-bit and 32-bit forms.
fn ioctl_request(cmd: u32, data: &[u8]) -> Result<FileIoctl> {
    match cmd {
        0x8008_6601 | 0x8004_6601 => Ok(FileIoctl::GetFlags),
        0x4008_6602 | 0x4004_6602 => Ok(FileIoctl::SetFlags(word(data, 0)?)),
        0x801c_581f => Ok(FileIoctl::GetFsx),
        0x401c_5820 => Ok(FileIoctl::SetFsx(Fsx {
            xflags: word(data, 0)?,
            extent_size: word(data, 1)?,
            extents: word(data, 2)?,
            project_id: word(data, 3)?,
            cow_extent_size: word(data, 4)?,
        })),
        _ => Err(Errno::ENOTTY),
    }
}

fn encode_fsx(fsx: &Fsx) -> [u8; FSX_LEN] {
    let mut out = [0; FSX_LEN];
    let words = [
        fsx.xflags,
        fsx.extent_size,
        fsx.extents,
        fsx.project_id,
        fsx.cow_extent_size,
    ];
    for (room, word) in out.chunks_exact_mut(4).zip(words) {
        room.copy_from_slice(&word.to_ne_bytes());
    }
    out
}

fn word(data: &[u8], index: usize) -> Result<u32> {
    data.chunks_exact(4)
        .nth(index)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u32::from_ne_bytes)
        .ok_or(Errno::EINVAL)
}

/// What the peer has room for of a result.
fn put_sized(sink: &mut dyn ReadSink, room: u32, bytes: &[u8]) -> Result<()> {
    if bytes.len() > room as usize {
        return Err(Errno::EINVAL);
    }
    sink.put(bytes)
}
