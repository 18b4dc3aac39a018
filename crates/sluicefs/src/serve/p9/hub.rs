//! All connections of the process, and the threads that they share.
//!
//! One crew serves one epoll. Sockets are watched edge-triggered: the kernel
//! tells once that something came, and from then on the connection is in the
//! hub's queue until it has been looked at. Connections with more to do go to
//! the queue's end, so each gets its turn.
//!
//! Locks: the registry, the queue, those who wait for memory, those who wait for threads,
//! a connection's input, its output. None is taken while another one of them is held. A
//! session that has its schedule locked may put its connection among those who wait for
//! memory.

use super::buffer::Held;
use super::connection::Connection;
use super::door::{Accepted, Door};
use super::doors::Doors;
use super::limits::HubLimits;
use super::memory::Memory;
use super::registry::Registry;
use super::threads::{THREADS_MAX, Threads};
use super::watch::{EVENTS_MAX, Sleep, Watch};
use rustix::event::epoll::{Event, EventFlags};
use sluice_crew::{Crew, CrewConfig, Next, Polling, Queue};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Turns that a thread takes before it looks at the sockets of others, though
/// there is something in the queue.
const TURNS_PER_LOOK: u32 = 16;

/// How long nothing is tried again that failed for want of descriptors, unless a
/// connection ends before.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(500);

/// How often it is looked whose peers are stuck, while memory is short: looking at all of
/// them is not for every turn.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What a connection's socket is watched for, besides room for what waits.
const CONNECTION_EVENTS: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// The connections of the process, until it is dropped.
pub(super) struct Hub {
    shared: Arc<Shared>,
    crew: Option<Crew<Shared>>,
}

impl Hub {
    /// Serves what comes in at `doors`. `on_last` is called when no door is left
    /// and the last connection has ended.
    pub(super) fn start(
        doors: Vec<Door>,
        polling: Polling,
        limits: HubLimits,
        on_last: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let shared = Shared::new(doors, limits, on_last)?;
        for index in 0..shared.doors.count() {
            shared.open_door(index)?;
        }
        let config = CrewConfig {
            threads_max: THREADS_MAX,
            polling,
            ..CrewConfig::new("9p")
        };
        let crew = Crew::start(Arc::clone(&shared), config)?;
        let crew = Some(crew);
        Ok(Hub { shared, crew })
    }

    /// Asks it to stop; does not wait.
    pub(super) fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        self.shared.watch.wake_up();
    }
}

impl Drop for Hub {
    /// Requests that run are finished.
    fn drop(&mut self) {
        self.stop();
        if let Some(crew) = self.crew.take() {
            crew.join();
        }
        for connection in self.shared.connections.all() {
            connection.close();
        }
    }
}

/// What the threads share.
pub(super) struct Shared {
    me: Weak<Shared>,
    watch: Watch,
    doors: Doors,
    connections: Registry,
    queue: Mutex<VecDeque<Job>>,
    is_stopped: AtomicBool,
    memory: Memory,
    /// How long a peer may be stuck when memory is short.
    patience: Duration,
    /// When it was last looked for those that are.
    looked_at: Mutex<Option<Instant>>,
    threads: Threads,
    on_last: Box<dyn Fn() + Send + Sync>,
}

/// Something to do.
pub(super) enum Job {
    /// Somebody is at this door.
    Door(usize),
    /// A connection's turn.
    Connection(Arc<Connection>),
}

/// What a thread has for itself.
pub(super) struct Hand {
    events: Vec<Event>,
    prefix: Vec<u8>,
    turns: u32,
}

impl Queue for Shared {
    type Hand = Hand;
    type Job = Job;

    /// With nothing in the queue it asks the kernel.
    const LOOKS_ARE_CALLS: bool = true;

    fn hand(&self) -> Hand {
        Hand {
            events: Vec::with_capacity(EVENTS_MAX),
            prefix: Vec::new(),
            turns: 0,
        }
    }

