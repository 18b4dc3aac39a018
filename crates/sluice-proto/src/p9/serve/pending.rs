//! Requests under way, each of which must be answered.

use super::answer::Answer;
use super::exchange::Exchange;
use super::schedule::Ticket;
use super::shared::Core;
use crate::p9::wire::{Dialect, Reply};
use sluice_vfs::Errno;
use std::sync::Arc;

/// A request that can run. Dropped instead, it is answered with `EIO`.
pub struct Job<E: Exchange> {
    pub(super) pending: Pending<E>,
    pub(super) message: Option<Box<[u8]>>,
}

/// A request that must be answered: with `EIO` if nothing else answers it, be
/// it that a service panics.
pub(super) struct Pending<E: Exchange> {
    pub(super) core: Arc<Core<E>>,
    pub(super) ticket: Ticket,
    pub(super) tag: u16,
    pub(super) exchange: Option<E>,
}

impl<E: Exchange> Pending<E> {
    /// The exchange itself; `None` once it was answered.
    pub(super) fn get(&mut self) -> Option<&mut E> {
        self.exchange.as_mut()
    }

    /// Answers. Its fids are free before the peer hears of it, and a Tflush is
    /// answered after it.
    pub(super) fn answer(mut self, answer: &Answer) {
        if let Some(exchange) = self.exchange.take() {
            let ticket = self.ticket;
            self.core.reschedule(|schedule| schedule.release(ticket));
            exchange.finish(answer.message(), answer.payload_len());
            self.core.remove(ticket);
        }
    }

    pub(super) fn reply(self, dialect: Dialect, reply: &Reply<'_>) {
        let mut answer = Answer::new(self.tag, dialect);
        if let Err(error) = answer.set(reply) {
            answer.fail(error);
        }
        self.answer(&answer);
    }

    pub(super) fn fail(self, dialect: Dialect, error: Errno) {
        let mut answer = Answer::new(self.tag, dialect);
        answer.fail(error);
        self.answer(&answer);
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
