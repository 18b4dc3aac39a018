//! Finding, making and removing names.

use super::Call;
use crate::model::acl::{self, Acl};
use crate::model::check::check_changeable;
use crate::model::directory::Directory;
use crate::model::inode::{Body, Inode};
use crate::model::tree::{Birth, ROOT_INO};
use sluice_vfs::{
    Access, Device, Entry, Errno, FileType, Lookup, Name, NewNode, NodeId, Result,
    SYMLINK_TARGET_MAX, Stamp,
};

/// Most names of one inode, as on ext4.
const LINK_MAX: u32 = 65_000;

impl Call<'_> {
    pub(in crate::model) fn lookup(&mut self, parent: NodeId, name: Name<'_>) -> Result<Lookup> {
        let dir = self.ino(parent)?;
        Ok(match self.find(dir, name)? {
            Some(ino) => Lookup::Found(self.entry(ino, dir)?),
            None => Lookup::Missing {
                dir_stamp: self.state.tree.get(dir)?.names_stamp,
            },
        })
    }

    pub(in crate::model) fn parent(&mut self, node: NodeId) -> Result<Entry> {
        let ino = self.ino(node)?;
        let inode = self.state.tree.get(ino)?;
        let above = inode.directory()?.parent;
        if ino == ROOT_INO {
            return self.entry(ino, ino);
        }
        self.check_access(inode, Access::EXEC)?;
        if inode.is_dead() {
            return Err(Errno::ENOENT);
        }
        self.entry(above, above)
    }

    pub(in crate::model) fn remember(&mut self, node: NodeId) -> Result<Entry> {
        let ino = self.ino(node)?;
        self.entry(ino, ino)
    }

    pub(in crate::model) fn forget(&mut self, node: NodeId, count: u64) -> Result<()> {
        if let Some(ino) = self.session_mut()?.nodes.forget(node, count) {
            self.state.unpin(ino);
        }
        Ok(())
    }

    pub(in crate::model) fn mkdir(
        &mut self,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let dir = self.ino(parent)?;
        let new = NewNode {
            perm: new.perm & 0o1777,
            ..*new
        };
        let body = Body::Dir(Directory::new(dir));
        self.make_entry(
            dir,
            name,
            FileType::Directory,
            Device::default(),
            body,
            &new,
        )
    }

    pub(in crate::model) fn mknod(
        &mut self,
        parent: NodeId,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        let dir = self.ino(parent)?;
        let is_device = matches!(file_type, FileType::CharDevice | FileType::BlockDevice);
        let is_whiteout = file_type == FileType::CharDevice && rdev == Device::default();
        let body = match file_type {
            FileType::Directory => return Err(Errno::EPERM),
            FileType::Symlink => return Err(Errno::EINVAL),
            FileType::Regular => Body::File(Default::default()),
            _ => Body::Special,
        };
        self.check_new_name(dir, name)?;
        if is_device && !is_whiteout {
            self.check_superuser()?;
        }
        let rdev = if is_device { rdev } else { Device::default() };
        self.make_entry(dir, name, file_type, rdev, body, new)
    }

    pub(in crate::model) fn symlink(
        &mut self,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            len if len > SYMLINK_TARGET_MAX => return Err(Errno::ENAMETOOLONG),
            _ if target.contains(&0) => return Err(Errno::EINVAL),
            _ => {}
        }
        let dir = self.ino(parent)?;
        let new = NewNode {
            perm: 0o777,
            umask: 0,
            ..*new
        };
        let body = Body::Symlink(target.to_vec());
        self.make_entry(dir, name, FileType::Symlink, Device::default(), body, &new)
    }

    pub(in crate::model) fn link(
        &mut self,
        node: NodeId,
        parent: NodeId,
        name: Name<'_>,
    ) -> Result<Entry> {
        let (ino, dir) = (self.ino(node)?, self.ino(parent)?);
        self.check_new_name(dir, name)?;
        let inode = self.state.tree.get(ino)?;
        check_changeable(inode)?;
        if inode.is_dir() {
            return Err(Errno::EPERM);
        }
        if inode.nlink == 0 && !inode.is_linkable {
            return Err(Errno::ENOENT);
        }
        if inode.nlink >= LINK_MAX {
            return Err(Errno::EMLINK);
        }
        let inode = self.state.tree.get_mut(ino)?;
        inode.nlink += 1;
        inode.is_linkable = false;
        self.changed(ino, None)?;
        self.state
            .tree
            .get_mut(dir)?
            .directory_mut()?
            .set(name.as_bytes(), ino);
        self.names_changed(dir, name)?;
        self.entry(ino, dir)
    }

    pub(in crate::model) fn unlink(&mut self, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let dir = self.ino(parent)?;
        let ino = self.victim(dir, name)?;
        if self.state.tree.get(ino)?.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.remove_name(dir, name)
    }

    pub(in crate::model) fn rmdir(&mut self, parent: NodeId, name: Name<'_>) -> Result<Stamp> {
        let dir = self.ino(parent)?;
        let ino = self.victim(dir, name)?;
        if !self.state.tree.get(ino)?.directory()?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove_name(dir, name)
    }

    /// Where `name` in `dir` leads.
    pub(super) fn find(&self, dir: u64, name: Name<'_>) -> Result<Option<u64>> {
        let inode = self.state.tree.get(dir)?;
        let directory = inode.directory()?;
        self.check_access(inode, Access::EXEC)?;
        Ok(directory.find(name.as_bytes()))
    }

    /// What `name` leads to, if its name may be taken away.
    pub(super) fn victim(&self, dir: u64, name: Name<'_>) -> Result<u64> {
        let ino = self.find(dir, name)?.ok_or(Errno::ENOENT)?;
        self.check_writable_tree()?;
        self.check_may_delete(self.state.tree.get(dir)?, self.state.tree.get(ino)?)?;
        Ok(ino)
    }

    /// Whether `name` can be made in `dir`, and something known by it.
    pub(super) fn check_new_name(&self, dir: u64, name: Name<'_>) -> Result<()> {
        if self.find(dir, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        self.check_writable_tree()?;
        self.check_may_create(self.state.tree.get(dir)?)
    }

    /// Takes a name away, and with it one link of what it led to.
    pub(super) fn remove_name(&mut self, dir: u64, name: Name<'_>) -> Result<Stamp> {
        let directory = self.state.tree.get_mut(dir)?.directory_mut()?;
        let ino = directory.find(name.as_bytes()).ok_or(Errno::ENOENT)?;
        directory.remove(name.as_bytes());
        self.drop_link(ino, dir)?;
        self.names_changed(dir, name)
    }

    /// One link less, now that a name of `ino` in `dir` is gone.
    pub(super) fn drop_link(&mut self, ino: u64, dir: u64) -> Result<()> {
        let inode = self.state.tree.get_mut(ino)?;
        if inode.is_dir() {
            inode.nlink = 0;
            self.state.tree.get_mut(dir)?.nlink -= 1;
        } else {
            inode.nlink -= 1;
        }
        self.changed(ino, None)?;
        if self.state.tree.reap(ino) {
            self.state.locks.drop_file(ino);
        }
        Ok(())
    }

    /// Makes a node under a name; nothing is made if it can't be handed out.
    pub(super) fn make_entry(
        &mut self,
        dir: u64,
        name: Name<'_>,
        file_type: FileType,
        rdev: Device,
        body: Body,
        new: &NewNode<'_>,
    ) -> Result<Entry> {
        self.check_new_name(dir, name)?;
        self.session()?.nodes.check_room()?;
        let is_dir = file_type == FileType::Directory;
        let ino = self.make_inode(dir, file_type, rdev, body, new, if is_dir { 2 } else { 1 })?;
        let parent = self.state.tree.get_mut(dir)?;
        parent.directory_mut()?.set(name.as_bytes(), ino);
        parent.nlink += u32::from(is_dir);
        self.names_changed(dir, name)?;
        self.entry(ino, dir)
    }

    /// Makes an inode as if in `dir`: owner from the caller, group and default
    /// ACL from the directory where it has them to give.
    pub(super) fn make_inode(
        &mut self,
        dir: u64,
        file_type: FileType,
        rdev: Device,
        body: Body,
        new: &NewNode<'_>,
        nlink: u32,
    ) -> Result<u64> {
        self.state.tree.check_room()?;
        let parent = self.state.tree.get(dir)?;
        let inherits_gid = parent.perm & 0o2000 != 0;
        let gid = if inherits_gid {
            parent.gid
        } else {
            self.ctx.caller.gid
        };
        let mut perm = new.perm & 0o7777;
        if inherits_gid && file_type != FileType::Directory {
            let means_something = perm & 0o2010 == 0o2010;
            if means_something && !self.keeps_sgid(gid) {
                perm &= !0o2000;
            }
        }
        let (perm, acls) = apply_umask(parent, file_type, perm, new.umask);
        let perm = if inherits_gid && file_type == FileType::Directory {
            perm | 0o2000
        } else {
            perm
        };
        let uid = self.ctx.caller.uid;
        let birth = Birth {
            file_type,
            perm,
            uid,
            gid,
            rdev,
            body,
        };
        let ino = self.state.tree.insert(birth, nlink);
        let inode = self.state.tree.get_mut(ino)?;
        inode.xattrs.extend(acls);
        if let Some(label) = new.label {
            let name = label.name.as_bytes().to_vec();
            inode.xattrs.insert(name, label.value.to_vec());
        }
        Ok(ino)
    }

    /// Whether `ancestor` is `dir` or lies above it.
    pub(super) fn is_above(&self, ancestor: u64, dir: u64) -> Result<bool> {
        let mut current = dir;
        loop {
            if current == ancestor {
                return Ok(true);
            }
            if current == ROOT_INO {
                return Ok(false);
            }
            // Above a removed directory there may be nothing left.
            let Ok(inode) = self.state.tree.get(current) else {
                return Ok(false);
            };
            current = inode.directory()?.parent;
        }
    }
}

/// Name and value of an extended attribute.
type Xattr = (Vec<u8>, Vec<u8>);

/// Permission bits and ACLs of something new in `parent`: a default ACL takes
/// the umask's place (acl(5), "object creation and default ACLs").
fn apply_umask(parent: &Inode, file_type: FileType, perm: u32, umask: u32) -> (u32, Vec<Xattr>) {
    let default = parent.xattrs.get(acl::DEFAULT);
    let parsed = default.and_then(|value| Acl::parse(value).ok().flatten());
    let (Some(value), Some(mut acl)) = (default, parsed) else {
        return (perm & !(umask & 0o777), Vec::new());
    };
    if file_type == FileType::Symlink {
        return (perm, Vec::new());
    }
    let perm = acl.restrict(perm);
    let mut acls = Vec::new();
    if !acl.is_minimal() {
        acls.push((acl::ACCESS.to_vec(), acl.to_bytes()));
    }
    if file_type == FileType::Directory {
        acls.push((acl::DEFAULT.to_vec(), value.clone()));
    }
    (perm, acls)
}
