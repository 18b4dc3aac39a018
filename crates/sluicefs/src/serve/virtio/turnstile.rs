//! Threads that take turns in the order of their numbers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Lets threads pass one at a time, each in its turn: the first with number 0,
/// then 1, and so on. Every number must come.
#[derive(Default)]
pub(super) struct Turnstile {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: usize,
}

impl Turnstile {
    /// Begins again with number 0, when nobody waits.
    pub(super) fn restart(&self) {
        self.state().next = 0;
    }

    /// Waits for the turn of `number` and calls `pass`, which must be quick.
    pub(super) fn pass<R>(&self, number: u64, pass: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        while state.next < number {
            state.waiting += 1;
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        let _turn = Turn {
            state,
            turnstile: self,
        };
        pass()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the turn on, also when what was done in it panics.
struct Turn<'a> {
    state: MutexGuard<'a, State>,
    turnstile: &'a Turnstile,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.state.next += 1;
        // Nobody waiting is the rule, and telling nobody is a system call.
        if self.state.waiting > 0 {
            self.turnstile.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn all_pass_in_order_whenever_they_come() {
        let turnstile = Turnstile::default();
        for _ in 0..2 {
            let passed = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                let pass = |number| turnstile.pass(number, || passed.lock().unwrap().push(number));
                for number in (0..8).rev() {
                    scope.spawn(move || pass(number));
                }
            });
            assert_eq!(*passed.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
            turnstile.restart();
        }
    }

    #[test]
    fn who_panics_does_not_bar_the_way() {
        let turnstile = Turnstile::default();
        let stumble = AssertUnwindSafe(|| turnstile.pass(0, || panic!("on purpose")));
        assert!(catch_unwind(stumble).is_err());
        assert_eq!(turnstile.pass(1, || "through"), "through");
    }
}
