//! Opening and closing.

use super::attr::check_access;
use super::lookup::{adopt, stat_of};
use crate::attr::FULL;
use crate::handle_table::Handle;
use crate::inode::Node;
use crate::ops::lock;
use crate::resolve;
use crate::service::ExportSession;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use sluice_vfs::{
    Access, AccessChecks, Created, Ctx, Entry, Errno, FileType, HandleId, Name, NodeId, OpenFlags,
    OpenHints, Opened, Release, Result, Stamp,
};

pub(crate) fn open(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    flags: OpenFlags,
) -> Result<Opened> {
    let inode = session.inode(node)?;
    open_inode(session, ctx, inode, flags)
}

pub(crate) fn lookup_open(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    flags: OpenFlags,
) -> Result<Created> {
    let dir = session.inode(parent)?;
    let (mut entry, inode) = {
        let _as_caller = session.as_caller(ctx)?;
        // Held from here on, so that it is what is opened.
        let found = resolve::child(dir.path_fd(), name)?;
        adopt(session, found, Some((parent, name)))?
    };
    let opened = open_found(session, ctx, &mut entry, inode, flags)
        .inspect_err(|_| session.inodes.forget(entry.node, 1))?;
    Ok(Created {
        entry,
        opened,
        is_new: false,
    })
}

fn open_found(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    entry: &mut Entry,
    inode: Node,
    flags: OpenFlags,
) -> Result<Opened> {
    let opened = open_inode(session, ctx, inode.clone(), flags)?;
    if flags.contains(OpenFlags::TRUNCATE) {
        // What was looked up is no longer so.
        let stat = stat_of(session, inode.inode, FULL);
        let stat = stat.inspect_err(|_| {
            let _ = session.handles.remove(opened.handle, entry.node);
        });
        entry.attr = stat?.attr;
    }
    Ok(opened)
}

fn open_inode(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    inode: Node,
    flags: OpenFlags,
) -> Result<Opened> {
    if flags.contains(OpenFlags::DIRECTORY) && inode.file_type != FileType::Directory {
        return Err(match inode.file_type {
            FileType::Symlink => Errno::ELOOP,
            _ => Errno::ENOTDIR,
        });
    }
    if flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE) {
        if inode.file_type == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        session.require_writable()?;
    }
    let room = session.handles.reserve()?;
    let fd = open_fd(session, ctx, &inode, flags)?;
    let handle = room.fill(Handle::new(inode, flags, fd))?;
    Ok(opened(handle))
}

/// A handle as peers see it.
pub(crate) fn opened(handle: HandleId) -> Opened {
    Opened {
        handle,
        hints: OpenHints::NO_FLUSH,
        stamp: Stamp::NONE,
    }
}

fn open_fd(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    inode: &Node,
    flags: OpenFlags,
) -> Result<OwnedFd> {
    let is_to_execute = flags.contains(OpenFlags::EXEC) && !flags.contains(OpenFlags::WRITE);
    if is_to_execute && session.checks == AccessChecks::Service {
        // Who may execute a file need not be allowed to read it; the peer's
        // kernel is.
        let _as_caller = session.as_caller(ctx)?;
        check_access(session, inode, Access::EXEC)?;
    }
    let _as_changer = match is_to_execute {
        true => None,
        false => session.as_changer(ctx, flags.contains(OpenFlags::KILL_SUIDGID))?,
    };
    let wanted = host_flags(session, flags);
    with_fallbacks(session, flags, wanted, |flags| {
        session.host.descriptors.reopen(inode, flags)
    })
}

/// The kernel's flags for what a peer asks for.
pub(crate) fn host_flags(session: &ExportSession, flags: OpenFlags) -> OFlags {
    let writeback = session.host.options.writeback;
    let is_read = flags.intersects(OpenFlags::READ | OpenFlags::EXEC);
    let mut out = match flags.contains(OpenFlags::WRITE) {
        true if is_read || writeback => OFlags::RDWR,
        true => OFlags::WRONLY,
        false => OFlags::RDONLY,
    };
    // No `O_APPEND`: each write says whether it is to append, since a peer's
    // kernel may flush dirty pages, which have their place, through any handle.
    out.set(OFlags::TRUNC, flags.contains(OpenFlags::TRUNCATE));
    out.set(OFlags::DIRECTORY, flags.contains(OpenFlags::DIRECTORY));
    out.set(OFlags::DIRECT, flags.contains(OpenFlags::DIRECT));
    out.set(OFlags::SYNC, flags.contains(OpenFlags::SYNC));
    out.set(
        OFlags::DSYNC,
        flags.contains(OpenFlags::DSYNC) || out.contains(OFlags::SYNC),
    );
    out.set(OFlags::NOATIME, flags.contains(OpenFlags::NOATIME));
    out
}

/// Opens with `wanted`, and otherwise where that is refused though what the
/// peer asked for may be had.
pub(crate) fn with_fallbacks(
    session: &ExportSession,
    flags: OpenFlags,
    mut wanted: OFlags,
    open: impl Fn(OFlags) -> Result<OwnedFd>,
) -> Result<OwnedFd> {
    let mut outcome = open(wanted);
    if is(&outcome, Errno::EPERM) && flags.contains(OpenFlags::APPEND) {
        // Files that can only be appended to (chattr +a) insist on it.
        wanted.insert(OFlags::APPEND);
        outcome = open(wanted);
    }
    let keeps_noatime = session.host.options.preserve_noatime;
    if is(&outcome, Errno::EPERM) && flags.contains(OpenFlags::NOATIME) && !keeps_noatime {
        // Only the owner may ask for it; reading works for others too.
        wanted.remove(OFlags::NOATIME);
        outcome = open(wanted);
    }
    let is_widened = session.host.options.writeback && !flags.contains(OpenFlags::READ);
    if is(&outcome, Errno::EACCES) && is_widened && wanted.contains(OFlags::RDWR) {
        wanted.remove(OFlags::RDWR);
        outcome = open(wanted | OFlags::WRONLY);
    }
    outcome
}

fn is(outcome: &Result<OwnedFd>, errno: Errno) -> bool {
    outcome.as_ref().is_err_and(|found| *found == errno)
}

pub(crate) fn flush(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    handle: HandleId,
) -> Result<()> {
    let handle = session.handle(node, handle)?;
    lock::drop_posix_locks(session, ctx, &handle);
    close_copy(&handle)
}

pub(crate) fn release(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    handle: HandleId,
    how: &Release,
) -> Result<()> {
    let id = handle;
    let handle = session.handles.remove(id, node)?;
    session.locks.drop_handle(node, id);
    if how.flush {
        lock::drop_posix_locks(session, ctx, &handle);
        return close_copy(&handle);
    }
    Ok(())
}

/// Reports what a file system has to say when a file is closed, such as that
/// what was written could not be stored (NFS).
fn close_copy(handle: &Handle) -> Result<()> {
    if !handle.flags.contains(OpenFlags::WRITE) {
        return Ok(());
    }
    match rustix::io::fcntl_dupfd_cloexec(handle.fd(), 0) {
        Ok(copy) => sluice_sys::close(copy),
        // Out of descriptors: what close(2) would wait for, fsync(2) does.
        Err(_) => Ok(rustix::fs::fdatasync(handle.fd())?),
    }
}
