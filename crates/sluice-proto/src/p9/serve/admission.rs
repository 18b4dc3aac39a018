//! What becomes of a message.

use super::answer::Answer;
use super::claims::claims;
use super::exchange::Exchange;
use super::pending::Job;
use super::schedule::{Admitted, Claims, Flushed, Schedule};
use super::server::Server;
use super::shared::{Kept, Slot};
use crate::p9::wire::{Dialect, Header, Malformed, NOTAG, Reply, Request, decode_request};
use sluice_vfs::{Errno, Result};

/// Why a connection must be closed: an answer would not be understood, or
/// would be taken for that of another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// A message is shorter than its header or longer than it may be.
    #[error("a message of {0} bytes")]
    Size(u32),
    /// The message is not one.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The tag is that of a request under way.
    #[error("tag {0} is in use")]
    Tag(u16),
    /// Something comes before Tversion.
    #[error("a message of type {0} before a version is agreed on")]
    NoVersion(u8),
    /// The connection was closed at this end.
    #[error("the connection is closed")]
    Closed,
}

/// A message that cannot be admitted.
pub struct Refused<E> {
    /// Why.
    pub why: Close,
    /// The request, unanswered.
    pub exchange: Box<E>,
}

impl<E> Refused<E> {
    /// A request that was refused.
    pub fn new(why: Close, exchange: E) -> Self {
        let exchange = Box::new(exchange);
        Refused { why, exchange }
    }
}

/// What became of a message.
pub enum Admission<E: Exchange> {
    /// To be run, on any thread.
    Run(Job<E>),
    /// It waits for others, or for memory, and comes out of [`Server::next_ready`].
    Waiting,
    /// It was answered, or needs no answer.
    Over,
}

impl<E: Exchange> Server<E> {
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
        let keep = |waits: bool| Kept::new(tag, exchange, waits.then_some(prefix), payload);
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
                let keep = |waits: bool| Kept::new(tag, exchange, waits.then_some(prefix), 0);
                let admitted = schedule.admit(tag, claims, prefix.len(), keep);
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
pub(super) fn errno_for(why: Malformed) -> Errno {
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
