//! From names to nodes.

use crate::attr::{FULL, HostStat};
use crate::inode_table::Inode;
use crate::resolve;
use crate::service::ExportSession;
use rustix::fd::{AsFd, OwnedFd};
use sluice_vfs::{
    AttrMask, Ctx, Entry, Errno, FileType, Lookup, Name, NodeId, Result, Stamp, Stat,
};

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
/// One system call where the inode is known already.
pub(crate) fn find(session: &ExportSession, dir: &Inode, name: Name<'_>) -> Result<Entry> {
    let dir_fd = dir.path_fd()?;
    let epoch = session.inodes.epoch();
    let stat = HostStat::of_name(dir_fd.as_fd(), name)?;
    match session.inodes.acquire(&stat.key, epoch) {
        Some(inode) => Ok(entry_of(session, &inode, &stat)),
        None => adopt(session, resolve::child(dir_fd.as_fd(), name)?),
    }
}

/// Takes a reference to what `fd` holds, whatever that has come to be.
pub(crate) fn adopt(session: &ExportSession, fd: OwnedFd) -> Result<Entry> {
    let stat = HostStat::of_fd(fd.as_fd(), FULL)?;
    let inode = session.inodes.insert(stat.key, stat.file_type, fd)?;
    Ok(entry_of(session, &inode, &stat))
}

/// Takes another reference to a node that is known.
pub(crate) fn remember(session: &ExportSession, node: NodeId) -> Result<Entry> {
    let inode = session.inode(node)?;
    let stat = HostStat::of_fd(inode.path_fd()?.as_fd(), FULL)?;
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
    let above = resolve::parent(inode.path_fd()?.as_fd())?;
    require_inside(session, &above)?;
    adopt(session, above)
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
        if session.inodes.knows(&stat.key) {
            return Ok(());
        }
        let at = above.as_ref().unwrap_or(dir);
        let next = resolve::parent(at.as_fd())?;
        let next_stat = HostStat::of_fd(next.as_fd(), FULL)?;
        if next_stat.key == stat.key {
            return Err(Errno::ESTALE);
        }
        (above, stat) = (Some(next), next_stat);
    }
    Err(Errno::ESTALE)
}

/// At least the attributes in `mask`.
pub(crate) fn stat_of(session: &ExportSession, inode: &Inode, mask: AttrMask) -> Result<Stat> {
    let stat = HostStat::of_fd(inode.path_fd()?.as_fd(), mask)?;
    Ok(Stat {
        attr: stat.to_attr(&session.host),
        stamp: Stamp::NONE,
    })
}

fn entry_of(session: &ExportSession, inode: &Inode, stat: &HostStat) -> Entry {
    Entry {
        node: inode.id,
        attr: stat.to_attr(&session.host),
        stamp: Stamp::NONE,
        dir_stamp: Stamp::NONE,
    }
}
