//! All connections of the process, and the threads that they share.
//!
//! One crew serves one epoll. Sockets are watched edge-triggered: the kernel
//! tells once that something came, and from then on the connection is in the
//! hub's queue until it has been looked at. Connections with more to do go to
//! the queue's end, so each gets its turn.
//!
//! Locks: the registry, the queue, those who wait for memory, a connection's input,
//! its output. None is taken while another one of them is held. A session that has its
//! schedule locked may put its connection among those who wait for memory.

use super::buffer::{self, Held};
use super::connection::Connection;
use super::door::{Accepted, Door};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use sluice_crew::{Crew, CrewConfig, Next, Polling, Queue};
use sluice_proto::p9::serve::CommonBounds;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Most threads; most of them only exist while others wait for a disk.
const THREADS_MAX: usize = 192;

/// Most threads that one connection can have run its requests.
const THREADS_OF_ONE: usize = 32;

/// Turns that a thread takes before it looks at the sockets of others, though
/// there is something in the queue.
const TURNS_PER_LOOK: u32 = 16;

/// Events that are fetched at once.
const EVENTS_MAX: usize = 64;

/// How long nothing is tried again that failed for want of descriptors or memory,
/// unless a connection ends before.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(500);

/// What a connection's socket is watched for, besides room for what waits.
const CONNECTION_EVENTS: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// What a listening socket is watched for.
const DOOR_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// The token of what wakes a sleeping thread; doors come after it, and
/// connections after those.
const WAKE: u64 = 0;

/// What all connections may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Connections at a time; others wait to be let in.
    pub connections: usize,
    /// Bytes of payloads in use at a time, in buffers and pipes, beyond which
    /// requests that need more than a small buffer wait.
    pub held_bytes: usize,
    /// Fids; beyond: `ENFILE`. Every connection can have a few all the same.
    pub fids: usize,
    /// Bytes in values of extended attributes that fids hold; beyond: `ENOMEM`. Every
    /// connection can have one value all the same.
    pub xattr_bytes: usize,
    /// A peer that has taken no reply, or sent no more of a message, for so long may
    /// be sent away when others need the memory.
    pub stuck: Duration,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits {
            connections: 4096,
            held_bytes: 256 << 20,
            fids: 1 << 19,
            xattr_bytes: 32 << 20,
            stuck: Duration::from_secs(10),
        }
    }
}

impl HubLimits {
    /// Those of them that are for sessions, on whatever transport.
    pub(in crate::serve) fn common(&self) -> Arc<CommonBounds> {
        Arc::new(CommonBounds::new(self.fids, self.xattr_bytes))
    }
}

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
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new_cyclic(|me| Shared {
            me: Weak::clone(me),
            limits,
            epoll,
            wake,
            next_token: Mutex::new(doors.len() as u64 + 1),
            doors,
            connections: Mutex::default(),
            queue: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            starved: Mutex::default(),
            is_starved: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            short_since: Mutex::default(),
            running: AtomicUsize::new(0),
            on_last: Box::new(on_last),
        });
        let readable = EventFlags::IN | EventFlags::ET;
        shared.watch(shared.wake.as_fd(), WAKE, readable)?;
        for index in 0..shared.doors.len() {
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
        self.shared.wake_up();
    }
}

impl Drop for Hub {
    /// Requests that run are finished.
    fn drop(&mut self) {
        self.stop();
        if let Some(crew) = self.crew.take() {
            crew.join();
        }
        for connection in self.shared.all() {
            connection.close();
        }
    }
}

/// What the threads share.
pub(super) struct Shared {
    me: Weak<Shared>,
    limits: HubLimits,
    epoll: OwnedFd,
    /// Ends the sleep of the thread that sleeps.
    wake: OwnedFd,
    doors: Vec<Door>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    next_token: Mutex<u64>,
    queue: Mutex<VecDeque<Job>>,
    is_asleep: AtomicBool,
    is_stopped: AtomicBool,
    /// Connections that wait for memory.
    starved: Mutex<HashMap<u64, Weak<Connection>>>,
    /// There are some.
    is_starved: AtomicBool,
    /// Some door is shut for want of room.
    is_short: AtomicBool,
    short_since: Mutex<Option<Instant>>,
    /// Requests that threads are running.
    running: AtomicUsize,
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
            self.glance(hand);
        }
        if let Some(job) = self.lock_queue().pop_front() {
            return Next::Job(job);
        }
        self.glance(hand);
        self.next_job()
    }

    fn wait(&self, hand: &mut Hand) -> Next<Job> {
        self.relieve();
        self.is_asleep.store(true, Ordering::SeqCst);
        // Either this sees what was put there, or who put it there sees the flag.
        let is_idle = self.lock_queue().is_empty() && !self.is_stopped.load(Ordering::SeqCst);
        if is_idle {
            let is_short = [&self.is_short, &self.is_starved];
            let is_short = is_short.iter().any(|flag| flag.load(Ordering::SeqCst));
            let pause = Timespec::try_from(SHORTAGE_PAUSE).ok();
            self.look(hand, pause.as_ref().filter(|_| is_short));
        }
        self.is_asleep.store(false, Ordering::SeqCst);
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
                self.running.fetch_add(1, Ordering::SeqCst);
                crate::panics::contain(|| connection.take_turn(&mut hand.prefix));
                self.running.fetch_sub(1, Ordering::SeqCst);
                self.feed();
            }
        }
    }
}

