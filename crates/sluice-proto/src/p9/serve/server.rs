//! A connection: versions, and who runs what when.

use super::admission::{Close, errno_for};
use super::answer::Answer;
use super::config::ServerConfig;
use super::connection::Connection;
use super::dispatch::{Call, dispatch};
use super::exchange::Exchange;
use super::pending::{Job, Pending};
use super::schedule::Ticket;
use super::shared::{Core, Kept, Slot};
use crate::p9::wire::{
    Dialect, HEADER_LEN, Header, LockFlags, MSIZE_MIN, Reply, Request, Str, VERSION_UNKNOWN,
    decode_request,
};
use sluice_vfs::{Errno, FileService};
use std::sync::Arc;

/// Longest message that a peer has reason to send, in bytes, its payload not
/// counted: a Twalk with 16 names takes 4,129, an attribute's name or a
/// symlink's target less.
pub const PREFIX_MAX: usize = 16 * 1024;

/// Serves one connection. Any number of threads may run its requests.
pub struct Server<E: Exchange>(pub(super) Arc<Core<E>>);

impl<E: Exchange> Server<E> {
    /// A connection that waits for its Tversion.
    pub fn new(service: Arc<dyn FileService>, config: ServerConfig) -> Self {
        Server(Arc::new(Core::new(service, config)))
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

    /// How many requests wait, for others or for a thread, but not for memory.
    pub fn waiting(&self) -> usize {
        self.0.schedule().waiting()
    }

    /// Whether requests wait for memory. A transport then sets none aside for what comes
    /// behind them, which may wait for them: nobody might ever give some back.
    pub fn has_starved(&self) -> bool {
        self.0.schedule().has_starved()
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

    /// Ends the connection, for transports that are. Requests that run finish on
    /// their own; what has not begun is dropped, and so is all that fids held.
    pub fn close(&self) {
        let before = self.0.replace(Slot::Closed);
        self.discard_waiting();
        if let Slot::Live(connection) = before {
            connection.close_parked();
        }
    }

    pub(super) fn discard_waiting(&self) {
        let waiting = self.0.schedule().clear_waiting();
        for kept in waiting {
            kept.exchange.discard();
        }
    }

    pub(super) fn job(&self, ticket: Ticket, kept: Kept<E>) -> Job<E> {
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

    pub(super) fn call<'a>(&'a self, connection: &'a Connection) -> Call<'a> {
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
}

impl<E: Exchange> Drop for Server<E> {
    fn drop(&mut self) {
        self.close();
    }
}
