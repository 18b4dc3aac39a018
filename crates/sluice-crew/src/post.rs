//! What a thread of a crew is doing, for the monitor to see.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of jobs, and a phase in the two lowest bits.
#[derive(Debug, Default)]
pub(crate) struct Post(AtomicU64);

/// A look at a [`Post`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight(u64);

const PHASE: u64 = 3;
/// Sleeps, or stands by.
const RESTING: u64 = 0;
/// Looks for a job.
const AWAKE: u64 = 1;
/// Is in a job.
const WORKING: u64 = 2;
/// Is in a job, and leads no longer.
const RELIEVED: u64 = 3;
const ONE_JOB: u64 = PHASE + 1;

impl Post {
    /// Back from rest. Ordered before whatever the caller reads next, as
    /// [`Post::look`] is after whatever its caller wrote before.
    pub(crate) fn wake(&self) {
        self.set_phase(AWAKE, Ordering::SeqCst);
    }

    /// Goes to rest.
    pub(crate) fn rest(&self) {
        self.set_phase(RESTING, Ordering::Relaxed);
    }

    /// Begins a job.
    pub(crate) fn begin(&self) {
        let jobs = self.0.load(Ordering::Relaxed) & !PHASE;
        let word = jobs.wrapping_add(ONE_JOB) | WORKING;
        self.0.store(word, Ordering::Relaxed);
    }

    /// Ends the job; false if somebody else leads meanwhile.
    pub(crate) fn end(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let working = before & !PHASE | WORKING;
        let awake = before & !PHASE | AWAKE;
        self.0
            .compare_exchange(working, awake, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(crate) fn look(&self) -> Sight {
        Sight(self.0.load(Ordering::SeqCst))
    }

    /// Takes the lead away from a thread that is still in the job of `sight`;
    /// false if it is not.
    pub(crate) fn relieve(&self, sight: Sight) -> bool {
        let relieved = sight.0 & !PHASE | RELIEVED;
        self.0
            .compare_exchange(sight.0, relieved, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn set_phase(&self, phase: u64, ordering: Ordering) {
        let jobs = self.0.load(Ordering::Relaxed) & !PHASE;
        self.0.store(jobs | phase, ordering);
    }
}

impl Sight {
    pub(crate) fn is_resting(self) -> bool {
        self.0 & PHASE == RESTING
    }

    pub(crate) fn is_working(self) -> bool {
        self.0 & PHASE == WORKING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_in_the_same_job_is_relieved() {
        let post = Post::default();
        post.wake();
        post.begin();
        let sight = post.look();
        assert!(sight.is_working());
        assert!(post.end());
        assert!(!post.relieve(sight), "the job is over");
        post.begin();
        assert!(!post.relieve(sight), "another job");
        assert!(post.relieve(post.look()));
        assert!(!post.end(), "it was relieved");
        post.rest();
        assert!(post.look().is_resting());
    }
}
