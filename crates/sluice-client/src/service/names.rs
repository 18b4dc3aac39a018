//! Finding, making, moving and removing names.

use super::fid::Fid;
use super::nodes::Identity;
use super::open::entry;
use super::session::Inner;
use super::turn::Turn;
use crate::error::{Error, Result};
use crate::ops::Tree;
use sluice_proto::p9::wire::{Dialect, Qid};
use sluice_vfs::{
    Ctx, Device, Entry, Errno, FileType, Lookup, Name, NewNode, NodeId, RenameFlags, Renamed,
    SYMLINK_TARGET_MAX, Stamp,
};
use std::sync::Arc;

/// Attribute in which a directory keeps its default ACL.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

impl Inner {
    pub(super) fn lookup(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
    ) -> sluice_vfs::Result<Lookup> {
        self.run(ctx, |turn| match turn.find(parent, name.as_bytes()) {
            Ok(entry) => Ok(Lookup::Found(entry)),
            Err(error) if error.errno() == Errno::ENOENT => Ok(Lookup::Missing {
                dir_stamp: Stamp::NONE,
            }),
            Err(error) => Err(error),
        })
    }

    pub(super) fn parent(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<Entry> {
        self.run(ctx, |turn| {
            if self.nodes.identity(node)?.file_type() != Some(FileType::Directory) {
                return Err(Errno::ENOTDIR.into());
            }
            turn.find_new(node, b"..", None)
        })
    }

    pub(super) fn remember(&self, ctx: &Ctx<'_>, node: NodeId) -> sluice_vfs::Result<Entry> {
        self.run(ctx, |turn| {
            let attr = turn.tree.getattr(turn.held(node, None)?.number())?;
            self.nodes.refer_again(node)?;
            Ok(entry(node, turn.owned(attr)))
        })
    }

    pub(super) fn mkdir(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        self.make(ctx, parent, name, new, |tree, dir, bits| {
            tree.mkdir(dir, name, bits, ctx.caller.gid)
        })
    }

    pub(super) fn mknod(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        (file_type, rdev): (FileType, Device),
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        if matches!(file_type, FileType::Directory | FileType::Symlink) {
            return Err(Errno::EINVAL);
        }
        self.make(ctx, parent, name, new, |tree, dir, bits| {
            tree.mknod(dir, name, file_type, rdev, (bits, ctx.caller.gid))
        })
    }

    pub(super) fn symlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        target: &[u8],
        new: &NewNode<'_>,
    ) -> sluice_vfs::Result<Entry> {
        match target.len() {
            0 => return Err(Errno::ENOENT),
            _ if target.contains(&0) => return Err(Errno::EINVAL),
            1..=SYMLINK_TARGET_MAX => {}
            _ => return Err(Errno::ENAMETOOLONG),
        }
        let new = NewNode { umask: 0, ..*new };
        self.make(ctx, parent, name, &new, |tree, dir, _| {
            tree.symlink(dir, name, target, ctx.caller.gid)
        })
    }

    /// Makes a name, and looks at what it leads to.
    fn make(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        new: &NewNode<'_>,
        act: impl Fn(&Tree, u32, u32) -> Result<Qid>,
    ) -> sluice_vfs::Result<Entry> {
        let mut is_made = false;
        self.run(ctx, |turn| {
            if !is_made {
                let dir = turn.fid(parent)?;
                self.nodes.check_room(parent, name.as_bytes())?;
                let bits = turn.bits(dir.number(), new)?;
                turn.once(|tree| act(tree, dir.number(), bits))?;
                is_made = true;
            }
            turn.find(parent, name.as_bytes())
        })
    }

    pub(super) fn link(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        parent: NodeId,
        name: Name<'_>,
    ) -> sluice_vfs::Result<Entry> {
        let mut is_made = false;
        self.run(ctx, |turn| {
            if !is_made {
                let (file, dir) = (turn.held(node, None)?, turn.fid(parent)?);
                turn.once(|tree| tree.link(file.number(), dir.number(), name))?;
                is_made = true;
            }
            turn.find(parent, name.as_bytes())
        })
    }

    pub(super) fn unlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        is_dir: bool,
    ) -> sluice_vfs::Result<Stamp> {
        self.run(ctx, |turn| {
            let dir = turn.fid(parent)?;
            turn.once(|tree| tree.unlink(dir.number(), name, is_dir))?;
            self.nodes.removed(parent, name.as_bytes());
            Ok(Stamp::NONE)
        })
    }

    /// 9P has no flags for it: `EINVAL`, as where a file system has none.
    pub(super) fn rename(
        &self,
        ctx: &Ctx<'_>,
        old: (NodeId, Name<'_>),
        new: (NodeId, Name<'_>),
        flags: RenameFlags,
    ) -> sluice_vfs::Result<Renamed> {
        if !flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.run(ctx, |turn| {
            let from = turn.fid(old.0)?;
            let to = turn.fid(new.0)?;
            turn.once(|tree| tree.rename((from.number(), old.1), (to.number(), new.1)))?;
            let (old, new) = ((old.0, old.1.as_bytes()), (new.0, new.1.as_bytes()));
            self.nodes.moved(old, new);
            // To some servers, diod for one, a fid is a path.
            if turn.tree.dialect() != Dialect::Sluice {
                self.nodes.find_anew(new);
            }
            Ok(Renamed::default())
        })
    }
}

impl Turn<'_> {
    /// What a name leads to. If that is known, a message and no fid.
    pub(super) fn find(&self, parent: NodeId, name: &[u8]) -> Result<Entry> {
        let nodes = &self.inner.nodes;
        let known = nodes.child(parent, name, self.user, self.tree);
        self.find_new(parent, name, known)
    }

    fn find_new(&self, parent: NodeId, name: &[u8], known: Option<Identity>) -> Result<Entry> {
        let nodes = &self.inner.nodes;
        let dir = self.fid(parent)?;
        let place = (name != b"..").then_some((parent, name));
        if let Some(known) = known {
            let found = self.tree.stat_at(dir.number(), &[name]);
            let attr = found.map_err(|stopped| self.not_found(place, stopped.error))?;
            if Identity::of(&attr) == known {
                let node = nodes.refer(&attr, place, None)?;
                return Ok(entry(node, self.owned(attr)));
            }
        }
        let found = self.tree.lookup(dir.number(), &[name]);
        let (number, attr) = found.map_err(|stopped| self.not_found(place, stopped.error))?;
        let fid = Arc::new(Fid::new(self.tree, number));
        let node = nodes.refer(&attr, place, Some((self.user, &fid)))?;
        Ok(entry(node, self.owned(attr)))
    }

    fn not_found(&self, place: Option<(NodeId, &[u8])>, error: Error) -> Error {
        if let Some((parent, name)) = place.filter(|_| error.errno() == Errno::ENOENT) {
            self.inner.nodes.removed(parent, name);
        }
        error
    }

    /// The permission bits to ask for. The umask is taken off here, unless a
    /// default ACL of the directory takes its place.
    pub(super) fn bits(&self, dir: u32, new: &NewNode<'_>) -> Result<u32> {
        if new.label.is_some() {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let masked = new.perm & !new.umask;
        if masked == new.perm || !self.inner.has_acls {
            return Ok(masked);
        }
        match self.tree.read_xattr(dir, DEFAULT_ACL) {
            Ok(_) => Ok(new.perm),
            Err(error) if error.is_fatal() => Err(error),
            Err(_) => Ok(masked),
        }
    }
}
