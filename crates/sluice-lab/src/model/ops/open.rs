//! Opening and closing.

use super::Call;
use crate::model::check::check_openable;
use crate::model::inode::{Body, FLAG_APPEND, FLAG_IMMUTABLE, Inode};
use crate::model::locks::Owner;
use crate::model::table::Handle;
use sluice_vfs::{
    Access, CreateArgs, Created, Device, Errno, FileType, HandleId, LockStyle, Name, NodeId,
    OpenFlags, OpenHints, Opened, Release, Result,
};

impl Call<'_> {
    pub(in crate::model) fn open(&mut self, node: NodeId, flags: OpenFlags) -> Result<Opened> {
        let ino = self.ino(node)?;
        self.open_inode(ino, flags)
    }

    pub(in crate::model) fn create(
        &mut self,
        parent: NodeId,
        name: Name<'_>,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        if args.flags.contains(OpenFlags::DIRECTORY) {
            return Err(Errno::EINVAL);
        }
        let dir = self.ino(parent)?;
        if let Some(ino) = self.find(dir, name)? {
            if args.flags.contains(OpenFlags::EXCLUSIVE) {
                return Err(Errno::EEXIST);
            }
            if self.state.tree.get(ino)?.is_dir() {
                return Err(Errno::EISDIR);
            }
            return self.open_entry(ino, dir, args.flags);
        }
        self.session()?.handles.check_room()?;
        let body = Body::File(Default::default());
        let device = Device::default();
        let entry = self.make_entry(dir, name, FileType::Regular, device, body, &args.new)?;
        let ino = self.ino(entry.node)?;
        Ok(Created {
            entry,
            opened: self.add_handle(ino, args.flags)?,
            is_new: true,
        })
    }

    pub(in crate::model) fn lookup_open(
        &mut self,
        parent: NodeId,
        name: Name<'_>,
        flags: OpenFlags,
    ) -> Result<Created> {
        let dir = self.ino(parent)?;
        let ino = self.find(dir, name)?.ok_or(Errno::ENOENT)?;
        self.open_entry(ino, dir, flags)
    }

    pub(in crate::model) fn tmpfile(
        &mut self,
        parent: NodeId,
        args: &CreateArgs<'_>,
    ) -> Result<Created> {
        let dir = self.ino(parent)?;
        if !args.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EINVAL);
        }
        let parent = self.state.tree.get(dir)?;
        parent.directory()?;
        self.check_writable_tree()?;
        self.check_may_create(parent)?;
        self.session()?.nodes.check_room()?;
        self.session()?.handles.check_room()?;
        let body = Body::File(Default::default());
        let regular = FileType::Regular;
        let ino = self.make_inode(dir, regular, Device::default(), body, &args.new, 0)?;
        let is_linkable = !args.flags.contains(OpenFlags::EXCLUSIVE);
        self.state.tree.get_mut(ino)?.is_linkable = is_linkable;
        Ok(Created {
            entry: self.entry(ino, dir)?,
            opened: self.add_handle(ino, args.flags)?,
            is_new: true,
        })
    }

    pub(in crate::model) fn flush(&mut self, node: NodeId, handle: HandleId) -> Result<()> {
        let ino = self.handle(node, handle)?.ino;
        self.drop_owner_locks(ino, LockStyle::Posix);
        Ok(())
    }

    pub(in crate::model) fn release(&mut self, handle: HandleId, how: &Release) -> Result<()> {
        let ino = self.session_mut()?.handles.remove(handle)?.ino;
        if how.flush {
            self.drop_owner_locks(ino, LockStyle::Posix);
        }
        if how.unlock_flock {
            self.drop_owner_locks(ino, LockStyle::Flock);
        }
        self.state.locks.drop_handle(ino, self.id, handle);
        self.state.settle_locks(ino);
        self.state.unpin(ino);
        Ok(())
    }

    /// The model has nothing but memory to bring anything to.
    pub(in crate::model) fn fsync(&self, node: NodeId, handle: Option<HandleId>) -> Result<()> {
        let inode = self.state.tree.get(self.target(node, handle)?)?;
        check_openable(inode)
    }

    pub(in crate::model) fn syncfs(&self, node: NodeId) -> Result<()> {
        self.ino(node).map(drop)
    }

    /// What every open asks of an inode, whether it gets a handle or not.
    pub(super) fn check_open(&self, inode: &Inode, flags: OpenFlags) -> Result<()> {
        if inode.file_type != FileType::Symlink && flags.contains(OpenFlags::DIRECTORY) {
            inode.directory()?;
        }
        check_openable(inode)?;
        let changes = flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE);
        if inode.is_dir() && changes {
            return Err(Errno::EISDIR);
        }
        if changes {
            self.check_writable_tree()?;
            if inode.has_flag(FLAG_IMMUTABLE) {
                return Err(Errno::EPERM);
            }
        }
        let appends = flags.contains(OpenFlags::APPEND) && !flags.contains(OpenFlags::TRUNCATE);
        if changes && inode.has_flag(FLAG_APPEND) && !appends {
            return Err(Errno::EPERM);
        }
        self.check_access(inode, wanted(flags))?;
        if flags.contains(OpenFlags::NOATIME) {
            self.check_owner(inode)?;
        }
        Ok(())
    }

    fn open_entry(&mut self, ino: u64, dir: u64, flags: OpenFlags) -> Result<Created> {
        let entry = self.entry(ino, dir)?;
        match self.open_inode(ino, flags) {
            Ok(opened) => {
                let stat = self.stat(ino)?;
                let entry = sluice_vfs::Entry {
                    attr: stat.attr,
                    stamp: stat.stamp,
                    ..entry
                };
                Ok(Created {
                    entry,
                    opened,
                    is_new: false,
                })
            }
            Err(error) => {
                self.forget(entry.node, 1)?;
                Err(error)
            }
        }
    }

    fn open_inode(&mut self, ino: u64, flags: OpenFlags) -> Result<Opened> {
        self.check_open(self.state.tree.get(ino)?, flags)?;
        self.session()?.handles.check_room()?;
        if flags.contains(OpenFlags::TRUNCATE) {
            self.truncate(ino, 0)?;
            if flags.contains(OpenFlags::KILL_SUIDGID) || self.is_restricted() {
                self.state.tree.get_mut(ino)?.kill_suidgid();
            }
            self.changed(ino, Some(0..crate::model::content::SIZE_MAX))?;
        }
        self.add_handle(ino, flags)
    }

    fn add_handle(&mut self, ino: u64, flags: OpenFlags) -> Result<Opened> {
        let handle = self.session_mut()?.handles.insert(Handle { ino, flags })?;
        self.state.tree.pin(ino);
        Ok(Opened {
            handle,
            hints: OpenHints::empty(),
            stamp: self.state.tree.get(ino)?.stamp,
        })
    }

    fn drop_owner_locks(&mut self, ino: u64, style: LockStyle) {
        let owner = Owner {
            session: self.id,
            token: self.ctx.lock_owner,
        };
        self.state.locks.drop_owner(ino, owner, style);
        self.state.settle_locks(ino);
    }
}

/// The permissions that opening takes.
fn wanted(flags: OpenFlags) -> Access {
    let mut access = Access::empty();
    access.set(Access::READ, flags.contains(OpenFlags::READ));
    access.set(Access::EXEC, flags.contains(OpenFlags::EXEC));
    let writes = flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE);
    access.set(Access::WRITE, writes);
    access
}
