//! Attributes, symlink targets, file flags.

use super::Call;
use crate::model::acl;
use crate::model::check::{self, access_acl, check_changeable};
use crate::model::content::SIZE_MAX;
use crate::model::inode::{Body, FLAG_APPEND, FLAG_IMMUTABLE, FLAGS_SETTABLE};
use sluice_vfs::{
    Access, Errno, FileIoctl, FileIoctlReply, FileType, HandleId, NodeId, OpenFlags, Result,
    SetAttr, SetTime, Stamp, Stat, StatFs, Timestamp,
};

impl Call<'_> {
    pub(in crate::model) fn getattr(&self, node: NodeId, handle: Option<HandleId>) -> Result<Stat> {
        self.stat(self.target(node, handle)?)
    }

    /// In Linux's order: everything is checked, then size, owner, permission
    /// bits and times change, so that bits given with an owner survive it.
    pub(in crate::model) fn setattr(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> Result<Stat> {
        let ino = self.target(node, handle)?;
        self.check_writable_tree()?;
        self.check_setattr(ino, changes)?;
        if let Some(size) = changes.size {
            self.check_truncate(ino, node, handle, size)?;
            self.truncate(ino, size)?;
        }
        let shrinks_rights = changes.size.is_some() && self.is_restricted();
        let is_chown = changes.uid.is_some() || changes.gid.is_some() || changes.touch_ctime;
        let inode = self.state.tree.get_mut(ino)?;
        if is_chown || shrinks_rights || changes.kill_suidgid {
            inode.kill_suidgid();
        }
        inode.uid = owner(changes.uid).unwrap_or(inode.uid);
        inode.gid = owner(changes.gid).unwrap_or(inode.gid);
        if let Some(perm) = changes.perm {
            self.chmod(ino, perm & 0o7777)?;
        }
        if *changes != SetAttr::default() {
            self.changed(ino, changes.size.map(|size| size..SIZE_MAX))?;
        }
        self.set_times(ino, changes)?;
        self.stat(ino)
    }

    pub(in crate::model) fn access(&self, node: NodeId, access: Access) -> Result<()> {
        let inode = self.state.tree.get(self.ino(node)?)?;
        if access.contains(Access::WRITE) {
            let changes_tree =
                matches!(inode.body, Body::File(_) | Body::Dir(_) | Body::Symlink(_));
            if changes_tree {
                self.check_writable_tree()?;
            }
            if inode.has_flag(FLAG_IMMUTABLE) {
                return Err(Errno::EPERM);
            }
        }
        if check::permits(inode, &self.ctx.caller, access) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }

    pub(in crate::model) fn readlink(&self, node: NodeId) -> Result<(Vec<u8>, Stamp)> {
        let inode = self.state.tree.get(self.ino(node)?)?;
        match &inode.body {
            Body::Symlink(target) => Ok((target.clone(), inode.stamp)),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(in crate::model) fn statfs(&self, node: NodeId) -> Result<StatFs> {
        self.ino(node)?;
        Ok(self.state.tree.statfs())
    }

    pub(in crate::model) fn ioctl(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        request: &FileIoctl,
    ) -> Result<FileIoctlReply> {
        let ino = self.target(node, handle)?;
        let inode = self.state.tree.get(ino)?;
        check::check_openable(inode)?;
        match request {
            FileIoctl::GetFlags => return Ok(FileIoctlReply::Flags(inode.flags)),
            FileIoctl::GetFsx => return Ok(FileIoctlReply::Fsx(inode.fsx)),
            FileIoctl::SetFlags(_) | FileIoctl::SetFsx(_) => {}
        }
        self.check_writable_tree()?;
        self.check_owner(inode)?;
        let inode = self.state.tree.get_mut(ino)?;
        match *request {
            FileIoctl::SetFlags(flags) if flags & !FLAGS_SETTABLE != 0 => {
                return Err(Errno::EOPNOTSUPP);
            }
            FileIoctl::SetFlags(flags) => {
                let guarded = FLAG_IMMUTABLE | FLAG_APPEND;
                if (inode.flags ^ flags) & guarded != 0 && self.is_restricted() {
                    return Err(Errno::EPERM);
                }
                self.state.tree.get_mut(ino)?.flags = flags;
            }
            FileIoctl::SetFsx(fsx) => inode.fsx = sluice_vfs::Fsx { extents: 0, ..fsx },
            FileIoctl::GetFlags | FileIoctl::GetFsx => {}
        }
        self.changed(ino, None)?;
        Ok(FileIoctlReply::Done)
    }

    pub(super) fn truncate(&mut self, ino: u64, size: u64) -> Result<()> {
        self.state.tree.with_space(ino, |inode, _| {
            inode.content_mut()?.truncate(size);
            Ok(())
        })
    }

    fn check_setattr(&self, ino: u64, changes: &SetAttr) -> Result<()> {
        let inode = self.state.tree.get(ino)?;
        let caller = &self.ctx.caller;
        let sets_times = changes.atime.is_some() || changes.mtime.is_some();
        // One alone counts as setting it, even to now (utimensat(2)).
        let is_now = |time| time == Some(SetTime::Now);
        let only_now = is_now(changes.atime) && is_now(changes.mtime);
        if changes.perm.is_some() || changes.uid.is_some() || changes.gid.is_some() {
            check_changeable(inode)?;
        }
        if changes.perm.is_some() {
            if inode.file_type == FileType::Symlink {
                return Err(Errno::EOPNOTSUPP);
            }
            self.check_owner(inode)?;
        }
        if changes.uid.is_some_and(|uid| uid != inode.uid) {
            self.check_superuser()?;
        }
        if let Some(gid) = changes.gid {
            self.check_owner(inode)?;
            if gid != inode.gid && !acl::in_group(caller, gid) {
                self.check_superuser()?;
            }
        }
        if changes.uid.is_some() {
            self.check_owner(inode)?;
        }
        for time in [changes.atime, changes.mtime].into_iter().flatten() {
            check_time(time)?;
        }
        if sets_times {
            let guard = if only_now {
                FLAG_IMMUTABLE
            } else {
                FLAG_IMMUTABLE | FLAG_APPEND
            };
            if inode.has_flag(guard) {
                return Err(Errno::EPERM);
            }
            match self.check_owner(inode) {
                Err(_) if only_now => self.check_access(inode, Access::WRITE)?,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn check_truncate(
        &self,
        ino: u64,
        node: NodeId,
        handle: Option<HandleId>,
        size: u64,
    ) -> Result<()> {
        let inode = self.state.tree.get(ino)?;
        inode.content()?;
        if size > SIZE_MAX {
            return Err(Errno::EINVAL);
        }
        check_changeable(inode)?;
        let is_open_for_writing = match handle {
            Some(handle) => self.handle(node, handle)?.flags.contains(OpenFlags::WRITE),
            None => false,
        };
        if is_open_for_writing {
            return Ok(());
        }
        self.check_access(inode, Access::WRITE)
    }

    fn chmod(&mut self, ino: u64, mut perm: u32) -> Result<()> {
        let inode = self.state.tree.get(ino)?;
        if self.is_restricted() && !self.keeps_sgid(inode.gid) {
            perm &= !0o2000;
        }
        let acl = access_acl(inode);
        let inode = self.state.tree.get_mut(ino)?;
        inode.perm = perm;
        if let Some(mut acl) = acl {
            acl.set_perm(perm);
            inode.xattrs.insert(acl::ACCESS.to_vec(), acl.to_bytes());
        }
        Ok(())
    }

    fn set_times(&mut self, ino: u64, changes: &SetAttr) -> Result<()> {
        let now = self.state.tree.get(ino)?.ctime;
        let resolve = |time| match time {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        let inode = self.state.tree.get_mut(ino)?;
        inode.atime = changes.atime.map_or(inode.atime, resolve);
        inode.mtime = changes.mtime.map_or(inode.mtime, resolve);
        Ok(())
    }
}

/// An id to change to; all bits set means to leave it, as chown(2) has it.
fn owner(id: Option<u32>) -> Option<u32> {
    id.filter(|&id| id != u32::MAX)
}

fn check_time(time: SetTime) -> Result<()> {
    match time {
        SetTime::To(Timestamp { nsec, .. }) if nsec >= 1_000_000_000 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}
