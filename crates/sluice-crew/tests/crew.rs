//! Crews at work on a queue in memory.

use sluice_crew::{Crew, CrewConfig, Next, Polling, Queue};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Only for what would otherwise hang when it fails.
const PATIENCE: Duration = Duration::from_secs(30);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    state: Mutex<State>,
    changed: Condvar,
    /// Threads in `wait`.
    waiting: AtomicUsize,
    hands: AtomicUsize,
    /// How often it was told that it has ended when nobody could see.
    told: AtomicUsize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    ended: bool,
}

impl Jobs {
    fn put(&self, job: impl FnOnce() + Send + 'static) {
        self.state.lock().unwrap().jobs.push_back(Box::new(job));
        self.changed.notify_all();
    }

    fn end(&self) {
        self.state.lock().unwrap().ended = true;
        self.changed.notify_all();
    }
}

/// Counts a thread while it lives.
struct Hand(Arc<Jobs>);

impl Drop for Hand {
    fn drop(&mut self) {
        self.0.hands.fetch_sub(1, Ordering::SeqCst);
    }
}

/// With `CALLS` a look is as dear as a system call.
struct Shared<const CALLS: bool = false>(Arc<Jobs>);

impl<const CALLS: bool> Queue for Shared<CALLS> {
    type Hand = Hand;
    type Job = Job;

    const LOOKS_ARE_CALLS: bool = CALLS;

    fn hand(&self) -> Hand {
        self.0.hands.fetch_add(1, Ordering::SeqCst);
        Hand(Arc::clone(&self.0))
    }

    fn take(&self, _: &mut Hand) -> Next<Job> {
        let mut state = self.0.state.lock().unwrap();
        match state.jobs.pop_front() {
            Some(job) => Next::Job(job),
            None if state.ended => Next::Ended,
            None => Next::Nothing,
        }
    }

    fn wait(&self, hand: &mut Hand) -> Next<Job> {
        let before = self.0.waiting.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0, "two threads wait for jobs");
        let state = self.0.state.lock().unwrap();
        let idle = |state: &mut State| state.jobs.is_empty() && !state.ended;
        drop(self.0.changed.wait_while(state, idle).unwrap());
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.take(hand)
    }

    fn run(&self, _: &mut Hand, job: Job) {
        job();
    }

    fn has_ended(&self) -> bool {
        let has_ended = self.0.state.lock().unwrap().ended;
        self.0
            .told
            .fetch_add(usize::from(has_ended), Ordering::SeqCst);
        has_ended
    }
}

fn start(config: CrewConfig) -> (Arc<Jobs>, Crew<Shared>) {
    start_on(config)
}

fn start_on<const CALLS: bool>(config: CrewConfig) -> (Arc<Jobs>, Crew<Shared<CALLS>>) {
    let jobs = Arc::new(Jobs::default());
    let crew = Crew::start(Arc::new(Shared(Arc::clone(&jobs))), config).unwrap();
    (jobs, crew)
}

fn config() -> CrewConfig {
    CrewConfig::new("test")
}

fn finish<const CALLS: bool>(jobs: &Jobs, crew: Crew<Shared<CALLS>>) {
    jobs.end();
    assert!(crew.join());
    assert_eq!(jobs.hands.load(Ordering::SeqCst), 0);
}

/// A job that says that it has begun and stays until told to go on.
fn put_blocking(jobs: &Jobs) -> (Receiver<ThreadId>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (release, released) = channel::<()>();
    jobs.put(move || {
        begun.send(std::thread::current().id()).unwrap();
        let _ = released.recv();
    });
    (has_begun, release)
}

/// Runs a job and returns which thread did.
fn ask(jobs: &Jobs) -> ThreadId {
    let (done, is_done) = channel();
    jobs.put(move || done.send(std::thread::current().id()).unwrap());
    is_done.recv_timeout(PATIENCE).expect("it is never run")
}

#[test]
fn jobs_behind_one_that_blocks_are_run() {
    let (jobs, crew) = start(config());
    let (begun, release) = put_blocking(&jobs);
    let stuck = begun.recv().unwrap();
    for _ in 0..10 {
        assert_ne!(ask(&jobs), stuck);
    }
    drop(release);
    finish(&jobs, crew);
}

#[test]
fn as_many_can_block_as_there_may_be_threads_and_then_the_queue_waits() {
    let threads_max = 5;
    let (jobs, crew) = start(CrewConfig {
        threads_max,
        ..config()
    });
    let stuck: Vec<_> = (0..threads_max).map(|_| put_blocking(&jobs)).collect();
    let threads: BTreeSet<_> = stuck
        .iter()
        .map(|(begun, _)| format!("{:?}", begun.recv_timeout(PATIENCE).unwrap()))
        .collect();
    assert_eq!(threads.len(), threads_max);
    // Whoever comes back first runs what has waited.
    let (begun, release) = put_blocking(&jobs);
    assert!(begun.try_recv().is_err());
    drop(stuck);
    begun.recv_timeout(PATIENCE).unwrap();
    drop(release);
    finish(&jobs, crew);
}

