//! The requests of one thread that are under way, with the buffers that their
//! payloads go to.

use super::{Connection, Need, State};
use crate::error::{Error, Lost, Result};
use crate::requests::{Answer, Want};
use sluice_proto::p9::wire::Request;
use std::io::{IoSlice, IoSliceMut};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// A request under way.
pub(super) struct Flight<'b> {
    pub(super) tag: u16,
    /// Where its payload goes, behind what has come.
    pub(super) slices: Vec<IoSliceMut<'b>>,
}

/// Requests under way. What is still under way when this is dropped is answered
/// to nobody, and its buffers are not touched any more.
pub(crate) struct Flights<'c, 'b> {
    connection: &'c Connection,
    pub(super) list: Vec<Flight<'b>>,
}

impl<'c, 'b> Flights<'c, 'b> {
    /// None so far.
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Flights {
            connection,
            list: Vec::new(),
        }
    }

    /// Sends a request with its payload. That of its reply goes to `slices`.
    pub(crate) fn send(
        &mut self,
        request: &Request<'_>,
        slices: Vec<IoSliceMut<'b>>,
        payload: &[IoSlice<'_>],
    ) -> Result<u16> {
        let room = slices.iter().map(|slice| slice.len()).sum();
        let want = match slices.is_empty() {
            true => Want::Message,
            false => Want::InPlace(room),
        };
        let connection = self.connection;
        let [tag] = connection.submit([(request, want)], payload, self)?;
        self.list.push(Flight { tag, slices });
        Ok(tag)
    }

    /// Sends a request whose reply's payload goes to `buf`, which comes back
    /// with the answer.
    pub(crate) fn send_owned(&mut self, request: &Request<'_>, buf: Vec<u8>) -> Result<u16> {
        let connection = self.connection;
        let [tag] = connection.submit([(request, Want::Owned(buf))], &[], self)?;
        let slices = Vec::new();
        self.list.push(Flight { tag, slices });
        Ok(tag)
    }

    /// Sends requests without payload at once.
    pub(crate) fn send_all<const N: usize>(
        &mut self,
        requests: [&Request<'_>; N],
    ) -> Result<[u16; N]> {
        let connection = self.connection;
        let tags = connection.submit(requests.map(|it| (it, Want::Message)), &[], self)?;
        let flight = |tag| Flight {
            tag,
            slices: Vec::new(),
        };
        self.list.extend(tags.map(flight));
        Ok(tags)
    }

    /// Tflush about a request that `waiter` waits for: unless it was answered before,
    /// it ends with `error`.
    pub(super) fn call_off(&mut self, tag: u16, waiter: ThreadId, error: Error) -> Result<()> {
        let connection = self.connection;
        let flush = Request::Flush { oldtag: tag };
        let is_due = |state: &State| {
            let owner = state.requests.owner(tag);
            state.requests.is_unanswered(tag) && owner.is_some_and(|owner| owner.id() == waiter)
        };
        let requests = [(&flush, Want::CallOff(tag, error))];
        connection.submit_if(requests, &[], self, is_due).map(drop)
    }

    /// Leaves the requests under way to somebody who takes them over.
    pub(crate) fn let_go(mut self) {
        self.list.clear();
    }

    /// Takes requests over that were let go.
    pub(crate) fn take_over(connection: &'c Connection, tags: impl Iterator<Item = u16>) -> Self {
        let mut state = connection.lock();
        let list = tags
            .map(|tag| {
                state.requests.set_owner(tag, thread::current());
                let slices = Vec::new();
                Flight { tag, slices }
            })
            .collect();
        drop(state);
        Flights { connection, list }
    }

    /// Waits for the answer to `tag`, which is one of these.
    pub(crate) fn wait(&mut self, tag: u16) -> Result<Answer> {
        let connection = self.connection;
        let _waiting = connection.meter.wait();
        self.wait_until(tag, || connection.deadline())
    }

    /// The same for a request that waits for others, so that what it takes says nothing
    /// of the server.
    pub(crate) fn wait_until(
        &mut self,
        tag: u16,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Answer> {
        let answer = match self.take(tag, deadline) {
            Err(Error::TimedOut(_)) => self.take_back(tag),
            other => other,
        }?;
        self.list.retain(|flight| flight.tag != tag);
        answer
    }

    fn take(
        &mut self,
        tag: u16,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<Result<Answer>> {
        let take = |state: &mut State| state.requests.take(tag);
        self.connection
            .wait_for(&mut self.list, Need::Reply, deadline, take)
    }

    /// Tflush: the answer, if it came all the same.
    fn take_back(&mut self, tag: u16) -> Result<Result<Answer>> {
        let connection = self.connection;
        let too_late = Error::TimedOut(connection.time_limit.unwrap_or_default());
        let asked = self.call_off(tag, thread::current().id(), too_late);
        match asked.and_then(|()| self.take(tag, || connection.deadline())) {
            Err(Error::TimedOut(_)) => {
                connection.lock().lose(Lost::Stalled);
                Err(Lost::Stalled.into())
            }
            other => other,
        }
    }
}

impl Drop for Flights<'_, '_> {
    fn drop(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let mut state = self.connection.lock();
        for flight in &self.list {
            state.requests.abandon(flight.tag);
            if state.held_for == Some(flight.tag) {
                state.held_for = None;
            }
        }
        state.pass_on();
    }
}
