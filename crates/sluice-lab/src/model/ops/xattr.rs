//! Extended attributes (xattr(7)), POSIX ACLs among them.

use super::Call;
use crate::model::acl::{self, Acl};
use crate::model::check::check_changeable;
use crate::model::inode::Inode;
use sluice_vfs::{
    Access, Errno, FileType, NodeId, Result, Stamp, XATTR_VALUE_MAX, XattrFlags, XattrName,
};

/// What the part before the first dot says about an attribute.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Namespace {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
}

impl Namespace {
    fn of(name: XattrName<'_>) -> Result<Self> {
        let name = name.as_bytes();
        let has_prefix = |prefix: &[u8]| name.len() > prefix.len() && name.starts_with(prefix);
        match name {
            acl::ACCESS => Ok(Namespace::AccessAcl),
            acl::DEFAULT => Ok(Namespace::DefaultAcl),
            _ if has_prefix(b"user.") => Ok(Namespace::User),
            _ if has_prefix(b"trusted.") => Ok(Namespace::Trusted),
            _ if has_prefix(b"security.") => Ok(Namespace::Security),
            b"user." | b"trusted." | b"security." => Err(Errno::EINVAL),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn is_acl(self) -> bool {
        matches!(self, Namespace::AccessAcl | Namespace::DefaultAcl)
    }
}

impl Call<'_> {
    pub(in crate::model) fn getxattr(&self, node: NodeId, name: XattrName<'_>) -> Result<Vec<u8>> {
        let inode = self.state.tree.get(self.ino(node)?)?;
        let namespace = Namespace::of(name)?;
        match namespace {
            Namespace::User => {
                if !takes_user_xattrs(inode) {
                    return Err(Errno::ENODATA);
                }
                self.check_access(inode, Access::READ)?;
            }
            Namespace::Trusted if self.is_restricted() => return Err(Errno::ENODATA),
            Namespace::AccessAcl | Namespace::DefaultAcl => check_takes_acls(inode)?,
            Namespace::Trusted | Namespace::Security => {}
        }
        let value = inode.xattrs.get(name.as_bytes());
        value.cloned().ok_or(Errno::ENODATA)
    }

    pub(in crate::model) fn listxattr(&self, node: NodeId) -> Result<Vec<u8>> {
        let inode = self.state.tree.get(self.ino(node)?)?;
        let mut list = Vec::new();
        for name in inode.xattrs.keys() {
            if !(self.is_restricted() && name.starts_with(b"trusted.")) {
                list.extend_from_slice(name);
                list.push(0);
            }
        }
        Ok(list)
    }

    pub(in crate::model) fn setxattr(
        &mut self,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<Stamp> {
        if value.len() > XATTR_VALUE_MAX {
            return Err(Errno::E2BIG);
        }
        let ino = self.ino(node)?;
        let namespace = self.check_change(ino, name)?;
        match namespace {
            Namespace::AccessAcl => self.set_access_acl(ino, value, flags)?,
            Namespace::DefaultAcl => self.set_default_acl(ino, value)?,
            _ => {
                let inode = self.state.tree.get_mut(ino)?;
                let exists = inode.xattrs.contains_key(name.as_bytes());
                if exists && flags.contains(XattrFlags::CREATE) {
                    return Err(Errno::EEXIST);
                }
                if !exists && flags.contains(XattrFlags::REPLACE) {
                    return Err(Errno::ENODATA);
                }
                inode
                    .xattrs
                    .insert(name.as_bytes().to_vec(), value.to_vec());
            }
        }
        self.changed(ino, None)
    }

    /// Removing an ACL that isn't there is no error, as in Linux.
    pub(in crate::model) fn removexattr(
        &mut self,
        node: NodeId,
        name: XattrName<'_>,
    ) -> Result<Stamp> {
        let ino = self.ino(node)?;
        let namespace = self.check_change(ino, name)?;
        let inode = self.state.tree.get_mut(ino)?;
        if inode.xattrs.remove(name.as_bytes()).is_none() && !namespace.is_acl() {
            return Err(Errno::ENODATA);
        }
        self.changed(ino, None)
    }

    fn check_change(&self, ino: u64, name: XattrName<'_>) -> Result<Namespace> {
        let inode = self.state.tree.get(ino)?;
        let namespace = Namespace::of(name)?;
        self.check_writable_tree()?;
        check_changeable(inode)?;
        match namespace {
            Namespace::User => {
                if !takes_user_xattrs(inode) {
                    return Err(Errno::EPERM);
                }
                if inode.is_dir() && inode.perm & 0o1000 != 0 {
                    self.check_owner(inode)?;
                }
                self.check_access(inode, Access::WRITE)?;
            }
            Namespace::Trusted | Namespace::Security => self.check_superuser()?,
            Namespace::AccessAcl | Namespace::DefaultAcl => {
                check_takes_acls(inode)?;
                self.check_owner(inode)?;
            }
        }
        Ok(namespace)
    }

    /// The permission bits follow the ACL; one that says no more than they do
    /// isn't kept.
    fn set_access_acl(&mut self, ino: u64, value: &[u8], flags: XattrFlags) -> Result<()> {
        let acl = Acl::parse(value)?;
        let gid = self.state.tree.get(ino)?.gid;
        let strips = self.is_restricted() || flags.contains(XattrFlags::KILL_SGID);
        let keeps_sgid = !strips || self.keeps_sgid(gid);
        let inode = self.state.tree.get_mut(ino)?;
        if let Some(acl) = &acl {
            inode.perm = (inode.perm & 0o7000) | acl.to_perm();
            if !keeps_sgid {
                inode.perm &= !0o2000;
            }
        }
        match acl.filter(|acl| !acl.is_minimal()) {
            Some(acl) => inode.xattrs.insert(acl::ACCESS.to_vec(), acl.to_bytes()),
            None => inode.xattrs.remove(acl::ACCESS),
        };
        Ok(())
    }

    fn set_default_acl(&mut self, ino: u64, value: &[u8]) -> Result<()> {
        let acl = Acl::parse(value)?;
        let inode = self.state.tree.get_mut(ino)?;
        match acl {
            Some(_) if !inode.is_dir() => return Err(Errno::EACCES),
            Some(acl) => inode.xattrs.insert(acl::DEFAULT.to_vec(), acl.to_bytes()),
            None => inode.xattrs.remove(acl::DEFAULT),
        };
        Ok(())
    }
}

fn takes_user_xattrs(inode: &Inode) -> bool {
    matches!(inode.file_type, FileType::Regular | FileType::Directory)
}

fn check_takes_acls(inode: &Inode) -> Result<()> {
    if inode.file_type == FileType::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}
