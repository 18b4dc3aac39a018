//! An inode of the host that a session knows.

use crate::fd_budget::Held;
use crate::fd_cache::PathFd;
use rustix::fd::{AsFd, BorrowedFd};
use sluice_sys::FileHandle;
use sluice_vfs::{FileType, Name, NodeId, Timestamp};
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The numbers of an inode. They may come to mean another one when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeKey {
    pub(crate) mount_id: u64,
    /// Device number, major in the high half.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

/// What tells an inode from all others, also from those that had its numbers
/// before or will have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) key: InodeKey,
    /// When it was made. Without it the numbers are an identity only while a
    /// descriptor of the inode is held.
    pub(crate) btime: Option<Timestamp>,
}

/// An inode that the session's peer knows, or has open.
pub(crate) struct Inode {
    pub(crate) id: NodeId,
    pub(crate) identity: Identity,
    pub(crate) file_type: FileType,
    /// By which it is found when it has moved.
    pub(crate) handle: Option<FileHandle>,
    /// Its size as a peer was last told.
    size_told: AtomicU64,
    /// How often it was asked about by its name, for want of a descriptor.
    asked: AtomicU8,
    state: Mutex<State>,
}

/// Who is asked about so often is worth a descriptor, with which an answer takes the
/// host no walk. A power of two, as the count wraps.
const ASKED_OFTEN: u8 = 8;

/// How an inode is reached.
#[derive(Default)]
pub(crate) struct State {
    /// The descriptor, as long as anyone has it open.
    pub(crate) fd: Weak<PathFd>,
    /// The descriptor of what could not be found again.
    pub(crate) pin: Option<Pin>,
    /// Where it was last seen.
    pub(crate) place: Option<Place>,
    /// The peer has forgotten it.
    pub(crate) is_forgotten: bool,
}

/// A name in a directory that the session knows, if the peer may not any more.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) parent: NodeId,
    pub(crate) name: Arc<[u8]>,
}

/// A descriptor that stays open; what the session has of its budget for that
/// is missing for the root only.
pub(crate) struct Pin {
    pub(crate) fd: Arc<PathFd>,
    pub(crate) _held: Option<Held>,
}

impl Inode {
    pub(crate) fn new(
        id: NodeId,
        identity: Identity,
        file_type: FileType,
        handle: Option<FileHandle>,
    ) -> Self {
        Inode {
            id,
            identity,
            file_type,
            handle,
            size_told: AtomicU64::new(0),
            asked: AtomicU8::new(0),
            state: Mutex::default(),
        }
    }

    /// Held for a few memory accesses; no other lock is taken meanwhile.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor, if one is open.
    pub(crate) fn open_fd(&self) -> Option<Arc<PathFd>> {
        let fd = self.state().fd.upgrade()?;
        fd.touch();
        Some(fd)
    }

    /// Counts that it is asked about without a descriptor, and says whether it is time
    /// to open one.
    pub(crate) fn is_asked_often(&self) -> bool {
        // A count that is lost between two threads costs nothing.
        let asked = self.asked.load(Ordering::Relaxed).wrapping_add(1);
        self.asked.store(asked, Ordering::Relaxed);
        asked.is_multiple_of(ASKED_OFTEN)
    }

    /// Whether it would be found again without a descriptor, and told from
    /// whatever else may be in its place.
    pub(crate) fn can_be_found(&self) -> bool {
        let has_way = self.handle.is_some() || self.state().place.is_some();
        has_way && self.identity.btime.is_some()
    }

    /// The size that a peer was last told.
    pub(crate) fn size_told(&self) -> u64 {
        self.size_told.load(Ordering::Relaxed)
    }

    pub(crate) fn tell_size(&self, size: u64) {
        self.size_told.store(size, Ordering::Relaxed);
    }

    /// The peer has written as far as `end`, and needn't be told.
    pub(crate) fn grow_to(&self, end: u64) {
        self.size_told.fetch_max(end, Ordering::Relaxed);
    }
}

impl Place {
    pub(crate) fn is(&self, parent: NodeId, name: Name<'_>) -> bool {
        self.parent == parent && *self.name == *name.as_bytes()
    }
}

/// An inode together with a descriptor of it, which stays open meanwhile.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) inode: Arc<Inode>,
    pub(crate) fd: Arc<PathFd>,
}

impl Node {
    /// The `O_PATH` descriptor of the inode.
    pub(crate) fn path_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Deref for Node {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.inode
    }
}
