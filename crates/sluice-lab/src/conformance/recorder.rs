//! Remembers what a session was told.

use sluice_vfs::{Event, EventSink, NodeId, Result, WaitId};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an event may take before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(10);

/// An [`Event`] that owns what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// See [`Event::InodeChanged`].
    Inode(NodeId, Option<Range<u64>>),
    /// See [`Event::EntryChanged`].
    Entry(NodeId, Vec<u8>),
    /// See [`Event::EpochMoved`].
    Epoch,
    /// See [`Event::BackingRevoked`].
    Revoked,
    /// See [`Event::LockSettled`].
    Lock(WaitId, Result<()>),
}

impl Said {
    /// Whether this is the end of a lock request.
    pub fn settles(&self, wait: WaitId) -> bool {
        matches!(self, Said::Lock(id, _) if *id == wait)
    }
}

/// An [`EventSink`] that keeps everything in order.
#[derive(Default)]
pub struct Recorder {
    said: Mutex<Vec<Said>>,
    more: Condvar,
}

impl Recorder {
    /// All that was said so far.
    pub fn said(&self) -> Vec<Said> {
        self.lock().clone()
    }

    /// Forgets what was said so far.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Waits until something that `matches` was said, and returns it.
    #[track_caller]
    pub fn wait_for(&self, what: &str, matches: impl Fn(&Said) -> bool) -> Said {
        let said = self.lock();
        let (said, timeout) = self
            .more
            .wait_timeout_while(said, PATIENCE, |said| !said.iter().any(&matches))
            .unwrap_or_else(PoisonError::into_inner);
        match said.iter().find(|event| matches(event)) {
            Some(event) => event.clone(),
            None => panic!("no event {what} ({timeout:?}), only {:?}", *said),
        }
    }

    /// Waits for the end of a lock request.
    #[track_caller]
    pub fn settled(&self, wait: WaitId) -> Result<()> {
        match self.wait_for("that settles the lock", |said| said.settles(wait)) {
            Said::Lock(_, result) => result,
            other => panic!("{other:?} settles no lock"),
        }
    }

    /// How often a lock request was settled so far.
    pub fn settle_count(&self, wait: WaitId) -> usize {
        self.lock().iter().filter(|said| said.settles(wait)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Said>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Recorder {
    fn publish(&self, event: &Event<'_>) {
        let said = match event {
            Event::InodeChanged { node, data } => Said::Inode(*node, data.clone()),
            Event::EntryChanged { parent, name } => Said::Entry(*parent, name.as_bytes().to_vec()),
            Event::EpochMoved => Said::Epoch,
            Event::BackingRevoked { .. } => Said::Revoked,
            Event::LockSettled { wait, result } => Said::Lock(*wait, *result),
        };
        self.lock().push(said);
        self.more.notify_all();
    }
}