#[test]
fn who_comes_back_from_a_job_that_blocked_serves_again() {
    let (jobs, crew) = start(CrewConfig {
        threads_max: 2,
        ..config()
    });
    let (first_begun, first) = put_blocking(&jobs);
    let one = first_begun.recv().unwrap();
    for _ in 0..3 {
        let (second_begun, second) = put_blocking(&jobs);
        let other = second_begun.recv_timeout(PATIENCE).unwrap();
        assert_ne!(other, one);
        drop(second);
    }
    drop(first);
    // Both are needed for these two.
    let (a, release_a) = put_blocking(&jobs);
    let (b, release_b) = put_blocking(&jobs);
    let (a, b) = (a.recv_timeout(PATIENCE), b.recv_timeout(PATIENCE));
    assert_ne!(a.unwrap(), b.unwrap());
    drop((release_a, release_b));
    finish(&jobs, crew);
}

#[test]
fn threads_that_nobody_needs_leave() {
    let (jobs, crew) = start(CrewConfig {
        linger: Duration::from_millis(1),
        ..config()
    });
    let stuck: Vec<_> = (0..4).map(|_| put_blocking(&jobs)).collect();
    for (begun, _) in &stuck {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    drop(stuck);
    while jobs.hands.load(Ordering::SeqCst) > 1 {
        std::thread::yield_now();
    }
    ask(&jobs);
    finish(&jobs, crew);
}

#[test]
fn the_end_waits_for_jobs_that_block() {
    let (jobs, crew) = start(config());
    let (begun, release) = put_blocking(&jobs);
    begun.recv().unwrap();
    let (done, is_done) = channel();
    jobs.put(move || done.send(()).unwrap());
    is_done.recv_timeout(PATIENCE).unwrap();
    jobs.end();
    let joining = std::thread::spawn(move || crew.join());
    assert_eq!(jobs.hands.load(Ordering::SeqCst).min(1), 1);
    drop(release);
    assert!(joining.join().unwrap());
    assert_eq!(jobs.hands.load(Ordering::SeqCst), 0);
}

/// Jobs may wait for just that.
#[test]
fn an_end_is_seen_while_every_thread_is_stuck() {
    let (jobs, crew) = start(CrewConfig {
        threads_max: 2,
        ..config()
    });
    let stuck = [(); 2].map(|()| put_blocking(&jobs));
    for (begun, _) in &stuck {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    jobs.end();
    let begin = Instant::now();
    while jobs.told.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed() < PATIENCE, "nobody looks");
        std::thread::yield_now();
    }
    drop(stuck);
    assert!(crew.join());
}

#[test]
fn a_panic_costs_one_thread_and_is_told() {
    let (jobs, crew) = start(config());
    jobs.put(|| panic!("on purpose"));
    ask(&jobs);
    jobs.end();
    assert!(!crew.join());
}

/// Nothing is lost and nothing is run twice, whatever blocks and whoever polls.
#[test]
fn every_job_is_run_once() {
    run_many::<false>();
}

#[test]
fn every_job_is_run_once_where_looks_are_left_out() {
    run_many::<true>();
}

fn run_many<const CALLS: bool>() {
    const SENDERS: usize = 3;
    const EACH: usize = 3000;
    for polling in [
        Polling::Off,
        Polling::Auto,
        Polling::For(Duration::from_micros(20)),
    ] {
        let (jobs, crew) = start_on::<CALLS>(CrewConfig {
            polling,
            linger: Duration::from_millis(1),
            ..config()
        });
        let runs: Arc<Vec<AtomicUsize>> =
            Arc::new((0..SENDERS * EACH).map(|_| AtomicUsize::new(0)).collect());
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let (jobs, runs) = (&jobs, &runs);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let (done, is_done) = channel();
                        let runs = Arc::clone(runs);
                        jobs.put(move || {
                            if number % 500 == 0 {
                                // Long enough for a takeover, or not.
                                std::thread::sleep(Duration::from_millis(3));
                            }
                            runs[sender * EACH + number].fetch_add(1, Ordering::SeqCst);
                            let _ = done.send(());
                        });
                        if number % 3 == 0 {
                            is_done.recv_timeout(PATIENCE).unwrap();
                        }
                    }
                });
            }
        });
        finish(&jobs, crew);
        assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1));
    }
}
