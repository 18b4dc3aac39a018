//! The nodes of one session.
//!
//! A node stands for one inode of the host. While the node is known its
//! `O_PATH` descriptor is held, which pins inode and mount, so the numbers in
//! its [`InodeKey`] can't come to mean anything else. That is what makes the
//! key an identity; numbers that were seen before the descriptor was held are
//! none (see [`InodeTable::acquire`]).

use crate::slab::Slab;
use rustix::fd::{AsFd, OwnedFd};
use sluice_vfs::{Errno, FileType, NodeId, Result};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What tells inodes apart while descriptors of them are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeKey {
    pub(crate) mount_id: u64,
    /// Device number, major in the high half.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

/// An inode that the session's peer knows, or has open.
pub(crate) struct Inode {
    pub(crate) id: NodeId,
    pub(crate) key: InodeKey,
    pub(crate) file_type: FileType,
    fd: OwnedFd,
    /// References the peer holds; changed under the shard's lock only.
    refs: AtomicU64,
    /// The table's epoch when the descriptor came to be held.
    born: u64,
}

impl Inode {
    /// The `O_PATH` descriptor of the inode.
    pub(crate) fn path_fd(&self) -> Result<impl AsFd + '_> {
        Ok(self.fd.as_fd())
    }
}

/// All nodes that a session's peer knows, by id and by identity.
///
/// Sharded by identity; a shard's lock is held for a few memory accesses and
/// never across a system call.
pub(crate) struct InodeTable {
    shards: [RwLock<Shard>; SHARDS as usize],
    hasher: RandomState,
    root: Arc<Inode>,
    /// Moves on with every insertion.
    epoch: AtomicU64,
    len: AtomicU32,
    max_len: u32,
}

/// A power of two, so that slots spread evenly.
const SHARDS: u32 = 16;

struct Shard {
    inodes: Slab<Arc<Inode>>,
    by_key: HashMap<InodeKey, NodeId>,
}

impl InodeTable {
    /// A table that knows the root only, and at most `max_len` nodes besides.
    pub(crate) fn new(root_key: InodeKey, root_fd: OwnedFd, max_len: u32) -> Self {
        let root = Arc::new(Inode {
            id: NodeId::ROOT,
            key: root_key,
            file_type: FileType::Directory,
            fd: root_fd,
            refs: AtomicU64::new(0),
            born: 0,
        });
        InodeTable {
            shards: std::array::from_fn(|_| RwLock::new(Shard::new())),
            hasher: RandomState::new(),
            root,
            epoch: AtomicU64::new(0),
            len: AtomicU32::new(0),
            max_len: max_len.min(MAX_LEN),
        }
    }

    /// The node with this id; `ESTALE` if there is none.
    pub(crate) fn get(&self, id: NodeId) -> Result<Arc<Inode>> {
        if id == NodeId::ROOT {
            return Ok(self.root.clone());
        }
        let (shard, slot) = split(id.slot()).ok_or(Errno::ESTALE)?;
        let found = self.read(shard).inodes.get(slot, id.generation()).cloned();
        found.ok_or(Errno::ESTALE)
    }

    /// To be asked before numbers are read that [`InodeTable::acquire`] gets.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Takes a reference to the node with this identity, if it was known at
    /// `epoch` already. One that came later proves nothing: between the moment
    /// the numbers were read and the moment its descriptor was opened they may
    /// have changed hands.
    pub(crate) fn acquire(&self, key: &InodeKey, epoch: u64) -> Option<Arc<Inode>> {
        if *key == self.root.key {
            return Some(self.root.clone());
        }
        let shard = self.read(self.shard_of(key));
        let inode = shard.find(key).filter(|inode| inode.born <= epoch)?;
        inode.refs.fetch_add(1, Ordering::Relaxed);
        Some(inode.clone())
    }

    /// Whether there is a node with this identity. A descriptor of the inode
    /// must be held.
    pub(crate) fn knows(&self, key: &InodeKey) -> bool {
        *key == self.root.key || self.read(self.shard_of(key)).by_key.contains_key(key)
    }

