//! What the kernel has to tell of sockets, and the sleep of the thread that waits for it.
//!
//! One thread at a time sleeps here. Others look as well, without sleeping, and may find
//! what was to wake it.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Events that are fetched at once.
pub(super) const EVENTS_MAX: usize = 64;

/// The token of what wakes the thread that sleeps.
const WAKE: u64 = 0;

/// The lowest token that others may have.
pub(super) const FIRST_TOKEN: u64 = 1;

/// Whether a thread may sleep.
pub(super) enum Sleep {
    /// There is something to do.
    No,
    /// Something is to be tried again then.
    For(Duration),
    UntilWoken,
}

/// Sockets that are watched, each by a token.
pub(super) struct Watch {
    epoll: OwnedFd,
    /// Ends the sleep of the thread that sleeps.
    wake: OwnedFd,
    is_asleep: AtomicBool,
}

impl Watch {
    /// Of nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let watch = Watch {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_asleep: AtomicBool::new(false),
        };
        watch.add(&watch.wake, WAKE, EventFlags::IN | EventFlags::ET)?;
        Ok(watch)
    }

    pub(super) fn add(&self, fd: impl AsFd, token: u64, events: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, fd, data, events)?)
    }

    /// Watches for something else. What is so already is told at once.
    pub(super) fn change(&self, fd: impl AsFd, token: u64, events: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, fd, data, events)?)
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        // One that was not added is not there.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Sleeps until there is something to see, if `may_sleep` says so. That is asked after
    /// others can know of the sleep: so either it sees what they have put there, or they
    /// see that somebody must be woken.
    pub(super) fn sleep(
        &self,
        events: &mut Vec<Event>,
        may_sleep: impl FnOnce() -> Sleep,
        see: impl FnMut(u64, EventFlags),
    ) {
        self.fall_asleep();
        match may_sleep() {
            Sleep::No => events.clear(),
            Sleep::For(pause) => self.fetch(events, Timespec::try_from(pause).ok().as_ref()),
            Sleep::UntilWoken => self.fetch(events, None),
        }
        // Before it sees anything: what comes of that is its own to do.
        self.is_asleep.store(false, Ordering::SeqCst);
        tell(events, see);
    }

    /// Sees what there is.
    pub(super) fn glance(&self, events: &mut Vec<Event>, see: impl FnMut(u64, EventFlags)) {
        self.fetch(events, Some(&Timespec::default()));
        self.pass_on(events, see);
    }

    /// Ends the sleep of the thread that sleeps, if one does: to be called after something
    /// to do was put where `may_sleep` finds it.
    pub(super) fn wake_sleeper(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            self.wake_up();
        }
    }

    /// Ends the sleep of the thread that sleeps, or the next one.
    pub(super) fn wake_up(&self) {
        // Full, it has not been looked at for 2^64 times.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
    }

    /// Has events seen that may be for the one that sleeps.
    fn pass_on(&self, events: &mut Vec<Event>, see: impl FnMut(u64, EventFlags)) {
        if tell(events, see) {
            self.wake_sleeper();
        }
    }

    fn fetch(&self, events: &mut Vec<Event>, timeout: Option<&Timespec>) {
        events.clear();
        events.reserve(EVENTS_MAX);
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "cannot wait for sockets"),
        }
    }
}

/// Has events seen. Whether somebody was to be woken.
fn tell(events: &mut Vec<Event>, mut see: impl FnMut(u64, EventFlags)) -> bool {
    let mut is_woken = false;
    for event in events.drain(..) {
        match event.data.u64() {
            WAKE => is_woken = true,
            token => see(token, event.flags),
        }
    }
    is_woken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of one of the threads.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Step {
        /// The sleeper tells that it will sleep.
        FallAsleep,
        /// It looks whether there is something to do.
        AskIfIdle,
        /// It asks the kernel.
        Sleep,
        /// Somebody puts a job into the queue.
        Push,
        /// And sees to it that somebody takes it.
        Wake,
        /// A helper looks at what there is.
        Glance,
        /// And passes on what was not for it.
        PassOn,
    }

    const THREADS: [&[Step]; 4] = [
        &[Step::FallAsleep, Step::AskIfIdle, Step::Sleep],
        &[Step::Push, Step::Wake],
        &[Step::Glance, Step::PassOn],
        &[Step::Glance, Step::PassOn],
    ];

    /// All orders in which threads that have come so far can go on.
    fn orders(at: [usize; 4]) -> Vec<Vec<(usize, Step)>> {
        let mut all = Vec::new();
        for (thread, steps) in THREADS.iter().enumerate() {
            let Some(step) = steps.get(at[thread]) else {
                continue;
            };
            let mut then = at;
            then[thread] += 1;
            for mut rest in orders(then) {
                rest.insert(0, (thread, *step));
                all.push(rest);
            }
        }
        match all.is_empty() {
            true => vec![Vec::new()],
            false => all,
        }
    }

    struct Scene {
        watch: Watch,
        has_job: bool,
        is_idle: bool,
        sleeps: bool,
        fetched: [Vec<Event>; 4],
    }

    impl Scene {
        fn fetch(&mut self, thread: usize) {
            let now = Timespec::default();
            self.watch.fetch(&mut self.fetched[thread], Some(&now));
        }

        /// Whether the sleeper wakes up.
        fn wakes(&mut self) -> bool {
            self.fetch(0);
            !self.fetched[0].is_empty()
        }

        fn take(&mut self, thread: usize, step: Step) {
            match step {
                Step::FallAsleep => self.watch.fall_asleep(),
                Step::AskIfIdle => self.is_idle = !self.has_job,
                Step::Sleep => self.sleeps = self.is_idle && !self.wakes(),
                Step::Push => self.has_job = true,
                Step::Wake => self.watch.wake_sleeper(),
                Step::Glance => self.fetch(thread),
                Step::PassOn => self.watch.pass_on(&mut self.fetched[thread], |_, _| {}),
            }
        }
    }

    #[test]
    fn who_sleeps_is_woken_in_whatever_order_threads_take_their_steps() {
        let orders = orders([0; 4]);
        assert_eq!(orders.len(), 7560);
        let mut slept = 0;
        for order in orders {
            let mut scene = Scene {
                watch: Watch::new().unwrap(),
                has_job: false,
                is_idle: false,
                sleeps: false,
                fetched: [const { Vec::new() }; 4],
            };
            for (thread, step) in &order {
                scene.take(*thread, *step);
            }
            slept += usize::from(scene.sleeps);
            assert!(!scene.sleeps || scene.wakes(), "{order:?}");
        }
        assert!(slept > 1000, "{slept}");
    }
}
