//! The nodes of one session, by id and by identity.
//!
//! A node stays known while the peer has references to it, or knows something
//! below it: directories are what nodes are found by when their descriptors
//! were let go of.

use crate::fd_cache::{FdCache, PathFd};
use crate::inode::{Identity, Inode, InodeKey, Pin, Place};
use crate::slab::Slab;
use sluice_sys::FileHandle;
use sluice_vfs::{Errno, FileType, Name, NodeId, Result};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// All nodes that a session's peer knows.
///
/// Sharded by identity; a shard's lock is held for a few memory accesses and
/// never across a system call.
pub(crate) struct InodeTable {
    shards: [RwLock<Shard>; SHARDS as usize],
    hasher: RandomState,
    root: Arc<Inode>,
    fds: Arc<FdCache>,
    len: AtomicU32,
    max_len: u32,
}

/// A power of two, so that slots spread evenly.
const SHARDS: u32 = 16;

struct Shard {
    inodes: Slab<Known>,
    by_key: HashMap<InodeKey, NodeId>,
}

/// Counters change under the shard's lock; those that grow only, under the
/// shared one.
struct Known {
    inode: Arc<Inode>,
    /// References the peer holds.
    refs: AtomicU64,
    /// Nodes whose place is in this directory.
    children: AtomicU32,
}

impl InodeTable {
    /// A table that knows the root only, and at most `max_len` nodes besides.
    pub(crate) fn new(
        root: Identity,
        root_fd: Arc<PathFd>,
        fds: Arc<FdCache>,
        max_len: u32,
    ) -> Self {
        let root = Inode::new(NodeId::ROOT, root, FileType::Directory, None);
        {
            let mut state = root.state();
            state.fd = Arc::downgrade(&root_fd);
            state.pin = Some(Pin {
                fd: root_fd,
                _held: None,
            });
        }
        InodeTable {
            shards: std::array::from_fn(|_| RwLock::new(Shard::new())),
            hasher: RandomState::new(),
            root: Arc::new(root),
            fds,
            len: AtomicU32::new(0),
            max_len: max_len.min(MAX_LEN),
        }
    }

    /// The node with this id; `ESTALE` if the peer knows none.
    pub(crate) fn get(&self, id: NodeId) -> Result<Arc<Inode>> {
        self.get_if(id, |known| known.refs.load(Ordering::Relaxed) > 0)
    }

    /// The directory with this id, which something known is in.
    pub(crate) fn get_parent(&self, id: NodeId) -> Result<Arc<Inode>> {
        self.get_if(id, |_| true)
    }

    fn get_if(&self, id: NodeId, is_wanted: impl Fn(&Known) -> bool) -> Result<Arc<Inode>> {
        if id == NodeId::ROOT {
            return Ok(self.root.clone());
        }
        let (shard, slot) = split(id.slot()).ok_or(Errno::ESTALE)?;
        let shard = self.read(shard);
        let known = shard.inodes.get(slot, id.generation());
        let known = known.filter(|known| is_wanted(known));
        Ok(known.ok_or(Errno::ESTALE)?.inode.clone())
    }

    /// The node with this identity, which must be settled: told by a time of
    /// birth that has passed, or by a descriptor that is held.
    pub(crate) fn find(&self, identity: &Identity) -> Option<Arc<Inode>> {
        if *identity == self.root.identity {
            return Some(self.root.clone());
        }
        let shard = self.read(self.shard_of(&identity.key));
        Some(shard.find(identity)?.inode.clone())
    }

    /// The same, and takes a reference to it.
    pub(crate) fn acquire(&self, identity: &Identity) -> Option<Arc<Inode>> {
        if *identity == self.root.identity {
            return Some(self.root.clone());
        }
        let shard = self.read(self.shard_of(&identity.key));
        Some(shard.find(identity)?.acquire())
    }

