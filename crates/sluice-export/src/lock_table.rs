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
//! therefore a thread of its own, of which a session may have
//! [`SessionLimits::lock_waits`], and never one that serves requests.

use crate::fd_budget::{Held, Share};
use crate::handle_table::Handle;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FlockOperation;
use sluice_sys::lock::{Interrupter, ofd_conflict, ofd_lock};
use sluice_vfs::{
    Errno, Event, EventSink, HandleId, Lock, LockKind, LockOutcome, LockOwner, LockRange, NodeId,
    Result, SessionLimits, WaitId,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
            share,
            max_owners: limits.lock_owners as usize,
            max_waits: limits.lock_waits as usize,
            events,
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
        self.take(Target::Posix { owner, kind, range }, wait)
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

    /// Takes, changes or gives up the flock of `handle`.
    pub(crate) fn set_flock(
        &self,
        handle: Arc<Handle>,
        kind: LockKind,
        wait: Option<Waiting>,
    ) -> Result<LockOutcome> {
        self.take(Target::Flock { handle, kind }, wait)
    }

    /// Gives up all POSIX locks that `owner` has on `node`.
    pub(crate) fn drop_owner(&self, node: NodeId, owner: LockOwner) {
        let gone = self.shared.lock().owners.remove(&(node, owner));
        gone.iter().for_each(|owner| owner.unlock_all());
    }

    /// Gives up all POSIX locks on `node` of owners that last used `handle`
    /// for them, which is being released. A process has flushed by then and
    /// has none left; an owner that is an open file description (`F_OFD_SETLK`)
    /// ends with it, and says no more than this.
    pub(crate) fn drop_handle(&self, node: NodeId, handle: HandleId) {
        let ended =
            |_: &_, owner: &mut Arc<Owner>| owner.last_handle.load(Ordering::Relaxed) == handle.0;
        let gone: Vec<Arc<Owner>> = {
            let mut state = self.shared.lock();
            let ended = state.owners.extract_if(owners_on(node), ended);
            ended.map(|(_, owner)| owner).collect()
        };
        gone.iter().for_each(|owner| owner.unlock_all());
    }

    /// Ends a wait, unless it was granted first.
    pub(crate) fn cancel_wait(&self, id: WaitId) {
        let wait = self.shared.lock().waits.get(&id).cloned();
        if let Some(wait) = wait {
            wait.cancel();
        }
    }

    fn take(&self, target: Target, wait: Option<Waiting>) -> Result<LockOutcome> {
        match (target.take(false), wait) {
            (Ok(()), _) => Ok(LockOutcome::Done),
            (Err(Errno::EAGAIN), Some(wait)) => Shared::wait(&self.shared, target, wait),
            (Err(errno), _) => Err(errno),
        }
    }
}

impl Drop for LockTable {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.owners.clear();
        state.waits.values().for_each(|wait| wait.cancel());
    }
}

/// A POSIX lock and whose it is.
pub(crate) struct PosixRequest {
    pub(crate) node: NodeId,
    pub(crate) handle: HandleId,
    pub(crate) owner: LockOwner,
    pub(crate) lock: Lock,
}

/// How a request may wait.
pub(crate) struct Waiting {
    pub(crate) id: WaitId,
    /// When it gives up with `ETIMEDOUT`.
    pub(crate) deadline: Option<Instant>,
}

/// What the table's owner and its waiting threads have in common.
struct Shared {
    state: Mutex<State>,
    share: Arc<Share>,
    max_owners: usize,
    max_waits: usize,
    events: Arc<dyn EventSink>,
}

#[derive(Default)]
struct State {
    owners: BTreeMap<(NodeId, LockOwner), Arc<Owner>>,
    waits: HashMap<WaitId, Arc<Wait>>,
}

/// The open file description that stands for a lock owner on one node.
struct Owner {
    fd: OwnedFd,
    _held: Held,
    /// The peer's process, as last told.
    pid: AtomicU32,
    /// The peer's handle that was last used for its locks.
    last_handle: AtomicU64,
}

