//! One operation for one user over one connection, and what its errors mean.

use super::fid::{Fid, OpenFile};
use super::link::is_lost;
use super::nodes::Identity;
use super::options::Access;
use super::session::Inner;
use crate::error::{Error, Lost, Result};
use crate::ops::Tree;
use sluice_vfs::{Attr, AttrMask, Caller, Ctx, Errno, HandleId, NodeId};
use std::cell::Cell;
use std::sync::Arc;

/// An operation's attempt.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) inner: &'a Inner,
    pub(super) tree: &'a Arc<Tree>,
    /// Whose fids it uses.
    pub(super) user: u32,
}

/// What attributes are asked of.
pub(super) enum Held {
    /// A node.
    Node(Arc<Fid>),
    /// An open file.
    Open(Arc<OpenFile>),
}

impl Held {
    pub(super) fn number(&self) -> u32 {
        match self {
            Held::Node(fid) => fid.number(),
            Held::Open(file) => file.number(),
        }
    }
}

/// Whether something was asked for that may have been done since.
#[derive(Default)]
pub(super) struct Doubt(Cell<bool>);

impl Inner {
    /// Does something over the connection, and over the next one if that is lost.
    pub(super) fn run<T>(
        &self,
        ctx: &Ctx<'_>,
        mut act: impl FnMut(&Turn<'_>) -> Result<T>,
    ) -> sluice_vfs::Result<T> {
        if ctx.is_cancelled() {
            return Err(Errno::EINTR);
        }
        for attempt in 1.. {
            let tree = self.link.tree(ctx, |tree| self.restore(tree));
            let tree = tree.map_err(|error| errno(&error))?;
            let turn = Turn {
                inner: self,
                tree: &tree,
                user: self.user_of(&ctx.caller),
            };
            match act(&turn) {
                Err(error) if is_lost(&error) => {
                    self.link.lost(&tree);
                    self.link.check_again(&error, attempt)?;
                }
                outcome => return outcome.map_err(|error| errno(&error)),
            }
        }
        Err(Errno::EIO)
    }

    /// Does what must not be done twice. Where its answer is lost, `look` tells over
    /// the next connection whether it was done, and with what outcome; where that
    /// is unclear, nobody knows (`EIO`).
    pub(super) fn run_once<T>(
        &self,
        ctx: &Ctx<'_>,
        mut act: impl FnMut(&Turn<'_>, &Doubt) -> Result<T>,
        look: impl Fn(&Turn<'_>) -> Result<Option<T>>,
    ) -> sluice_vfs::Result<T> {
        let doubt = Doubt::default();
        self.run(ctx, |turn| {
            let was_in_doubt = doubt.0.get();
            if was_in_doubt && let Some(done) = look(turn)? {
                return Ok(done);
            }
            match act(turn, &doubt) {
                // A server that lost a connection only may have done it since.
                Err(error) if was_in_doubt && !is_lost(&error) => look(turn)?.ok_or(error),
                outcome => outcome,
            }
        })
    }

    /// Whose fids requests of a caller use.
    pub(super) fn user_of(&self, caller: &Caller<'_>) -> u32 {
        let options = self.link.options();
        match options.access {
            Access::PerUser => caller.uid,
            Access::Single => options.connect.uid,
        }
    }
}

impl Turn<'_> {
    /// Does what must not be done twice: when the connection is lost before it is
    /// answered, nobody knows whether it was done, and that is an error (`EIO`).
    pub(super) fn once<T>(&self, act: impl FnOnce(&Tree) -> Result<T>) -> Result<T> {
        if self.tree.connection.has_ended() {
            return Err(Lost::Closed.into());
        }
        act(self.tree).map_err(|error| match error {
            Error::Lost(_) => {
                self.inner.link.lost(self.tree);
                Errno::EIO.into()
            }
            other => other,
        })
    }

    /// The same, where it can be looked whether it was done.
    pub(super) fn once_in<T>(
        &self,
        doubt: &Doubt,
        act: impl FnOnce(&Tree) -> Result<T>,
    ) -> Result<T> {
        if self.tree.connection.has_ended() {
            return Err(Lost::Closed.into());
        }
        doubt.0.set(true);
        act(self.tree)
    }

    /// What is under a name now.
    pub(super) fn peek(&self, dir: NodeId, name: &[u8]) -> Result<Option<Identity>> {
        let dir = self.fid(dir)?;
        match self.tree.stat_at(dir.number(), &[name]) {
            Ok(attr) => Ok(Some(Identity::of(&attr))),
            Err(stopped) if stopped.error.errno() == Errno::ENOENT => Ok(None),
            Err(stopped) => Err(stopped.error),
        }
    }

    /// A fid of a node for this user.
    pub(super) fn fid(&self, node: NodeId) -> Result<Arc<Fid>> {
        let nodes = &self.inner.nodes;
        match nodes.fid(node, self.user, self.tree)? {
            Some(fid) => Ok(fid),
            None if node == NodeId::ROOT => self.root(),
            None => self.find_again(node),
        }
    }

    /// A fid of the root for this user.
    fn root(&self) -> Result<Arc<Fid>> {
        let options = &self.inner.link.options().connect;
        let fid = match self.user == options.uid {
            true => Fid::root_of(self.tree),
            false => Fid::new(self.tree, self.tree.attach_as(self.user, options)?.keep()),
        };
        let fid = Arc::new(fid);
        self.inner.nodes.keep_fid(NodeId::ROOT, self.user, &fid);
        Ok(fid)
    }

    /// A fid for a node that this user, or this connection, has none for: what is
    /// where it was seen, if it still is the same.
    fn find_again(&self, node: NodeId) -> Result<Arc<Fid>> {
        let nodes = &self.inner.nodes;
        for back in 0.. {
            let Some(way) = nodes.way(node, back, self.user, self.tree)? else {
                break;
            };
            let from = match way.from {
                Some(fid) => fid,
                None => self.root()?,
            };
            let (found, attr) = match self.tree.lookup(from.number(), &way.names) {
                Ok(found) => found,
                Err(stopped) => match stopped.error.errno() {
                    Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => continue,
                    _ => return Err(stopped.error),
                },
            };
            let fid = Arc::new(Fid::new(self.tree, found.keep()));
            if Identity::of(&attr) == way.identity {
                nodes.keep_fid(node, self.user, &fid);
                return Ok(fid);
            }
        }
        Err(Errno::ESTALE.into())
    }

    /// The open file, or without a handle the node; one that has no name any
    /// more is asked through whatever is open of it.
    pub(super) fn held(&self, node: NodeId, handle: Option<HandleId>) -> Result<Held> {
        if let Some(handle) = handle {
            return Ok(Held::Open(self.file(node, handle)?));
        }
        match self.fid(node) {
            Ok(fid) => Ok(Held::Node(fid)),
            Err(error) if error.errno() == Errno::ESTALE => {
                let handle = self.inner.handles.any_of(node);
                let handle = handle.ok_or(error)?;
                Ok(Held::Open(handle.file(self)?))
            }
            Err(error) => Err(error),
        }
    }

    /// The open file behind a handle.
    pub(super) fn file(&self, node: NodeId, handle: HandleId) -> Result<Arc<OpenFile>> {
        self.inner.handles.get(node, handle)?.file(self)
    }

    /// Attributes, with an owner and a time of change where the server tells of
    /// none.
    pub(super) fn owned(&self, mut attr: Attr) -> Attr {
        let options = &self.inner.link.options().connect;
        if !attr.mask.contains(AttrMask::UID) {
            attr.uid = options.uid;
        }
        if !attr.mask.contains(AttrMask::GID) {
            attr.gid = self.tree.gid;
        }
        if !attr.mask.contains(AttrMask::CTIME) {
            attr.ctime = attr.mtime;
        }
        attr
    }
}

/// Largest error number of Linux that a program may see.
const ERRNO_MAX: i32 = 133;

/// The number that the neck hears. A server's `ENOSYS` would have kernels do
/// without the operation for good, and numbers that no program knows are `EIO`.
pub(super) fn errno(error: &Error) -> Errno {
    match error {
        Error::Lost(_) | Error::Connect(_) | Error::Foreign(_) => Errno::EIO,
        Error::Refused(errno) | Error::Told { errno, .. } => match *errno {
            Errno::ENOSYS => Errno::EOPNOTSUPP,
            errno if errno.raw() > ERRNO_MAX => Errno::EIO,
            errno => errno,
        },
        Error::Violation(_)
        | Error::TimedOut(_)
        | Error::NotInDialect { .. }
        | Error::Name(_)
        | Error::TooLong => error.errno(),
    }
}
