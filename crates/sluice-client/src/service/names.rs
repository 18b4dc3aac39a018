//! Finding, making, moving and removing names.

use super::fid::Fid;
use super::nodes::Identity;
use super::open::entry;
use super::session::Inner;
use super::turn::{Doubt, Turn, errno};
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
        if node == NodeId::ROOT {
            // Which may be a directory within the export.
            return self.remember(ctx, node);
        }
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
        let make = |turn: &Turn<'_>, doubt: &Doubt| {
            let dir = turn.fid(parent)?;
            self.nodes.check_room(parent, name.as_bytes())?;
            let bits = turn.bits(dir.number(), new)?;
            turn.once_in(doubt, |tree| act(tree, dir.number(), bits))
                .map(drop)
        };
        let look = |turn: &Turn<'_>| turn.is_missing(parent, name.as_bytes());
        self.run_once(ctx, make, look)?;
        self.run(ctx, |turn| turn.find(parent, name.as_bytes()))
    }

    pub(super) fn link(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        parent: NodeId,
        name: Name<'_>,
    ) -> sluice_vfs::Result<Entry> {
        let link = |turn: &Turn<'_>, doubt: &Doubt| {
            let (file, dir) = (turn.held(node, None)?, turn.fid(parent)?);
            turn.once_in(doubt, |tree| tree.link(file.number(), dir.number(), name))
        };
        let identity = self.nodes.identity(node).map_err(|e| errno(&e))?;
        let look = |turn: &Turn<'_>| match turn.peek(parent, name.as_bytes())? {
            None => Ok(None),
            Some(there) if identity.is_surely(there) => Ok(Some(())),
            Some(_) => Err(Errno::EIO.into()),
        };
        self.run_once(ctx, link, look)?;
        self.run(ctx, |turn| turn.find(parent, name.as_bytes()))
    }

    pub(super) fn unlink(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        name: Name<'_>,
        is_dir: bool,
    ) -> sluice_vfs::Result<Stamp> {
        let unlink = |turn: &Turn<'_>, doubt: &Doubt| {
            let dir = turn.fid(parent)?;
            turn.once_in(doubt, |tree| tree.unlink(dir.number(), name, is_dir))
        };
        let before = self.nodes.at(parent, name.as_bytes());
        let look = |turn: &Turn<'_>| match (before, turn.peek(parent, name.as_bytes())?) {
            (Some(_), None) => Ok(Some(())),
            // It may be that there was nothing to remove.
            (None, None) => Ok(None),
            (Some(before), Some(there)) if before.is_surely(there) => Ok(None),
            _ => Err(Errno::EIO.into()),
        };
        self.run_once(ctx, unlink, look)?;
        self.nodes.removed(parent, name.as_bytes());
        Ok(Stamp::NONE)
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
        let rename = |turn: &Turn<'_>, doubt: &Doubt| {
            let from = turn.fid(old.0)?;
            let to = turn.fid(new.0)?;
            turn.once_in(doubt, |tree| {
                tree.rename((from.number(), old.1), (to.number(), new.1))
            })?;
            Ok(goes_by_paths(turn))
        };
        let (from, to) = ((old.0, old.1.as_bytes()), (new.0, new.1.as_bytes()));
        let before = self.nodes.at(from.0, from.1);
        let look = |turn: &Turn<'_>| {
            let is_it = |place: (NodeId, &[u8])| match (before, turn.peek(place.0, place.1)?) {
                (Some(before), Some(there)) => Ok::<_, Error>(before.is_surely(there)),
                _ => Ok(false),
            };
            match (is_it(from)?, is_it(to)?) {
                // To another name of the same file: nothing is to be done then.
                (_, true) => Ok(Some(goes_by_paths(turn))),
                (true, false) => Ok(None),
                (false, false) => Err(Errno::EIO.into()),
            }
        };
        let is_elsewhere = self.run_once(ctx, rename, look)?;
        self.nodes.moved(from, to);
        if is_elsewhere {
            self.nodes.find_anew(to);
        }
        Ok(Renamed::default())
    }
}

/// To some servers, diod for one, a fid is a path.
fn goes_by_paths(turn: &Turn<'_>) -> bool {
    turn.tree.dialect() != Dialect::Sluice
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
        let (found, attr) = found.map_err(|stopped| self.not_found(place, stopped.error))?;
        let fid = Arc::new(Fid::new(self.tree, found.keep()));
        let node = nodes.refer(&attr, place, Some((self.user, &fid)))?;
        Ok(entry(node, self.owned(attr)))
    }

    /// What a look at something says that was to be made: not done if there is
    /// nothing. What is there may be another's.
    pub(super) fn is_missing<T>(&self, parent: NodeId, name: &[u8]) -> Result<Option<T>> {
        match self.peek(parent, name)? {
            None => Ok(None),
            Some(_) => Err(Errno::EIO.into()),
        }
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
