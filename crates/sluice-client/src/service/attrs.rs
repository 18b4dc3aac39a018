//! Attributes.

use super::session::Inner;
use super::turn::errno;
use crate::error::Result;
use crate::ops::Tree;
use sluice_vfs::{
    Ctx, Errno, FileType, HandleId, NodeId, ReadSink, SetAttr, SetTime, Stamp, Stat, StatFs,
    XattrFlags, XattrName,
};

/// `V9FS_MAGIC` of linux/magic.h.
const FS_TYPE: u32 = 0x0102_1997;

/// `S_ISGID`.
const SET_GROUP_ID: u32 = 0o2000;

impl Inner {
    pub(super) fn getattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
    ) -> sluice_vfs::Result<Stat> {
        self.run(ctx, |turn| {
            let held = turn.held(node, handle)?;
            let attr = turn.tree.getattr(held.number())?;
            // A server that says that a fid is another file now lies.
            match attr.ino == self.nodes.identity(node)?.path() {
                true => Ok(Stat {
                    attr: turn.owned(attr),
                    stamp: Stamp::NONE,
                }),
                false => Err(Errno::ESTALE.into()),
            }
        })
    }

    pub(super) fn setattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        changes: &SetAttr,
    ) -> sluice_vfs::Result<Stat> {
        if changes.kill_suidgid {
            return Err(Errno::EOPNOTSUPP);
        }
        self.check_changes(node, changes)?;
        self.run(ctx, |turn| {
            let held = turn.held(node, handle)?;
            turn.tree.setattr(held.number(), changes)
        })?;
        self.getattr(ctx, node, handle)
    }

    /// What no server is asked for: older dialects could not even say no.
    fn check_changes(&self, node: NodeId, changes: &SetAttr) -> sluice_vfs::Result<()> {
        let identity = self.nodes.identity(node).map_err(|e| errno(&e))?;
        let is_dir = identity.file_type() == Some(FileType::Directory);
        let is_odd = |time: Option<SetTime>| match time {
            Some(SetTime::To(time)) => time.nsec >= 1_000_000_000,
            Some(SetTime::Now) | None => false,
        };
        match changes.size {
            Some(_) if is_dir => Err(Errno::EISDIR),
            Some(size) if size > i64::MAX as u64 => Err(Errno::EINVAL),
            _ if is_odd(changes.atime) || is_odd(changes.mtime) => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }

    pub(super) fn readlink(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        sink: &mut dyn ReadSink,
    ) -> sluice_vfs::Result<Stamp> {
        let target = self.run(ctx, |turn| {
            let held = turn.held(node, None)?;
            turn.tree.readlink(held.number())
        })?;
        sink.put(&target)?;
        Ok(Stamp::NONE)
    }

    /// A dialect or a server without the message gets a file system without figures.
    pub(super) fn statfs(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<StatFs> {
        self.run(ctx, |turn| {
            let held = turn.held(node, None)?;
            match turn.tree.statfs(held.number()) {
                Err(error) if error.is_unsupported() => Ok(StatFs {
                    fs_type: FS_TYPE,
                    bsize: 4096,
                    frsize: 4096,
                    namelen: 255,
                    ..StatFs::default()
                }),
                outcome => outcome,
            }
        })
    }

    /// The value of an attribute, or without a name the list of all.
    pub(super) fn getxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: &[u8],
        sink: Option<&mut dyn ReadSink>,
    ) -> sluice_vfs::Result<usize> {
        let value = self.run(ctx, |turn| {
            let held = turn.held(node, None)?;
            match name.is_empty() {
                true => turn.tree.list_xattrs(held.number()),
                false => turn.tree.read_xattr(held.number(), name),
            }
        })?;
        if let Some(sink) = sink {
            if value.len() > sink.remaining() {
                return Err(Errno::ERANGE);
            }
            sink.put(&value)?;
        }
        Ok(value.len())
    }

    /// Most dialects have no empty values: `EINVAL`.
    pub(super) fn setxattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
        value: &[u8],
        flags: XattrFlags,
    ) -> sluice_vfs::Result<Stamp> {
        if flags.contains(XattrFlags::KILL_SGID) {
            self.kill_sgid(ctx, node)?;
        }
        let flags = flags.difference(XattrFlags::KILL_SGID);
        self.change_xattr(ctx, node, !flags.is_empty(), |tree, fid| {
            tree.write_xattr(fid, name.as_bytes(), value, flags)
        })
    }

    /// 9P says nothing of the set-group-id bit that an ACL takes with it: it goes in
    /// a message of its own, and before, so that it is not left behind.
    fn kill_sgid(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<()> {
        self.run(ctx, |turn| {
            let held = turn.held(node, None)?;
            let perm = turn.tree.getattr(held.number())?.mode.perm();
            if perm & SET_GROUP_ID == 0 {
                return Ok(());
            }
            let changes = SetAttr {
                perm: Some(perm & !SET_GROUP_ID),
                ..SetAttr::default()
            };
            turn.tree.setattr(held.number(), &changes)
        })
    }

    pub(super) fn removexattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        name: XattrName<'_>,
    ) -> sluice_vfs::Result<Stamp> {
        self.change_xattr(ctx, node, true, |tree, fid| {
            tree.remove_xattr(fid, name.as_bytes())
        })
    }

    /// Where it depends on what is there, that may be so because it was done.
    fn change_xattr(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        depends: bool,
        change: impl Fn(&Tree, u32) -> Result<()>,
    ) -> sluice_vfs::Result<Stamp> {
        self.run(ctx, |turn| {
            let held = turn.held(node, None)?;
            match depends {
                true => turn.once(|tree| change(tree, held.number())),
                false => change(turn.tree, held.number()),
            }?;
            Ok(Stamp::NONE)
        })
    }

    pub(super) fn fsync(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: Option<HandleId>,
        data_only: bool,
    ) -> sluice_vfs::Result<()> {
        let handle = handle.ok_or(Errno::EBADF)?;
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        self.run(ctx, |turn| {
            let file = handle.file(turn)?;
            turn.tree.fsync(file.number(), data_only)
        })
    }
}