    /// Takes a reference to the node with this identity, which becomes known
    /// by `fd` if it wasn't. `key` must have been read from `fd`. `ENOMEM` if
    /// the session knows too many.
    pub(crate) fn insert(
        &self,
        key: InodeKey,
        file_type: FileType,
        fd: OwnedFd,
    ) -> Result<Arc<Inode>> {
        if let Some(known) = self.acquire(&key, u64::MAX) {
            return Ok(known);
        }
        let shard_index = self.shard_of(&key);
        let mut shard = self.write(shard_index);
        if let Some(known) = shard.find(&key) {
            known.refs.fetch_add(1, Ordering::Relaxed);
            return Ok(known.clone());
        }
        self.charge()?;
        let born = self.epoch.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        let added = shard.inodes.insert_with(|slot, generation| {
            Arc::new(Inode {
                id: NodeId::new(join(shard_index, slot), generation),
                key,
                file_type,
                fd,
                refs: AtomicU64::new(1),
                born,
            })
        });
        let added = added.cloned().ok_or(Errno::ENOMEM)?;
        shard.by_key.insert(key, added.id);
        Ok(added)
    }

    /// Takes another reference to a node. One that was forgotten meanwhile is
    /// `ESTALE`.
    pub(crate) fn reference(&self, inode: &Arc<Inode>) -> Result<()> {
        if inode.id == NodeId::ROOT {
            return Ok(());
        }
        let (shard, slot) = split(inode.id.slot()).ok_or(Errno::ESTALE)?;
        let shard = self.read(shard);
        let known = shard
            .inodes
            .get(slot, inode.id.generation())
            .ok_or(Errno::ESTALE)?;
        known.refs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Gives references back; the last one makes the node unknown.
    pub(crate) fn forget(&self, id: NodeId, count: u64) {
        let Some((shard, slot)) = split(id.slot()) else {
            return;
        };
        let mut shard = self.write(shard);
        let Some(inode) = shard.inodes.get(slot, id.generation()) else {
            return;
        };
        let left = inode.refs.load(Ordering::Relaxed).saturating_sub(count);
        inode.refs.store(left, Ordering::Relaxed);
        if left > 0 {
            return;
        }
        let key = inode.key;
        shard.by_key.remove(&key);
        let gone = shard.inodes.remove(slot, id.generation());
        self.len.fetch_sub(1, Ordering::Relaxed);
        // Closing the descriptor of a deleted file may take long.
        drop(shard);
        drop(gone);
    }

    /// `ENOMEM` if one more node would be too many. To be asked before a node
    /// is made that could then not be handed out; requests that run beside
    /// each other may all be told yes.
    pub(crate) fn require_room(&self) -> Result<()> {
        match self.len.load(Ordering::Relaxed) < self.max_len {
            true => Ok(()),
            false => Err(Errno::ENOMEM),
        }
    }

    /// Counts one more node.
    fn charge(&self) -> Result<()> {
        let add = |len: u32| (len < self.max_len).then(|| len + 1);
        self.len
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .map(drop)
            .map_err(|_| Errno::ENOMEM)
    }

    fn shard_of(&self, key: &InodeKey) -> u32 {
        (self.hasher.hash_one(key) as u32) % SHARDS
    }

    fn read(&self, shard: u32) -> RwLockReadGuard<'_, Shard> {
        let shard = &self.shards[(shard % SHARDS) as usize];
        shard.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: u32) -> RwLockWriteGuard<'_, Shard> {
        let shard = &self.shards[(shard % SHARDS) as usize];
        shard.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn new() -> Self {
        Shard {
            inodes: Slab::new(),
            by_key: HashMap::new(),
        }
    }

    fn find(&self, key: &InodeKey) -> Option<&Arc<Inode>> {
        let id = self.by_key.get(key)?;
        let (_, slot) = split(id.slot())?;
        self.inodes.get(slot, id.generation())
    }
}

/// Ids below this are not in any shard: 0 is nobody's, 1 the root's.
const FIRST_ID: u32 = 2;

/// Shard and slot in it of an id's slot.
fn split(slot: u32) -> Option<(u32, u32)> {
    let index = slot.checked_sub(FIRST_ID)?;
    Some((index % SHARDS, index / SHARDS))
}

