//! Locks: those that are held, so that they can be taken again over another
//! connection, and those that are waited for.

use super::handles::Handle;
use super::link::is_lost;
use super::session::Inner;
use super::turn::{Turn, errno};
use crate::error::Result;
use crate::ops::{LOCK_RETRY, LockWait, Tree, check_range};
use sluice_vfs::{
    Caller, Cancel, Ctx, Errno, Event, EventSink, HandleId, Lock, LockKind, LockOutcome, LockOwner,
    LockRange, LockRanges, LockStyle, NodeId, SessionLimits, WaitId,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Whose locks: an owner has some on each file, in each family.
type Key = (NodeId, LockOwner, bool);

/// The locks of an owner on a file.
struct Owned {
    /// The process that the server knows the owner by, with its name.
    pid: u32,
    /// Through what they were taken last.
    handle: Arc<Handle>,
    ranges: LockRanges,
}

/// A lock that is waited for.
struct Waiting {
    cancel: Arc<Cancel>,
    /// The request under way, and the thread that waits for its answer.
    flight: Option<(Arc<Tree>, u16, ThreadId)>,
}

/// The locks of a session.
pub(super) struct Locks {
    /// Unique among the clients of the server.
    client: String,
    limits: SessionLimits,
    events: Arc<dyn EventSink>,
    held: Mutex<HashMap<Key, Owned>>,
    waits: Mutex<HashMap<WaitId, Waiting>>,
}

impl Locks {
    pub(super) fn new(client: String, limits: SessionLimits, events: Arc<dyn EventSink>) -> Self {
        Locks {
            client,
            limits,
            events,
            held: Mutex::default(),
            waits: Mutex::default(),
        }
    }

    /// The name of an owner in messages. Those of flock(2) have others.
    fn name(&self, (_, owner, is_flock): Key) -> Vec<u8> {
        let family = if is_flock { "f" } else { "p" };
        format!("{}/{family}{:x}", self.client, owner.0).into_bytes()
    }

    /// The process that goes with the name: always the same for one owner.
    fn pid(&self, key: Key, pid: u32) -> u32 {
        self.held().get(&key).map_or(pid, |owned| owned.pid)
    }

    fn has(&self, key: Key) -> bool {
        self.held().contains_key(&key)
    }

    /// Whether a request, if it is granted, can be kept account of.
    fn check_room(&self, key: Key, lock: &Lock) -> sluice_vfs::Result<()> {
        let held = self.held();
        let own = held.get(&key);
        let is_split = || own.is_some_and(|own| own.ranges.is_split_by(lock.range));
        let (owners, more) = match lock.kind {
            LockKind::Unlock => (0, usize::from(is_split())),
            // One in the middle of another makes three of it.
            LockKind::Read | LockKind::Write => (usize::from(own.is_none()), 2),
        };
        let ranges: usize = held.values().map(|owned| owned.ranges.len()).sum();
        let is_over = held.len() + owners > self.limits.lock_owners as usize
            || more > 0 && ranges + more > self.limits.lock_ranges as usize;
        match is_over {
            true => Err(Errno::ENOLCK),
            false => Ok(()),
        }
    }

    /// A request was granted.
    fn note(&self, key: Key, handle: &Arc<Handle>, lock: &Lock) {
        let mut held = self.held();
        let owned = held.entry(key).or_insert_with(|| Owned {
            pid: lock.pid,
            handle: Arc::clone(handle),
            ranges: LockRanges::default(),
        });
        owned.handle = Arc::clone(handle);
        owned.ranges.set(lock.kind, lock.range);
        if owned.ranges.is_empty() {
            held.remove(&key);
        }
    }

    /// A handle is closed; whether there were locks that go with it.
    pub(super) fn forget_handle(&self, handle: &Arc<Handle>) -> bool {
        let is_other = |owned: &Owned| !Arc::ptr_eq(&owned.handle, handle);
        let mut held = self.held();
        let before = held.len();
        held.retain(|_, owned| is_other(owned));
        held.len() < before
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Key, Owned>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<WaitId, Waiting>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is under way for a wait, by this thread.
    fn sent(&self, wait: WaitId, tree: &Arc<Tree>, tag: u16) {
        let waiter = thread::current().id();
        let mut waits = self.waits();
        let Some(waiting) = waits.get_mut(&wait) else {
            return;
        };
        waiting.flight = Some((Arc::clone(tree), tag, waiter));
        let is_cancelled = waiting.cancel.is_cancelled();
        drop(waits);
        if is_cancelled {
            // A connection that is over calls everything off.
            let _ = tree.connection.call_off(tag, waiter);
        }
    }

    fn settle(&self, wait: WaitId, result: sluice_vfs::Result<()>) {
        self.waits().remove(&wait);
        self.events.publish(&Event::LockSettled { wait, result });
    }
}

impl Inner {
    pub(super) fn getlk(
        &self,
        ctx: &Ctx<'_>,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> sluice_vfs::Result<Option<Lock>> {
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        let key = key(node, ctx, lock.style);
        check_range(lock).map_err(|e| errno(&e))?;
        let pid = self.locks.pid(key, lock.pid);
        let asked = Lock { pid, ..*lock };
        let found = self.run(ctx, |turn| {
            let file = handle.file(turn)?;
            let owner = self.locks.name(key);
            turn.tree.getlock(file.number(), &owner, &asked)
        })?;
        let style = lock.style;
        Ok(found.map(|found| Lock { style, ..found }))
    }

    pub(super) fn setlk(
        self: &Arc<Self>,
        ctx: &Ctx<'_>,
        (node, handle): (NodeId, HandleId),
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> sluice_vfs::Result<LockOutcome> {
        let handle = self.handles.get(node, handle).map_err(|e| errno(&e))?;
        let key = key(node, ctx, lock.style);
        check_range(lock).map_err(|e| errno(&e))?;
        let pid = self.locks.pid(key, lock.pid);
        let lock = Lock { pid, ..*lock };
        self.locks.check_room(key, &lock)?;
        if self.ask(ctx, &handle, key, &lock)? {
            return Ok(LockOutcome::Done);
        }
        let wait = wait.ok_or(Errno::EAGAIN)?;
        self.start_waiting(ctx.caller, key, &handle, lock, wait)
    }

    /// Asks for a lock that is to be had at once or not at all, or gives one up.
    fn ask(
        &self,
        ctx: &Ctx<'_>,
        handle: &Arc<Handle>,
        key: Key,
        lock: &Lock,
    ) -> sluice_vfs::Result<bool> {
        loop {
            let answer = self.run(ctx, |turn| {
                let is_had = turn.lock(handle, key, lock, LockWait::No, |_| ())?;
                Ok(is_had.then(|| Arc::clone(turn.tree)))
            });
            match answer? {
                None => return Ok(false),
                Some(tree) if self.note_over(&tree, handle, key, lock) => return Ok(true),
                Some(_) => {}
            }
        }
    }

    /// A request was granted over a connection. False if that is not the one that
    /// is used now: what was taken again over the next one did not count it in.
    fn note_over(&self, tree: &Arc<Tree>, handle: &Arc<Handle>, key: Key, lock: &Lock) -> bool {
        self.locks.note(key, handle, lock);
        let now = self.link.current();
        let is_same = now.is_some_and(|now| Arc::ptr_eq(&now, tree));
        if !is_same {
            let kind = LockKind::Unlock;
            self.locks.note(key, handle, &Lock { kind, ..*lock });
        }
        is_same
    }

    /// Waits on a thread of its own: somebody has to read the answer, whenever it
    /// comes, and all others may be gone. There are no more of them than the
    /// session may have locks that wait.
    fn start_waiting(
        self: &Arc<Self>,
        caller: Caller<'_>,
        key: Key,
        handle: &Arc<Handle>,
        lock: Lock,
        wait: WaitId,
    ) -> sluice_vfs::Result<LockOutcome> {
        let cancel = Arc::new(Cancel::new());
        let mut waits = self.locks.waits();
        if waits.len() >= self.locks.limits.lock_waits as usize {
            return Err(Errno::ENOLCK);
        }
        if waits.contains_key(&wait) {
            return Err(Errno::EINVAL);
        }
        waits.insert(
            wait,
            Waiting {
                cancel: Arc::clone(&cancel),
                flight: None,
            },
        );
        drop(waits);
        let (inner, handle) = (Arc::clone(self), Arc::clone(handle));
        let caller = Caller {
            groups: &[],
            ..caller
        };
        let work = move || {
            let ctx = Ctx::new(caller).with_cancel(&cancel);
            let result = inner.wait_for_lock(&ctx, &handle, key, &lock, wait);
            inner.locks.settle(wait, result);
        };
        let spawned = thread::Builder::new().name("lock".to_owned()).spawn(work);
        if spawned.is_err() {
            self.locks.waits().remove(&wait);
            return Err(Errno::ENOLCK);
        }
        Ok(LockOutcome::Waiting)
    }

    fn wait_for_lock(
        &self,
        ctx: &Ctx<'_>,
        handle: &Arc<Handle>,
        key: Key,
        lock: &Lock,
        wait: WaitId,
    ) -> sluice_vfs::Result<()> {
        loop {
            let granted = self.run(ctx, |turn| {
                let sent = |tag| self.locks.sent(wait, turn.tree, tag);
                let is_had = turn.lock(handle, key, lock, LockWait::ForEver, sent)?;
                Ok(is_had.then(|| Arc::clone(turn.tree)))
            });
            if let Some(waiting) = self.locks.waits().get_mut(&wait) {
                waiting.flight = None;
            }
            match granted? {
                Some(tree) if self.note_over(&tree, handle, key, lock) => return Ok(()),
                Some(_) => {}
                // A server that cannot park the request is asked again.
                None if self.link.sleep(LOCK_RETRY) => return Err(Errno::EIO),
                None if ctx.is_cancelled() => return Err(Errno::EINTR),
                None => {}
            }
        }
    }

    pub(super) fn cancel_wait(&self, wait: WaitId) {
        let flight = match self.locks.waits().get(&wait) {
            Some(waiting) => {
                waiting.cancel.cancel();
                waiting.flight.clone()
            }
            None => None,
        };
        if let Some((tree, tag, waiter)) = flight {
            // A connection that is over calls everything off.
            let _ = tree.connection.call_off(tag, waiter);
        }
    }

    /// Gives all POSIX locks of the context's owner on a file up.
    pub(super) fn unlock_all(&self, ctx: &Ctx<'_>, handle: &Arc<Handle>) -> sluice_vfs::Result<()> {
        self.unlock(ctx, handle, LockStyle::Posix)
    }

    /// Gives the flock(2) of the context's owner up.
    pub(super) fn unlock_flock(
        &self,
        ctx: &Ctx<'_>,
        handle: &Arc<Handle>,
    ) -> sluice_vfs::Result<()> {
        self.unlock(ctx, handle, LockStyle::Flock)
    }

    fn unlock(
        &self,
        ctx: &Ctx<'_>,
        handle: &Arc<Handle>,
        style: LockStyle,
    ) -> sluice_vfs::Result<()> {
        let key = key(handle.node, ctx, style);
        if !self.locks.has(key) {
            return Ok(());
        }
        let lock = Lock {
            style,
            kind: LockKind::Unlock,
            range: LockRange::ALL,
            pid: self.locks.pid(key, ctx.caller.pid),
        };
        let unlocked = self.ask(ctx, handle, key, &lock);
        self.locks.note(key, handle, &lock);
        unlocked.map(drop)
    }

    /// Gives all up at the session's end, so that they are free when that is over.
    pub(super) fn drop_locks(&self) {
        let Some(tree) = self.link.current() else {
            return;
        };
        let held = std::mem::take(&mut *self.locks.held());
        for (key, owned) in held {
            let turn = Turn {
                inner: self,
                tree: &tree,
                user: owned.handle.user,
            };
            let lock = Lock {
                style: LockStyle::Posix,
                kind: LockKind::Unlock,
                range: LockRange::ALL,
                pid: owned.pid,
            };
            let wait = LockWait::No;
            if turn.lock(&owned.handle, key, &lock, wait, |_| ()).is_err() {
                // The server gives them up when it learns of the end.
                return;
            }
        }
    }

    /// Takes locks again over a new connection, before anything else is done over
    /// it. Where that fails they are lost, and whoever held them is told so.
    pub(super) fn retake_locks(&self, tree: &Arc<Tree>) -> Result<()> {
        let known: Vec<_> = {
            let held = self.locks.held();
            let known = held.iter().map(|(key, owned)| {
                (
                    *key,
                    owned.pid,
                    Arc::clone(&owned.handle),
                    owned.ranges.clone(),
                )
            });
            known.collect()
        };
        let deadline = Instant::now() + RETAKE_LIMIT;
        for (key, pid, handle, ranges) in known {
            let turn = Turn {
                inner: self,
                tree,
                user: handle.user,
            };
            let is_had = ranges.iter().try_fold(true, |is_had, (kind, range)| {
                let lock = Lock {
                    style: LockStyle::Posix,
                    kind,
                    range,
                    pid,
                };
                match self.retake(&turn, &handle, key, &lock, deadline) {
                    Ok(one) => Ok(is_had && one),
                    Err(error) if is_lost(&error) => Err(error),
                    Err(_) => Ok(false),
                }
            })?;
            if !is_had {
                handle.lost_locks.store(true, Ordering::Release);
                self.locks.held().remove(&key);
            }
        }
        Ok(())
    }
}

/// How often it is tried meanwhile.
const RETAKE_PAUSE: Duration = Duration::from_millis(20);

/// How long a server may take to notice that the connection is gone that held
/// the locks before: for all of them.
const RETAKE_LIMIT: Duration = Duration::from_secs(2);

impl Inner {
    /// Takes one again, for which a connection that ended may have to be noticed.
    fn retake(
        &self,
        turn: &Turn<'_>,
        handle: &Handle,
        key: Key,
        lock: &Lock,
        deadline: Instant,
    ) -> Result<bool> {
        loop {
            let is_had = turn.lock(handle, key, lock, LockWait::No, |_| ())?;
            if is_had || Instant::now() >= deadline || self.link.sleep(RETAKE_PAUSE) {
                return Ok(is_had);
            }
        }
    }
}

impl Turn<'_> {
    /// Asks for a lock, or gives one up.
    fn lock(
        &self,
        handle: &Handle,
        key: Key,
        lock: &Lock,
        wait: LockWait,
        sent: impl FnOnce(u16),
    ) -> Result<bool> {
        let file = handle.file(self)?;
        let owner = self.inner.locks.name(key);
        self.tree
            .ask_for_lock(file.number(), &owner, lock, wait, sent)
    }
}

fn key(node: NodeId, ctx: &Ctx<'_>, style: LockStyle) -> Key {
    (node, ctx.lock_owner, style == LockStyle::Flock)
}