    fn take(&self, hand: &mut Hand) -> Next<Job> {
        if self.is_stopped.load(Ordering::SeqCst) {
            return Next::Ended;
        }
        hand.turns = hand.turns.wrapping_add(1);
        if hand.turns.is_multiple_of(TURNS_PER_LOOK) {
            self.relieve();
            self.watch.glance(&mut hand.events, self.seer());
        }
        if let Some(job) = self.lock_queue().pop_front() {
            return Next::Job(job);
        }
        self.watch.glance(&mut hand.events, self.seer());
        self.next_job()
    }

    fn wait(&self, hand: &mut Hand) -> Next<Job> {
        self.relieve();
        let may_sleep = || self.may_sleep();
        self.watch.sleep(&mut hand.events, may_sleep, self.seer());
        self.relieve();
        match self.is_stopped.load(Ordering::SeqCst) {
            true => Next::Ended,
            false => self.next_job(),
        }
    }

    fn run(&self, hand: &mut Hand, job: Job) {
        match job {
            Job::Door(index) => crate::panics::contain(|| self.accept(index)),
            Job::Connection(connection) => {
                self.threads.begin();
                crate::panics::contain(|| connection.take_turn(&mut hand.prefix));
                self.threads.end();
                self.memory.feed();
                if self.memory.is_newly_short() {
                    self.watch.wake_sleeper();
                }
            }
        }
    }
}

impl Shared {
    /// What threads will share: there are none yet, and all doors are shut.
    pub(super) fn new(
        doors: Vec<Door>,
        limits: HubLimits,
        on_last: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let watch = Watch::new()?;
        Ok(Arc::new_cyclic(|me| Shared {
            me: Weak::clone(me),
            watch,
            connections: Registry::new(limits.connections, doors.len()),
            doors: Doors::new(doors),
            queue: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            memory: Memory::new(limits.held_bytes),
            patience: limits.stuck,
            looked_at: Mutex::default(),
            threads: Threads::default(),
            on_last: Box::new(on_last),
        }))
    }

    /// The threads that connections share.
    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// To the end of the queue.
    pub(super) fn enqueue(&self, connection: Arc<Connection>) {
        self.push(Job::Connection(connection));
    }

    /// A connection's socket is full: it is resumed when it is not.
    pub(super) fn await_room(&self, connection: &Connection) {
        // One that was just closed is not there.
        let events = CONNECTION_EVENTS | EventFlags::OUT;
        let (socket, token) = (connection.socket(), connection.token);
        let _ = self.watch.change(socket, token, events);
    }

    /// Its socket has taken all.
    pub(super) fn await_more(&self, connection: &Connection) {
        let (socket, token) = (connection.socket(), connection.token);
        let _ = self.watch.change(socket, token, CONNECTION_EVENTS);
    }

