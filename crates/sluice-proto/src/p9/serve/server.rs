//! A connection: versions, tags, and who runs what when.

use super::admission::{Admission, Close, Refused};
use super::answer::Answer;
use super::claims::claims;
use super::config::ServerConfig;
use super::connection::Connection;
use super::dispatch::{Call, dispatch};
use super::exchange::Exchange;
use super::ops::locks;
use super::schedule::{Admitted, Claims, Flushed, Schedule, Ticket};
use crate::p9::wire::{
    Dialect, HEADER_LEN, Header, LockArgs, LockFlags, MSIZE_MIN, Malformed, NOTAG, Reply, Request,
    Str, VERSION_UNKNOWN, decode_request,
};
use sluice_vfs::{Errno, FileService, LockOutcome, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Longest message that a peer has reason to send, in bytes, its payload not
/// counted: a Twalk with 16 names takes 4,129, an attribute's name or a
/// symlink's target less.
pub const PREFIX_MAX: usize = 16 * 1024;

/// Serves one connection. Any number of threads may run its requests.
pub struct Server<E: Exchange>(Arc<Core<E>>);

/// What a request's thread and whoever answers it later have in common.
struct Core<E: Exchange> {
    service: Arc<dyn FileService>,
    config: ServerConfig,
    schedule: Mutex<Schedule<Kept<E>>>,
    connection: RwLock<Slot>,
    /// Nothing may wait for a lock.
    are_waits_stopped: AtomicBool,
}

/// The connection, between Tversion and the end.
enum Slot {
    /// No version is agreed on.
    Cold,
    Live(Arc<Connection>),
    /// Closed for good.
    Closed,
}

/// A request, and its message where that is needed beyond the call that
/// brought it.
struct Kept<E> {
    tag: u16,
    exchange: E,
    message: Option<Box<[u8]>>,
    /// Most bytes of its reply's payload.
    payload: usize,
}

/// A request that can run. Dropped instead, it is answered with `EIO`.
pub struct Job<E: Exchange> {
    pending: Pending<E>,
    message: Option<Box<[u8]>>,
}

impl<E: Exchange> Server<E> {
    /// A connection that waits for its Tversion.
    pub fn new(service: Arc<dyn FileService>, config: ServerConfig) -> Self {
        Server(Arc::new(Core {
            service,
            config,
            schedule: Mutex::default(),
            connection: RwLock::new(Slot::Cold),
            are_waits_stopped: AtomicBool::new(false),
        }))
    }

    /// Most bytes of the next message.
    pub fn size_max(&self) -> u32 {
        match self.0.live() {
            Some(connection) => connection.msize,
            None => MSIZE_MIN,
        }
    }

    /// Checks the header of a message before the rest of it is taken in.
    pub fn check_header(&self, header: &Header) -> std::result::Result<(), Close> {
        let size = header.size as usize;
        let is_sound = size >= HEADER_LEN && header.size <= self.size_max();
        match is_sound && header.prefix_len() <= PREFIX_MAX {
            true => Ok(()),
            false => Err(Close::Size(header.size)),
        }
    }

    /// Whether another request may be admitted now. If not, the transport asks
    /// again when one has been answered, and takes nothing in meanwhile.
    pub fn has_room(&self) -> bool {
        self.0.has_room(&self.0.schedule())
    }

    /// Whether requests wait for memory. A transport then sets none aside for what comes
    /// behind them, which may wait for them: nobody might ever give some back.
    pub fn has_starved(&self) -> bool {
        self.0.schedule().has_starved()
    }

    /// Takes a message in; to be called in the order of arrival. `prefix` is its
    /// first [`Header::prefix_len`] bytes, copied out of the peer's reach; the
    /// rest is in the exchange's source.
    pub fn admit(&self, prefix: &[u8], exchange: E) -> std::result::Result<Admission<E>, Close> {
        self.try_admit(prefix, exchange)
            .map_err(|refused| refused.why)
    }

    /// The same for a transport on which an answer cannot be taken for that of
    /// another request: it gets back what it may answer with
    /// [`Server::error_reply`] instead of closing the connection.
    pub fn try_admit(
        &self,
        prefix: &[u8],
        mut exchange: E,
    ) -> std::result::Result<Admission<E>, Refused<E>> {
        let payload_len = exchange.source().remaining();
        let (header, dialect) = match self.check_message(prefix, payload_len) {
            Ok(checked) => checked,
            Err(why) => return Err(Refused::new(why, exchange)),
        };
        match decode_request(prefix, payload_len, dialect) {
            Ok((tag, Request::Flush { oldtag })) => {
                self.flush(tag, oldtag, dialect, prefix, exchange)
            }
            Ok((tag, request)) => self.admit_request(tag, &request, prefix, exchange),
            Err(why) => {
                let schedule = self.0.schedule();
                let exchange = check_tag(&schedule, header.tag, false, exchange)?;
                drop(schedule);
                tracing::debug!(kind = header.kind, tag = header.tag, "malformed: {why}");
                answer_at_once(exchange, header.tag, dialect, Err(errno_for(why)));
                Ok(Admission::Over)
            }
        }
    }

    /// A request that waited for others, or for memory, and can run now.
    pub fn next_ready(&self) -> Option<Job<E>> {
        let mut schedule = self.0.schedule();
        schedule.feed(|kept| kept.exchange.reserve(kept.payload));
        let (ticket, kept) = schedule.next_ready()?;
        drop(schedule);
        Some(self.job(ticket, kept))
    }

    /// Runs a request and answers it. `prefix` is what it was admitted with; a
    /// request that waited has its own.
    pub fn run(&self, job: Job<E>, prefix: &[u8]) {
        let Job {
            mut pending,
            message,
        } = job;
        let message = message.as_deref().unwrap_or(prefix);
        let connection = self.0.live();
        let dialect = connection
            .as_ref()
            .map_or(Dialect::Plan9, |live| live.dialect);
        let payload_len = match pending.get() {
            Some(exchange) => exchange.source().remaining(),
            None => return,
        };
        let (tag, request) = match decode_request(message, payload_len, dialect) {
            Ok(decoded) => decoded,
            Err(why) => return pending.fail(dialect, errno_for(why)),
        };
        tracing::trace!(?request, tag, "request");
        match (request, connection) {
            (Request::Version { msize, version }, before) => {
                drop(before);
                self.begin(msize, version.0, pending);
            }
            (Request::Flush { .. }, _) => pending.reply(dialect, &Reply::Flush {}),
            (_, None) => pending.fail(dialect, Errno::ENOTCONN),
            (Request::Lock { fid, args }, Some(connection))
                if args.flags.contains(LockFlags::BLOCK) =>
            {
                self.lock_or_wait(&connection, fid, &args, pending);
            }
            (request, Some(connection)) => {
                self.run_to_end(&connection, &request, pending);
            }
        }
    }

    /// An error as the connection's dialect has it, for a request that was not
    /// admitted but can be answered all the same.
    pub fn error_reply(&self, tag: u16, errno: Errno) -> Vec<u8> {
        let mut answer = Answer::new(tag, self.0.dialect());
        answer.fail(errno);
        answer.message().to_vec()
    }

    /// For a transport that has to come to rest: requests that wait for a lock
    /// are answered with `EINTR`, and so are those that would have to, until
    /// [`Server::allow_waits`].
    pub fn stop_waits(&self) {
        self.0.are_waits_stopped.store(true, Ordering::SeqCst);
        let tickets = self.0.schedule().parked();
        for ticket in tickets {
            self.0.interrupt(ticket);
        }
    }

    /// Requests may wait for locks again.
    pub fn allow_waits(&self) {
        self.0.are_waits_stopped.store(false, Ordering::SeqCst);
    }

    /// Ends the connection, for transports that are. Requests that run finish on
    /// their own; what has not begun is dropped, and so is all that fids held.
    pub fn close(&self) {
        let before = self.0.replace(Slot::Closed);
        self.discard_waiting();
        if let Slot::Live(connection) = before {
            connection.close_parked();
        }
    }

    fn discard_waiting(&self) {
        let waiting = self.0.schedule().clear_waiting();
        for kept in waiting {
            kept.exchange.discard();
        }
    }

    fn check_message(
        &self,
        prefix: &[u8],
        payload_len: usize,
    ) -> std::result::Result<(Header, Dialect), Close> {
        let header = Header::peek(prefix)?;
        let dialect = self.dialect_for(&header)?;
        match header.size as usize == prefix.len().saturating_add(payload_len) {
            true => Ok((header, dialect)),
            false => Err(Close::Size(header.size)),
        }
    }

    fn dialect_for(&self, header: &Header) -> std::result::Result<Dialect, Close> {
        /// Number of Tversion.
        const TVERSION: u8 = 100;
        match &*self.0.slot() {
            Slot::Live(connection) => Ok(connection.dialect),
            Slot::Cold if header.kind == TVERSION => Ok(Dialect::Plan9),
            Slot::Cold => Err(Close::NoVersion(header.kind)),
            Slot::Closed => Err(Close::Closed),
        }
    }

    fn admit_request(
        &self,
        tag: u16,
        request: &Request<'_>,
        prefix: &[u8],
        exchange: E,
    ) -> std::result::Result<Admission<E>, Refused<E>> {
        let is_version = matches!(request, Request::Version { .. });
        let claims = claims(request);
        let payload = reply_payload_max(request, self.size_max());
        let bytes = memory_for(request, prefix.len(), payload);
        let mut schedule = self.0.schedule();
        let mut exchange = check_tag(&schedule, tag, is_version, exchange)?;
        let lacks_memory =
            exchange.is_large(payload) && (schedule.has_starved() || !exchange.reserve(payload));
        let keep = |waits: bool| Kept {
            tag,
            exchange,
            message: waits.then(|| prefix.into()),
            payload,
        };
        let admitted = match lacks_memory {
            true => {
                schedule.admit_starved(tag, claims, bytes, keep(true));
                Admitted::Waiting
            }
            false => schedule.admit(tag, claims, bytes, keep),
        };
        drop(schedule);
        if is_version && let Some(connection) = self.0.live() {
            // Whatever waits for a lock would keep it waiting.
            connection.close_parked();
        }
        Ok(self.admission(admitted))
    }

    /// Tflush: the old request is taken out if it has not begun; else the answer
    /// comes after the old one's.
    fn flush(
        &self,
        tag: u16,
        oldtag: u16,
        dialect: Dialect,
        prefix: &[u8],
        exchange: E,
    ) -> std::result::Result<Admission<E>, Refused<E>> {
        let mut schedule = self.0.schedule();
        let exchange = check_tag(&schedule, tag, false, exchange)?;
        let flushed = match oldtag == tag {
            true => Flushed::Unknown,
            false => schedule.flush(oldtag),
        };
        match flushed {
            Flushed::Unknown => {
                drop(schedule);
                answer_at_once(exchange, tag, dialect, Ok(Reply::Flush {}));
                Ok(Admission::Over)
            }
            Flushed::Removed(kept) => {
                drop(schedule);
                kept.exchange.discard();
                answer_at_once(exchange, tag, dialect, Ok(Reply::Flush {}));
                self.0.config.link.ready();
                Ok(Admission::Over)
            }
            Flushed::Running(ticket) => {
                let claims = Claims::After(ticket);
                let admitted = schedule.admit(tag, claims, prefix.len(), |waits| Kept {
                    tag,
                    exchange,
                    message: waits.then(|| prefix.into()),
                    payload: 0,
                });
                drop(schedule);
                self.0.interrupt(ticket);
                Ok(self.admission(admitted))
            }
        }
    }

    fn admission(&self, admitted: Admitted<Kept<E>>) -> Admission<E> {
        match admitted {
            Admitted::Run(ticket, kept) => Admission::Run(self.job(ticket, kept)),
            Admitted::Waiting => {
                // Closed meanwhile, nobody would take it out, and what it holds would stay.
                if matches!(*self.0.slot(), Slot::Closed) {
                    self.discard_waiting();
                }
                Admission::Waiting
            }
        }
    }

    fn job(&self, ticket: Ticket, kept: Kept<E>) -> Job<E> {
        Job {
            pending: Pending {
                core: Arc::clone(&self.0),
                ticket,
                tag: kept.tag,
                exchange: Some(kept.exchange),
            },
            message: kept.message,
        }
    }

    /// Tversion: all that was goes, and what is agreed on takes its place.
    fn begin(&self, msize: u32, version: &[u8], pending: Pending<E>) {
        self.0.replace(Slot::Cold);
        let Some(dialect) = Dialect::of_version(version) else {
            let version = Str(VERSION_UNKNOWN);
            return pending.reply(Dialect::Plan9, &Reply::Version { msize, version });
        };
        let msize = msize.min(self.0.config.bounds.msize.max(MSIZE_MIN));
        if msize < MSIZE_MIN {
            tracing::warn!(peer = self.0.config.peer.label, msize, "msize is too small");
            return pending.fail(dialect, Errno::EINVAL);
        }
        let connection = Connection::new(dialect, msize, &self.0.config);
        self.0.replace(Slot::Live(Arc::new(connection)));
        let version = Str(dialect.version());
        pending.reply(dialect, &Reply::Version { msize, version });
    }

    fn call<'a>(&'a self, connection: &'a Connection) -> Call<'a> {
        Call {
            service: &*self.0.service,
            config: &self.0.config,
            connection,
        }
    }

    fn run_to_end(&self, connection: &Connection, request: &Request<'_>, mut pending: Pending<E>) {
        if let Request::Clunk { fid } | Request::Remove { fid } = *request {
            self.0.interrupt_parked(fid);
        }
        let tag = pending.tag;
        let Some(exchange) = pending.get() else {
            return;
        };
        let mut answer = Answer::new(tag, connection.dialect);
        if let Err(error) = dispatch(&self.call(connection), request, exchange, &mut answer) {
            tracing::trace!(kind = ?request.kind(), tag, %error);
            answer.fail(error);
        }
        // A reply that is longer than agreed on costs the peer its connection.
        if answer.len() > connection.msize as usize {
            answer.fail(Errno::EMSGSIZE);
        }
        pending.answer(&answer);
    }

    /// A Tlock that may wait: at once if that is possible, else it is parked.
    fn lock_or_wait(
        &self,
        connection: &Arc<Connection>,
        fid: u32,
        args: &LockArgs<'_>,
        pending: Pending<E>,
    ) {
        let call = self.call(connection);
        let dialect = connection.dialect;
        let fid = match call.fid(fid) {
            Ok(fid) => fid,
            Err(error) => return pending.fail(dialect, error),
        };
        let tree = Arc::clone(&fid.node.tree);
        let at_once = locks::request(&fid, args, None).map(|_| ());
        if at_once != Err(Errno::EAGAIN) {
            return pending.settle_lock(dialect, at_once);
        }
        if let Err(error) = tree.parked.check_room() {
            return pending.settle_lock(dialect, Err(error));
        }
        let ticket = pending.ticket;
        let Some(answer) = pending.park(dialect) else {
            return;
        };
        let Some(wait) = tree.parked.park(ticket, answer) else {
            return;
        };
        match locks::request(&fid, args, Some(wait)) {
            Ok(LockOutcome::Done) => tree.parked.settle(wait, Ok(())),
            Ok(LockOutcome::Waiting) => {
                let is_taken_back = tree.parked.is_interrupted(wait)
                    || self.0.are_waits_stopped.load(Ordering::SeqCst);
                if is_taken_back || self.0.schedule().is_flushed(ticket) {
                    tree.session.cancel_wait(wait);
                }
            }
            Err(error) => tree.parked.settle(wait, Err(error)),
        }
    }
}

impl<E: Exchange> Drop for Server<E> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<E: Exchange> Core<E> {
    fn live(&self) -> Option<Arc<Connection>> {
        match &*self.slot() {
            Slot::Live(connection) => Some(Arc::clone(connection)),
            Slot::Cold | Slot::Closed => None,
        }
    }

    /// Plan 9's own until a version is agreed on.
    fn dialect(&self) -> Dialect {
        self.live().map_or(Dialect::Plan9, |live| live.dialect)
    }

    fn slot(&self) -> std::sync::RwLockReadGuard<'_, Slot> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What was there goes outside the lock. What is closed stays so.
    fn replace(&self, slot: Slot) -> Slot {
        let mut place = self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match *place {
            Slot::Closed => Slot::Closed,
            Slot::Cold | Slot::Live(_) => std::mem::replace(&mut *place, slot),
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule<Kept<E>>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the wait of a lock request, if that is what it is.
    fn interrupt(&self, ticket: Ticket) {
        let found = self.live().and_then(|live| live.interrupt(ticket));
        if let Some((tree, wait)) = found {
            tree.session.cancel_wait(wait);
        }
    }

    /// Ends the waits for locks through a fid that goes.
    fn interrupt_parked(&self, fid: u32) {
        let tickets = self.schedule().parked_on(fid);
        for ticket in tickets {
            self.interrupt(ticket);
        }
    }

    fn has_room(&self, schedule: &Schedule<Kept<E>>) -> bool {
        let bounds = &self.config.bounds;
        schedule.len() < bounds.requests && schedule.bytes() < bounds.bytes
    }

    /// A request is over; others may run for it, or be admitted.
    fn remove(&self, ticket: Ticket) {
        self.reschedule(|schedule| {
            let was_full = !self.has_room(schedule);
            schedule.remove(ticket) || was_full
        });
    }

    /// Changes the schedule; others may run for it.
    fn reschedule(&self, change: impl FnOnce(&mut Schedule<Kept<E>>) -> bool) {
        let is_ready = change(&mut self.schedule());
        if is_ready {
            self.config.link.ready();
        }
    }
}

/// A request that must be answered: with `EIO` if nothing else answers it, be
/// it that a service panics.
struct Pending<E: Exchange> {
    core: Arc<Core<E>>,
    ticket: Ticket,
    tag: u16,
    exchange: Option<E>,
}

impl<E: Exchange> Pending<E> {
    /// The exchange itself; `None` once it was answered.
    fn get(&mut self) -> Option<&mut E> {
        self.exchange.as_mut()
    }

    /// Answers. Its fids are free before the peer hears of it, and a Tflush is
    /// answered after it.
    fn answer(mut self, answer: &Answer) {
        if let Some(exchange) = self.exchange.take() {
            let ticket = self.ticket;
            self.core.reschedule(|schedule| schedule.release(ticket));
            exchange.finish(answer.message(), answer.payload_len());
            self.core.remove(ticket);
        }
    }

    fn reply(self, dialect: Dialect, reply: &Reply<'_>) {
        let mut answer = Answer::new(self.tag, dialect);
        if let Err(error) = answer.set(reply) {
            answer.fail(error);
        }
        self.answer(&answer);
    }

    fn fail(self, dialect: Dialect, error: Errno) {
        let mut answer = Answer::new(self.tag, dialect);
        answer.fail(error);
        self.answer(&answer);
    }

    fn settle_lock(self, dialect: Dialect, result: Result<()>) {
        match locks::status(result) {
            Ok(status) => self.reply(dialect, &Reply::Lock { status }),
            Err(error) => self.fail(dialect, error),
        }
    }

    /// Puts it aside. Who answers it later does so like this.
    fn park(mut self, dialect: Dialect) -> Option<crate::parked::Answer> {
        let parked = self.exchange.take()?.park();
        let (core, ticket, tag) = (Arc::clone(&self.core), self.ticket, self.tag);
        core.reschedule(|schedule| schedule.park(ticket));
        Some(Box::new(move |result| {
            let is_taken_back = core.schedule().is_flushed(ticket);
            core.reschedule(|schedule| schedule.release(ticket));
            if is_taken_back && result == Err(Errno::EINTR) {
                parked.discard();
            } else {
                let mut answer = Answer::new(tag, dialect);
                let set =
                    locks::status(result).and_then(|status| answer.set(&Reply::Lock { status }));
                if let Err(error) = set {
                    answer.fail(error);
                }
                parked.finish(answer.message());
            }
            core.remove(ticket);
        }))
    }
}

impl<E: Exchange> Drop for Pending<E> {
    fn drop(&mut self) {
        let Some(exchange) = self.exchange.take() else {
            return;
        };
        let dialect = self.core.dialect();
        let mut answer = Answer::new(self.tag, dialect);
        answer.fail(Errno::EIO);
        exchange.finish(answer.message(), 0);
        let ticket = self.ticket;
        self.core.remove(ticket);
    }
}

/// No two requests under way have the same tag, and none but Tversion has
/// [`NOTAG`].
fn check_tag<J, E>(
    schedule: &Schedule<J>,
    tag: u16,
    is_version: bool,
    exchange: E,
) -> std::result::Result<E, Refused<E>> {
    match schedule.is_taken(tag) || (tag == NOTAG && !is_version) {
        true => Err(Refused::new(Close::Tag(tag), exchange)),
        false => Ok(exchange),
    }
}

/// What is wrong with a message, as its answer tells it. Linux falls back to
/// older messages on `EOPNOTSUPP`.
fn errno_for(why: Malformed) -> Errno {
    match why {
        Malformed::UnknownOpcode(_) => Errno::EOPNOTSUPP,
        _ => Errno::EINVAL,
    }
}

/// Memory that a request may take until it is answered.
fn memory_for(request: &Request<'_>, prefix_len: usize, reply_payload: usize) -> usize {
    let payload = match *request {
        Request::Write { data, .. } => data.len,
        _ => reply_payload,
    };
    prefix_len.saturating_add(payload)
}

/// Most bytes of data in a request's reply.
fn reply_payload_max(request: &Request<'_>, msize: u32) -> usize {
    match *request {
        Request::Read { count, .. } | Request::Readdir { count, .. } => count.min(msize) as usize,
        _ => 0,
    }
}

/// Answers what never got under way.
fn answer_at_once<E: Exchange>(exchange: E, tag: u16, dialect: Dialect, result: Result<Reply<'_>>) {
    let mut answer = Answer::new(tag, dialect);
    if let Err(error) = result.and_then(|reply| answer.set(&reply)) {
        answer.fail(error);
    }
    exchange.finish(answer.message(), 0);
}
