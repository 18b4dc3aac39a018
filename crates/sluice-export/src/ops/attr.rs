//! Attributes of nodes and file systems.

use super::lookup::stat_of;
use crate::attr::HostStat;
use crate::inode::Node;
use crate::resolve::Descriptors;
use crate::service::ExportSession;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};
use rustix::fs::{accessat, chmodat, chownat, fstatfs, fstatvfs, ftruncate, utimensat};
use rustix::process::{Gid, Uid};
use sluice_vfs::{
    Access, AttrMask, Ctx, Errno, FileType, HandleId, NodeId, OpenFlags, ReadSink, Result,
    SYMLINK_TARGET_MAX, SetAttr, SetTime, Stamp, Stat, StatFs, UnixMode,
};
use std::mem::MaybeUninit;

pub(crate) fn getattr(
    session: &ExportSession,
    node: NodeId,
    handle: Option<HandleId>,
    mask: AttrMask,
) -> Result<Stat> {
    let inode = match handle {
        Some(handle) => session.handle(node, handle)?.inode.inode.clone(),
        None => session.inodes.get(node)?,
    };
    stat_of(session, inode, mask)
}

/// Size first, since it needs the file as it is; then the owner, whose change
/// takes set-id bits away that the new mode may bring back; times last, since
/// all else moves them.
pub(crate) fn setattr(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    handle: Option<HandleId>,
    changes: &SetAttr,
) -> Result<Stat> {
    session.require_writable()?;
    let inode = session.inode_of(node, handle)?;
    let options = &session.host.options;
    let uid = changes
        .uid
        .map(|id| options.uid_map.to_host(id))
        .transpose()?;
    let gid = changes
        .gid
        .map(|id| options.gid_map.to_host(id))
        .transpose()?;
    let times = times_of(changes)?;
    if changes.perm.is_some() && inode.file_type == FileType::Symlink {
        // Before anything is changed that was asked for with it.
        return Err(Errno::EOPNOTSUPP);
    }
    if let Some(size) = changes.size {
        set_size(session, ctx, (&inode, handle), size, changes.kill_suidgid)?;
    }
    {
        let _as_caller = session.as_caller(ctx)?;
        if uid.is_some() || gid.is_some() {
            set_owner(&inode, uid, gid)?;
        } else if changes.kill_suidgid && changes.size.is_none() && changes.perm.is_none() {
            clear_suidgid(session, &inode)?;
        }
        if let Some(perm) = changes.perm {
            set_perm(session, &inode, perm)?;
        }
        if let Some(times) = times {
            utimensat(inode.path_fd(), "", &times, AtFlags::EMPTY_PATH)?;
        }
        let is_lone = SetAttr {
            touch_ctime: false,
            kill_suidgid: false,
            ..*changes
        } == SetAttr::default();
        if changes.touch_ctime && is_lone {
            set_owner(&inode, None, None)?;
        }
    }
    stat_of(session, inode.inode, AttrMask::BASIC)
}

pub(crate) fn access(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    access: Access,
) -> Result<()> {
    if access.contains(Access::WRITE) {
        session.require_writable()?;
    }
    let inode = session.inode(node)?;
    let _as_caller = session.as_plain_caller(ctx)?;
    check_access(session, &inode, access)
}

/// Whether whom this thread acts for may do this. The kernel is asked, since
/// only it knows of ACLs, security modules and read-only mounts; with
/// `AT_EACCESS` it looks at the ids that count for files.
pub(crate) fn check_access(session: &ExportSession, inode: &Node, access: Access) -> Result<()> {
    if inode.file_type == FileType::Symlink {
        return Ok(());
    }
    let fd = inode.path_fd();
    let wanted = rustix::fs::Access::from_bits_truncate(access.bits());
    let descriptors = session.host.descriptors.dir();
    accessat(
        descriptors,
        Descriptors::name(&fd),
        wanted,
        AtFlags::EACCESS,
    )?;
    Ok(())
}

pub(crate) fn readlink(
    session: &ExportSession,
    node: NodeId,
    sink: &mut dyn ReadSink,
) -> Result<Stamp> {
    let inode = session.inode(node)?;
    if inode.file_type != FileType::Symlink {
        return Err(Errno::EINVAL);
    }
    let mut buf = [MaybeUninit::uninit(); SYMLINK_TARGET_MAX + 1];
    let (target, _) = rustix::fs::readlinkat_raw(inode.path_fd(), "", &mut buf)?;
    sink.put(target)?;
    Ok(Stamp::NONE)
}

