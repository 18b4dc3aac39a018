//! Which call goes wrong, and how.

use super::transfer::Transfers;
use sluice_vfs::{Errno, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a gate is waited at before that counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// What goes wrong, in all sessions of a service. Starts empty.
#[derive(Default)]
pub struct Plan {
    rules: Mutex<Vec<Rule>>,
    transfers: Mutex<Transfers>,
    delay: Mutex<Option<Delay>>,
    loses_reads: AtomicBool,
    reads_say: Mutex<Option<usize>>,
    nth: Mutex<Option<Nth>>,
    pub(super) sessions: AtomicUsize,
}

/// One call among all fails.
#[derive(Clone, Copy, Debug)]
struct Nth {
    /// Calls that go well before.
    spared: u64,
    errno: Errno,
    /// What was asked for when it came.
    failed: Option<&'static str>,
}

/// Every so many calls, one takes so long.
#[derive(Clone, Copy, Debug)]
struct Delay {
    every: u32,
    for_so_long: Duration,
    calls: u32,
}

/// One kind of fault for one operation.
struct Rule {
    operation: &'static str,
    /// Calls that go well before.
    spared: u32,
    /// Calls that go wrong then.
    left: u32,
    fault: Fault,
}

#[derive(Clone)]
enum Fault {
    Fail(Errno),
    Stall(Arc<Gate>),
    Slow(Duration),
}

impl Plan {
    /// Of the calls of `operation` from now on, `spared` go well and then
    /// `count` fail with `errno`.
    pub fn fail(&self, operation: &'static str, spared: u32, count: u32, errno: Errno) {
        self.add(operation, spared, count, Fault::Fail(errno));
    }

    /// Of all calls from now on, whatever they ask for, `spared` go well and then one
    /// fails with `errno`.
    pub fn fail_one(&self, spared: u64, errno: Errno) {
        *lock(&self.nth) = Some(Nth {
            spared,
            errno,
            failed: None,
        });
    }

    /// What the call asked for that [`Plan::fail_one`] made fail, if it came to that.
    pub fn failed_one(&self) -> Option<&'static str> {
        lock(&self.nth).and_then(|nth| nth.failed)
    }

    /// Calls that are to go well before the one that fails.
    pub fn still_spared(&self) -> u64 {
        lock(&self.nth).map_or(0, |nth| nth.spared)
    }

    /// The next call of `operation` waits at a gate.
    pub fn stall(&self, operation: &'static str) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.add(operation, 0, 1, Fault::Stall(Arc::clone(&gate)));
        gate
    }

    /// From now on one of `every` calls, whatever it asks for, takes so long more, as
    /// with a busy disk: others overtake it.
    pub fn delay(&self, every: u32, for_so_long: Duration) {
        *lock(&self.delay) = Some(Delay {
            every,
            for_so_long,
            calls: 0,
        });
    }

    /// From now on every call of `operation` takes so much longer.
    pub fn slow_down(&self, operation: &'static str, duration: Duration) {
        self.add(operation, 0, u32::MAX, Fault::Slow(duration));
    }

    /// From now on payloads move like this.
    pub fn set_transfers(&self, transfers: Transfers) {
        *lock(&self.transfers) = transfers;
    }

    /// From now on reads fail with `EIO` after everything was read, or no more.
    pub fn lose_reads(&self, are_lost: bool) {
        self.loses_reads.store(are_lost, Ordering::SeqCst);
    }

    /// From now on reads say that they have read so many bytes, whatever they have read.
    pub fn misreport_reads(&self, bytes: Option<usize>) {
        *lock(&self.reads_say) = bytes;
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }

    /// Faults that have not come to pass.
    pub fn pending(&self) -> usize {
        lock(&self.rules).len()
    }

    pub(super) fn transfers(&self) -> Transfers {
        *lock(&self.transfers)
    }

    /// What comes of a read of `count` bytes that has been made.
    pub(super) fn after_read(&self, count: usize) -> Result<usize> {
        match self.loses_reads.load(Ordering::SeqCst) {
            true => Err(Errno::EIO),
            false => Ok(lock(&self.reads_say).unwrap_or(count)),
        }
    }

    /// What the plan has for a call that is about to be made.
    pub(super) fn meet(&self, operation: &'static str) -> Result<()> {
        if let Some(time) = self.time_to_lose() {
            std::thread::sleep(time);
        }
        self.count(operation)?;
        match self.next(operation) {
            None => Ok(()),
            Some(Fault::Fail(errno)) => Err(errno),
            Some(Fault::Stall(gate)) => {
                gate.pass();
                Ok(())
            }
            Some(Fault::Slow(duration)) => {
                std::thread::sleep(duration);
                Ok(())
            }
        }
    }

    fn count(&self, operation: &'static str) -> Result<()> {
        let mut nth = lock(&self.nth);
        match nth.as_mut() {
            Some(nth) if nth.failed.is_none() => match nth.spared.checked_sub(1) {
                Some(left) => nth.spared = left,
                None => {
                    nth.failed = Some(operation);
                    return Err(nth.errno);
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn time_to_lose(&self) -> Option<Duration> {
        let mut delay = lock(&self.delay);
        let delay = delay.as_mut()?;
        delay.calls = delay.calls.wrapping_add(1);
        let is_due = delay.calls.is_multiple_of(delay.every);
        is_due.then_some(delay.for_so_long)
    }

    fn add(&self, operation: &'static str, spared: u32, left: u32, fault: Fault) {
        assert!(
            super::layer::OPERATIONS.contains(&operation),
            "{operation} is no operation that can go wrong"
        );
        lock(&self.rules).push(Rule {
            operation,
            spared,
            left,
            fault,
        });
    }

    fn next(&self, operation: &str) -> Option<Fault> {
        let mut rules = lock(&self.rules);
        let at = rules.iter().position(|rule| rule.operation == operation)?;
        let rule = &mut rules[at];
        if rule.spared > 0 {
            rule.spared -= 1;
            return None;
        }
        let fault = rule.fault.clone();
        rule.left -= 1;
        if rule.left == 0 {
            rules.remove(at);
        }
        Some(fault)
    }
}

/// Holds a call up until it is opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

impl Gate {
    /// Waits until a call stands at the gate.
    #[track_caller]
    pub fn wait_until_reached(&self) {
        self.wait(|state| state.is_reached);
    }

    /// Lets the call go on.
    pub fn open(&self) {
        lock(&self.state).is_open = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        lock(&self.state).is_reached = true;
        self.changed.notify_all();
        self.wait(|state| state.is_open);
    }

    #[track_caller]
    fn wait(&self, is_over: impl Fn(&GateState) -> bool) {
        let state = lock(&self.state);
        let waited = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| !is_over(state));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(is_over(&state), "nobody comes to the gate");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
