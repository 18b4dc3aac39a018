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

/// A leader that is in one job at so many looks is relieved, whether or not anything
/// waits: what comes then need not wait for the monitor.
const LOOKS_MAX: u32 = 4;

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
    /// The leader at the monitor's last look.
    seen: Mutex<Option<Seen>>,
}

/// A leader, what it did, and at how many looks before it did the same.
struct Seen {
    post: Arc<Post>,
    sight: Sight,
    looks: u32,
}

impl<Q: Queue> Shared<Q> {
    fn spawn(self: &Arc<Self>, number: usize) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        std::thread::Builder::new()
            .name(format!("{}-{number}", self.config.name))
            .spawn(move || Member::join(shared).serve())
    }

    /// At how many looks before the leader did what it does now.
    fn note(&self, post: &Arc<Post>, sight: Sight) -> u32 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.take();
        let same = before.filter(|it| it.sight == sight && Arc::ptr_eq(&it.post, post));
        let looks = same.map_or(0, |it| it.looks.saturating_add(1));
        let post = Arc::clone(post);
        *seen = Some(Seen { post, sight, looks });
        looks
    }

    /// Whether a leader that has been in one job at so many looks before is to be
    /// relieved: to hand a queue over that nobody waits in costs more than it gains,
    /// unless it goes on for long.
    fn is_stuck(&self, looks: u32) -> bool {
        looks >= LOOKS_MAX || self.queue.may_wait()
    }
}

impl<Q: Queue> Watched for Shared<Q> {
    fn look(self: Arc<Self>) -> Look {
        let Some(post) = self.roster.leader() else {
            if self.roster.is_deserted() && self.queue.has_ended() {
                self.roster.end();
            }
            return Look::Quiet; // who takes the lead will say so
        };
        let sight = post.look();
        let looks = self.note(&post, sight);
        match looks > 0 {
            true if sight.is_resting() => Look::Quiet,
            true if sight.is_working() && self.is_stuck(looks) && post.relieve(sight) => {
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

    fn is_deserted(&self) -> bool {
        self.roster.is_deserted()
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
        let mut processors = Processors::default();
        let mut busy_since = None;
        self.wake();
        loop {
            let helpers_max = processors.count() - 1;
            let found = match self.glance(&mut glances) {
                Next::Nothing => {
                    busy_since = None;
                    poller.is_alone = helpers_max == 0;
                    self.await_job(&mut poller)
                }
                found => {
                    if helpers_max > 0
                        && busy_since.get_or_insert_with(Instant::now).elapsed() >= BACKLOG
                    {
                        self.call_helper(helpers_max);
                        busy_since = None;
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

    /// Polls, then sleeps; what came. Clocks are asked no more than they must be:
    /// some cost as much as a system call.
    fn await_job(&mut self, poller: &mut Poller) -> Next<Q::Job> {
        if !poller.is_timed() {
            return self.sleep();
        }
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
                    poller.found(start.elapsed());
                    return found;
                }
            }
        }
        let found = self.sleep();
        poller.slept(start.elapsed());
        found
    }

    /// Sleeps until something comes.
    fn sleep(&mut self) -> Next<Q::Job> {
        self.post.rest();
        let found = loop {
            match self.crew.queue.wait(&mut self.hand) {
                Next::Nothing => {}
                found => break found,
            }
        };
        self.wake();
        found
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

    fn call_helper(&self, helpers_max: usize) {
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

/// How many processors this thread may use. Asked again now and then, as an
/// administrator may move threads.
#[derive(Default)]
struct Processors {
    count: usize,
    asked: u32,
}

impl Processors {
    /// For so many jobs it is taken to stay.
    const CALLS_PER_LOOK: u32 = 1024;

    /// At least one.
    fn count(&mut self) -> usize {
        if self.asked.is_multiple_of(Self::CALLS_PER_LOOK) {
            let set = rustix::thread::sched_getaffinity(None);
            self.count = set.map_or(1, |set| set.count() as usize).max(1);
        }
        self.asked = self.asked.wrapping_add(1);
        self.count
    }
}

/// A helper until it is dropped.
struct Helping<'a>(&'a Roster);

impl Drop for Helping<'_> {
    fn drop(&mut self) {
        self.0.end_help();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue that has ended. Whether anything waits is made up.
    struct Empty {
        may_wait: bool,
    }

    impl Queue for Empty {
        type Hand = ();
        type Job = ();

        fn hand(&self) {}

        fn take(&self, _: &mut ()) -> Next<()> {
            Next::Ended
        }

        fn wait(&self, _: &mut ()) -> Next<()> {
            Next::Ended
        }

        fn may_wait(&self) -> bool {
            self.may_wait
        }

        fn run(&self, _: &mut (), _: ()) {}
    }

    /// What looks at a leader come to that never leaves its job, until it is relieved.
    fn looks(may_wait: bool) -> Vec<Look> {
        let config = CrewConfig::new("test");
        let crew = Arc::new(Shared {
            queue: Arc::new(Empty { may_wait }),
            roster: Roster::new(config.threads_max, config.linger),
            seen: Mutex::default(),
            config,
        });
        let post = Arc::new(Post::default());
        assert_eq!(crew.roster.stand_by(&post), Duty::Lead);
        post.wake();
        post.begin();
        let mut looks = Vec::new();
        while looks.last() != Some(&Look::Relieved) {
            looks.push(Arc::clone(&crew).look());
        }
        assert!(!post.end(), "it leads no longer");
        assert!(crew.roster.join());
        looks
    }

    #[test]
    fn a_leader_in_one_job_is_relieved_at_once_only_if_something_may_wait() {
        use Look::{Moving, Relieved, Working};
        assert_eq!(looks(true), [Working, Relieved]);
        assert_eq!(looks(false), [Working, Moving, Moving, Moving, Relieved]);
    }

    #[test]
    fn processors_are_counted_now_and_then() {
        let mut processors = Processors::default();
        assert!(processors.count() > 0);
        processors.count = 77;
        for _ in 1..Processors::CALLS_PER_LOOK {
            assert_eq!(processors.count(), 77);
        }
        assert_ne!(processors.count(), 77);
    }
}