impl Shared {
    /// Most threads that one connection can have now. However many others hold
    /// the rest, some are left for those who come.
    pub(super) fn threads_for_one(&self) -> usize {
        let free = THREADS_MAX.saturating_sub(self.running.load(Ordering::SeqCst));
        THREADS_OF_ONE.min(free / 2).max(1)
    }

    /// To the end of the queue.
    pub(super) fn enqueue(&self, connection: Arc<Connection>) {
        self.push(Job::Connection(connection));
    }

    /// A connection's socket is full: it is resumed when it is not.
    pub(super) fn await_room(&self, connection: &Connection) {
        let events = CONNECTION_EVENTS | EventFlags::OUT;
        let data = EventData::new_u64(connection.token);
        // One that was just closed is not there.
        let _ = epoll::modify(&self.epoll, connection.socket(), data, events);
    }

    /// Its socket has taken all.
    pub(super) fn await_more(&self, connection: &Connection) {
        let data = EventData::new_u64(connection.token);
        let _ = epoll::modify(&self.epoll, connection.socket(), data, CONNECTION_EVENTS);
    }

    /// Whether payloads take so much memory that others must wait; the connection
    /// is then told when they don't.
    pub(super) fn must_wait_for_memory(&self, connection: &Arc<Connection>) -> bool {
        if !self.is_short_of_memory() {
            return false;
        }
        self.await_memory(connection);
        // Some may have come back before that was known.
        self.is_short_of_memory()
    }

    /// Memory for a payload; if there is none, the connection is told when there is.
    pub(super) fn reserve(&self, connection: &Arc<Connection>, bytes: usize) -> Option<Held> {
        let held = || Held::below(self.limits.held_bytes, bytes);
        held().or_else(|| {
            self.await_memory(connection);
            held()
        })
    }

    fn await_memory(&self, connection: &Arc<Connection>) {
        let me = Arc::downgrade(connection);
        self.lock_starved().insert(connection.token, me);
        self.note_shortage(&self.is_starved);
    }

    /// Something is to be tried again. Whoever sleeps may have gone to sleep before, with
    /// no limit.
    fn note_shortage(&self, flag: &AtomicBool) {
        if !flag.swap(true, Ordering::SeqCst) && self.is_asleep.load(Ordering::SeqCst) {
            self.wake_up();
        }
    }

    /// Whether payloads take as much memory as they may.
    pub(super) fn is_short_of_memory(&self) -> bool {
        buffer::held_bytes() >= self.limits.held_bytes
    }

    /// Goes on with connections that waited for memory, if there is some.
    fn feed(&self) {
        if self.is_starved.load(Ordering::SeqCst) && !self.is_short_of_memory() {
            self.is_starved.store(false, Ordering::SeqCst);
            let waiting = std::mem::take(&mut *self.lock_starved());
            let waiting = waiting.values().filter_map(Weak::upgrade);
            waiting.for_each(|connection| connection.poke());
        }
    }

    /// Does what can be done against shortages: opens doors again, after a pause, and
    /// goes on with those that waited for memory. If there still is none, it ends the
    /// connections whose peers have been stuck for long.
    fn relieve(&self) {
        let is_due =
            |since: Option<Instant>| since.is_some_and(|at| at.elapsed() >= SHORTAGE_PAUSE);
        if self.is_short.load(Ordering::SeqCst) && is_due(*self.lock_short_since()) {
            self.reopen_doors();
        }
        self.feed();
        if !self.is_starved.load(Ordering::SeqCst) {
            return;
        }
        let stuck = |connection: Arc<Connection>| Some((connection.stuck_since()?, connection));
        let mut stuck: Vec<_> = self.all().into_iter().filter_map(stuck).collect();
        stuck.sort_by_key(|(since, _)| *since);
        for (since, connection) in stuck {
            if !self.is_short_of_memory() || since.elapsed() < self.limits.stuck {
                break;
            }
            connection.evict();
        }
        self.feed();
    }

