//! Who of a crew does what.

use crate::post::Post;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// What a thread is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    Lead,
    Help,
    /// The crew ended, or nobody needs so many threads.
    Leave,
}

/// The threads of a crew and their duties.
#[derive(Debug)]
pub(crate) struct Roster {
    state: Mutex<State>,
    /// Signalled for each duty that becomes free, and when the crew ends.
    duty: Condvar,
    threads_max: usize,
    linger: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// `None` while the lead is free.
    leader: Option<Arc<Post>>,
    standing_by: usize,
    helpers: usize,
    /// Called, but not there yet.
    helpers_called: usize,
    /// All that have not left.
    threads: Vec<JoinHandle<()>>,
    started: usize,
    ended: bool,
}

impl Roster {
    /// A crew of at most `threads_max`, who leave when nobody has needed them for
    /// `linger`.
    pub(crate) fn new(threads_max: usize, linger: Duration) -> Self {
        Roster {
            state: Mutex::default(),
            duty: Condvar::new(),
            threads_max,
            linger,
        }
    }

    /// The calling thread waits for a duty. Whoever comes first is the leader.
    pub(crate) fn stand_by(&self, post: &Arc<Post>) -> Duty {
        let mut state = self.lock();
        let until = Instant::now() + self.linger;
        loop {
            if let Some(duty) = state.next_duty(post) {
                return duty;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.leave();
                return Duty::Leave;
            }
            state.standing_by += 1;
            let woken = self.duty.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
            state.standing_by -= 1;
        }
    }

    /// Whether nobody leads, and nobody is there to.
    pub(crate) fn is_deserted(&self) -> bool {
        let state = self.lock();
        state.leader.is_none() && state.standing_by == 0 && !state.ended
    }

    /// Who leads.
    pub(crate) fn leader(&self) -> Option<Arc<Post>> {
        self.lock().leader.clone()
    }

    /// The leader is stuck: the lead is free. `spawn` starts another thread; it
    /// is not called if one stands by, or if there are enough.
    pub(crate) fn free_lead(&self, spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>) {
        let mut state = self.lock();
        state.leader = None;
        self.find_somebody(&mut state, spawn);
    }

    /// A thread is lost; if it led, somebody else has to.
    pub(crate) fn lose(
        &self,
        post: &Arc<Post>,
        spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>,
    ) {
        let mut state = self.lock();
        if state.leader.as_ref().is_some_and(|l| Arc::ptr_eq(l, post)) {
            state.leader = None;
            self.find_somebody(&mut state, spawn);
        }
    }

    /// Calls a thread to take jobs beside the leader, if fewer than `max` do.
    pub(crate) fn call_helper(
        &self,
        max: usize,
        spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>,
    ) {
        let mut state = self.lock();
        if state.helpers + state.helpers_called < max && self.find_somebody(&mut state, spawn) {
            state.helpers_called += 1;
        }
    }

    /// A helper has nothing to do.
    pub(crate) fn end_help(&self) {
        self.lock().helpers -= 1;
    }

    /// Starts the first thread.
    pub(crate) fn begin(
        &self,
        spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<()> {
        self.lock().start(spawn)
    }

    /// The queue has ended: all leave after the jobs that they are in.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.duty.notify_all();
    }

    /// Waits until all have left; true if none of them panicked.
    pub(crate) fn join(&self) -> bool {
        let mut is_well = true;
        loop {
            // The lock is not held while waiting.
            let Some(thread) = self.lock().threads.pop() else {
                return is_well;
            };
            is_well &= thread.join().is_ok();
        }
    }

    /// Has somebody look for a duty; false if nobody is to be had.
    fn find_somebody(
        &self,
        state: &mut State,
        spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>,
    ) -> bool {
        if state.ended {
            return false;
        }
        if state.standing_by > 0 {
            self.duty.notify_one();
            return true;
        }
        // If no thread can be started, the queue waits for those that there are.
        state.threads.len() < self.threads_max && state.start(spawn).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_duty(&mut self, post: &Arc<Post>) -> Option<Duty> {
        if self.ended {
            return Some(Duty::Leave);
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(post));
            return Some(Duty::Lead);
        }
        if self.helpers_called > 0 {
            self.helpers_called -= 1;
            self.helpers += 1;
            return Some(Duty::Help);
        }
        None
    }

    fn start(&mut self, spawn: impl FnOnce(usize) -> io::Result<JoinHandle<()>>) -> io::Result<()> {
        self.threads.push(spawn(self.started)?);
        self.started += 1;
        Ok(())
    }

    /// The calling thread leaves before the crew ends: nobody is to wait for it.
    fn leave(&mut self) {
        let own: ThreadId = std::thread::current().id();
        self.threads.retain(|thread| thread.thread().id() != own);
    }
}
