//! Requests that wait for locks: they are parked, and answered when the service settles
//! them, when the peer takes them back, or when nothing may wait.

use super::answer::Answer;
use super::connection::Connection;
use super::exchange::Exchange;
use super::ops::locks;
use super::pending::Pending;
use super::schedule::Ticket;
use super::server::Server;
use super::shared::Core;
use crate::p9::wire::{Dialect, LockArgs, Reply};
use sluice_vfs::{Errno, LockOutcome, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<E: Exchange> Server<E> {
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

    /// A Tlock that may wait: at once if that is possible, else it is parked.
    pub(super) fn lock_or_wait(
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

impl<E: Exchange> Core<E> {
    /// Ends the wait of a lock request, if that is what it is.
    pub(super) fn interrupt(&self, ticket: Ticket) {
        let found = self.live().and_then(|live| live.interrupt(ticket));
        if let Some((tree, wait)) = found {
            tree.session.cancel_wait(wait);
        }
    }

    /// Ends the waits for locks through a fid that goes.
    pub(super) fn interrupt_parked(&self, fid: u32) {
        let tickets = self.schedule().parked_on(fid);
        for ticket in tickets {
            self.interrupt(ticket);
        }
    }
}

impl<E: Exchange> Pending<E> {
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
