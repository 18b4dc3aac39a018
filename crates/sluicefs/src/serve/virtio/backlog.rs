//! 9P requests that waited for others, and threads that run them.

use sluice_crew::{Crew, CrewConfig, Next, Polling, Queue};
use sluice_proto::p9::serve::{Exchange, Job, Link, Server};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Tells a [`Backlog`] that there is something to run.
#[derive(Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    is_rung: bool,
    is_over: bool,
}

impl Bell {
    fn ring(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.rung.notify_all();
    }

    /// Waits until it is rung; whether it was so for good.
    fn wait(&self) -> bool {
        let mut state = self.state();
        while !state.is_rung && !state.is_over {
            state = self
                .rung
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_rung = false;
        state.is_over
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for Bell {
    fn ready(&self) {
        self.ring(|state| state.is_rung = true);
    }
}

/// Threads that run what a server has ready, until dropped.
pub(super) struct Backlog<E: Exchange> {
    bell: Arc<Bell>,
    /// `None` once joined.
    crew: Option<Crew<Ready<E>>>,
}

impl<E: Exchange> Backlog<E> {
    /// For `server`, whose link is `bell`.
    pub(super) fn start(server: Arc<Server<E>>, bell: Arc<Bell>) -> io::Result<Self> {
        let config = CrewConfig {
            polling: Polling::Off, // few requests wait for others
            ..CrewConfig::new("backlog")
        };
        let queue = Arc::new(Ready {
            server,
            bell: Arc::clone(&bell),
        });
        let crew = Some(Crew::start(queue, config)?);
        Ok(Backlog { bell, crew })
    }
}

impl<E: Exchange> Drop for Backlog<E> {
    fn drop(&mut self) {
        self.bell.ring(|state| state.is_over = true);
        if let Some(crew) = self.crew.take() {
            // Panics are caught where they happen: nothing is to be learned here.
            crew.join();
        }
    }
}

struct Ready<E: Exchange> {
    server: Arc<Server<E>>,
    bell: Arc<Bell>,
}

impl<E: Exchange> Queue for Ready<E> {
    type Hand = ();
    type Job = Job<E>;

    fn hand(&self) {}

    fn take(&self, (): &mut ()) -> Next<Job<E>> {
        match self.server.next_ready() {
            Some(job) => Next::Job(job),
            None => Next::Nothing,
        }
    }

    fn wait(&self, hand: &mut ()) -> Next<Job<E>> {
        match self.bell.wait() {
            true => Next::Ended,
            false => self.take(hand),
        }
    }

    fn run(&self, (): &mut (), job: Job<E>) {
        crate::panics::contain(|| self.server.run(job, &[]));
    }
}
