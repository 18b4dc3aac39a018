//! Fids that are given back when nobody uses them any more.

use crate::error::Result;
use crate::ops::{OpenFid, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A fid of one connection. The last one who drops it gives it back, and does
/// not wait for the answer.
pub(super) struct Fid {
    tree: Arc<Tree>,
    number: u32,
    is_lent: bool,
}

impl Fid {
    pub(super) fn new(tree: &Arc<Tree>, number: u32) -> Self {
        Fid {
            tree: Arc::clone(tree),
            number,
            is_lent: false,
        }
    }

    /// The root that the connection keeps.
    pub(super) fn root_of(tree: &Arc<Tree>) -> Self {
        Fid {
            tree: Arc::clone(tree),
            number: tree.root,
            is_lent: true,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it means anything on this connection.
    pub(super) fn is_of(&self, tree: &Arc<Tree>) -> bool {
        Arc::ptr_eq(&self.tree, tree)
    }
}

impl Drop for Fid {
    fn drop(&mut self) {
        if !self.is_lent {
            self.tree.clunk(self.number);
        }
    }
}

/// A fid that is open; given back as a [`Fid`] is.
pub(super) struct OpenFile {
    tree: Arc<Tree>,
    pub(super) open: OpenFid,
    is_closed: AtomicBool,
}

impl OpenFile {
    pub(super) fn new(tree: &Arc<Tree>, open: OpenFid) -> Self {
        OpenFile {
            tree: Arc::clone(tree),
            open,
            is_closed: AtomicBool::new(false),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.open.fid
    }

    /// Whether it means anything on this connection.
    pub(super) fn is_of(&self, tree: &Arc<Tree>) -> bool {
        Arc::ptr_eq(&self.tree, tree)
    }

    /// Gives it back, and waits for what the server has to say to that.
    pub(super) fn close(&self) -> Result<()> {
        match self.is_closed.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.tree.clunk_and_wait(self.open.fid),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !*self.is_closed.get_mut() {
            self.tree.clunk(self.open.fid);
        }
    }
}
