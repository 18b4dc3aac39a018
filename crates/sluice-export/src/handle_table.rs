//! The open files and directories of one session.

use crate::dir_cursor::DirCursor;
use crate::fd_budget::{Held, Share};
use crate::inode::Node;
use crate::slab::Slab;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sluice_vfs::{Errno, HandleId, NodeId, OpenFlags, Result};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// An open file or directory. Whoever is using it keeps it open, also while it
/// is being released.
pub(crate) struct Handle {
    /// What is open; stays known to the handle when the peer forgets the node.
    pub(crate) inode: Node,
    /// As the peer asked for it. The descriptor may be open wider (see
    /// [`ExportOptions::writeback`](crate::ExportOptions::writeback)).
    pub(crate) flags: OpenFlags,
    fd: OwnedFd,
    cursor: Mutex<DirCursor>,
    held: Option<Held>,
}

impl Handle {
    pub(crate) fn new(inode: Node, flags: OpenFlags, fd: OwnedFd) -> Self {
        Handle {
            inode,
            flags,
            fd,
            cursor: Mutex::default(),
            held: None,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where a listing stands. Held across the system calls that read the
    /// directory, since those move the descriptor's position; nothing else
    /// waits for it but other listings through the same handle.
    pub(crate) fn cursor(&self) -> MutexGuard<'_, DirCursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open handles of a session. Its lock is held for a few memory accesses
/// and never across a system call.
pub(crate) struct HandleTable {
    handles: RwLock<Slab<Arc<Handle>>>,
    share: Arc<Share>,
    len: AtomicU32,
    max_len: u32,
}

/// Descriptors that a handle keeps open: the file's, and its inode's `O_PATH`.
const FDS_PER_HANDLE: u32 = 2;

impl HandleTable {
    /// A table for at most `max_len` handles.
    pub(crate) fn new(max_len: u32, share: Arc<Share>) -> Self {
        HandleTable {
            handles: RwLock::new(Slab::new()),
            share,
            len: AtomicU32::new(0),
            max_len,
        }
    }

    /// Counts one more handle; `ENFILE` if the session has too many, or too
    /// large a part of the process' descriptors. To be
    /// called before a file is opened, so that nothing is opened, made or
    /// truncated for a request that is refused.
    pub(crate) fn reserve(&self) -> Result<Reservation<'_>> {
        let add = |len: u32| (len < self.max_len).then(|| len + 1);
        self.len
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .map_err(|_| Errno::ENFILE)?;
        let mut room = Reservation {
            table: self,
            held: None,
        };
        room.held = Some(self.share.hold(FDS_PER_HANDLE)?);
        Ok(room)
    }

    /// The open handle with this id; `EBADF` if there is none or it is of
    /// another node.
    pub(crate) fn get(&self, id: HandleId, node: NodeId) -> Result<Arc<Handle>> {
        let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
        let found = handles.get(id.slot(), id.generation()).cloned();
        found
            .filter(|handle| handle.inode.id == node)
            .ok_or(Errno::EBADF)
    }

    /// Takes a handle out.
    pub(crate) fn remove(&self, id: HandleId, node: NodeId) -> Result<Arc<Handle>> {
        self.get(id, node)?;
        let mut handles = self.handles.write().unwrap_or_else(PoisonError::into_inner);
        let gone = handles
            .remove(id.slot(), id.generation())
            .ok_or(Errno::EBADF)?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Ok(gone)
    }
}

/// Room for one handle, given back unless it is used.
pub(crate) struct Reservation<'a> {
    table: &'a HandleTable,
    held: Option<Held>,
}

impl Reservation<'_> {
    /// Stores the handle.
    pub(crate) fn fill(mut self, mut handle: Handle) -> Result<HandleId> {
        handle.held = self.held.take();
        let mut id = HandleId(0);
        let mut handles = self
            .table
            .handles
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        handles
            .insert_with(|slot, generation| {
                id = HandleId::new(slot, generation);
                Arc::new(handle)
            })
            .ok_or(Errno::ENFILE)?;
        std::mem::forget(self);
        Ok(id)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.table.len.fetch_sub(1, Ordering::Relaxed);
    }
}
