//! Whose turn a connection is.
//!
//! At most one thread takes messages from a connection at a time, in its *turn*: from when
//! the connection goes into the hub's queue until a thread that took it from there lets go
//! of it. Sockets, sessions and threads that are done say at any time that there may be
//! something to do ([`Turn::poke`]). None of that may be lost, whenever it comes.

use std::sync::atomic::{AtomicU8, Ordering};

/// How a connection stands, in memory that threads share.
pub(super) struct Turn(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
enum State {
    /// Nothing to do until the socket or the session says so.
    Idle,
    /// A thread has the turn, or it is in the hub's queue.
    Busy,
    /// The same, and there is more to do afterwards.
    Again,
    /// It has done as much as it may for now.
    Stalled,
    /// Over.
    Closed,
}

/// What comes next, and whether the caller must put the connection into the queue.
type Next = (State, bool);

impl State {
    const ALL: [State; 5] = [
        State::Idle,
        State::Busy,
        State::Again,
        State::Stalled,
        State::Closed,
    ];

    fn poke(self) -> Next {
        match self {
            State::Idle | State::Stalled => (State::Busy, true),
            State::Busy | State::Again => (State::Again, false),
            State::Closed => (State::Closed, false),
        }
    }

    fn go_on(self) -> Next {
        match self {
            State::Busy | State::Again => (State::Busy, true),
            State::Idle | State::Stalled | State::Closed => (self, false),
        }
    }

    fn let_go(self, as_what: State) -> Next {
        match self {
            State::Busy => (as_what, false),
            State::Again => (State::Busy, true),
            State::Idle | State::Stalled | State::Closed => (self, false),
        }
    }
}

impl Turn {
    /// Nobody's.
    pub(super) fn new() -> Self {
        Turn(AtomicU8::new(State::Idle as u8))
    }

    /// There may be something to do. As with all of these, whether the caller must put
    /// the connection into the queue.
    #[must_use]
    pub(super) fn poke(&self) -> bool {
        self.step(State::poke)
    }

    /// Who has the turn has left something to do.
    #[must_use]
    pub(super) fn go_on(&self) -> bool {
        self.step(State::go_on)
    }

    /// Who has the turn has found nothing more to do.
    #[must_use]
    pub(super) fn rest(&self) -> bool {
        self.step(|state| state.let_go(State::Idle))
    }

    /// Who has the turn may not do more now. What it waited for may have come to pass
    /// just before: to be looked at afterwards.
    #[must_use]
    pub(super) fn stall(&self) -> bool {
        self.step(|state| state.let_go(State::Stalled))
    }

    /// Ends it all. Whether it is the first to do so.
    pub(super) fn close(&self) -> bool {
        self.0.swap(State::Closed as u8, Ordering::SeqCst) != State::Closed as u8
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.state() == State::Stalled
    }

    /// Whether it waits for the socket or the session.
    pub(super) fn is_idle(&self) -> bool {
        self.state() == State::Idle
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state() == State::Closed
    }

    fn state(&self) -> State {
        state_of(self.0.load(Ordering::SeqCst))
    }

    fn step(&self, next: impl Fn(State) -> Next) -> bool {
        let mut must_queue = false;
        let update = |raw| {
            let (state, is_due) = next(state_of(raw));
            must_queue = is_due;
            Some(state as u8)
        };
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
        must_queue
    }
}

fn state_of(raw: u8) -> State {
    let found = State::ALL.into_iter().find(|state| *state as u8 == raw);
    found.unwrap_or(State::Closed)
}

#[cfg(test)]
mod tests;
