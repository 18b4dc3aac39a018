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
    /// Of the file system's own, of which there are none.
    System,
    Unknown,
}

impl Namespace {
    fn of(name: XattrName<'_>) -> Self {
        match name.as_bytes() {
            acl::ACCESS => Namespace::AccessAcl,
            acl::DEFAULT => Namespace::DefaultAcl,
            name if name.starts_with(b"user.") => Namespace::User,
            name if name.starts_with(b"trusted.") => Namespace::Trusted,
            name if name.starts_with(b"security.") => Namespace::Security,
            name if name.starts_with(b"system.") => Namespace::System,
            _ => Namespace::Unknown,
        }
    }

    fn is_acl(self) -> bool {
        matches!(self, Namespace::AccessAcl | Namespace::DefaultAcl)
    }

    /// What is wrong with a name, once its namespace lets it be asked for.
    fn check_name(self, name: XattrName<'_>) -> Result<()> {
        match (self, name.as_bytes()) {
            (Namespace::System | Namespace::Unknown, _) => Err(Errno::EOPNOTSUPP),
            (_, b"user." | b"trusted." | b"security.") => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }
}

impl Call<'_> {
    pub(in crate::model) fn getxattr(&self, node: NodeId, name: XattrName<'_>) -> Result<Vec<u8>> {
        let inode = self.state.tree.get(self.ino(node)?)?;
        let namespace = Namespace::of(name);
        match namespace {
            Namespace::User if !takes_user_xattrs(inode) => return Err(Errno::ENODATA),
            Namespace::User | Namespace::Unknown => self.check_access(inode, Access::READ)?,
            Namespace::Trusted if self.is_restricted() => return Err(Errno::ENODATA),
            Namespace::AccessAcl | Namespace::DefaultAcl => check_takes_acls(inode)?,
            Namespace::Trusted | Namespace::Security | Namespace::System => {}
        }
        namespace.check_name(name)?;
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
        let namespace = Namespace::of(name);
        if namespace.is_acl() {
            let acl = Acl::parse(value)?;
            return self.change_acl(ino, namespace, acl, flags);
        }
        self.check_change(ino, name)?;
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
        self.changed(ino, None)
    }

    /// Removing an ACL that isn't there is no error, as in Linux.
    pub(in crate::model) fn removexattr(
        &mut self,
        node: NodeId,
        name: XattrName<'_>,
    ) -> Result<Stamp> {
        let ino = self.ino(node)?;
        let namespace = Namespace::of(name);
        if namespace.is_acl() {
            return self.change_acl(ino, namespace, None, XattrFlags::empty());
        }
        self.check_change(ino, name)?;
        let inode = self.state.tree.get_mut(ino)?;
        if inode.xattrs.remove(name.as_bytes()).is_none() {
            return Err(Errno::ENODATA);
        }
        self.changed(ino, None)
    }

    /// Whether an attribute that is no ACL may be changed.
    fn check_change(&self, ino: u64, name: XattrName<'_>) -> Result<()> {
        let inode = self.state.tree.get(ino)?;
        let namespace = Namespace::of(name);
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
            Namespace::Unknown => self.check_access(inode, Access::WRITE)?,
            Namespace::Trusted | Namespace::Security => self.check_superuser()?,
            Namespace::System | Namespace::AccessAcl | Namespace::DefaultAcl => {}
        }
        namespace.check_name(name)
    }

    /// Sets or removes an ACL. That there is none to remove is no error.
    fn change_acl(
        &mut self,
        ino: u64,
        namespace: Namespace,
        acl: Option<Acl>,
        flags: XattrFlags,
    ) -> Result<Stamp> {
        let inode = self.state.tree.get(ino)?;
        self.check_writable_tree()?;
        check_changeable(inode)?;
        check_takes_acls(inode)?;
        if namespace == Namespace::DefaultAcl && !inode.is_dir() {
            return match acl {
                Some(_) => Err(Errno::EACCES),
                None => Ok(inode.stamp),
            };
        }
        self.check_owner(inode)?;
        let gid = inode.gid;
        let strips = self.is_restricted() || flags.contains(XattrFlags::KILL_SGID);
        let keeps_sgid = !strips || self.keeps_sgid(gid);
        let inode = self.state.tree.get_mut(ino)?;
        match namespace {
            Namespace::DefaultAcl => keep(inode, acl::DEFAULT, acl),
            _ => {
                // The bits follow the ACL; one that says no more isn't kept.
                if let Some(acl) = &acl {
                    inode.perm = (inode.perm & 0o7000) | acl.to_perm();
                    if !keeps_sgid {
                        inode.perm &= !0o2000;
                    }
                }
                keep(inode, acl::ACCESS, acl.filter(|acl| !acl.is_minimal()));
            }
        }
        self.changed(ino, None)
    }
}

fn keep(inode: &mut Inode, name: &[u8], acl: Option<Acl>) {
    match acl {
        Some(acl) => inode.xattrs.insert(name.to_vec(), acl.to_bytes()),
        None => inode.xattrs.remove(name),
    };
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