    /// Whether payloads take as much memory as they may.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.memory.is_short()
    }

    /// The same; the connection is then told when they don't.
    pub(super) fn must_wait_for_memory(&self, connection: &Arc<Connection>) -> bool {
        if !self.memory.is_short() {
            return false;
        }
        self.await_memory(connection);
        self.memory.is_short()
    }

    /// Memory for a payload; if there is none, the connection is told when there is.
    pub(super) fn reserve(&self, connection: &Arc<Connection>, bytes: usize) -> Option<Held> {
        self.memory.reserve(bytes).or_else(|| {
            self.await_memory(connection);
            self.memory.reserve(bytes)
        })
    }

    /// A connection is over.
    pub(super) fn forget(&self, connection: &Connection) {
        self.watch.remove(connection.socket());
        let is_last = self.connections.remove(connection.token);
        if self.doors.is_short() {
            self.reopen_doors();
        }
        if is_last && !self.doors.does_any_listen() {
            (self.on_last)();
        }
    }

    fn await_memory(&self, connection: &Arc<Connection>) {
        if self.memory.await_some(connection) {
            // Whoever sleeps may have gone to sleep with no limit.
            self.watch.wake_sleeper();
        }
    }

    /// Does what can be done against shortages: opens doors again, after a pause, and
    /// goes on with those that waited for memory. If there still is none, it ends the
    /// connections whose peers have been stuck for long, whoever needs it.
    fn relieve(&self) {
        if self.doors.is_short_for(SHORTAGE_PAUSE) {
            self.reopen_doors();
        }
        self.memory.feed();
        if self.memory.is_short() && self.is_time_to_look() {
            self.evict_stuck();
        }
    }

    fn is_time_to_look(&self) -> bool {
        let mut looked_at = self
            .looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_due = looked_at.is_none_or(|at| at.elapsed() >= LOOK_PAUSE);
        if is_due {
            *looked_at = Some(Instant::now());
        }
        is_due
    }

    fn evict_stuck(&self) {
        let stuck = |connection: Arc<Connection>| Some((connection.stuck_since()?, connection));
        let all = self.connections.all().into_iter();
        let mut stuck: Vec<_> = all.filter_map(stuck).collect();
        stuck.sort_by_key(|(since, _)| *since);
        for (since, connection) in stuck {
            if !self.memory.is_short() || since.elapsed() < self.patience {
                break;
            }
            connection.evict();
        }
        self.memory.feed();
    }

    fn push(&self, job: Job) {
        self.lock_queue().push_back(job);
        self.watch.wake_sleeper();
    }

    fn may_sleep(&self) -> Sleep {
        if !self.lock_queue().is_empty() || self.is_stopped.load(Ordering::SeqCst) {
            return Sleep::No;
        }
        match (self.memory.watch(), self.doors.is_short()) {
            (true, _) => Sleep::For(LOOK_PAUSE),
            (false, true) => Sleep::For(SHORTAGE_PAUSE),
            (false, false) => Sleep::UntilWoken,
        }
    }

    fn next_job(&self) -> Next<Job> {
        match self.lock_queue().pop_front() {
            Some(job) => Next::Job(job),
            None => Next::Nothing,
        }
    }

    /// Puts what an event is about into the queue.
    fn seer(&self) -> impl FnMut(u64, EventFlags) {
        |token, flags| match self.doors.by_token(token) {
            // Who looks takes it, or wakes somebody for it later.
            Some(index) => self.lock_queue().push_back(Job::Door(index)),
            None => {
                if let Some(connection) = self.connections.get(token) {
                    connection.notice(flags);
                }
            }
        }
    }

    fn open_door(&self, index: usize) -> io::Result<()> {
        self.doors.open(index, &self.watch)?;
        let door = self.doors.get(index);
        let accepted = door.map(Door::connected).transpose()?.flatten();
        match (door, accepted) {
            (Some(door), Some(accepted)) => self.admit(door, accepted),
            _ => Ok(()),
        }
    }

    /// Lets in who is at a door.
    fn accept(&self, index: usize) {
        let Some(door) = self.doors.get(index) else {
            return;
        };
        for _ in 0..EVENTS_MAX {
            if self.connections.is_full() {
                self.shut_door(index, "there are too many connections");
                // One may have ended before that was known.
                return self.reopen_doors();
            }
            let admitted = door.accept().and_then(|accepted| match accepted {
                Some(accepted) => self.admit(door, accepted).map(|()| true),
                None => Ok(false),
            });
            match admitted {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.shut_door(index, &crate::failure::system_words(&error)),
            }
        }
        self.push(Job::Door(index));
    }

    fn admit(&self, door: &Door, accepted: Accepted) -> io::Result<()> {
        tracing::info!(peer = accepted.label, "connected");
        let connection = door.connection(self.connections.token(), accepted, &self.me);
        self.connections.add(&connection);
        let (socket, token) = (connection.socket(), connection.token);
        let watched = self.watch.add(socket, token, CONNECTION_EVENTS);
        if watched.is_err() {
            connection.close();
        }
        watched
    }

    fn shut_door(&self, index: usize, why: &str) {
        if self.doors.shut(index, why, &self.watch) {
            // Whoever sleeps may have gone to sleep with no limit.
            self.watch.wake_sleeper();
        }
    }

    fn reopen_doors(&self) {
        if !self.connections.is_full() {
            self.doors.reopen(&self.watch);
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
