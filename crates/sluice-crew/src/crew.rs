//! A crew and what its threads do.

use crate::glances::Glances;
use crate::monitor::{self, Look, Watched};
use crate::polling::{Poller, Polling};
use crate::post::{Post, Sight};
use crate::roster::{Duty, Roster};
use crate::{Next, Queue};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Jobs that each waited when the one before was done, for so long, are a backlog.
const BACKLOG: Duration = Duration::from_micros(200);

/// What a crew is like.
#[derive(Clone, Debug)]
pub struct CrewConfig {
    /// Its threads are called that, with a number behind.
    pub name: String,
    /// Most threads it may have; jobs beyond them wait in the queue.
    pub threads_max: usize,
    /// How its leader looks for jobs before it sleeps.
    pub polling: Polling,
    /// How long a thread stays without being needed.
    pub linger: Duration,
}

impl CrewConfig {
    /// Threads that wait for a disk at the same time, at most.
    pub const THREADS_MAX: usize = 32;
    /// Long enough for the next burst of slow jobs.
    pub const LINGER: Duration = Duration::from_secs(10);

    /// The usual.
    pub fn new(name: impl Into<String>) -> Self {
        CrewConfig {
            name: name.into(),
            threads_max: Self::THREADS_MAX,
            polling: Polling::default(),
            linger: Self::LINGER,
        }
    }
}

/// Threads that serve a queue until it ends.
pub struct Crew<Q: Queue>(Arc<Shared<Q>>);

impl<Q: Queue> Crew<Q> {
    /// Starts the first thread; others come and go as they are needed.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(queue: Arc<Q>, config: CrewConfig) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue,
            roster: Roster::new(config.threads_max, config.linger),
            seen: Mutex::default(),
            config,
        });
        monitor::watch(&shared)?;
        shared.roster.begin(|number| shared.spawn(number))?;
        Ok(Crew(shared))
    }

    /// Waits until the queue has ended and all jobs with it; false if one of them
    /// panicked, which costs its thread and nothing else.
    pub fn join(self) -> bool {
        self.0.roster.join()
    }
}

impl<Q: Queue> std::fmt::Debug for Crew<Q> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Crew").field(&self.0.config.name).finish()
    }
}

struct Shared<Q> {
    queue: Arc<Q>,
    roster: Roster,
    config: CrewConfig,
    /// The leader at the monitor's last look, and what it did.
    seen: Mutex<Option<(Sight, Arc<Post>)>>,
}

impl<Q: Queue> Shared<Q> {
    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        std::thread::Builder::new()
            .name(format!("{}-{number}", self.config.name))
            .spawn(move || Member::join(shared).serve())
    }
}

impl<Q: Queue> Watched for Shared<Q> {
    fn look(self: Arc<Self>) -> Look {
        let leader = self.roster.leader();
        let now = leader.map(|post| (post.look(), post));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *seen, now.clone());
        drop(seen);
        let Some((sight, post)) = now else {
            return Look::Quiet; // who takes the lead will say so
        };
        let is_same = before.is_some_and(|(s, p)| s == sight && Arc::ptr_eq(&p, &post));
        match is_same {
            true if sight.is_resting() => Look::Quiet,
            true if sight.is_working() && post.relieve(sight) => {
                self.roster.free_lead(|number| self.spawn(number));
                Look::Relieved
            }
            false if sight.is_working() => Look::Working,
            _ => Look::Moving,
        }
    }

    fn is_resting(&self) -> bool {
        let leader = self.roster.leader();
        leader.is_none_or(|post| post.look().is_resting())
    }
}

/// A thread of a crew.
struct Member<Q: Queue> {
    crew: Arc<Shared<Q>>,
    post: Arc<Post>,
    hand: Q::Hand,
}

impl<Q: Queue> Member<Q> {
    fn join(crew: Arc<Shared<Q>>) -> Self {
        Member {
            hand: crew.queue.hand(),
            post: Arc::default(),
            crew,
        }
    }

    fn serve(mut self) {
        loop {
            match self.crew.roster.stand_by(&self.post) {
                Duty::Lead => self.lead(),
                Duty::Help => self.help(),
                Duty::Leave => return,
            }
        }
    }

    /// Runs jobs until somebody else leads or the queue ends.
    fn lead(&mut self) {
        let mut poller = Poller::new(self.crew.config.polling);
        let mut glances = Glances::default();
        let mut busy_since = Instant::now();
        self.wake();
        loop {
            let found = match self.glance(&mut glances) {
                Next::Nothing => {
                    let (found, now) = self.await_job(&mut poller);
                    busy_since = now;
                    found
                }
                found => {
                    if busy_since.elapsed() >= BACKLOG {
                        self.call_helper();
                        busy_since = Instant::now();
                    }
                    found
                }
            };
            let Next::Job(job) = found else {
                return self.crew.roster.end();
            };
            self.post.begin();
            self.crew.queue.run(&mut self.hand, job);
            if !self.post.end() {
                return;
            }
        }
    }

    /// Looks once, if that is worth it.
    fn glance(&mut self, glances: &mut Glances) -> Next<Q::Job> {
        if Q::LOOKS_ARE_CALLS && !glances.is_due() {
            return Next::Nothing;
        }
        let found = self.crew.queue.take(&mut self.hand);
        glances.looked(matches!(found, Next::Job(_)));
        found
    }

    /// Polls, then sleeps; what came, and when. Clocks are asked no more than they
    /// must be: some cost as much as a system call.
    fn await_job(&mut self, poller: &mut Poller) -> (Next<Q::Job>, Instant) {
        let start = Instant::now();
        let window = poller.window();
        let mut looks = 0_u32;
        while !window.is_zero() && start.elapsed() < window {
            match self.crew.queue.take(&mut self.hand) {
                Next::Nothing => {
                    looks = looks.wrapping_add(1);
                    // Whoever is to send the next job may need this very processor.
                    match looks.is_multiple_of(Q::LOOKS_PER_YIELD) {
                        true => std::thread::yield_now(),
                        false => std::hint::spin_loop(),
                    }
                }
                found => {
                    let now = Instant::now();
                    poller.found(now - start);
                    return (found, now);
                }
            }
        }
        self.post.rest();
        let found = loop {
            match self.crew.queue.wait(&mut self.hand) {
                Next::Nothing => {}
                found => break found,
            }
        };
        self.wake();
        let now = Instant::now();
        poller.slept(now - start);
        (found, now)
    }

    fn wake(&self) {
        self.post.wake();
        monitor::wake();
    }

    /// Runs jobs while some wait.
    fn help(&mut self) {
        let _helping = Helping(&self.crew.roster);
        while let Next::Job(job) = self.crew.queue.take(&mut self.hand) {
            self.crew.queue.run(&mut self.hand, job);
        }
    }

    fn call_helper(&self) {
        // Asked each time, as an administrator may move threads.
        let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count());
        let helpers_max = (processors as usize).saturating_sub(1);
        let crew = &self.crew;
        crew.roster
            .call_helper(helpers_max, |number| crew.spawn(number));
    }
}

impl<Q: Queue> Drop for Member<Q> {
    /// A job that panics costs its thread; the others go on.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let crew = &self.crew;
            crew.roster.lose(&self.post, |number| crew.spawn(number));
        }
    }
}

/// A helper until it is dropped.
struct Helping<'a>(&'a Roster);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.end_help();
    }
}
