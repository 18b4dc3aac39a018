//! What files are open.

use super::fid::OpenFile;
use super::listing::Page;
use super::turn::Turn;
use crate::error::Result;
use crate::ops::{OpenFid, Tree};
use sluice_vfs::{Errno, HandleId, NodeId, OpenFlags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open file or directory.
pub(super) struct Handle {
    pub(super) node: NodeId,
    /// Whose it is.
    pub(super) user: u32,
    pub(super) flags: OpenFlags,
    /// It was written to: closing it may have something to say.
    pub(super) was_written: AtomicBool,
    /// Locks that were held through it are lost.
    pub(super) lost_locks: AtomicBool,
    /// Of this connection, or of one before.
    file: Mutex<Arc<OpenFile>>,
    /// Entries that were listed and did not fit.
    pub(super) page: Mutex<Option<Page>>,
}

impl Handle {
    /// The open file, on this turn's connection.
    ///
    /// # Errors
    /// `EIO` once locks that were held through it are lost, `ESTALE` if the file
    /// is not where it was any more.
    pub(super) fn file(&self, turn: &Turn<'_>) -> Result<Arc<OpenFile>> {
        if self.lost_locks.load(Ordering::Acquire) {
            return Err(Errno::EIO.into());
        }
        self.file_to_close(turn)
    }

    /// The same, whatever was lost.
    pub(super) fn file_to_close(&self, turn: &Turn<'_>) -> Result<Arc<OpenFile>> {
        // Held while it is opened: others that need it wait for that.
        let mut file = self.lock();
        if !file.is_of(turn.tree) {
            *file = Arc::new(self.open_again(turn)?);
        }
        Ok(Arc::clone(&file))
    }

    /// The open file, if it is one of this connection.
    pub(super) fn current(&self, tree: &Arc<Tree>) -> Option<Arc<OpenFile>> {
        let file = self.lock();
        file.is_of(tree).then(|| Arc::clone(&file))
    }

    fn open_again(&self, turn: &Turn<'_>) -> Result<OpenFile> {
        let turn = Turn {
            user: self.user,
            ..*turn
        };
        let flags = self.flags - (OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE);
        turn.open_node(self.node, flags)
    }

    /// Whether it was written to.
    pub(super) fn was_written(&self) -> bool {
        self.was_written.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<OpenFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Slot {
    generation: u32,
    handle: Option<Arc<Handle>>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Handles that are given out or about to be.
    count: usize,
}

/// The handles of a session.
pub(super) struct Handles {
    state: Mutex<State>,
    limit: usize,
}

/// Room for a handle that is about to be made.
pub(super) struct Reserved<'a>(Option<&'a Handles>);

impl Handles {
    pub(super) fn new(limit: u32) -> Self {
        Handles {
            state: Mutex::default(),
            limit: limit as usize,
        }
    }

    /// Sees to it that a file that is opened can be kept.
    ///
    /// # Errors
    /// `ENFILE` beyond the limit.
    pub(super) fn reserve(&self) -> Result<Reserved<'_>> {
        let mut state = self.state();
        if state.count >= self.limit {
            return Err(Errno::ENFILE.into());
        }
        state.count += 1;
        Ok(Reserved(Some(self)))
    }

    /// The handle, which has to be the node's.
    pub(super) fn get(&self, node: NodeId, id: HandleId) -> Result<Arc<Handle>> {
        let state = self.state();
        let found = state.get(id).filter(|handle| handle.node == node);
        Ok(Arc::clone(found.ok_or(Errno::EBADF)?))
    }

    /// Any handle of a node.
    pub(super) fn any_of(&self, node: NodeId) -> Option<Arc<Handle>> {
        let state = self.state();
        let mut handles = state.slots.iter().filter_map(|slot| slot.handle.as_ref());
        handles.find(|handle| handle.node == node).cloned()
    }

    /// Gives a handle back.
    pub(super) fn remove(&self, node: NodeId, id: HandleId) -> Result<Arc<Handle>> {
        let mut state = self.state();
        state
            .get(id)
            .filter(|handle| handle.node == node)
            .ok_or(Errno::EBADF)?;
        let slot = state.slots.get_mut(id.slot() as usize);
        let handle = slot.and_then(|slot| slot.handle.take());
        state.free.push(id.slot());
        state.count -= 1;
        Ok(handle.ok_or(Errno::EBADF)?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved<'_> {
    /// A handle for what was opened.
    pub(super) fn fill(
        mut self,
        turn: &Turn<'_>,
        node: NodeId,
        flags: OpenFlags,
        file: OpenFile,
    ) -> HandleId {
        let handle = Arc::new(Handle {
            node,
            user: turn.user,
            flags,
            was_written: AtomicBool::new(false),
            lost_locks: AtomicBool::new(false),
            file: Mutex::new(Arc::new(file)),
            page: Mutex::default(),
        });
        match self.0.take() {
            Some(handles) => handles.state().add(handle),
            // It is filled once.
            None => HandleId::new(u32::MAX, u32::MAX),
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(handles) = self.0 {
            handles.state().count -= 1;
        }
    }
}

impl State {
    fn get(&self, id: HandleId) -> Option<&Arc<Handle>> {
        let slot = self.slots.get(id.slot() as usize)?;
        slot.handle
            .as_ref()
            .filter(|_| slot.generation == id.generation())
    }

    fn add(&mut self, handle: Arc<Handle>) -> HandleId {
        let handle = Some(handle);
        let reused = self.free.pop();
        match reused.and_then(|at| Some((at, self.slots.get_mut(at as usize)?))) {
            Some((at, slot)) => {
                slot.generation = slot.generation.wrapping_add(1);
                slot.handle = handle;
                HandleId::new(at, slot.generation)
            }
            None => {
                let generation = 0;
                self.slots.push(Slot { generation, handle });
                HandleId::new((self.slots.len() - 1) as u32, generation)
            }
        }
    }
}

impl Turn<'_> {
    /// Opens a node through a fid of its own.
    pub(super) fn open_node(&self, node: NodeId, flags: OpenFlags) -> Result<OpenFile> {
        let none: [&[u8]; 0] = [];
        let fid = self.fid(node)?;
        let opened: OpenFid = self
            .tree
            .open_at(fid.number(), &none, flags)
            .map_err(|stopped| stopped.error)?;
        let file = OpenFile::new(self.tree, opened);
        // A server's word for what was opened is the file's number at least.
        match opened.qid.path == self.inner.nodes.identity(node)?.path() {
            true => Ok(file),
            false => Err(Errno::ESTALE.into()),
        }
    }
}
