//! From names to nodes.

use crate::attr::{FULL, HostStat};
use crate::inode::{Inode, Node};
use crate::reach;
use crate::resolve;
use crate::service::ExportSession;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sluice_sys::stamping_time;
use sluice_vfs::{
    AttrMask, Ctx, Entry, Errno, FileType, Lookup, Name, NodeId, Result, Stamp, Stat,
};
use std::sync::Arc;

pub(crate) fn lookup(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    parent: NodeId,
    name: Name<'_>,
) -> Result<Lookup> {
    let dir = session.inode(parent)?;
    let _as_caller = session.as_caller(ctx)?;
    match find(session, &dir, name) {
        Ok(entry) => Ok(Lookup::Found(entry)),
        Err(Errno::ENOENT) => Ok(Lookup::Missing {
            dir_stamp: Stamp::NONE,
        }),
        Err(errno) => Err(errno),
    }
}

/// Takes a reference to what `name` is in `dir`; `ENOENT`.
///
/// One system call, or two where the inode is new and gets a file handle.
/// Nothing is opened unless the inode is too young to be told by its numbers
/// and its time of birth, or has none.
pub(crate) fn find(session: &ExportSession, dir: &Node, name: Name<'_>) -> Result<Entry> {
    find_in(session, (dir.id, dir.path_fd()), name)
}

/// The same, in a directory that has another descriptor.
pub(crate) fn find_in(
    session: &ExportSession,
    (dir, dir_fd): (NodeId, BorrowedFd<'_>),
    name: Name<'_>,
) -> Result<Entry> {
    let now = stamping_time();
    let stat = HostStat::of_name(dir_fd, name)?;
    if !stat.is_settled(now) {
        let found = resolve::child(dir_fd, name)?;
        return Ok(adopt(session, found, Some((dir, name)))?.0);
    }
    let inode = match session.inodes.acquire(&stat.identity) {
        Some(known) => known,
        None => {
            let handle = reach::handle_at(session, &stat, dir_fd, name.as_os_str());
            let inodes = &session.inodes;
            inodes.insert(stat.identity, stat.file_type, handle)?
        }
    };
    session.inodes.set_place(&inode, dir, name);
    Ok(entry_of(session, &inode, &stat))
}

/// Takes a reference to what `fd` holds, whatever that has come to be; `place`
/// is where it was found. The descriptor comes along, as long as it is needed.
pub(crate) fn adopt(
    session: &ExportSession,
    fd: OwnedFd,
    place: Option<(NodeId, Name<'_>)>,
) -> Result<(Entry, Node)> {
    let stat = HostStat::of_fd(fd.as_fd(), FULL)?;
    let inode = match session.inodes.acquire(&stat.identity) {
        Some(known) => known,
        None => {
            let handle = reach::handle_at(session, &stat, fd.as_fd(), "");
            let inodes = &session.inodes;
            inodes.insert(stat.identity, stat.file_type, handle)?
        }
    };
    let node = reach::admit(session, inode, fd);
    if let Some((dir, name)) = place {
        session.inodes.set_place(&node, dir, name);
    }
    if stat.nlink() == 0 || !node.can_be_found() {
        reach::pin(session, &node).inspect_err(|_| session.inodes.forget(node.id, 1))?;
    }
    Ok((entry_of(session, &node, &stat), node))
}

/// Takes another reference to a node that is known.
pub(crate) fn remember(session: &ExportSession, node: NodeId) -> Result<Entry> {
    let inode = session.inodes.get(node)?;
    let stat = read_stat(session, inode.clone(), FULL)?;
    session.inodes.reference(&inode)?;
    Ok(entry_of(session, &inode, &stat))
}

pub(crate) fn parent(session: &ExportSession, ctx: &Ctx<'_>, node: NodeId) -> Result<Entry> {
    let inode = session.inode(node)?;
    if inode.file_type != FileType::Directory {
        return Err(Errno::ENOTDIR);
    }
    if node == NodeId::ROOT {
        return remember(session, node);
    }
    let _as_caller = session.as_caller(ctx)?;
    let above = resolve::parent(inode.path_fd().as_fd())?;
    require_inside(session, &above)?;
    Ok(adopt(session, above, None)?.0)
}

/// How many directories deep a tree may be for [`parent`] to work there.
const MAX_DEPTH: usize = 4096;

/// `ESTALE` unless `dir` is below the root or the root: the host may have moved
/// a directory that the peer knows out of the tree, and `..` would lead on from
/// there. What the session knows already is no discovery.
fn require_inside(session: &ExportSession, dir: &OwnedFd) -> Result<()> {
    let mut stat = HostStat::of_fd(dir.as_fd(), FULL)?;
    let mut above: Option<OwnedFd> = None;
    for _ in 0..MAX_DEPTH {
        if session.inodes.find(&stat.identity).is_some() {
            return Ok(());
        }
        let at = above.as_ref().unwrap_or(dir);
        let next = resolve::parent(at.as_fd())?;
        let next_stat = HostStat::of_fd(next.as_fd(), FULL)?;
        if next_stat.identity == stat.identity {
            return Err(Errno::ESTALE);
        }
        (above, stat) = (Some(next), next_stat);
    }
    Err(Errno::ESTALE)
}

/// At least the attributes in `mask`.
pub(crate) fn stat_of(session: &ExportSession, inode: Arc<Inode>, mask: AttrMask) -> Result<Stat> {
    let stat = read_stat(session, inode.clone(), mask)?;
    inode.tell_size(stat.size());
    Ok(Stat {
        attr: stat.to_attr(&session.host),
        stamp: Stamp::NONE,
    })
}

/// One system call, if the node can still be reached without opening it. One that is
/// asked about again and again is opened all the same.
fn read_stat(session: &ExportSession, inode: Arc<Inode>, mask: AttrMask) -> Result<HostStat> {
    if let Some(fd) = inode.open_fd() {
        return HostStat::of_fd(fd.as_fd(), mask);
    }
    if inode.is_asked_often()
        && let Ok(node) = reach::reach(session, inode.clone())
    {
        return HostStat::of_fd(node.path_fd(), mask);
    }
    if let Some(stat) = reach::stat_in_place(session, &inode) {
        return Ok(stat);
    }
    HostStat::of_fd(reach::reach(session, inode)?.path_fd(), mask)
}

fn entry_of(session: &ExportSession, inode: &Inode, stat: &HostStat) -> Entry {
    inode.tell_size(stat.size());
    Entry {
        node: inode.id,
        attr: stat.to_attr(&session.host),
        stamp: Stamp::NONE,
        dir_stamp: Stamp::NONE,
    }
}
