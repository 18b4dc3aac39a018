//! Extended attributes. The kernel takes none by an `O_PATH` descriptor, so
//! they are reached through the descriptor's name, whatever kind of node it is.

use super::attr::clear_sgid;
use crate::export::Host;
use crate::inode::Node;
use crate::resolve::Descriptors;
use crate::service::ExportSession;
use rustix::fd::{AsFd, BorrowedFd};
use sluice_sys::{XattrSet, getxattr_at, listxattr_at, removexattr_at, setxattr_at};
use sluice_vfs::{
    Ctx, Errno, NodeId, ReadSink, Result, SecurityLabel, Stamp, XATTR_LIST_MAX, XATTR_VALUE_MAX,
    XattrFlags, XattrName,
};
use std::ffi::CStr;

pub(crate) fn get(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    name: XattrName<'_>,
    sink: Option<&mut dyn ReadSink>,
) -> Result<usize> {
    let inode = session.inode(node)?;
    let _as_caller = session.as_caller(ctx)?;
    by_name(session, &inode, |dir, path| {
        fetch(sink, XATTR_VALUE_MAX, |buf| {
            getxattr_at(dir, path, name, buf)
        })
    })
}

pub(crate) fn list(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    sink: Option<&mut dyn ReadSink>,
) -> Result<usize> {
    let inode = session.inode(node)?;
    let _as_caller = session.as_caller(ctx)?;
    by_name(session, &inode, |dir, path| {
        fetch(sink, XATTR_LIST_MAX, |buf| listxattr_at(dir, path, buf))
    })
}

pub(crate) fn set(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    name: XattrName<'_>,
    value: &[u8],
    flags: XattrFlags,
) -> Result<Stamp> {
    session.require_writable()?;
    let inode = session.inode(node)?;
    let condition = XattrSet::from_bits_truncate(flags.bits());
    let _as_caller = session.as_caller(ctx)?;
    by_name(session, &inode, |dir, path| {
        setxattr_at(dir, path, name, value, condition)
    })?;
    if flags.contains(XattrFlags::KILL_SGID) {
        clear_sgid(session, &inode)?;
    }
    Ok(Stamp::NONE)
}

pub(crate) fn remove(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    name: XattrName<'_>,
) -> Result<Stamp> {
    session.require_writable()?;
    let inode = session.inode(node)?;
    let _as_caller = session.as_caller(ctx)?;
    by_name(session, &inode, |dir, path| removexattr_at(dir, path, name))?;
    Ok(Stamp::NONE)
}

/// Sets the label of a node that was just made, as the daemon itself: a caller
/// may not be allowed to change what it may be born with.
pub(crate) fn set_label(
    session: &ExportSession,
    node: &Node,
    label: &SecurityLabel<'_>,
) -> Result<()> {
    by_name(session, node, |dir, path| {
        setxattr_at(dir, path, label.name, label.value, XattrSet::empty())
    })
}

/// Whether the root's file system has POSIX ACLs.
pub(crate) fn supports_acl(host: &Host) -> bool {
    let Ok(name) = XattrName::new(b"system.posix_acl_access") else {
        return false;
    };
    let root = Descriptors::name(&host.root);
    let length = getxattr_at(host.descriptors.dir(), root.as_c_str(), name, &mut []);
    !matches!(length, Err(Errno::EOPNOTSUPP))
}

fn by_name<T>(
    session: &ExportSession,
    inode: &Node,
    call: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<T>,
) -> Result<T> {
    let fd = inode.path_fd();
    let name = Descriptors::name(&fd.as_fd());
    call(session.host.descriptors.dir(), name.as_c_str())
}

/// Moves what `call` puts into a buffer into the sink. An empty buffer makes
/// the kernel tell the length only.
fn fetch(
    sink: Option<&mut dyn ReadSink>,
    max: usize,
    call: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let Some(sink) = sink else {
        return call(&mut []);
    };
    let room = sink.remaining().min(max);
    if room == 0 {
        return match call(&mut [])? {
            0 => Ok(0),
            _ => Err(Errno::ERANGE),
        };
    }
    let mut buf = vec![0; room];
    let len = call(&mut buf)?;
    sink.put(buf.get(..len).ok_or(Errno::EIO)?)?;
    Ok(len)
}
