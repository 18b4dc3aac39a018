//! A peer: its socket, its session, and whose turn it is.
//!
//! At most one thread at a time takes messages from a connection, but any number
//! run them. A thread takes one message, lets go of the connection, and runs it:
//! so whatever blocks it holds up nothing but itself, and everybody's messages
//! come in turns.

use super::buffer::Held;
use super::exchange::SocketExchange;
use super::hub::Shared;
use super::input::{Failed, Input, Received};
use super::output::{Output, Payload, Sent};
use super::turn::Turn;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::Shutdown;
use sluice_proto::p9::serve::{Admission, Job, Link, Server, ServerConfig};
use sluice_vfs::FileService;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Messages that wait for others which one turn takes in; then it is somebody
/// else's turn.
const WAITING_PER_TURN: usize = 16;

/// Most requests of a connection that wait for others while memory is short: each takes
/// some, however little.
const WAITING_IN_SHORTAGE: usize = 4;

/// A connection, from its beginning to its last reply.
pub(super) struct Connection {
    pub(super) token: u64,
    label: String,
    socket: OwnedFd,
    hub: Weak<Shared>,
    server: Server<SocketExchange>,
    /// Most bytes of a message.
    msize: usize,
    /// Reads of so many bytes go through a pipe.
    splice_from: usize,
    turn: Turn,
    input: Mutex<Input>,
    output: Output,
    /// Requests that threads are running.
    running: AtomicUsize,
    /// The peer will send nothing more.
    is_ending: AtomicBool,
    /// Its next turn ends it.
    is_doomed: AtomicBool,
}

/// What a turn brings.
enum Step {
    /// A request to run, which has just come.
    Run(Job<SocketExchange>),
    /// One that had waited; there may be more of those.
    RunReady(Job<SocketExchange>),
    /// Nothing to run, but there is more to do.
    More,
    /// Nothing of it may be run before something that it waits for is done.
    HeldUp,
    /// Nothing more of it may be taken in before that.
    Full,
    /// There is no memory for its next message, or for more that wait.
    Starved,
    /// It waits for its peer.
    Idle,
    /// It is over.
    End,
}

/// What taking in a message brings.
enum Taken {
    Message(Admission<SocketExchange>),
    /// None is there.
    Nothing,
    /// One has begun for which there is no memory.
    NoMemory,
}

/// What sessions ring.
struct Bell(Weak<Connection>);

impl Link for Bell {
    fn ready(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.poke();
        }
    }
}