    /// Takes a reference to the node with this identity, which becomes known
    /// if it wasn't. `ENOMEM` if the session knows too many.
    pub(crate) fn insert(
        &self,
        identity: Identity,
        file_type: FileType,
        handle: Option<FileHandle>,
    ) -> Result<Arc<Inode>> {
        if let Some(known) = self.acquire(&identity) {
            return Ok(known);
        }
        let shard_index = self.shard_of(&identity.key);
        let mut shard = self.write(shard_index);
        if let Some(known) = shard.find(&identity) {
            return Ok(known.acquire());
        }
        self.charge()?;
        let added = shard.inodes.insert_with(|slot, generation| {
            let id = NodeId::new(join(shard_index, slot), generation);
            Known {
                inode: Arc::new(Inode::new(id, identity, file_type, handle)),
                refs: AtomicU64::new(1),
                children: AtomicU32::new(0),
            }
        });
        let added = added.ok_or(Errno::ENOMEM)?.inode.clone();
        // What had these numbers before is gone, if the peer doesn't know yet.
        shard.by_key.insert(identity.key, added.id);
        Ok(added)
    }

    /// Takes another reference to a node. One that was forgotten meanwhile is
    /// `ESTALE`.
    pub(crate) fn reference(&self, inode: &Inode) -> Result<()> {
        self.count(inode.id, |known| {
            known.refs.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Notes that the inode is `name` in `parent` now.
    pub(crate) fn set_place(&self, inode: &Inode, parent: NodeId, name: Name<'_>) {
        let is_placed = |place: &Option<Place>| {
            let place = place.as_ref();
            place.is_some_and(|place| place.is(parent, name))
        };
        if inode.id == NodeId::ROOT || is_placed(&inode.state().place) {
            return;
        }
        let add_child = |known: &Known| {
            known.children.fetch_add(1, Ordering::Relaxed);
        };
        if self.count(parent, add_child).is_err() {
            return;
        }
        let place = Place {
            parent,
            name: name.as_bytes().into(),
        };
        let (left, pin) = {
            let mut state = inode.state();
            match state.is_forgotten {
                true => (Some(place), None),
                false => (
                    state.place.replace(place),
                    state.pin.take_if(|_| inode.identity.btime.is_some()),
                ),
            }
        };
        self.leave(left);
        // It is found by name from now on.
        if let Some(pin) = pin {
            self.fds.keep(&pin.fd);
        }
    }

    /// Forgets where the inode is, if that is `name` in `parent`.
    pub(crate) fn clear_place(&self, inode: &Inode, parent: NodeId, name: Name<'_>) {
        let left = inode.state().place.take_if(|place| place.is(parent, name));
        self.leave(left);
    }

    /// Gives references back; the last one makes the node unknown.
    pub(crate) fn forget(&self, id: NodeId, count: u64) {
        let gone = self.remove_if(id, |known| {
            let left = known.refs.load(Ordering::Relaxed).saturating_sub(count);
            known.refs.store(left, Ordering::Relaxed);
        });
        if let Some(gone) = gone {
            self.leave(self.retire(&gone));
        }
    }

    /// Lets go of the directories above something that is not there any more,
    /// as far as nothing else needs them.
    fn leave(&self, mut place: Option<Place>) {
        while let Some(left) = place {
            let parent = self.remove_if(left.parent, |known| {
                let children = known.children.load(Ordering::Relaxed);
                known
                    .children
                    .store(children.saturating_sub(1), Ordering::Relaxed);
            });
            place = parent.and_then(|parent| self.retire(&parent));
        }
    }

    /// Ends what the table had to do with a node; says where it was.
    fn retire(&self, inode: &Inode) -> Option<Place> {
        let (place, _pin, fd) = {
            let mut state = inode.state();
            state.is_forgotten = true;
            (state.place.take(), state.pin.take(), state.fd.upgrade())
        };
        // Closing the descriptor of a deleted file may take long.
        if let Some(fd) = fd {
            self.fds.drop_fd(&fd);
        }
        place
    }

    /// Changes counters, and removes the node if none is left.
    fn remove_if(&self, id: NodeId, change: impl FnOnce(&Known)) -> Option<Arc<Inode>> {
        let (shard, slot) = split(id.slot())?;
        let mut shard = self.write(shard);
        let known = shard.inodes.get(slot, id.generation())?;
        change(known);
        if known.refs.load(Ordering::Relaxed) > 0 || known.children.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let gone = shard.inodes.remove(slot, id.generation())?.inode;
        if shard.by_key.get(&gone.identity.key) == Some(&id) {
            shard.by_key.remove(&gone.identity.key);
        }
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(gone)
    }

    /// Counts something more of a node. The root needs no counting.
    fn count(&self, id: NodeId, add: impl FnOnce(&Known)) -> Result<()> {
        if id == NodeId::ROOT {
            return Ok(());
        }
        let (shard, slot) = split(id.slot()).ok_or(Errno::ESTALE)?;
        let shard = self.read(shard);
        let known = shard.inodes.get(slot, id.generation());
        add(known.ok_or(Errno::ESTALE)?);
        Ok(())
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

    fn find(&self, identity: &Identity) -> Option<&Known> {
        let id = self.by_key.get(&identity.key)?;
        let (_, slot) = split(id.slot())?;
        let known = self.inodes.get(slot, id.generation())?;
        (known.inode.identity == *identity).then_some(known)
    }
}

impl Known {
    fn acquire(&self) -> Arc<Inode> {
        self.refs.fetch_add(1, Ordering::Relaxed);
        self.inode.clone()
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
    use crate::fd_budget::PROCESS;
    use sluice_vfs::Timestamp;

    fn identity(ino: u64) -> Identity {
        Identity {
            key: InodeKey {
                mount_id: 1,
                dev: 1,
                ino,
            },
            btime: Some(Timestamp::default()),
        }
    }

    fn table(max_len: u32) -> InodeTable {
        let flags = rustix::fs::OFlags::PATH;
        let fd = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).unwrap();
        let fds = Arc::new(FdCache::new(PROCESS.share()));
        InodeTable::new(identity(0), PathFd::new(fd, None), fds, max_len)
    }

    fn insert(table: &InodeTable, ino: u64) -> Result<Arc<Inode>> {
        table.insert(identity(ino), FileType::Regular, None)
    }

    fn name(name: &str) -> Name<'_> {
        Name::try_from(name).unwrap()
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
        assert_eq!(table.get(NodeId::ROOT).unwrap().identity, identity(0));
        assert_eq!(table.acquire(&identity(0)).unwrap().id, NodeId::ROOT);
        for unknown in [NodeId(0), NodeId::new(1, 1), NodeId(u64::MAX), NodeId(2)] {
            table.forget(unknown, 1);
            assert_eq!(table.get(unknown).err(), Some(Errno::ESTALE));
        }
    }

    #[test]
    fn the_numbers_of_an_inode_that_is_gone_name_its_successor() {
        let table = table(100);
        let old = insert(&table, 5).unwrap();
        let later = Identity {
            btime: Some(Timestamp { sec: 1, nsec: 0 }),
            ..identity(5)
        };
        assert!(table.find(&later).is_none());
        let new = table.insert(later, FileType::Regular, None).unwrap();
        assert_ne!(new.id, old.id);
        assert!(table.find(&identity(5)).is_none());
        table.forget(old.id, 1);
        assert_eq!(table.find(&later).unwrap().id, new.id);
    }

    #[test]
    fn a_directory_stays_while_something_in_it_is_known() {
        let table = table(3);
        let (top, sub) = (insert(&table, 1).unwrap(), insert(&table, 2).unwrap());
        let file = insert(&table, 3).unwrap();
        table.set_place(&top, NodeId::ROOT, name("top"));
        table.set_place(&sub, top.id, name("sub"));
        table.set_place(&file, sub.id, name("file"));
        table.set_place(&file, sub.id, name("moved"));
        table.forget(top.id, u64::MAX);
        table.forget(sub.id, u64::MAX);
        assert_eq!(table.get(sub.id).err(), Some(Errno::ESTALE));
        assert_eq!(table.get_parent(sub.id).unwrap().id, sub.id);
        assert_eq!(insert(&table, 2).unwrap().id, sub.id);
        table.forget(sub.id, 1);
        assert_eq!(insert(&table, 4).err(), Some(Errno::ENOMEM));
        table.forget(file.id, 1);
        assert_eq!(table.len.load(Ordering::Relaxed), 0);
        assert!(table.get_parent(top.id).is_err());
        // Who is late finds nothing to hold on to.
        table.set_place(&file, NodeId::ROOT, name("late"));
        assert!(file.state().place.is_none());
    }

    #[test]
    fn a_place_is_left_only_if_it_is_that_one() {
        let table = table(10);
        let (dir, file) = (insert(&table, 1).unwrap(), insert(&table, 2).unwrap());
        table.set_place(&file, dir.id, name("a"));
        table.clear_place(&file, dir.id, name("b"));
        assert!(file.can_be_found());
        table.clear_place(&file, dir.id, name("a"));
        assert!(!file.can_be_found());
        table.forget(dir.id, 1);
        assert!(table.get_parent(dir.id).is_err());
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
