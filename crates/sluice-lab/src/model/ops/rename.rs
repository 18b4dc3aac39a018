//! Moving names.

use super::Call;
use crate::model::inode::{Body, Inode};
use sluice_vfs::{
    Access, Device, Errno, FileType, Name, NewNode, NodeId, RenameFlags, Renamed, Result,
};

/// One end of a rename: directory, name, and where it leads.
#[derive(Clone, Copy)]
struct End<'a> {
    dir: u64,
    name: Name<'a>,
    ino: u64,
}

impl Call<'_> {
    pub(in crate::model) fn rename(
        &mut self,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> Result<Renamed> {
        check_flags(flags)?;
        let (old_dir, new_dir) = (self.ino(old.0)?, self.ino(new.0)?);
        let ino = self.find(old_dir, old.1)?;
        let replaced = self.find(new_dir, new.1)?;
        let old = End {
            dir: old_dir,
            name: old.1,
            ino: ino.ok_or(Errno::ENOENT)?,
        };
        if replaced.is_some() && flags.contains(RenameFlags::NOREPLACE) {
            return Err(Errno::EEXIST);
        }
        let is_gone = self.state.tree.get(new_dir)?.is_dead();
        if replaced.is_none() && (is_gone || flags.contains(RenameFlags::EXCHANGE)) {
            return Err(Errno::ENOENT);
        }
        self.check_no_loop(&old, new_dir, replaced, flags)?;
        self.check_writable_tree()?;
        if replaced == Some(old.ino) {
            return self.stamps(old_dir, new_dir);
        }
        self.check_rights(&old, new_dir, replaced, flags)?;
        if let Some(replaced) = replaced
            && !flags.contains(RenameFlags::EXCHANGE)
        {
            self.check_empty(replaced)?;
        }
        if flags.contains(RenameFlags::WHITEOUT) {
            self.state.tree.check_room()?;
        }
        self.move_name(&old, (new_dir, new.1), replaced, flags)?;
        self.stamps(old_dir, new_dir)
    }

    /// No directory moves below itself or over one above it.
    fn check_no_loop(
        &self,
        old: &End<'_>,
        new_dir: u64,
        replaced: Option<u64>,
        flags: RenameFlags,
    ) -> Result<()> {
        let is_dir = |ino| self.state.tree.get(ino).map(|inode| inode.is_dir());
        if is_dir(old.ino)? && self.is_above(old.ino, new_dir)? {
            return Err(Errno::EINVAL);
        }
        let Some(replaced) = replaced else {
            return Ok(());
        };
        if is_dir(replaced)? && self.is_above(replaced, old.dir)? {
            return Err(if flags.contains(RenameFlags::EXCHANGE) {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        Ok(())
    }

    /// Whether both names may change, in the order in which Linux asks
    /// (`vfs_rename`).
    fn check_rights(
        &self,
        old: &End<'_>,
        new_dir: u64,
        replaced: Option<u64>,
        flags: RenameFlags,
    ) -> Result<()> {
        let moved = self.state.tree.get(old.ino)?;
        self.check_may_delete(self.state.tree.get(old.dir)?, moved)?;
        let to = self.state.tree.get(new_dir)?;
        let Some(replaced) = replaced else {
            self.check_may_create(to)?;
            return self.check_new_parent(moved, old.dir, new_dir);
        };
        let replaced = self.state.tree.get(replaced)?;
        self.check_may_delete(to, replaced)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.check_new_parent(moved, old.dir, new_dir)?;
            return self.check_new_parent(replaced, new_dir, old.dir);
        }
        match (moved.is_dir(), replaced.is_dir()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            _ => self.check_new_parent(moved, old.dir, new_dir),
        }
    }

    /// A directory with another parent is itself written to.
    fn check_new_parent(&self, inode: &Inode, old_dir: u64, new_dir: u64) -> Result<()> {
        match inode.is_dir() && old_dir != new_dir {
            true => self.check_access(inode, Access::WRITE),
            false => Ok(()),
        }
    }

    fn check_empty(&self, ino: u64) -> Result<()> {
        let inode = self.state.tree.get(ino)?;
        match inode.is_dir() && !inode.directory()?.is_empty() {
            true => Err(Errno::ENOTEMPTY),
            false => Ok(()),
        }
    }

    fn move_name(
        &mut self,
        old: &End<'_>,
        (new_dir, new_name): (u64, Name<'_>),
        replaced: Option<u64>,
        flags: RenameFlags,
    ) -> Result<()> {
        let whiteout = if flags.contains(RenameFlags::WHITEOUT) {
            Some(self.make_whiteout(old.dir)?)
        } else {
            None
        };
        if flags.contains(RenameFlags::EXCHANGE) {
            let other = replaced.ok_or(Errno::ENOENT)?;
            self.point(old.dir, old.name, other)?;
            self.adopt(other, new_dir, old.dir)?;
        } else {
            if replaced.is_some() {
                self.remove_name(new_dir, new_name)?;
            }
            let directory = self.state.tree.get_mut(old.dir)?.directory_mut()?;
            match whiteout {
                Some(ino) => directory.set(old.name.as_bytes(), ino),
                None => directory.remove(old.name.as_bytes()),
            }
        }
        self.point(new_dir, new_name, old.ino)?;
        self.adopt(old.ino, old.dir, new_dir)?;
        self.names_changed(old.dir, old.name)?;
        self.names_changed(new_dir, new_name)?;
        Ok(())
    }

    fn point(&mut self, dir: u64, name: Name<'_>, ino: u64) -> Result<()> {
        let directory = self.state.tree.get_mut(dir)?.directory_mut()?;
        directory.set(name.as_bytes(), ino);
        Ok(())
    }

    /// What a move means for the inode itself, and for the link counts of the
    /// directories if it is one.
    fn adopt(&mut self, ino: u64, from: u64, to: u64) -> Result<()> {
        if let Body::Dir(directory) = &mut self.state.tree.get_mut(ino)?.body
            && from != to
        {
            directory.parent = to;
            self.state.tree.get_mut(from)?.nlink -= 1;
            self.state.tree.get_mut(to)?.nlink += 1;
        }
        self.changed(ino, None).map(drop)
    }

    /// The character device 0:0 that overlay file systems take for "deleted".
    fn make_whiteout(&mut self, dir: u64) -> Result<u64> {
        let device = FileType::CharDevice;
        let new = NewNode::with_perm(0);
        self.make_inode(dir, device, Device::default(), Body::Special, &new, 1)
    }

    fn stamps(&self, old_dir: u64, new_dir: u64) -> Result<Renamed> {
        Ok(Renamed {
            old_dir_stamp: self.state.tree.get(old_dir)?.names_stamp,
            new_dir_stamp: self.state.tree.get(new_dir)?.names_stamp,
        })
    }
}

fn check_flags(flags: RenameFlags) -> Result<()> {
    let swaps = flags.contains(RenameFlags::EXCHANGE);
    let others = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
    if swaps && flags.intersects(others) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}