pub(crate) fn statfs(session: &ExportSession, node: NodeId) -> Result<StatFs> {
    let inode = session.inode(node)?;
    let fd = inode.path_fd();
    let stat = fstatfs(fd)?;
    Ok(StatFs {
        fs_type: stat.f_type as u32,
        bsize: stat.f_bsize as u32,
        frsize: stat.f_frsize as u32,
        blocks: stat.f_blocks,
        bfree: stat.f_bfree,
        bavail: stat.f_bavail,
        files: stat.f_files,
        ffree: stat.f_ffree,
        fsid: fstatvfs(fd)?.f_fsid,
        namelen: stat.f_namelen as u32,
    })
}

fn set_size(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    (inode, handle): (&Node, Option<HandleId>),
    size: u64,
    kill_suidgid: bool,
) -> Result<()> {
    match inode.file_type {
        FileType::Regular => {}
        FileType::Directory => return Err(Errno::EISDIR),
        _ => return Err(Errno::EINVAL),
    }
    let open = match handle {
        Some(handle) => Some(session.handle(inode.id, handle)?),
        None => None,
    };
    let open = open.filter(|handle| handle.flags.contains(OpenFlags::WRITE));
    // What is open for writing was checked when it was opened.
    let _guard = match open {
        Some(_) => session.kill_suidgid(ctx, kill_suidgid)?,
        None => session.as_changer(ctx, kill_suidgid)?,
    };
    match open {
        Some(handle) => ftruncate(handle.fd(), size)?,
        None => ftruncate(
            session.host.descriptors.reopen(inode, OFlags::WRONLY)?,
            size,
        )?,
    }
    Ok(())
}

fn set_owner(inode: &Node, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(chownat(inode.path_fd(), "", uid, gid, AtFlags::EMPTY_PATH)?)
}

/// Sets the permission bits; `EOPNOTSUPP` for a symlink, which has none.
pub(crate) fn set_perm(session: &ExportSession, inode: &Node, perm: u32) -> Result<()> {
    if inode.file_type == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let fd = inode.path_fd();
    let perm = perm & UnixMode::PERM_MASK;
    match sluice_sys::chmod_at_empty_path(fd.as_fd(), perm) {
        Err(Errno::ENOSYS) => {
            let (dir, name) = (session.host.descriptors.dir(), Descriptors::name(&fd));
            Ok(chmodat(
                dir,
                name,
                Mode::from_raw_mode(perm),
                AtFlags::empty(),
            )?)
        }
        settled => settled,
    }
}

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXEC: u32 = 0o010;

/// Takes set-id bits away as Linux does when a file's content changes.
fn clear_suidgid(session: &ExportSession, inode: &Node) -> Result<()> {
    if inode.file_type != FileType::Regular {
        return Ok(());
    }
    let perm = HostStat::of_fd(inode.path_fd().as_fd(), AttrMask::MODE)?.perm();
    let gone = match perm & GROUP_EXEC {
        0 => SET_UID,
        _ => SET_UID | SET_GID,
    };
    match perm & gone {
        0 => Ok(()),
        _ => set_perm(session, inode, perm & !gone),
    }
}

/// Takes set-group-id away if it is there.
pub(crate) fn clear_sgid(session: &ExportSession, inode: &Node) -> Result<()> {
    let perm = HostStat::of_fd(inode.path_fd().as_fd(), AttrMask::MODE)?.perm();
    match perm & SET_GID {
        0 => Ok(()),
        _ => set_perm(session, inode, perm & !SET_GID),
    }
}

fn times_of(changes: &SetAttr) -> Result<Option<Timestamps>> {
    if changes.atime.is_none() && changes.mtime.is_none() {
        return Ok(None);
    }
    Ok(Some(Timestamps {
        last_access: timespec(changes.atime)?,
        last_modification: timespec(changes.mtime)?,
    }))
}

fn timespec(time: Option<SetTime>) -> Result<Timespec> {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        // Larger numbers mean something else to the kernel.
        Some(SetTime::To(time)) if time.nsec < 1_000_000_000 => (time.sec, time.nsec.into()),
        Some(SetTime::To(_)) => return Err(Errno::EINVAL),
    };
    Ok(Timespec { tv_sec, tv_nsec })
}
