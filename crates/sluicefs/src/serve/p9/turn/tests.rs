//! Every order in which threads, the kernel and the peer can take their steps.
//!
//! The steps of a thread are those of `Connection::take_turn`, `notice`, `close`, of the
//! end of a request, and of `Threads::end`, cut wherever another thread may come between.

use super::State;
use std::collections::HashSet;

/// Requests of the connection that may run at a time, while others hold the threads.
const SHARE_OF_FEW: u8 = 1;

/// The same when they have let go of them.
const SHARE_OF_MANY: u8 = 2;

/// A mistake that could be made, which must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    /// Who stalls does not look again at what it waits for.
    StallsBlindly,
    /// A thread whose request is over pokes nobody.
    EndsSilently,
    /// Who stops asking for room does not look whether others need some.
    ForgetsRoom,
    /// A poke while it is somebody's turn is lost.
    LosesPokes,
    /// A poke while it is somebody's turn puts it into the queue all the same.
    QueuesTwice,
    /// Who is held up by others does not tell.
    WaitsUnknown,
    /// Who has told so does not look again.
    WaitsBlindly,
}

/// What the world is like when a thread has changed it, and does something else next.
type Then<'a> = &'a dyn Fn(Doing, &dyn Fn(&mut World)) -> World;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doing {
    Nothing,
    /// It has the turn, and looks whether it may do anything.
    Deciding,
    Receiving,
    LettingGo {
        has_more: bool,
    },
    Resting,
    Stalling,
    Stalled,
    AwaitingThreads {
        running: u8,
    },
    LookingAgain,
    /// It has a request.
    Running,
    AskingForRoom,
    EndingRequest,
    RequestEnded,
    /// It has an event.
    Resuming,
    Disarming,
    LookingForBlocked,
    AskingForRoomAgain,
    Poking,
    /// It has closed the connection.
    Freeing,
    /// It was with another connection.
    LeavingOthers,
}

