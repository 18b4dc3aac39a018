//! Who may do what, where the service is asked to decide.

use super::acl::{self, Acl, in_group};
use super::inode::{FLAG_APPEND, FLAG_IMMUTABLE, Inode};
use super::ops::Call;
use sluice_vfs::{Access, AccessChecks, Caller, Errno, FileType, Result};

/// Whether mode bits or ACL, or being the superuser, allow this.
pub(super) fn permits(inode: &Inode, caller: &Caller<'_>, access: Access) -> bool {
    if caller.uid == 0 {
        let can_run = inode.is_dir() || inode.perm & 0o111 != 0;
        return can_run || !access.contains(Access::EXEC);
    }
    if let Some(acl) = access_acl(inode) {
        return acl.permits(caller, inode.uid, inode.gid, access);
    }
    let shift = if caller.uid == inode.uid {
        6
    } else if in_group(caller, inode.gid) {
        3
    } else {
        0
    };
    (inode.perm >> shift) & access.bits() == access.bits()
}

/// The node's own ACL, if it has one.
pub(super) fn access_acl(inode: &Inode) -> Option<Acl> {
    let value = inode.xattrs.get(acl::ACCESS)?;
    Acl::parse(value).ok().flatten()
}

impl Call<'_> {
    fn checks(&self) -> bool {
        self.session()
            .is_ok_and(|session| session.checks == AccessChecks::Service)
    }

    /// Whether the caller is held to its ids and not the superuser.
    pub(super) fn is_restricted(&self) -> bool {
        self.checks() && self.ctx.caller.uid != 0
    }

    pub(super) fn check_access(&self, inode: &Inode, access: Access) -> Result<()> {
        if self.checks() && !permits(inode, &self.ctx.caller, access) {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// `EPERM` unless the caller owns the node.
    pub(super) fn check_owner(&self, inode: &Inode) -> Result<()> {
        if self.is_restricted() && self.ctx.caller.uid != inode.uid {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// `EPERM` unless the caller is the superuser.
    pub(super) fn check_superuser(&self) -> Result<()> {
        if self.is_restricted() {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    pub(super) fn check_writable_tree(&self) -> Result<()> {
        if self.state.tree.is_read_only() {
            return Err(Errno::EROFS);
        }
        Ok(())
    }

    /// Whether a name may be added to `dir`.
    pub(super) fn check_may_create(&self, dir: &Inode) -> Result<()> {
        if dir.is_dead() {
            return Err(Errno::ENOENT);
        }
        if dir.has_flag(FLAG_IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        self.check_access(dir, Access::WRITE | Access::EXEC)
    }

    /// Whether the name of `victim` may be taken out of `dir`.
    pub(super) fn check_may_delete(&self, dir: &Inode, victim: &Inode) -> Result<()> {
        self.check_access(dir, Access::WRITE | Access::EXEC)?;
        if dir.has_flag(FLAG_APPEND | FLAG_IMMUTABLE) {
            return Err(Errno::EPERM);
        }
        if dir.perm & 0o1000 != 0 && self.ctx.caller.uid != dir.uid {
            self.check_owner(victim)?;
        }
        check_changeable(victim)
    }

    /// Whether set-group-id survives on what belongs to `gid`. Unlike
    /// permissions this goes by the caller wherever they are checked.
    pub(super) fn keeps_sgid(&self, gid: u32) -> bool {
        self.ctx.caller.uid == 0 || in_group(&self.ctx.caller, gid)
    }
}

/// `EPERM` for what is immutable or append-only.
pub(super) fn check_changeable(inode: &Inode) -> Result<()> {
    if inode.has_flag(FLAG_APPEND | FLAG_IMMUTABLE) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// What opening says to types that can't be opened.
pub(super) fn check_openable(inode: &Inode) -> Result<()> {
    match inode.file_type {
        FileType::Regular | FileType::Directory => Ok(()),
        FileType::Symlink => Err(Errno::ELOOP),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
