//! The connection of a session, and the next one when it is lost.
//!
//! Whoever needs a connection and finds none makes it; others wait for that.

use super::options::{Connect, Persistence, ServiceOptions};
use crate::error::{Error, Lost, Result};
use crate::ops::Tree;
use sluice_vfs::{Ctx, Errno};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two attempts, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// An operation is tried on so many connections, each of which it lost.
const ATTEMPTS_MAX: u32 = 5;

/// How long those who wait take to notice that nobody waits for them any more.
const GLANCE: Duration = Duration::from_millis(100);

pub(super) struct Link {
    connect: Arc<dyn Connect>,
    options: ServiceOptions,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    tree: Option<Arc<Tree>>,
    /// Somebody is at it.
    is_connecting: bool,
    /// Since when there has been no connection.
    away_since: Option<Instant>,
    /// No attempt before this.
    not_before: Option<Instant>,
    pause: Duration,
    is_closed: bool,
}

impl Link {
    /// Makes the first connection, unless that was done `ahead`.
    pub(super) fn start(
        connect: Arc<dyn Connect>,
        ahead: Option<Tree>,
        options: ServiceOptions,
    ) -> Result<(Self, Arc<Tree>)> {
        let tree = Arc::new(match ahead {
            Some(tree) => tree,
            None => Tree::connect(&|| connect.connect(), &options.connect)?,
        });
        let link = Link {
            connect,
            options,
            state: Mutex::new(State {
                tree: Some(Arc::clone(&tree)),
                is_connecting: false,
                away_since: None,
                not_before: None,
                pause: PAUSE_MIN,
                is_closed: false,
            }),
            changed: Condvar::new(),
        };
        Ok((link, tree))
    }

    pub(super) fn options(&self) -> &ServiceOptions {
        &self.options
    }

    /// A connection, which may be lost at any time. `restore` does what has to be
    /// done over a new one before anybody else uses it.
    ///
    /// # Errors
    /// `EIO` when the server has been away for too long, `EINTR` and `ETIMEDOUT`
    /// as the context says; what the server says if it is there and refuses, and
    /// `ESTALE` if another export has the place of the one that is known, or none.
    pub(super) fn tree(
        &self,
        ctx: &Ctx<'_>,
        restore: impl Fn(&Arc<Tree>) -> Result<()>,
    ) -> Result<Arc<Tree>> {
        let mut state = self.lock();
        let mut outage = None;
        loop {
            if state.is_closed {
                return Err(Errno::EIO.into());
            }
            if let Some(tree) = state.tree.as_ref() {
                return Ok(Arc::clone(tree));
            }
            outage.get_or_insert_with(|| self.options.connect.meter.outage());
            let now = Instant::now();
            self.check_caller(ctx, now)?;
            let is_due = state.not_before.is_none_or(|at| now >= at);
            if state.is_connecting || !is_due {
                let pause = self.pause(&state, now)?;
                let waited = self.changed.wait_timeout(state, pause);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_connecting = true;
            drop(state);
            let made = self.attempt(&restore);
            state = self.lock();
            state.is_connecting = false;
            match made {
                Ok(tree) => {
                    state.tree = Some(tree);
                    state.away_since = None;
                    state.not_before = None;
                    state.pause = PAUSE_MIN;
                }
                Err(ref error) => {
                    state.not_before = Some(Instant::now() + state.pause);
                    state.pause = (state.pause * 2).min(PAUSE_MAX);
                    if let Error::Refused(_) = error {
                        self.changed.notify_all();
                        return Err(error.clone());
                    }
                }
            }
            self.changed.notify_all();
        }
    }

    fn attempt(&self, restore: &impl Fn(&Arc<Tree>) -> Result<()>) -> Result<Arc<Tree>> {
        let made = Tree::connect(&|| self.connect.connect(), &self.options.connect);
        let tree = Arc::new(made.map_err(|error| match error {
            // The root is gone, which is not to say that each file is missing.
            Error::Refused(errno) | Error::Told { errno, .. } if is_missing(errno) => {
                Errno::ESTALE.into()
            }
            other => other,
        })?);
        restore(&tree)?;
        Ok(tree)
    }

    /// Whether whoever asked still waits.
    fn check_caller(&self, ctx: &Ctx<'_>, now: Instant) -> Result<()> {
        let is_killed = self.options.is_being_killed;
        match ctx.deadline {
            _ if ctx.is_cancelled() => Err(Errno::EINTR.into()),
            Some(deadline) if now >= deadline => Err(Errno::ETIMEDOUT.into()),
            _ if is_killed.is_some_and(|is_killed| is_killed(ctx.caller.pid)) => {
                Err(Errno::EINTR.into())
            }
            _ => Ok(()),
        }
    }

    /// How long to wait before it is looked again, if at all.
    fn pause(&self, state: &State, now: Instant) -> Result<Duration> {
        if let (Persistence::Soft(limit), Some(since)) =
            (self.options.persistence, state.away_since)
            && now.saturating_duration_since(since) >= limit
        {
            return Err(Errno::EIO.into());
        }
        let due = state.not_before.unwrap_or(now);
        let pause = due.saturating_duration_since(now);
        Ok(pause.clamp(Duration::from_millis(1), GLANCE))
    }

    /// An operation cost its connection, this time again. A server that was there
    /// each time and yet never answered it gets some more attempts, and time.
    ///
    /// # Errors
    /// `EPROTO` for one that breaks the protocol each time, `EIO` once a
    /// connection has lasted for no answer so often, unless that is to be waited
    /// for.
    pub(super) fn check_again(&self, error: &Error, attempt: u32) -> sluice_vfs::Result<()> {
        let is_last = attempt >= ATTEMPTS_MAX;
        match (error, self.options.persistence) {
            (Error::Lost(Lost::Violation(_)), _) if is_last => return Err(Errno::EPROTO),
            (_, Persistence::Soft(_)) if is_last => return Err(Errno::EIO),
            _ => {}
        }
        let pause = PAUSE_MIN.saturating_mul(1 << attempt.min(8));
        // The first time is any server's end.
        if attempt > 1 && self.sleep(pause.min(PAUSE_MAX)) {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    /// A connection is lost: it is not used any more.
    pub(super) fn lost(&self, tree: &Arc<Tree>) {
        let mut state = self.lock();
        let is_it = |it: &Arc<Tree>| Arc::ptr_eq(it, tree);
        let gone = state.tree.take_if(|it| is_it(it));
        if gone.is_some() {
            state.away_since = Some(Instant::now());
        }
        drop(state);
        // Fids of it that are left must not be sent anywhere.
        tree.connection.close();
    }

    /// The session is over.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let gone = state.tree.take();
        self.changed.notify_all();
        drop(state);
        if let Some(tree) = gone {
            tree.connection.close();
        }
    }

    /// Waits, but not after the session is over; whether it is.
    pub(super) fn sleep(&self, pause: Duration) -> bool {
        let state = self.lock();
        let over = |state: &mut State| !state.is_closed;
        let waited = self.changed.wait_timeout_while(state, pause, over);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_closed
    }

    /// What goes on now, if anything.
    pub(super) fn current(&self) -> Option<Arc<Tree>> {
        self.lock().tree.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a way leads nowhere.
fn is_missing(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)
}

/// Whether another connection may do better.
pub(super) fn is_lost(error: &Error) -> bool {
    error.is_fatal()
}