impl Owner {
    /// A request that still waits keeps the description open, so closing it
    /// is not enough.
    fn unlock_all(&self) {
        let _ = ofd_lock(self.fd.as_fd(), LockKind::Unlock, LockRange::ALL, false);
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

    fn add_owner(&self, key: (NodeId, LockOwner), fd: OwnedFd) -> Result<Arc<Owner>> {
        let held = self.share.hold(1).map_err(|_| Errno::ENOLCK)?;
        let mut state = self.lock();
        // Another request of the same owner may have come first.
        if let Some(owner) = state.owners.get(&key) {
            return Ok(owner.clone());
        }
        if state.owners.len() >= self.max_owners {
            return Err(Errno::ENOLCK);
        }
        let owner = Arc::new(Owner {
            fd,
            _held: held,
            pid: AtomicU32::new(0),
            last_handle: AtomicU64::new(0),
        });
        state.owners.insert(key, owner.clone());
        Ok(owner)
    }

    /// The peer's process that holds `lock`, which is in the way of `request`;
    /// 0 if it is not the session's own, or several hold the same.
    ///
    /// The kernel does not tell which description holds a lock. But asked
    /// through the holder's own, it does not report it.
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
        let is_holder = |owner: &Arc<Owner>| {
            let seen = ofd_conflict(owner.fd.as_fd(), LockKind::Write, lock.range);
            seen.is_ok_and(|seen| {
                seen.is_none_or(|seen| (seen.kind, seen.range) != (lock.kind, lock.range))
            })
        };
        let mut holders = others.iter().filter(|owner| is_holder(owner));
        match (holders.next(), holders.next()) {
            (Some(only), None) => only.pid.load(Ordering::Relaxed),
            _ => 0,
        }
    }

    /// Lets a thread of its own wait for `target`.
    fn wait(shared: &Arc<Shared>, target: Target, waiting: Waiting) -> Result<LockOutcome> {
        let Waiting { id, deadline } = waiting;
        let wait = Arc::new(Wait::default());
        shared.register(id, wait.clone())?;
        let for_thread = shared.clone();
        let spawned = thread::Builder::new()
            .name("sluice-lock".into())
            .stack_size(WAITER_STACK_BYTES)
            .spawn(move || {
                let result = wait.run(&target, deadline);
                // Given back before the peer hears of it: it may close next.
                drop(target);
                for_thread.settle(id, result);
            });
        match spawned {
            Ok(_) => Ok(LockOutcome::Waiting),
            Err(_) => {
                shared.lock().waits.remove(&id);
                Err(Errno::ENOLCK)
            }
        }
    }

    fn register(&self, id: WaitId, wait: Arc<Wait>) -> Result<()> {
        let mut state = self.lock();
        if state.waits.len() >= self.max_waits {
            return Err(Errno::ENOLCK);
        }
        if state.waits.contains_key(&id) {
            return Err(Errno::EINVAL);
        }
        state.waits.insert(id, wait);
        Ok(())
    }

    fn settle(&self, id: WaitId, result: Result<()>) {
        self.lock().waits.remove(&id);
        self.events
            .publish(&Event::LockSettled { wait: id, result });
    }
}

/// Enough for a system call and an event.
const WAITER_STACK_BYTES: usize = 256 * 1024;

/// A lock that is to be taken.
enum Target {
    Posix {
        owner: Arc<Owner>,
        kind: LockKind,
        range: LockRange,
    },
    Flock {
        handle: Arc<Handle>,
        kind: LockKind,
    },
}

impl Target {
    fn take(&self, wait: bool) -> Result<()> {
        match self {
            Target::Posix { owner, kind, range } => ofd_lock(owner.fd.as_fd(), *kind, *range, wait),
            Target::Flock { handle, kind } => Ok(rustix::fs::flock(
                handle.fd(),
                flock_operation(*kind, wait),
            )?),
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

/// One request that waits.
#[derive(Default)]
struct Wait {
    is_cancelled: AtomicBool,
    /// Set by the waiting thread before it looks at `is_cancelled`, so that
    /// either it sees the mark or the canceller sees this.
    interrupter: OnceLock<Interrupter>,
}

impl Wait {
    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        if let Some(interrupter) = self.interrupter.get() {
            interrupter.start(Duration::ZERO);
        }
    }

    /// Waits in the calling thread until the lock is taken, the wait is
    /// cancelled or its deadline is over.
    fn run(&self, target: &Target, deadline: Option<Instant>) -> Result<()> {
        let interrupter = Interrupter::of_this_thread()?;
        let interrupter = self.interrupter.get_or_init(|| interrupter);
        if let Some(deadline) = deadline {
            interrupter.start(deadline.saturating_duration_since(Instant::now()));
        }
        loop {
            if self.is_cancelled.load(Ordering::SeqCst) {
                return Err(Errno::EINTR);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Errno::ETIMEDOUT);
            }
            match target.take(true) {
                Err(Errno::EINTR) => continue,
                settled => return settled,
            }
        }
    }
}