impl Doing {
    fn has_turn(self) -> bool {
        use Doing::{Deciding, LettingGo, Receiving, Resting, Stalling};
        matches!(
            self,
            Deciding | Receiving | LettingGo { .. } | Resting | Stalling
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Thread {
    doing: Doing,
    /// It must put the connection into the queue first.
    must_queue: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    flaw: Option<Flaw>,
    turn: State,
    queued: u8,
    is_freed: bool,
    running: u8,
    /// Most of those.
    share: u8,
    may_others_end: bool,
    /// Others that end poke it if it may have more than so many run then.
    awaits_more_than: Option<u8>,
    /// Its requests wait for a disk.
    is_disk_stuck: bool,
    threads: Vec<Thread>,
    /// Messages that the peer has still to send, and those that have come.
    unsent: u8,
    arrived: u8,
    /// How often replies may still fill the socket.
    fills: u8,
    is_socket_full: bool,
    /// Replies wait.
    is_blocked: bool,
    /// The kernel is to tell when the socket takes more.
    is_armed: bool,
    /// What the kernel has to tell.
    is_readable: bool,
    is_writable: bool,
    may_close: bool,
}

impl World {
    fn new(threads: usize, unsent: u8, fills: u8) -> Self {
        let idle = Thread {
            doing: Doing::Nothing,
            must_queue: false,
        };
        World {
            flaw: None,
            turn: State::Idle,
            queued: 0,
            is_freed: false,
            running: 0,
            share: SHARE_OF_FEW,
            may_others_end: false,
            awaits_more_than: None,
            is_disk_stuck: false,
            threads: vec![idle; threads],
            unsent,
            arrived: 0,
            fills,
            is_socket_full: false,
            is_blocked: false,
            is_armed: false,
            is_readable: false,
            is_writable: false,
            may_close: false,
        }
    }

    /// Others hold the threads for now, and its requests last.
    fn with_others(threads: usize, unsent: u8, fills: u8) -> Self {
        World {
            may_others_end: true,
            is_disk_stuck: true,
            ..World::new(threads, unsent, fills)
        }
    }

    fn is_held_up(&self) -> bool {
        self.running >= self.share || self.is_blocked
    }

    /// All worlds that one step leads to.
    fn next(&self) -> Vec<World> {
        let mut next = self.next_by_threads();
        if self.unsent > 0 {
            next.push(self.with(|world| {
                world.unsent -= 1;
                world.arrived += 1;
                world.is_readable = true;
            }));
        }
        if self.is_socket_full {
            next.push(self.with(|world| {
                world.is_socket_full = false;
                world.is_writable |= world.is_armed;
            }));
        }
        if self.is_disk_stuck {
            next.push(self.with(|world| world.is_disk_stuck = false));
        }
        if self.may_others_end {
            next.extend(self.end_of_others());
        }
        next
    }

    /// Any thread may be the one that was with the last of them.
    fn end_of_others(&self) -> Vec<World> {
        let is_free = |index: &usize| self.threads[*index].doing == Doing::Nothing;
        let free = (0..self.threads.len()).filter(is_free);
        let end = |index: usize| {
            self.with(|world| {
                world.may_others_end = false;
                world.share = SHARE_OF_MANY;
                world.threads[index].doing = Doing::LeavingOthers;
            })
        };
        free.map(end).collect()
    }

    fn next_by_threads(&self) -> Vec<World> {
        let all = 0..self.threads.len();
        all.flat_map(|index| self.next_by(index)).collect()
    }

    fn with(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    fn next_by(&self, index: usize) -> Vec<World> {
        let then = |doing: Doing, change: &dyn Fn(&mut World)| {
            self.with(|world| {
                world.threads[index].doing = doing;
                change(world);
            })
        };
        if self.threads[index].must_queue {
            return vec![self.with(|world| {
                world.threads[index].must_queue = false;
                world.queued += 1;
            })];
        }
        match self.threads[index].doing {
            Doing::Nothing => self.begin(&then),
            Doing::Deciding if self.turn == State::Closed => vec![then(Doing::Nothing, &|_| {})],
            Doing::Deciding if self.is_held_up() => vec![then(Doing::Stalling, &|_| {})],
            Doing::Deciding => vec![then(Doing::Receiving, &|_| {})],
            Doing::Receiving if self.arrived == 0 => vec![then(Doing::Resting, &|_| {})],
            Doing::Receiving => {
                let has_more = self.arrived > 1;
                vec![then(Doing::LettingGo { has_more }, &|world| {
                    world.arrived -= 1;
                    world.running += 1;
                })]
            }
            Doing::LettingGo { has_more } => {
                vec![self.turned(index, Doing::Running, |state| match has_more {
                    true => state.go_on(),
                    false => state.let_go(State::Idle),
                })]
            }
            Doing::Resting => {
                let rest = |state: State| state.let_go(State::Idle);
                vec![self.turned(index, Doing::Nothing, rest)]
            }
            Doing::Stalling => self.stall(index),
            Doing::Stalled => {
                let running = self.running;
                let may_have_more = running < self.share;
                let doing = match may_have_more || self.flaw == Some(Flaw::WaitsUnknown) {
                    true => Doing::LookingAgain,
                    false => Doing::AwaitingThreads { running },
                };
                vec![then(doing, &|_| {})]
            }
            Doing::AwaitingThreads { running } => {
                let doing = match self.flaw {
                    Some(Flaw::WaitsBlindly) => Doing::Nothing,
                    _ => Doing::LookingAgain,
                };
                vec![then(doing, &|world| {
                    world.awaits_more_than = Some(running);
                })]
            }
            Doing::LookingAgain if self.is_held_up() => vec![then(Doing::Nothing, &|_| {})],
            Doing::LookingAgain => vec![then(Doing::Poking, &|_| {})],
            Doing::Running if self.is_disk_stuck => vec![],
            Doing::Running => self.reply(&then),
            Doing::AskingForRoom => vec![then(Doing::EndingRequest, &World::ask_for_room)],
            Doing::EndingRequest => vec![then(Doing::RequestEnded, &|world| world.running -= 1)],
            Doing::RequestEnded => {
                let is_to_poke =
                    self.turn == State::Stalled && self.flaw != Some(Flaw::EndsSilently);
                let doing = match is_to_poke {
                    true => Doing::Poking,
                    false => Doing::Nothing,
                };
                vec![then(doing, &|_| {})]
            }
            Doing::Resuming => self.resume(&then),
            Doing::Disarming => vec![then(Doing::LookingForBlocked, &|world| {
                world.is_armed = false;
            })],
            Doing::LookingForBlocked => {
                let is_found = self.is_blocked && self.flaw != Some(Flaw::ForgetsRoom);
                let doing = match is_found {
                    true => Doing::AskingForRoomAgain,
                    false => Doing::Poking,
                };
                vec![then(doing, &|_| {})]
            }
            Doing::AskingForRoomAgain => vec![then(Doing::Poking, &World::ask_for_room)],
            Doing::Poking => vec![self.poked(index)],
            Doing::Freeing => vec![then(Doing::Nothing, &|world| world.is_freed = true)],
            Doing::LeavingOthers => {
                let is_due = self.awaits_more_than.is_some_and(|most| most < self.share);
                let doing = match is_due {
                    true => Doing::Poking,
                    false => Doing::Nothing,
                };
                vec![then(doing, &|world| {
                    world.awaits_more_than = world.awaits_more_than.filter(|_| !is_due);
                })]
            }
        }
    }

    /// A thread takes from the queue, asks the kernel, or closes the connection.
    fn begin(&self, then: Then<'_>) -> Vec<World> {
        let mut next = Vec::new();
        if self.queued > 0 {
            next.push(then(Doing::Deciding, &|world| world.queued -= 1));
        }
        if self.is_readable || self.is_writable {
            let doing = match self.is_writable {
                true => Doing::Resuming,
                false => Doing::Poking,
            };
            next.push(then(doing, &|world| {
                (world.is_readable, world.is_writable) = (false, false);
            }));
        }
        if self.may_close {
            next.push(then(Doing::Freeing, &|world| {
                world.may_close = false;
                world.turn = State::Closed;
                world.is_blocked = false;
            }));
        }
        next
    }

    /// A step of the turn's own.
    fn turned(&self, index: usize, doing: Doing, step: impl Fn(State) -> super::Next) -> World {
        self.with(|world| {
            let (turn, must_queue) = step(world.turn);
            world.turn = turn;
            world.threads[index] = Thread { doing, must_queue };
        })
    }

    fn poked(&self, index: usize) -> World {
        self.turned(index, Doing::Nothing, |state| match (self.flaw, state) {
            (Some(Flaw::LosesPokes), State::Busy) => (state, false),
            (Some(Flaw::QueuesTwice), State::Busy) => (State::Again, true),
            _ => state.poke(),
        })
    }

    fn stall(&self, index: usize) -> Vec<World> {
        let mut world = self.turned(index, Doing::Stalled, |state| state.let_go(State::Stalled));
        let thread = &mut world.threads[index];
        // What is queued again is looked at anyway.
        if thread.must_queue || self.flaw == Some(Flaw::StallsBlindly) {
            thread.doing = Doing::Nothing;
        }
        vec![world]
    }

    /// A reply goes, or fills the socket, or waits behind others that do.
    fn reply(&self, then: Then<'_>) -> Vec<World> {
        let mut next = Vec::new();
        if !self.is_socket_full || self.is_blocked || self.turn == State::Closed {
            next.push(then(Doing::EndingRequest, &|_| {}));
        }
        if (self.fills > 0 || self.is_socket_full) && !self.is_blocked && self.turn != State::Closed
        {
            next.push(then(Doing::AskingForRoom, &World::fill));
        }
        next
    }

    /// The socket takes what waits, or some of it.
    fn resume(&self, then: Then<'_>) -> Vec<World> {
        let mut next = Vec::new();
        if !self.is_socket_full || !self.is_blocked {
            next.push(then(Doing::Disarming, &|world| world.is_blocked = false));
        }
        if self.is_blocked && (self.fills > 0 || self.is_socket_full) {
            next.push(then(Doing::AskingForRoomAgain, &World::fill));
        }
        next
    }

    fn fill(&mut self) {
        self.fills -= u8::from(!self.is_socket_full);
        self.is_socket_full = true;
        self.is_blocked = true;
    }

    fn ask_for_room(&mut self) {
        self.is_armed = true;
        self.is_writable |= !self.is_socket_full;
    }

    /// What must hold whenever; `is_quiet` says that no thread has anything to do.
    fn check(&self, is_quiet: bool) -> Result<(), &'static str> {
        let turns = self.threads.iter().filter(|it| it.doing.has_turn()).count()
            + self.threads.iter().filter(|it| it.must_queue).count()
            + usize::from(self.queued);
        let wanted = match self.turn {
            State::Idle | State::Stalled => 0..=0,
            State::Busy | State::Again => 1..=1,
            State::Closed => 0..=1,
        };
        if !wanted.contains(&turns) {
            return Err("more turns than one, or none where one is due");
        }
        if self.running > self.share {
            return Err("more requests run than may");
        }
        if !is_quiet {
            return Ok(());
        }
        match self.turn {
            State::Closed if self.is_freed => Ok(()),
            State::Closed => Err("it is closed and not freed"),
            _ if self.is_blocked && self.is_armed && self.is_socket_full => Ok(()),
            _ if self.is_blocked => Err("replies wait for ever"),
            _ if self.running > 0 && !self.is_disk_stuck => Err("a request is forgotten"),
            _ if self.arrived > 0 && !self.is_held_up() => Err("a message is forgotten"),
            _ => Ok(()),
        }
    }
}

/// Goes through every world that `start` can lead to; how many, or what is wrong with one.
fn explore(start: World) -> Result<usize, (&'static str, Box<World>)> {
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![start];
    while let Some(world) = left.pop() {
        let is_quiet = world.queued == 0 && world.next_by_threads().is_empty();
        if let Err(why) = world.check(is_quiet) {
            return Err((why, Box::new(world)));
        }
        let next = world.next().into_iter();
        left.extend(next.filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}

#[test]
fn nothing_is_forgotten_and_no_two_threads_have_a_turn() {
    for (threads, unsent, fills) in [(1, 3, 2), (2, 3, 2), (3, 3, 1)] {
        let worlds = explore(World::new(threads, unsent, fills)).unwrap();
        println!("{threads} threads, {unsent} messages, {fills} times full: {worlds} states");
        assert!(worlds > 50, "{worlds}");
    }
}

#[test]
fn who_was_held_up_by_others_goes_on_when_they_end_before_its_own_requests_do() {
    for (threads, unsent, fills) in [(2, 2, 1), (3, 3, 0)] {
        let worlds = explore(World::with_others(threads, unsent, fills)).unwrap();
        println!("{threads} threads, {unsent} messages, {fills} times full: {worlds} states");
        assert!(worlds > 50, "{worlds}");
    }
}

#[test]
fn what_is_closed_at_any_moment_is_freed() {
    let start = World {
        may_close: true,
        ..World::new(2, 3, 1)
    };
    explore(start).unwrap();
}

#[test]
fn mistakes_are_found() {
    for flaw in [
        Flaw::StallsBlindly,
        Flaw::EndsSilently,
        Flaw::ForgetsRoom,
        Flaw::LosesPokes,
        Flaw::QueuesTwice,
    ] {
        let start = World {
            flaw: Some(flaw),
            ..World::new(3, 3, 2)
        };
        assert!(explore(start).is_err(), "{flaw:?}");
    }
    for flaw in [Flaw::WaitsUnknown, Flaw::WaitsBlindly] {
        let start = World {
            flaw: Some(flaw),
            ..World::with_others(3, 3, 0)
        };
        assert!(explore(start).is_err(), "{flaw:?}");
    }
}
