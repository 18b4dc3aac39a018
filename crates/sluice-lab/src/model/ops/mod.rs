//! The operations. Each file adds its group of methods to [`Call`].

mod attr;
mod io;
mod lock;
mod names;
mod open;
mod rename;
mod space;
mod xattr;

use super::state::{SessionId, SessionState, State};
use super::table::Handle;
use sluice_vfs::{Ctx, Entry, Errno, HandleId, Name, NodeId, Result, Stamp, Stat};
use std::ops::Range;

/// One operation under way, with the state locked.
pub(super) struct Call<'a> {
    pub(super) state: &'a mut State,
    pub(super) id: SessionId,
    pub(super) ctx: &'a Ctx<'a>,
}

impl Call<'_> {
    pub(super) fn session(&self) -> Result<&SessionState> {
        self.state.sessions.get(&self.id).ok_or(Errno::ESTALE)
    }

    fn session_mut(&mut self) -> Result<&mut SessionState> {
        self.state.sessions.get_mut(&self.id).ok_or(Errno::ESTALE)
    }

    fn ino(&self, node: NodeId) -> Result<u64> {
        self.session()?.nodes.ino(node)
    }

    /// A handle of this node.
    fn handle(&self, node: NodeId, handle: HandleId) -> Result<Handle> {
        let found = self.session()?.handles.get(handle)?;
        if self.ino(node)? != found.ino {
            return Err(Errno::EBADF);
        }
        Ok(found)
    }

    /// The inode that a node, or its handle, stands for.
    fn target(&self, node: NodeId, handle: Option<HandleId>) -> Result<u64> {
        match handle {
            Some(handle) => Ok(self.handle(node, handle)?.ino),
            None => self.ino(node),
        }
    }

    /// Records a change of the inode's attributes, and of its content in
    /// `data`: moves its change time, versions it and tells other sessions.
    fn changed(&mut self, ino: u64, data: Option<Range<u64>>) -> Result<Stamp> {
        let now = self.state.tree.now();
        let stamp = self.state.tree.next_version();
        let inode = self.state.tree.get_mut(ino)?;
        inode.ctime = now;
        if data.is_some() {
            inode.mtime = now;
        }
        inode.stamp = stamp;
        self.state.tell_inode(self.id, ino, data);
        Ok(stamp)
    }

    /// Records that a name in `dir` came, went or leads elsewhere.
    fn names_changed(&mut self, dir: u64, name: Name<'_>) -> Result<Stamp> {
        let stamp = self.changed(dir, None)?;
        let inode = self.state.tree.get_mut(dir)?;
        inode.mtime = inode.ctime;
        inode.names_stamp = stamp;
        self.state.tell_entry(self.id, dir, name);
        Ok(stamp)
    }

    /// An entry for `ino`, found in `dir`, with a reference taken.
    fn entry(&mut self, ino: u64, dir: u64) -> Result<Entry> {
        let (node, is_new) = self.session_mut()?.nodes.take(ino)?;
        if is_new {
            self.state.tree.pin(ino);
        }
        let inode = self.state.tree.get(ino)?;
        Ok(Entry {
            node,
            attr: inode.attr(),
            stamp: inode.stamp,
            dir_stamp: self.state.tree.get(dir)?.names_stamp,
        })
    }

    fn stat(&self, ino: u64) -> Result<Stat> {
        let inode = self.state.tree.get(ino)?;
        Ok(Stat {
            attr: inode.attr(),
            stamp: inode.stamp,
        })
    }
}
