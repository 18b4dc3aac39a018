//! Who serves a queue: threads that take jobs and run each themselves.
//!
//! A [`Crew`] serves one [`Queue`]. One of its threads *leads*: it takes a job,
//! runs it, takes the next, and alone sleeps where the queue lets it sleep. The
//! others *stand by*, away from the queue, so that nothing wakes them in vain.
//!
//! - *Takeover.* A job may block: a cold file, a slow disk. One monitor for the
//!   whole process (`monitor`) notices that a leader has not come back; from
//!   then on the queue has no leader, and whoever stands by becomes it. The
//!   queue moves, not the job: the old leader finishes it and stands by. When
//!   every thread is stuck, the queue waits; the monitor looks whether it ends.
//! - *Backlog.* A leader that finds job after job waiting calls a helper, up to
//!   the number of processors. Helpers take and run jobs as the leader does, and
//!   stand by again when nothing waits.
//! - *Polling.* To put a processor to sleep and to wake it may take longer than a
//!   job. After its last job a leader looks for another one for a short time
//!   ([`Polling`]) where that has paid off lately, and then sleeps.
//!
//! Nothing runs while no job comes and none is stuck: no timer, no thread.
//!
//! A takeover costs the jobs nothing: a leader publishes with plain stores what
//! it does, and one compare-and-swap at the end of a job tells it whether it
//! still leads (`post`).
//!
//! # Lock order
//!
//! The monitor's registry, then a crew's roster. Neither is held while a method
//! of a queue runs.
#![forbid(unsafe_code)]

mod crew;
mod glances;
mod monitor;
mod polling;
mod post;
mod roster;

pub use crew::{Crew, CrewConfig};
pub use polling::Polling;

/// Where jobs come from, and how they are run. Several threads call it at once.
pub trait Queue: Send + Sync + 'static {
    /// What a thread has for itself: buffers.
    type Hand;

    /// Something to do.
    type Job;

    /// How often a leader looks for a job, while it polls, before it lets others have
    /// its processor, which is a system call.
    const LOOKS_PER_YIELD: u32 = 16;

    /// Whether to look costs a system call. A leader then leaves it while it is in vain,
    /// and sleeps, which ends at once if a job waits.
    const LOOKS_ARE_CALLS: bool = false;

    /// For a thread that joins the crew; called on that thread.
    fn hand(&self) -> Self::Hand;

    /// Takes a job if one waits; never sleeps.
    fn take(&self, hand: &mut Self::Hand) -> Next<Self::Job>;

    /// Takes a job, and sleeps before that if none waits. [`Next::Nothing`] is a
    /// wake-up for nothing. Only one thread at a time is in here.
    fn wait(&self, hand: &mut Self::Hand) -> Next<Self::Job>;

    /// Whether a job may be waiting while the leader is in another one; for the
    /// monitor, who asks from its own thread now and then. False only where that is
    /// known.
    fn may_wait(&self) -> bool {
        true
    }

    /// Runs a job to its end.
    fn run(&self, hand: &mut Self::Hand, job: Self::Job);

    /// Whether it has ended, asked now and then while every thread is stuck in a job
    /// and nobody can look: it may be that the end is what those wait for.
    fn has_ended(&self) -> bool {
        false
    }
}

/// What a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<J> {
    /// A job, which the caller runs.
    Job(J),
    /// None at the moment.
    Nothing,
    /// None any more, for ever. The crew ends.
    Ended,
}
