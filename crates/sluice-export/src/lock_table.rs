//! The locks of one session: who holds and who waits.
//!
//! A POSIX lock belongs to a lock owner of the peer, which the host does not
//! know. So each pair of (node, owner) gets an open file description of its
//! own, and the kernel keeps the ranges as that description's locks
//! (`F_OFD_SETLK`), where processes of the host, other sessions and other
//! owners all meet them. A flock belongs to a description in the peer too, so
//! it is taken on the handle's.
//!
//! The kernel tells nobody when a lock gets free. A request that must wait is
//! therefore a thread of its own (`waits`), of which a session may have
//! [`SessionLimits::lock_waits`], and never one that serves requests.

mod waits;

pub(crate) use waits::Waiting;

use crate::fd_budget::{Held, Share};
use crate::handle_table::Handle;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FlockOperation;
use sluice_sys::lock::{ofd_conflict, ofd_lock};
use sluice_vfs::{
    Errno, EventSink, HandleId, Lock, LockKind, LockOutcome, LockOwner, LockRange, LockRanges,
    NodeId, Result, SessionLimits, WaitId,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use waits::Waits;

/// The locks of one session. Dropping it gives all of them up and ends all
/// waiting.
pub(crate) struct LockTable {
    shared: Arc<Shared>,
}

impl LockTable {
    pub(crate) fn new(
        limits: &SessionLimits,
        share: Arc<Share>,
        events: Arc<dyn EventSink>,
    ) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            taken: AtomicU64::new(0),
            ranges: AtomicUsize::new(0),
            share,
            max_owners: limits.lock_owners as usize,
            max_ranges: limits.lock_ranges as usize,
            waits: Waits::new(limits.lock_waits as usize, events),
        };
        LockTable {
            shared: Arc::new(shared),
        }
    }

    /// Takes, changes or gives up a POSIX lock. `open` opens the file for a
    /// lock owner that has none on it yet.
    pub(crate) fn set_posix(
        &self,
        request: &PosixRequest,
        wait: Option<Waiting>,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<LockOutcome> {
        let key = (request.node, request.owner);
        let owner = match (self.shared.owner(key), request.lock.kind) {
            (Some(owner), _) => owner,
            (None, LockKind::Unlock) => return Ok(LockOutcome::Done),
            (None, _) => self.shared.add_owner(key, open()?)?,
        };
        owner.pid.store(request.lock.pid, Ordering::Relaxed);
        owner.last_handle.store(request.handle.0, Ordering::Relaxed);
        let Lock { kind, range, .. } = request.lock;
        let outcome = self.take(Target::Posix { owner, kind, range }, wait)?;
        if (kind, range) == (LockKind::Unlock, LockRange::ALL) {
            self.shared.forget_idle(key);
        }
        Ok(outcome)
    }

    /// A lock in the way of a POSIX lock.
    pub(crate) fn conflict_posix(
        &self,
        request: &PosixRequest,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<Option<Lock>> {
        let Lock { kind, range, .. } = request.lock;
        let conflict = match self.shared.owner((request.node, request.owner)) {
            Some(owner) => ofd_conflict(owner.fd.as_fd(), kind, range)?,
            None => ofd_conflict(open()?.as_fd(), kind, range)?,
        };
        Ok(conflict.map(|lock| Lock {
            pid: self.shared.holder_pid(request, &lock),
            ..lock
        }))
    }

    /// Takes, changes or gives up the flock of the handle `id`.
    pub(crate) fn set_flock(
        &self,
        id: HandleId,
        handle: Arc<Handle>,
        kind: LockKind,
        wait: Option<Waiting>,
    ) -> Result<LockOutcome> {
        let flock = match (self.shared.flock(id), kind) {
            (Some(flock), _) => flock,
            (None, LockKind::Unlock) => return Ok(LockOutcome::Done),
            (None, _) => self.shared.add_flock(id, handle)?,
        };
        self.take(Target::Flock { flock, kind }, wait)
    }

    /// Gives up all POSIX locks that `owner` has on `node`.
    pub(crate) fn drop_owner(&self, node: NodeId, owner: LockOwner) {
        let gone = self.shared.lock().owners.remove(&(node, owner));
        gone.iter().for_each(|owner| self.shared.unlock_all(owner));
    }

    /// Gives up the flock of `handle`, which is being released, and all POSIX
    /// locks on `node` of owners that last used it for them. A process has
    /// flushed by then and has none left; an owner that is an open file
    /// description (`F_OFD_SETLK`) ends with it, and says no more than this.
    pub(crate) fn drop_handle(&self, node: NodeId, handle: HandleId) {
        let ended =
            |_: &_, owner: &mut Arc<Owner>| owner.last_handle.load(Ordering::Relaxed) == handle.0;
        let (gone, flock) = {
            let mut state = self.shared.lock();
            let gone = state.owners.extract_if(owners_on(node), ended);
            let gone: Vec<Arc<Owner>> = gone.map(|(_, owner)| owner).collect();
            (gone, state.flocks.remove(&handle))
        };
        for owner in in_order(gone, |owner| owner.held().since) {
            self.shared.unlock_all(&owner);
        }
        flock.iter().for_each(|flock| flock.give_up());
    }

    /// Ends a wait, unless it was granted first.
    pub(crate) fn cancel_wait(&self, id: WaitId) {
        self.shared.waits.cancel(id);
    }

    fn take(&self, target: Target, wait: Option<Waiting>) -> Result<LockOutcome> {
        let room = Room::reserve(&self.shared, target.growth_max())?;
        match (target.take(&self.shared), wait) {
            (Ok(()), _) => Ok(LockOutcome::Done),
            (Err(Errno::EAGAIN), Some(wait)) => Waits::start(&self.shared, target, room, wait),
            (Err(errno), _) => Err(errno),
        }
    }
}

impl Drop for LockTable {
    fn drop(&mut self) {
        self.shared.waits.cancel_all();
        let (owners, flocks) = {
            let mut state = self.shared.lock();
            let owners = std::mem::take(&mut state.owners);
            (owners, std::mem::take(&mut state.flocks))
        };
        let owners = in_order(owners.into_values(), |owner| owner.held().since);
        owners
            .iter()
            .for_each(|owner| self.shared.unlock_all(owner));
        let flocks = in_order(flocks.into_values(), |flock| flock.held().since);
        flocks.iter().for_each(|flock| flock.give_up());
        self.shared.waits.join();
        // Only now are descriptors closed, none of which holds a lock any more.
    }
}

/// In the order in which their locks were taken. The kernel keeps the locks of a file
/// in that order and looks for one from the front, and closing a description looks
/// through all of them twice: so it costs the square of their number to give them up
/// in any other order, or by closing.
fn in_order<T>(holders: impl IntoIterator<Item = T>, since: impl Fn(&T) -> u64) -> Vec<T> {
    let mut holders: Vec<T> = holders.into_iter().collect();
    holders.sort_by_key(since);
    holders
}

/// A POSIX lock and whose it is.
pub(crate) struct PosixRequest {
    pub(crate) node: NodeId,
    pub(crate) handle: HandleId,
    pub(crate) owner: LockOwner,
    pub(crate) lock: Lock,
}

/// What the table's owner and its waiting threads have in common.
struct Shared {
    state: Mutex<State>,
    /// Counts what is taken, to tell what came first.
    taken: AtomicU64,
    /// What all owners hold, with what is about to be taken.
    ranges: AtomicUsize,
    share: Arc<Share>,
    max_owners: usize,
    max_ranges: usize,
    waits: Waits,
}

#[derive(Default)]
struct State {
    owners: BTreeMap<(NodeId, LockOwner), Arc<Owner>>,
    flocks: HashMap<HandleId, Arc<Flock>>,
}

/// The open file description that stands for a lock owner on one node.
struct Owner {
    fd: OwnedFd,
    _fd_held: Held,
    /// The peer's process, as last told.
    pid: AtomicU32,
    /// The peer's handle that was last used for its locks.
    last_handle: AtomicU64,
    held: Mutex<HeldRanges>,
}

#[derive(Default)]
struct HeldRanges {
    ranges: LockRanges,
    /// When the first of them was taken.
    since: u64,
}

impl Owner {
    /// Held while the kernel is asked for what does not wait, so that it and
    /// this agree.
    fn held(&self) -> MutexGuard<'_, HeldRanges> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle that has been used for a flock.
struct Flock {
    handle: Arc<Handle>,
    held: Mutex<HeldFlock>,
}

struct HeldFlock {
    kind: LockKind,
    /// When it became of that kind.
    since: u64,
}

impl Flock {
    /// Held like [`Owner::held`].
    fn held(&self) -> MutexGuard<'_, HeldFlock> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closing the handle would do, were it not for requests that still use it.
    fn give_up(&self) {
        let _ = rustix::fs::flock(self.handle.fd(), FlockOperation::Unlock);
    }
}

/// The keys of all owners on `node`.
fn owners_on(node: NodeId) -> RangeInclusive<(NodeId, LockOwner)> {
    (node, LockOwner(0))..=(node, LockOwner(u64::MAX))
}

impl Shared {
    /// No lock of another module is taken, and nothing is published, while
    /// this one is held.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, key: (NodeId, LockOwner)) -> Option<Arc<Owner>> {
        self.lock().owners.get(&key).cloned()
    }

    /// Lets go of an owner that has given up all it had, unless a request of it
    /// is under way: peers that have no flush (9P) say no more than that.
    fn forget_idle(&self, key: (NodeId, LockOwner)) {
        let mut state = self.lock();
        let is_idle = |owner: &Arc<Owner>| Arc::strong_count(owner) == 1;
        if state.owners.get(&key).is_some_and(is_idle) {
            state.owners.remove(&key);
        }
    }

    fn add_owner(&self, key: (NodeId, LockOwner), fd: OwnedFd) -> Result<Arc<Owner>> {
        let fd_held = self.share.hold(1).map_err(|_| Errno::ENOLCK)?;
        let mut state = self.lock();
        // Another request of the same owner may have come first.
        if let Some(owner) = state.owners.get(&key) {
            return Ok(owner.clone());
        }
        state.check_room(self.max_owners)?;
        let owner = Arc::new(Owner {
            fd,
            _fd_held: fd_held,
            pid: AtomicU32::new(0),
            last_handle: AtomicU64::new(0),
            held: Mutex::default(),
        });
        state.owners.insert(key, owner.clone());
        Ok(owner)
    }

    fn flock(&self, id: HandleId) -> Option<Arc<Flock>> {
        self.lock().flocks.get(&id).cloned()
    }

    fn add_flock(&self, id: HandleId, handle: Arc<Handle>) -> Result<Arc<Flock>> {
        let mut state = self.lock();
        if let Some(flock) = state.flocks.get(&id) {
            return Ok(flock.clone());
        }
        state.check_room(self.max_owners)?;
        let held = HeldFlock {
            kind: LockKind::Unlock,
            since: 0,
        };
        let flock = Arc::new(Flock {
            handle,
            held: Mutex::new(held),
        });
        state.flocks.insert(id, flock.clone());
        Ok(flock)
    }

    /// Takes or changes what does not have to wait, if there is room for it, or gives
    /// it up.
    fn take_posix(self: &Arc<Self>, owner: &Owner, kind: LockKind, range: LockRange) -> Result<()> {
        let mut held = owner.held();
        let _room = match kind {
            LockKind::Unlock if held.ranges.is_split_by(range) => Some(Room::reserve(self, 1)?),
            _ => None,
        };
        ofd_lock(owner.fd.as_fd(), kind, range, false)?;
        if held.ranges.is_empty() {
            held.since = self.now();
        }
        let before = held.ranges.len();
        held.ranges.set(kind, range);
        self.ranges.fetch_add(held.ranges.len(), Ordering::Relaxed);
        self.ranges.fetch_sub(before, Ordering::Relaxed);
        Ok(())
    }

    fn take_flock(&self, flock: &Flock, kind: LockKind) -> Result<()> {
        let mut held = flock.held();
        let taken = rustix::fs::flock(flock.handle.fd(), flock_operation(kind, false));
        if held.kind != kind {
            // The kernel gives up the old kind before it looks for the new one.
            held.kind = taken.map_or(LockKind::Unlock, |()| kind);
            held.since = self.now();
        }
        Ok(taken?)
    }

    /// Gives up all that an owner holds which is no longer in the table. A request that
    /// still waits keeps the description open, so closing it is not enough.
    fn unlock_all(self: &Arc<Self>, owner: &Owner) {
        let _ = self.take_posix(owner, LockKind::Unlock, LockRange::ALL);
    }

    fn now(&self) -> u64 {
        self.taken.fetch_add(1, Ordering::Relaxed)
    }

    /// The peer's process that holds `lock`, which is in the way of `request`;
    /// 0 if it is not the session's own, or several hold the same.
    fn holder_pid(&self, request: &PosixRequest, lock: &Lock) -> u32 {
        if lock.pid != 0 {
            // A process of the host; its number means nothing to the peer.
            return 0;
        }
        let others: Vec<Arc<Owner>> = self
            .lock()
            .owners
            .range(owners_on(request.node))
            .filter(|((_, owner), _)| *owner != request.owner)
            .map(|(_, owner)| owner.clone())
            .collect();
        let is_holder = |owner: &&Arc<Owner>| owner.held().ranges.has(lock.kind, lock.range);
        let mut holders = others.iter().filter(is_holder);
        match (holders.next(), holders.next()) {
            (Some(only), None) => only.pid.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

impl State {
    fn check_room(&self, max_owners: usize) -> Result<()> {
        match self.owners.len() + self.flocks.len() < max_owners {
            true => Ok(()),
            false => Err(Errno::ENOLCK),
        }
    }
}

/// Room for ranges that are about to be taken, until it is dropped.
struct Room {
    shared: Arc<Shared>,
    count: usize,
}

impl Room {
    fn reserve(shared: &Arc<Shared>, count: usize) -> Result<Self> {
        let add = |held: usize| Some(held + count).filter(|sum| *sum <= shared.max_ranges);
        if count > 0 {
            let added = shared
                .ranges
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            added.map_err(|_| Errno::ENOLCK)?;
        }
        let shared = Arc::clone(shared);
        Ok(Room { shared, count })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shared.ranges.fetch_sub(self.count, Ordering::Relaxed);
    }
}

/// A lock that is to be taken.
enum Target {
    Posix {
        owner: Arc<Owner>,
        kind: LockKind,
        range: LockRange,
    },
    Flock {
        flock: Arc<Flock>,
        kind: LockKind,
    },
}

impl Target {
    /// How many ranges more it can make, at most: it may split one in two.
    fn growth_max(&self) -> usize {
        match self {
            Target::Posix {
                kind: LockKind::Read | LockKind::Write,
                ..
            } => 2,
            _ => 0,
        }
    }

    /// Takes it, or fails with `EAGAIN`.
    fn take(&self, shared: &Arc<Shared>) -> Result<()> {
        match self {
            Target::Posix { owner, kind, range } => shared.take_posix(owner, *kind, *range),
            Target::Flock { flock, kind } => shared.take_flock(flock, *kind),
        }
    }

    /// Waits in the kernel until it can be had. It is held then, but not yet known to
    /// be: [`Target::take`] says so, and gets it again if another request of the same
    /// owner has given it up meanwhile.
    fn wait(&self) -> Result<()> {
        match self {
            Target::Posix { owner, kind, range } => ofd_lock(owner.fd.as_fd(), *kind, *range, true),
            Target::Flock { flock, kind } => {
                let operation = flock_operation(*kind, true);
                Ok(rustix::fs::flock(flock.handle.fd(), operation)?)
            }
        }
    }
}

fn flock_operation(kind: LockKind, wait: bool) -> FlockOperation {
    match (kind, wait) {
        (LockKind::Read, true) => FlockOperation::LockShared,
        (LockKind::Read, false) => FlockOperation::NonBlockingLockShared,
        (LockKind::Write, true) => FlockOperation::LockExclusive,
        (LockKind::Write, false) => FlockOperation::NonBlockingLockExclusive,
        (LockKind::Unlock, true) => FlockOperation::Unlock,
        (LockKind::Unlock, false) => FlockOperation::NonBlockingUnlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_vfs::{Event, LockStyle};

    struct Nobody;

    impl EventSink for Nobody {
        fn publish(&self, _: &Event<'_>) {}
    }

    fn table() -> LockTable {
        let share = crate::fd_budget::PROCESS.share();
        LockTable::new(&SessionLimits::default(), share, Arc::new(Nobody))
    }

    fn request(owner: u64, kind: LockKind, range: LockRange) -> PosixRequest {
        PosixRequest {
            node: NodeId::ROOT,
            handle: HandleId(0),
            owner: LockOwner(owner),
            lock: Lock {
                style: LockStyle::Posix,
                kind,
                range,
                pid: 0,
            },
        }
    }

    /// Whoever let go of all and began again comes last, as in the kernel's list.
    #[test]
    fn locks_are_given_up_in_the_order_in_which_they_were_taken() {
        let table = table();
        let file = tempfile::NamedTempFile::new().unwrap();
        let set = |owner: u64, kind, range| {
            let open = || Ok(file.reopen().unwrap().into());
            let request = request(owner, kind, range);
            table.set_posix(&request, None, open).unwrap();
        };
        let range = |start, end| LockRange { start, end };
        for owner in [3, 1, 2] {
            set(owner, LockKind::Read, range(0, 10));
        }
        set(3, LockKind::Unlock, range(5, 20));
        set(1, LockKind::Unlock, range(0, 20));
        set(1, LockKind::Read, range(7, 9));
        let owners = std::mem::take(&mut table.shared.lock().owners);
        let order = in_order(owners, |(_, owner)| owner.held().since);
        let order: Vec<u64> = order.iter().map(|((_, owner), _)| owner.0).collect();
        assert_eq!(order, [3, 2, 1]);
    }

    /// One that waited may be granted its lock while it is being cancelled.
    #[test]
    fn nothing_is_held_once_a_table_with_waiting_requests_is_gone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let holder = file.reopen().unwrap();
        for _ in 0..100 {
            ofd_lock(holder.as_fd(), LockKind::Write, LockRange::ALL, false).unwrap();
            let table = table();
            for id in 0..4 {
                let request = request(id, LockKind::Write, LockRange::ALL);
                let (id, deadline) = (WaitId(id), None);
                let open = || Ok(file.reopen().unwrap().into());
                let outcome = table.set_posix(&request, Some(Waiting { id, deadline }), open);
                assert_eq!(outcome, Ok(LockOutcome::Waiting));
            }
            table.shared.waits.cancel_all();
            ofd_lock(holder.as_fd(), LockKind::Unlock, LockRange::ALL, false).unwrap();
            drop(table);
            let (kind, range) = (LockKind::Write, LockRange::ALL);
            assert_eq!(ofd_conflict(holder.as_fd(), kind, range), Ok(None));
        }
    }
}
