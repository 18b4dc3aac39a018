//! The thread that notices leaders who do not come back from a job: one for the
//! whole process, asleep while all of them rest.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

/// How often to look after a takeover, as others may follow; then less and less
/// often, since a look costs as much as a job. Who copies a MiB is not stuck, and
/// its buffers are in its processor's cache.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(2);

/// How often to look at a crew that nobody leads, as all of its threads are stuck.
const DESERTED: Duration = Duration::from_millis(500);

/// What is watched.
pub(crate) trait Watched: Send + Sync {
    /// Looks at the leader. One who is in the same job as at the last look is
    /// relieved if anything may wait, or if that has gone on for some looks.
    fn look(self: Arc<Self>) -> Look;

    /// Whether nothing can happen until the leader wakes up and says so.
    fn is_resting(&self) -> bool;

    /// Whether nobody is there to lead.
    fn is_deserted(&self) -> bool;
}

/// What there was to see, the least interesting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Look {
    /// The leader rests, and has done nothing since the last look.
    Quiet,
    /// It goes from job to job, or is in one that nobody waits behind.
    Moving,
    /// It is in a job that is not the one of the last look.
    Working,
    /// It was relieved.
    Relieved,
}

struct Monitor {
    watched: Mutex<Vec<Weak<dyn Watched>>>,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

static MONITOR: Monitor = Monitor {
    watched: Mutex::new(Vec::new()),
    asleep: AtomicBool::new(false),
    thread: OnceLock::new(),
};

/// Watches `crew` until it is dropped.
///
/// # Errors
/// When the monitor's thread cannot be started.
pub(crate) fn watch(crew: &Arc<impl Watched + 'static>) -> io::Result<()> {
    let weak = Arc::downgrade(crew);
    let mut watched = MONITOR.watched();
    if MONITOR.thread.get().is_none() {
        let spawned = std::thread::Builder::new()
            .name("monitor".into())
            .spawn(|| MONITOR.run())?;
        // Under the lock: nobody else sets it.
        let _ = MONITOR.thread.set(spawned.thread().clone());
    }
    watched.retain(|weak| weak.strong_count() > 0);
    watched.push(weak);
    Ok(())
}

/// A leader is awake, and has said so at its post.
pub(crate) fn wake() {
    if MONITOR.asleep.load(Ordering::SeqCst)
        && MONITOR.asleep.swap(false, Ordering::SeqCst)
        && let Some(thread) = MONITOR.thread.get()
    {
        thread.unpark();
    }
}

impl Monitor {
    fn run(&self) {
        loop {
            self.sleep();
            self.look_around();
        }
    }

    /// Looks until there is nothing to see.
    fn look_around(&self) {
        let mut rhythm = SHORTEST;
        let mut pause = rhythm;
        let mut is_second_look = false;
        loop {
            std::thread::park_timeout(pause);
            let looks = self.crews().into_iter().map(|crew| crew.look());
            let seen = looks.max().unwrap_or(Look::Quiet);
            rhythm = match seen {
                Look::Quiet => return,
                Look::Moving | Look::Working => (rhythm * 2).min(LONGEST),
                Look::Relieved => SHORTEST,
            };
            // Who is in a job is looked at again soon; who then is in another one
            // only has long jobs.
            is_second_look = seen == Look::Working && !is_second_look;
            pause = if is_second_look { SHORTEST } else { rhythm };
        }
    }

    /// Returns once a leader is awake, or a crew has been deserted for a while.
    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        // Either this sees a leader that has woken up, or that one sees the flag.
        if !self.crews().iter().all(|crew| crew.is_resting()) {
            self.asleep.store(false, Ordering::SeqCst);
        }
        while self.asleep.load(Ordering::SeqCst) {
            // Crews are not held meanwhile: their queues end when they are dropped.
            let is_any_deserted = self.crews().iter().any(|crew| crew.is_deserted());
            match is_any_deserted {
                true => {
                    std::thread::park_timeout(DESERTED);
                    self.asleep.store(false, Ordering::SeqCst);
                }
                false => std::thread::park(),
            }
        }
    }

    /// All crews there are; outside the lock, as the last one to hold a crew
    /// drops its queue.
    fn crews(&self) -> Vec<Arc<dyn Watched>> {
        self.watched().iter().filter_map(Weak::upgrade).collect()
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Weak<dyn Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
