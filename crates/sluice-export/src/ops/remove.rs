//! Removing and moving names.

use crate::attr::HostStat;
use crate::inode::{Inode, Node};
use crate::reach::{pin, reach};
use crate::service::ExportSession;
use rustix::fs::{AtFlags, renameat_with, unlinkat};
use sluice_vfs::{Ctx, Errno, FileType, Name, NodeId, RenameFlags, Renamed, Result, Stamp};
use std::sync::Arc;

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
    let flags = rustix::fs::RenameFlags::from_bits(flags.bits()).ok_or(Errno::EINVAL)?;
    let moved = Known::at(session, &old_dir, old_name);
    let met = Known::at(session, &new_dir, new_name);
    let is_exchange = flags.contains(rustix::fs::RenameFlags::EXCHANGE);
    let replaced = match is_exchange {
        true => None,
        false => met.as_ref().and_then(|met| met.hold(session)),
    };
    {
        // A whiteout is a node that is made.
        let _as_caller = match flags.contains(rustix::fs::RenameFlags::WHITEOUT) {
            true => session.as_maker(ctx)?,
            false => session.as_caller(ctx)?,
        };
        let (old, new) = (old_name.as_os_str(), new_name.as_os_str());
        renameat_with(old_dir.path_fd(), old, new_dir.path_fd(), new, flags)?;
    }
    if moved.as_ref().map(Known::id) == met.as_ref().map(Known::id) {
        // Two names of one inode, which both stay (rename(2)), or nothing known.
        return Ok(Renamed::default());
    }
    if let Some(replaced) = replaced {
        replaced.lose_name(session, new_parent, new_name);
    }
    if let Some(met) = met.filter(|_| is_exchange) {
        let inodes = &session.inodes;
        inodes.set_place(&met.inode, old_parent, old_name);
    }
    if let Some(moved) = moved {
        let inodes = &session.inodes;
        inodes.set_place(&moved.inode, new_parent, new_name);
    }
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
    let known = Known::at(session, &dir, name).and_then(|known| known.hold(session));
    {
        let _as_caller = session.as_caller(ctx)?;
        unlinkat(dir.path_fd(), name.as_os_str(), flags)?;
    }
    if let Some(known) = known {
        known.lose_name(session, parent, name);
    }
    Ok(Stamp::NONE)
}

/// A node that the peer knows, and that has the name which is to change.
struct Known {
    inode: Arc<Inode>,
    has_other_names: bool,
}

impl Known {
    fn at(session: &ExportSession, dir: &Node, name: Name<'_>) -> Option<Self> {
        let stat = HostStat::of_name(dir.path_fd(), name).ok()?;
        Some(Known {
            inode: session.inodes.find(&stat.identity)?,
            has_other_names: stat.file_type != FileType::Directory && stat.nlink() > 1,
        })
    }

    fn id(&self) -> NodeId {
        self.inode.id
    }

    /// Keeps it open, since it may not be found without its name.
    fn hold(&self, session: &ExportSession) -> Option<Nameless> {
        Some(Nameless {
            node: reach(session, self.inode.clone()).ok()?,
            has_other_names: self.has_other_names,
        })
    }
}

/// A node that loses a name.
struct Nameless {
    node: Node,
    has_other_names: bool,
}

impl Nameless {
    /// To be called when the name is gone. The peer may go on using the node as
    /// long as it knows it; where its session holds too many of these, it is
    /// lost (`ESTALE`) once its descriptor is.
    fn lose_name(&self, session: &ExportSession, parent: NodeId, name: Name<'_>) {
        session.inodes.clear_place(&self.node, parent, name);
        if !self.has_other_names || !self.node.can_be_found() {
            let _ = pin(session, &self.node);
        }
    }
}