impl Connection {
    /// A peer that has just connected. `config` is told what wakes it.
    pub(super) fn new(
        (token, label): (u64, String),
        splice_from: usize,
        socket: OwnedFd,
        hub: &Weak<Shared>,
        service: Arc<dyn FileService>,
        config: impl FnOnce(Arc<dyn Link>) -> ServerConfig,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let config = config(Arc::new(Bell(Weak::clone(me))));
            Connection {
                token,
                label,
                socket,
                hub: Weak::clone(hub),
                msize: config.bounds.msize as usize,
                splice_from,
                server: Server::new(service, config),
                turn: Turn::new(),
                input: Mutex::default(),
                output: Output::default(),
                running: AtomicUsize::new(0),
                is_ending: AtomicBool::new(false),
                is_doomed: AtomicBool::new(false),
            }
        })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The socket has something to say.
    pub(super) fn notice(self: &Arc<Self>, events: EventFlags) {
        let gone = EventFlags::HUP | EventFlags::ERR;
        if events.intersects(gone | EventFlags::RDHUP) {
            self.is_ending.store(true, Ordering::SeqCst);
        }
        if events.intersects(gone) && self.output.is_blocked() {
            return self.doom(); // nobody will take the replies
        }
        if events.contains(EventFlags::OUT) {
            let outcome = self.output.resume(self.socket.as_fd());
            if outcome == Ok(Sent::Done)
                && let Some(hub) = self.hub.upgrade()
            {
                hub.await_more(self);
                // It may be full again, and who filled it may have asked for room before.
                if self.output.is_blocked() {
                    hub.await_room(self);
                }
            }
            self.conclude(outcome);
        }
        self.poke();
    }

    /// There may be something to do.
    pub(super) fn poke(self: &Arc<Self>) {
        if self.turn.poke() {
            self.enqueue();
        }
    }

    /// The same. Whether a turn of it follows, as there is none when it is over.
    pub(super) fn poke_unless_over(self: &Arc<Self>) -> bool {
        self.poke();
        !self.turn.is_closed()
    }

    /// Does one thing that there is to do. `prefix` is the thread's room for a
    /// request.
    pub(super) fn take_turn(self: &Arc<Self>, prefix: &mut Vec<u8>) {
        if self.turn.is_closed() {
            return;
        }
        match self.step(prefix) {
            Step::Run(job) => {
                let has_more = !self.lock_input().is_empty();
                self.run(job, prefix, has_more);
            }
            Step::RunReady(job) => self.run(job, prefix, true),
            Step::More => self.go_on(),
            Step::Idle => self.rest(),
            Step::HeldUp => self.stall(|| self.may_go_on()),
            Step::Full => self.stall(|| self.server.has_room()),
            Step::Starved => self.stall(|| self.may_take_memory()),
            Step::End => self.close(),
        }
    }

    /// Lets go of the turn, and runs a request.
    fn run(self: &Arc<Self>, job: Job<SocketExchange>, prefix: &[u8], has_more: bool) {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(self);
        match has_more {
            true => self.go_on(),
            false => self.rest(),
        }
        crate::panics::contain(|| self.server.run(job, prefix));
    }

    /// Sends a reply; a socket that takes none is its peer's own affair.
    pub(super) fn send(self: &Arc<Self>, message: &[u8], payload: Payload) {
        let outcome = self.output.send(self.socket.as_fd(), message, payload);
        self.conclude(outcome);
    }

    /// Since when its peer has taken none of the replies that wait for it, or sent hardly
    /// any more of a message for which there is memory and which somebody would receive.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        if self.is_doomed.load(Ordering::SeqCst) {
            return None;
        }
        // Otherwise more may have come that was not looked at.
        let is_idle = self.turn.is_idle();
        let received = self.lock_input().stuck_since().filter(|_| is_idle);
        let since = [self.output.blocked_since(), received];
        since.into_iter().flatten().min()
    }

    /// Memory for a reply's payload; if there is none, it is poked when there is some.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        self.hub.upgrade()?.reserve(self, bytes)
    }

    /// Ends it for the sake of others.
    pub(super) fn evict(self: &Arc<Self>) {
        let peer = &self.label;
        tracing::error!(
            "{peer}: closed: it reads no replies, or sends no more of a message, and memory is short"
        );
        self.doom();
    }

    /// Gives its messages' memory back, and has its next turn end it: for who must not
    /// wait, as the end of a session may for files that are slow to close.
    fn doom(self: &Arc<Self>) {
        self.is_doomed.store(true, Ordering::SeqCst);
        self.output.close();
        self.lock_input().end();
        self.poke();
    }

    /// Ends it, from any thread. Requests that run finish on their own.
    pub(super) fn close(&self) {
        if !self.turn.close() {
            return;
        }
        self.output.close();
        if let Some(hub) = self.hub.upgrade() {
            hub.forget(self);
        }
        // The peer need not wait for requests that still run.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        self.server.close();
        self.lock_input().end();
        tracing::info!(peer = self.label, "disconnected");
    }

    fn step(self: &Arc<Self>, prefix: &mut Vec<u8>) -> Step {
        if self.is_doomed.load(Ordering::SeqCst) {
            return Step::End;
        }
        if self.is_held_up() {
            return Step::HeldUp;
        }
        if let Some(job) = self.server.next_ready() {
            return Step::RunReady(job);
        }
        for _ in 0..WAITING_PER_TURN {
            if !self.server.has_room() {
                let is_ending = self.is_ending.load(Ordering::SeqCst);
                // Locks that a peer waits for must not outlive it.
                return match is_ending && !self.server.has_room() {
                    true => Step::End,
                    false => Step::Full,
                };
            }
            if self.is_short_of_memory() && self.server.waiting() >= WAITING_IN_SHORTAGE {
                return Step::Starved;
            }
            match self.receive(prefix) {
                Ok(Taken::Nothing) if self.turn.is_closed() => return Step::End,
                Ok(Taken::Nothing) => return Step::Idle,
                Ok(Taken::NoMemory) => return Step::Starved,
                Ok(Taken::Message(Admission::Run(job))) => return Step::Run(job),
                Ok(Taken::Message(Admission::Waiting | Admission::Over)) => {}
                Err(Failed::Gone) => return Step::End,
                Err(why) => {
                    tracing::warn!(peer = self.label, %why, "the connection is closed");
                    return Step::End;
                }
            }
        }
        Step::More
    }

    fn receive(self: &Arc<Self>, prefix: &mut Vec<u8>) -> Result<Taken, Failed> {
        let trusts_short = !self.is_ending.load(Ordering::SeqCst);
        let check = |header: &_| self.server.check_header(header);
        let has_memory = || !self.is_short_of_memory() && !self.server.has_starved();
        let socket = self.socket.as_fd();
        let received = self
            .lock_input()
            .next(socket, prefix, check, has_memory, trusts_short)?;
        match received {
            Received::Message(payload) => {
                let (room, splice_from) = (self.msize, self.splice_from);
                let me = Arc::clone(self);
                let exchange = SocketExchange::new(me, payload, room, splice_from);
                Ok(Taken::Message(self.server.admit(prefix, exchange)?))
            }
            Received::Nothing => Ok(Taken::Nothing),
            Received::NoMemory => Ok(Taken::NoMemory),
        }
    }

    /// Leaves what there is to do to its next turn.
    fn go_on(self: &Arc<Self>) {
        if self.turn.go_on() {
            self.enqueue();
        }
    }

    /// Lets go of it; the socket and the session say when there is more to do.
    fn rest(self: &Arc<Self>) {
        if self.turn.rest() {
            self.enqueue();
        }
    }

    /// Lets go of it until something that it waits for is done.
    fn stall(self: &Arc<Self>, is_done: impl FnOnce() -> bool) {
        if self.turn.stall() {
            self.enqueue();
        } else if is_done() {
            // It was just before.
            self.poke();
        }
    }

    /// To the end of the hub's queue.
    fn enqueue(self: &Arc<Self>) {
        if let Some(hub) = self.hub.upgrade() {
            hub.enqueue(Arc::clone(self));
        }
    }

    /// Whether it has to wait before anything else of it is run.
    fn is_held_up(&self) -> bool {
        let Some(hub) = self.hub.upgrade() else {
            return true;
        };
        let running = self.running.load(Ordering::SeqCst);
        !hub.threads().may_have_more(running) || self.output.is_blocked()
    }

    /// Whether it need not wait any more; it is poked when others let go of threads.
    fn may_go_on(self: &Arc<Self>) -> bool {
        if let Some(hub) = self.hub.upgrade() {
            let running = self.running.load(Ordering::SeqCst);
            hub.threads().await_more(self, running);
        }
        !self.is_held_up()
    }

    fn is_short_of_memory(&self) -> bool {
        let hub = self.hub.upgrade();
        hub.is_none_or(|hub| hub.is_short_of_memory())
    }

    /// Whether its next message can have memory. Those that came before it go first.
    fn may_take_memory(self: &Arc<Self>) -> bool {
        let hub = self.hub.upgrade();
        hub.is_some_and(|hub| !hub.must_wait_for_memory(self)) && !self.server.has_starved()
    }

    fn conclude(self: &Arc<Self>, outcome: rustix::io::Result<Sent>) {
        match outcome {
            Ok(Sent::Done) => {}
            Ok(Sent::Blocked) => {
                if let Some(hub) = self.hub.upgrade() {
                    hub.await_room(self);
                }
            }
            Err(error) => {
                tracing::debug!(peer = self.label, %error, "cannot send");
                self.doom();
            }
        }
    }

    fn lock_input(&self) -> std::sync::MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that a thread runs, until it is dropped.