    /// A connection is over.
    pub(super) fn forget(&self, connection: &Connection) {
        let _ = epoll::delete(&self.epoll, connection.socket());
        let mut connections = self.lock_connections();
        connections.remove(&connection.token);
        let is_last =
            connections.is_empty() && self.doors.iter().all(|door| door.listener().is_none());
        drop(connections);
        if self.is_short.load(Ordering::SeqCst) {
            self.reopen_doors();
        }
        if is_last {
            (self.on_last)();
        }
    }

    fn push(&self, job: Job) {
        self.lock_queue().push_back(job);
        if self.is_asleep.load(Ordering::SeqCst) {
            self.wake_up();
        }
    }

    fn wake_up(&self) {
        // Full, it has not been looked at for 2^64 times.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn next_job(&self) -> Next<Job> {
        match self.lock_queue().pop_front() {
            Some(job) => Next::Job(job),
            None => Next::Nothing,
        }
    }

    /// Looks without sleeping. What was to wake another thread is passed on to it.
    fn glance(&self, hand: &mut Hand) {
        let is_woken = self.look(hand, Some(&Timespec::default()));
        if is_woken && self.is_asleep.load(Ordering::SeqCst) {
            self.wake_up();
        }
    }

    /// Fetches events, and puts what they are about into the queue. Whether somebody
    /// was to be woken.
    fn look(&self, hand: &mut Hand, timeout: Option<&Timespec>) -> bool {
        hand.events.clear();
        let room = rustix::buffer::spare_capacity(&mut hand.events);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "cannot wait for sockets"),
        }
        let mut is_woken = false;
        for event in hand.events.drain(..) {
            let (token, flags) = (event.data.u64(), event.flags);
            match self.door_of(token) {
                Some(index) => self.lock_queue().push_back(Job::Door(index)),
                None if token == WAKE => is_woken = true,
                None => {
                    let found = self.lock_connections().get(&token).cloned();
                    if let Some(connection) = found {
                        connection.notice(flags);
                    }
                }
            }
        }
        is_woken
    }

    fn door_of(&self, token: u64) -> Option<usize> {
        let index = usize::try_from(token.checked_sub(1)?).ok()?;
        (index < self.doors.len()).then_some(index)
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: u64, events: EventFlags) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            events,
        )?)
    }

    fn open_door(&self, index: usize) -> io::Result<()> {
        let Some(door) = self.doors.get(index) else {
            return Ok(());
        };
        match door.listener() {
            Some(listener) => self.watch(listener, index as u64 + 1, DOOR_EVENTS),
            None => match door.connected()? {
                Some(accepted) => self.admit(door, accepted),
                None => Ok(()),
            },
        }
    }

    /// Lets in who is at a door.
    fn accept(&self, index: usize) {
        let Some(door) = self.doors.get(index) else {
            return;
        };
        for _ in 0..EVENTS_MAX {
            if self.is_full() {
                self.shut(index, "there are too many connections");
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
                Err(error) => return self.shut(index, &crate::failure::system_words(&error)),
            }
        }
        self.push(Job::Door(index));
    }

    fn admit(&self, door: &Door, accepted: Accepted) -> io::Result<()> {
        let token = {
            let mut next = self
                .next_token
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        tracing::info!(peer = accepted.label, "connected");
        let connection = door.connection(token, accepted, &self.me);
        self.lock_connections()
            .insert(token, Arc::clone(&connection));
        let watched = self.watch(connection.socket().as_fd(), token, CONNECTION_EVENTS);
        if watched.is_err() {
            connection.close();
        }
        watched
    }

    /// Lets nobody in at a door until there is room.
    fn shut(&self, index: usize, why: &str) {
        let Some(door) = self.doors.get(index) else {
            return;
        };
        door.shut(why);
        self.watch_door(index, door, EventFlags::empty());
        *self.lock_short_since() = Some(Instant::now());
        self.note_shortage(&self.is_short);
    }

    fn reopen_doors(&self) {
        if self.is_full() {
            return;
        }
        self.is_short.store(false, Ordering::SeqCst);
        for (index, door) in self.doors.iter().enumerate() {
            if door.reopen() {
                self.watch_door(index, door, DOOR_EVENTS);
            }
        }
    }

    fn watch_door(&self, index: usize, door: &Door, events: EventFlags) {
        if let Some(listener) = door.listener() {
            let data = EventData::new_u64(index as u64 + 1);
            if let Err(error) = epoll::modify(&self.epoll, listener, data, events) {
                tracing::error!(%error, "cannot watch a listening socket");
            }
        }
    }

    fn is_full(&self) -> bool {
        self.lock_connections().len() >= self.limits.connections
    }

    fn all(&self) -> Vec<Arc<Connection>> {
        self.lock_connections().values().cloned().collect()
    }

    fn lock_connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_starved(&self) -> MutexGuard<'_, HashMap<u64, Weak<Connection>>> {
        self.starved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_short_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.short_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_queue(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
