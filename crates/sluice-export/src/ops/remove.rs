//! Removing and moving names.

use crate::service::ExportSession;
use rustix::fs::{AtFlags, renameat_with, unlinkat};
use sluice_vfs::{Ctx, Errno, Name, NodeId, RenameFlags, Renamed, Result, Stamp};

pub(crate) fn unlink(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
) -> Result<Stamp> {
    remove(session, ctx, parent, name, AtFlags::empty())
}

pub(crate) fn rmdir(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
) -> Result<Stamp> {
    remove(session, ctx, parent, name, AtFlags::REMOVEDIR)
}

pub(crate) fn rename(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (old_parent, old_name): (NodeId, Name<'_>),
    (new_parent, new_name): (NodeId, Name<'_>),
    flags: RenameFlags,
) -> Result<Renamed> {
    session.require_writable()?;
    let (old_dir, new_dir) = (session.inode(old_parent)?, session.inode(new_parent)?);
    let (old_fd, new_fd) = (old_dir.path_fd()?, new_dir.path_fd()?);
    let flags = rustix::fs::RenameFlags::from_bits(flags.bits()).ok_or(Errno::EINVAL)?;
    // A whiteout is a node that is made.
    let _as_caller = match flags.contains(rustix::fs::RenameFlags::WHITEOUT) {
        true => session.as_maker(ctx)?,
        false => session.as_caller(ctx)?,
    };
    let (old, new) = (old_name.as_os_str(), new_name.as_os_str());
    renameat_with(&old_fd, old, &new_fd, new, flags)?;
    Ok(Renamed::default())
}

fn remove(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
    flags: AtFlags,
) -> Result<Stamp> {
    session.require_writable()?;
    let dir = session.inode(parent)?;
    let dir_fd = dir.path_fd()?;
    let _as_caller = session.as_caller(ctx)?;
    unlinkat(&dir_fd, name.as_os_str(), flags)?;
    Ok(Stamp::NONE)
}
