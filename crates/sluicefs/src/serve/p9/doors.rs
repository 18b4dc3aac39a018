//! All doors, and when they are shut.

use super::door::Door;
use super::watch::{FIRST_TOKEN, Watch};
use rustix::event::epoll::EventFlags;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a listening socket is watched for.
const DOOR_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// The doors, by their tokens.
pub(super) struct Doors {
    doors: Vec<Door>,
    /// Some door is shut for want of room.
    is_short: AtomicBool,
    short_since: Mutex<Option<Instant>>,
}

impl Doors {
    pub(super) fn new(doors: Vec<Door>) -> Self {
        Doors {
            doors,
            is_short: AtomicBool::new(false),
            short_since: Mutex::default(),
        }
    }

    /// The door of a token, if it is one's.
    pub(super) fn by_token(&self, token: u64) -> Option<usize> {
        let index = usize::try_from(token.checked_sub(FIRST_TOKEN)?).ok()?;
        (index < self.doors.len()).then_some(index)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Door> {
        self.doors.get(index)
    }

    pub(super) fn count(&self) -> usize {
        self.doors.len()
    }

    /// Whether somebody may still come in.
    pub(super) fn does_any_listen(&self) -> bool {
        self.doors.iter().any(|door| door.listener().is_some())
    }

    /// Has a door that listens watched.
    pub(super) fn open(&self, index: usize, watch: &Watch) -> io::Result<()> {
        match self.get(index).and_then(Door::listener) {
            Some(listener) => watch.add(listener, token(index), DOOR_EVENTS),
            None => Ok(()),
        }
    }

    /// Lets nobody in at a door until there is room. Whether it is the first.
    pub(super) fn shut(&self, index: usize, why: &str, watch: &Watch) -> bool {
        let Some(door) = self.get(index) else {
            return false;
        };
        // First: who finds it shut has it watched again, which must come after this.
        change(index, door, EventFlags::empty(), watch);
        door.shut(why);
        *self.lock_since() = Some(Instant::now());
        !self.is_short.swap(true, Ordering::SeqCst)
    }

    /// Whether some door is shut.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::SeqCst)
    }

    /// Whether some door has been shut for so long.
    pub(super) fn is_short_for(&self, pause: Duration) -> bool {
        self.is_short() && self.lock_since().is_some_and(|at| at.elapsed() >= pause)
    }

    /// Opens those that were shut.
    pub(super) fn reopen(&self, watch: &Watch) {
        self.is_short.store(false, Ordering::SeqCst);
        for (index, door) in self.doors.iter().enumerate() {
            if door.reopen() {
                change(index, door, DOOR_EVENTS, watch);
            }
        }
    }

    fn lock_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.short_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn token(index: usize) -> u64 {
    FIRST_TOKEN + index as u64
}

fn change(index: usize, door: &Door, events: EventFlags, watch: &Watch) {
    if let Some(listener) = door.listener()
        && let Err(error) = watch.change(listener, token(index), events)
    {
        tracing::error!(%error, "cannot watch a listening socket");
    }
}