/// Inverse of [`split`], for a slot below [`MAX_LEN`].
fn join(shard: u32, slot: u32) -> u32 {
    slot * SHARDS + shard + FIRST_ID
}

/// Most nodes whatever the session may know: were they all in one shard, their
/// ids would still fit.
const MAX_LEN: u32 = u32::MAX / SHARDS;

#[cfg(test)]
mod tests {
    use super::*;

    fn path_fd() -> OwnedFd {
        rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap()
    }

    fn key(ino: u64) -> InodeKey {
        InodeKey {
            mount_id: 1,
            dev: 1,
            ino,
        }
    }

    fn table(max_len: u32) -> InodeTable {
        InodeTable::new(key(0), path_fd(), max_len)
    }

    fn insert(table: &InodeTable, ino: u64) -> Result<Arc<Inode>> {
        table.insert(key(ino), FileType::Regular, path_fd())
    }

    #[test]
    fn slots_and_shards_share_the_id() {
        assert_eq!(split(0), None);
        assert_eq!(split(NodeId::ROOT.slot()), None);
        for slot in [0, 1, 77, MAX_LEN - 1] {
            for shard in [0, 1, SHARDS - 1] {
                assert_eq!(split(join(shard, slot)), Some((shard, slot)));
            }
        }
    }

    #[test]
    fn a_node_lives_as_long_as_its_references() {
        let table = table(100);
        let first = insert(&table, 5).unwrap();
        let again = insert(&table, 5).unwrap();
        assert_eq!(first.id, again.id);
        table.reference(&first).unwrap();
        table.forget(first.id, 2);
        assert!(table.get(first.id).is_ok());
        table.forget(first.id, u64::MAX);
        assert_eq!(table.get(first.id).err(), Some(Errno::ESTALE));
        assert_eq!(table.reference(&first), Err(Errno::ESTALE));
        table.forget(first.id, 1);
        let new = insert(&table, 5).unwrap();
        assert_ne!(new.id, first.id);
    }

    #[test]
    fn the_root_stays_whatever_is_forgotten() {
        let table = table(0);
        table.forget(NodeId::ROOT, u64::MAX);
        assert_eq!(table.get(NodeId::ROOT).unwrap().key, key(0));
        assert_eq!(table.acquire(&key(0), 0).unwrap().id, NodeId::ROOT);
        for unknown in [NodeId(0), NodeId::new(1, 1), NodeId(u64::MAX), NodeId(2)] {
            table.forget(unknown, 1);
            assert_eq!(table.get(unknown).err(), Some(Errno::ESTALE));
        }
    }

    #[test]
    fn what_became_known_after_the_numbers_were_read_proves_nothing() {
        let table = table(100);
        let before = table.epoch();
        let inode = insert(&table, 5).unwrap();
        assert!(table.acquire(&key(5), before).is_none());
        assert_eq!(table.acquire(&key(5), table.epoch()).unwrap().id, inode.id);
        assert!(table.acquire(&key(6), table.epoch()).is_none());
    }

    #[test]
    fn a_session_that_knows_too_much_is_refused_until_it_forgets() {
        let table = table(3);
        let known: Vec<_> = (1..=3).map(|ino| insert(&table, ino).unwrap()).collect();
        assert_eq!(insert(&table, 4).err(), Some(Errno::ENOMEM));
        assert!(insert(&table, 2).is_ok());
        table.forget(known[0].id, 1);
        assert!(insert(&table, 4).is_ok());
    }

    #[test]
    fn threads_agree_on_one_node_per_inode() {
        let table = table(1000);
        let work = || -> Vec<NodeId> {
            (1..200)
                .map(|ino| insert(&table, ino % 50).unwrap().id)
                .collect()
        };
        let lists: Vec<Vec<NodeId>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(lists.iter().all(|list| *list == lists[0]));
        for id in &lists[0] {
            table.forget(*id, 4);
        }
        assert_eq!(table.len.load(Ordering::Relaxed), 0);
        let is_empty = |shard: &RwLock<Shard>| shard.read().unwrap().by_key.is_empty();
        assert!(table.shards.iter().all(is_empty));
    }
}