struct Running<'a>(&'a Arc<Connection>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let connection = self.0;
        connection.running.fetch_sub(1, Ordering::SeqCst);
        if connection.turn.is_stalled() {
            connection.poke();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::p9::HubLimits;
    use sluice_crew::{Next, Queue};
    use sluice_lab::model::ModelService;
    use sluice_proto::p9::wire::{
        self, Dialect, Extended, HEADER_LEN, Header, NOFID, NOTAG, Request, Str, UnixId,
        encode_request,
    };
    use sluice_vfs::{AccessChecks, Peer};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn config(link: Arc<dyn Link>) -> ServerConfig {
        let peer = Peer {
            label: String::new(),
            checks: AccessChecks::Service,
        };
        ServerConfig::new(peer, link)
    }

    fn connection(hub: &Weak<Shared>) -> (Arc<Connection>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        rustix::io::ioctl_fionbio(&near, true).unwrap();
        let (service, named) = (Arc::new(ModelService::default()), (1, String::new()));
        let connection = Connection::new(named, 1, near.into(), hub, service, config);
        (connection, far)
    }

    fn send(far: &mut UnixStream, tag: u16, request: &Request<'_>) {
        let mut message = vec![0; 1000];
        let len = encode_request(tag, request, Dialect::Linux, &mut message).unwrap();
        far.write_all(&message[..len]).unwrap();
    }

    /// The tag of a reply.
    fn answered(far: &mut UnixStream) -> u16 {
        let mut header = [0; HEADER_LEN];
        far.read_exact(&mut header).unwrap();
        let header = Header::peek(&header).unwrap();
        let mut rest = vec![0; header.size as usize - HEADER_LEN];
        far.read_exact(&mut rest).unwrap();
        header.tag
    }

    /// Does what there is to do, as the only thread.
    fn serve(hub: &Shared, connection: &Arc<Connection>) {
        let mut hand = hub.hand();
        connection.poke();
        while let Next::Job(job) = hub.take(&mut hand) {
            hub.run(&mut hand, job);
        }
    }

    /// It would wait for who waits for just that.
    #[test]
    fn what_comes_behind_a_request_that_waits_for_memory_takes_none_before_it() {
        const LEN: usize = 100_000;
        let limits = HubLimits {
            // More than all other tests of this process use.
            held_bytes: 1 << 30,
            ..HubLimits::default()
        };
        let hub = Shared::new(Vec::new(), limits, || {}).unwrap();
        let (connection, mut far) = connection(&Arc::downgrade(&hub));
        let (msize, version) = (1 << 20, Str(Dialect::Linux.version()));
        send(&mut far, NOTAG, &Request::Version { msize, version });
        serve(&hub, &connection);
        assert_eq!(answered(&mut far), NOTAG);
        let attach = Request::Attach {
            fid: 1,
            afid: NOFID,
            uname: Str(b""),
            aname: Str(b""),
            n_uname: Extended(UnixId(0)),
        };
        send(&mut far, 1, &attach);
        serve(&hub, &connection);
        assert_eq!(answered(&mut far), 1);

        let all = Held::new(limits.held_bytes);
        let (fid, offset, count) = (1, 0, LEN as u32);
        send(&mut far, 2, &Request::Read { fid, offset, count });
        serve(&hub, &connection);
        assert!(connection.server.has_starved());
        drop(all);
        // There is memory, and nobody has told the one that waits.
        send(&mut far, 3, &Request::Read { fid, offset, count });
        let data = wire::Payload { len: LEN };
        send(&mut far, 4, &Request::Write { fid, offset, data });
        far.write_all(&[b'x'; LEN / 2]).unwrap();
        let prefix = &mut Vec::new();
        let second = connection.receive(prefix);
        assert!(matches!(second, Ok(Taken::Message(Admission::Waiting))));
        assert!(matches!(connection.receive(prefix), Ok(Taken::NoMemory)));
        // Then all goes on, in order.
        far.write_all(&[b'x'; LEN / 2]).unwrap();
        serve(&hub, &connection);
        assert_eq!([(); 3].map(|()| answered(&mut far)), [2, 3, 4]);
    }

    #[test]
    fn who_notices_that_a_peer_is_gone_does_not_wait_for_the_end_of_its_session() {
        let (connection, far) = connection(&Weak::new());
        while !connection.output.is_blocked() {
            connection.send(&[0; 10_000], Payload::default());
        }
        drop(far);
        connection.notice(EventFlags::HUP);
        assert!(!connection.turn.is_closed());
        assert!(connection.stuck_since().is_none());
        connection.take_turn(&mut Vec::new());
        assert!(connection.turn.is_closed());
    }

    #[test]
    fn who_stops_within_a_message_is_stuck_only_while_somebody_would_receive_the_rest() {
        let (connection, mut far) = connection(&Weak::new());
        let data = wire::Payload { len: 1 << 20 };
        let (fid, offset) = (1, 0);
        let mut message = vec![0; 100_000];
        let request = Request::Write { fid, offset, data };
        encode_request(1, &request, Dialect::Linux, &mut message).unwrap();
        far.write_all(&message).unwrap();
        let received = connection.lock_input().next(
            connection.socket().as_fd(),
            &mut Vec::new(),
            |_| Ok(()),
            || true,
            true,
        );
        assert!(matches!(received, Ok(Received::Nothing)));
        assert!(connection.stuck_since().is_some());
        // Held up by requests that run, it would not see the rest.
        assert!(connection.turn.poke());
        assert!(!connection.turn.stall());
        assert!(connection.stuck_since().is_none());
        // Nor before it has looked.
        assert!(connection.turn.poke());
        assert!(connection.stuck_since().is_none());
        assert!(!connection.turn.rest());
        assert!(connection.stuck_since().is_some());
    }
}
