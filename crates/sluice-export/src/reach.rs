//! Reaching what a node stands for when no descriptor of it is open.
//!
//! A node is opened again by its name in the directory where it was last seen,
//! which may have to be opened first, or by its file handle. Whatever is found
//! is the node only if its identity says so; no name is followed on the way.

use crate::attr::{FULL, HostStat};
use crate::export::Host;
use crate::fd_cache::PathFd;
use crate::inode::{Inode, Node, Pin, Place};
use crate::resolve;
use crate::service::ExportSession;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::path::Arg;
use sluice_sys::FileHandle;
use sluice_vfs::{Errno, Name, NodeId, Result};
use std::sync::Arc;

/// How many directories that are not open may be above a node.
const WAY_MAX: usize = 4096;

/// The node with a descriptor. `ESTALE` if it can't be found; `ENFILE`.
pub(crate) fn reach(session: &ExportSession, inode: Arc<Inode>) -> Result<Node> {
    if let Some(fd) = inode.open_fd() {
        return Ok(Node { inode, fd });
    }
    let (mut node, way) = nearest(session, inode)?;
    for (inode, place) in way.into_iter().rev() {
        let found = by_place(node.path_fd(), &inode, &place);
        let found = found.or_else(|errno| by_handle(session, &inode).map_err(|_| errno));
        node = admit(session, inode, found?);
    }
    Ok(node)
}

/// Nodes, each in the next, and where they are there.
type Way = Vec<(Arc<Inode>, Place)>;

/// The nearest node above `inode` that has a descriptor (or gets one by its
/// handle), and what there is on the way, from `inode` up.
fn nearest(session: &ExportSession, inode: Arc<Inode>) -> Result<(Node, Way)> {
    let mut way = Vec::new();
    let mut at = inode;
    while way.len() < WAY_MAX {
        if let Some(fd) = at.open_fd() {
            return Ok((Node { inode: at, fd }, way));
        }
        let place = at.state().place.clone();
        let Some(place) = place else {
            let found = by_handle(session, &at)?;
            return Ok((admit(session, at, found), way));
        };
        let parent = session.inodes.get_parent(place.parent)?;
        way.push((at, place));
        at = parent;
    }
    Err(Errno::ESTALE)
}

fn by_place(dir: BorrowedFd<'_>, inode: &Inode, place: &Place) -> Result<OwnedFd> {
    let name = Name::new(&place.name).map_err(|_| Errno::ESTALE)?;
    let found = resolve::child(dir, name).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR => Errno::ESTALE,
        other => other,
    })?;
    verified(inode, found)
}

fn by_handle(session: &ExportSession, inode: &Inode) -> Result<OwnedFd> {
    let (Some(handle), Some(mount)) = (&inode.handle, &session.mount) else {
        return Err(Errno::ESTALE);
    };
    let found = resolve::by_handle(mount.as_fd(), handle)?;
    verified(inode, found)
}

/// `found` if it is `inode`; `ESTALE`.
fn verified(inode: &Inode, found: OwnedFd) -> Result<OwnedFd> {
    let identity = HostStat::of_fd(found.as_fd(), FULL)?.identity;
    match identity == inode.identity && identity.btime.is_some() {
        true => Ok(found),
        false => Err(Errno::ESTALE),
    }
}

/// What the node's attributes are, asked for by its name without opening it.
/// `None` if it must be opened.
pub(crate) fn stat_in_place(session: &ExportSession, inode: &Inode) -> Option<HostStat> {
    let place = inode.state().place.clone()?;
    let parent = session.inodes.get_parent(place.parent).ok()?;
    let parent = reach(session, parent).ok()?;
    let stat = HostStat::of_name(parent.path_fd(), Name::new(&place.name).ok()?).ok()?;
    let is_it = stat.identity == inode.identity && stat.identity.btime.is_some();
    is_it.then_some(stat)
}

/// The node by a descriptor that is known to be of it, which is kept for a
/// while if there is no other.
pub(crate) fn admit(session: &ExportSession, inode: Arc<Inode>, fd: OwnedFd) -> Node {
    let fd = PathFd::new(fd, inode.identity.btime);
    {
        let mut state = inode.state();
        if let Some(fd) = state.fd.upgrade() {
            drop(state);
            return Node { inode, fd };
        }
        state.fd = Arc::downgrade(&fd);
    }
    session.fds.keep(&fd);
    // It may have been forgotten before the descriptor was there to be closed.
    if inode.state().is_forgotten {
        session.fds.drop_fd(&fd);
    }
    Node { inode, fd }
}

/// Keeps the node's descriptor as long as the node is known, since it could not
/// be found again. `ENFILE` if the session holds too many.
pub(crate) fn pin(session: &ExportSession, node: &Node) -> Result<()> {
    if node.id == NodeId::ROOT || node.state().pin.is_some() {
        return Ok(());
    }
    let pin = Pin {
        fd: node.fd.clone(),
        _held: Some(session.share.hold(1)?),
    };
    session.fds.drop_fd(&node.fd);
    let mut state = node.state();
    if !state.is_forgotten {
        state.pin = Some(pin);
    }
    Ok(())
}

/// The file handle of what `name` is in `dir` (of `dir` itself if the name is
/// empty), which `stat` tells of. None where it would be of no use. The name
/// may have come to mean something else since; who opens by the handle looks.
pub(crate) fn handle_at(
    session: &ExportSession,
    stat: &HostStat,
    dir: BorrowedFd<'_>,
    name: impl Arg,
) -> Option<FileHandle> {
    let is_on_mount = stat.identity.key.mount_id == session.host.root_key.mount_id;
    let is_of_use = is_on_mount && session.mount.is_some() && stat.identity.btime.is_some();
    is_of_use.then(|| FileHandle::of(dir, name).ok()).flatten()
}

/// What handles on the root's mount are opened by, if this process may do that
/// and the file system can.
pub(crate) fn mount_for_handles(host: &Host) -> Result<OwnedFd> {
    let root = FileHandle::of(host.root.as_fd(), "")?;
    let mount = host.descriptors.open_dir(&host.root)?;
    resolve::by_handle(mount.as_fd(), &root)?;
    Ok(mount)
}
