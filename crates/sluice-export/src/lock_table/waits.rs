//! Requests that wait for a lock, each in a thread of its own.

use super::{Room, Shared, Target};
use sluice_sys::lock::Interrupter;
use sluice_vfs::{Errno, Event, EventSink, LockOutcome, Result, WaitId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How a request may wait.
pub(crate) struct Waiting {
    pub(crate) id: WaitId,
    /// When it gives up with `ETIMEDOUT`.
    pub(crate) deadline: Option<Instant>,
}

/// Enough for a system call and an event.
const WAITER_STACK_BYTES: usize = 256 * 1024;

/// How long the end of a session waits for its waiters. They end at once, unless the
/// kernel is stuck in the file system that holds the lock.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The requests of one session that wait.
pub(super) struct Waits {
    under_way: Mutex<HashMap<WaitId, Arc<Wait>>>,
    none_left: Condvar,
    max: usize,
    events: Arc<dyn EventSink>,
}

impl Waits {
    pub(super) fn new(max: usize, events: Arc<dyn EventSink>) -> Self {
        Waits {
            under_way: Mutex::default(),
            none_left: Condvar::new(),
            max,
            events,
        }
    }

    /// Lets a thread of its own wait for `target`.
    pub(super) fn start(
        shared: &Arc<Shared>,
        target: Target,
        room: Room,
        waiting: Waiting,
    ) -> Result<LockOutcome> {
        let Waiting { id, deadline } = waiting;
        let wait = Arc::new(Wait::default());
        shared.waits.register(id, wait.clone())?;
        let for_thread = shared.clone();
        let spawned = thread::Builder::new()
            .name("sluice-lock".into())
            .stack_size(WAITER_STACK_BYTES)
            .spawn(move || {
                let result = wait.run(&for_thread, &target, deadline);
                // Given back before the peer hears of it: it may close next.
                drop((target, room));
                for_thread.waits.settle(id, result);
            });
        match spawned {
            Ok(_) => Ok(LockOutcome::Waiting),
            Err(_) => {
                shared.waits.remove(id);
                Err(Errno::ENOLCK)
            }
        }
    }

    /// Ends a wait, unless it was granted first.
    pub(super) fn cancel(&self, id: WaitId) {
        let wait = self.lock().get(&id).cloned();
        if let Some(wait) = wait {
            wait.cancel();
        }
    }

    pub(super) fn cancel_all(&self) {
        self.lock().values().for_each(|wait| wait.cancel());
    }

    /// Waits until none is left: one that was cancelled may have been granted its lock
    /// just before, and gives it back.
    pub(super) fn join(&self) {
        let is_left = |waits: &mut HashMap<_, _>| !waits.is_empty();
        let joined = self
            .none_left
            .wait_timeout_while(self.lock(), END_TIMEOUT, is_left);
        drop(joined.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nothing else is locked, and nothing published, while this is held.
    fn lock(&self) -> MutexGuard<'_, HashMap<WaitId, Arc<Wait>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, id: WaitId, wait: Arc<Wait>) -> Result<()> {
        let mut waits = self.lock();
        if waits.len() >= self.max {
            return Err(Errno::ENOLCK);
        }
        if waits.contains_key(&id) {
            return Err(Errno::EINVAL);
        }
        waits.insert(id, wait);
        Ok(())
    }

    fn remove(&self, id: WaitId) {
        let mut waits = self.lock();
        waits.remove(&id);
        if waits.is_empty() {
            self.none_left.notify_all();
        }
    }

    fn settle(&self, id: WaitId, result: Result<()>) {
        self.remove(id);
        self.events
            .publish(&Event::LockSettled { wait: id, result });
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
    fn run(&self, shared: &Arc<Shared>, target: &Target, deadline: Option<Instant>) -> Result<()> {
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
            match target.wait().and_then(|()| target.take(shared)) {
                Err(Errno::EINTR | Errno::EAGAIN) => continue,
                settled => return settled,
            }
        }
    }
}
