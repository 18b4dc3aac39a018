//! Sending.

use super::{Connection, Flights, Need, State};
use crate::error::{Error, Lost, Result};
use crate::requests::Want;
use sluice_proto::p9::wire::{Dialect, Request, Type, encode_request};
use std::io::{ErrorKind, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

/// Room that a request takes, unless it has long names.
const USUAL_LEN: usize = 512;

/// Room that any request takes, its payload not counted.
const REQUEST_MAX: usize = 160 << 10;

/// How long a sender that cannot read waits before it looks whether it can.
const GLANCE: Duration = Duration::from_millis(5);

impl Connection {
    /// Sends requests at once, the last one with a payload; their tags.
    pub(super) fn submit<const N: usize>(
        &self,
        requests: [(&Request<'_>, Want); N],
        payload: &[IoSlice<'_>],
        flights: &mut Flights<'_, '_>,
    ) -> Result<[u16; N]> {
        let tags = self.submit_if(requests, payload, flights, |_| true)?;
        // They always were due.
        tags.ok_or(Error::TooLong)
    }

    /// The same, unless they are not due any more when their turn comes.
    pub(super) fn submit_if<const N: usize>(
        &self,
        requests: [(&Request<'_>, Want); N],
        payload: &[IoSlice<'_>],
        flights: &mut Flights<'_, '_>,
        is_due: impl Fn(&State) -> bool,
    ) -> Result<Option<[u16; N]>> {
        let kinds = requests.each_ref().map(|(request, _)| *request);
        let mut wants = Some(requests.map(|(request, want)| (request.kind(), want)));
        // A Tflush takes none.
        let count = kinds.iter().filter(|it| it.kind() != Type::Flush).count();
        let begin = |state: &mut State| {
            if state.is_sending {
                return None;
            }
            if !is_due(state) {
                return Some(None);
            }
            if !state.requests.has_room(count) {
                return None;
            }
            let wants = wants.take()?;
            state.is_sending = true;
            Some(Some(wants.map(|(kind, want)| {
                let begun = state.requests.begin(kind, want, thread::current());
                // There is room for all of them.
                begun.unwrap_or(u16::MAX)
            })))
        };
        let deadline = || self.deadline();
        let need = Need::Send(count);
        let Some(tags) = self.wait_for(&mut flights.list, need, deadline, begin)? else {
            // It was this one that was woken for its turn.
            self.lock().wake_sender();
            return Ok(None);
        };
        let sent = self.encode_and_send(&kinds, &tags, payload, flights);
        let mut state = self.lock();
        state.is_sending = false;
        if sent.is_err() {
            for tag in tags {
                state.requests.cancel(tag);
            }
        }
        if let Err(Error::Lost(lost)) = &sent {
            state.lose(*lost);
        }
        state.wake_sender();
        // Those who wait for room were not to read meanwhile.
        state.pass_on();
        drop(state);
        sent.map(|()| Some(tags))
    }

    fn encode_and_send(
        &self,
        requests: &[&Request<'_>],
        tags: &[u16],
        payload: &[IoSlice<'_>],
        flights: &mut Flights<'_, '_>,
    ) -> Result<()> {
        let payload_len: usize = payload.iter().map(|slice| slice.len()).sum();
        let mut message = Vec::with_capacity(USUAL_LEN);
        let last = requests.len().saturating_sub(1);
        for (nth, (request, tag)) in requests.iter().zip(tags).enumerate() {
            let at = message.len();
            encode(*tag, request, self.agreed.dialect, &mut message)?;
            let own_payload = if nth == last { payload_len } else { 0 };
            let len = message.len() - at + own_payload;
            if len > self.agreed.msize as usize {
                return Err(Error::TooLong);
            }
            self.meter.add_sent(len);
        }
        let mut bufs = Vec::with_capacity(1 + payload.len());
        bufs.push(IoSlice::new(&message));
        bufs.extend(payload.iter().map(|slice| IoSlice::new(slice)));
        self.send_all(&mut bufs, flights)
    }

    fn send_all(&self, mut bufs: &mut [IoSlice<'_>], flights: &mut Flights<'_, '_>) -> Result<()> {
        let mut deadline = None;
        IoSlice::advance_slices(&mut bufs, 0);
        while !bufs.is_empty() {
            match self.transport.send(bufs) {
                Ok(count) => {
                    IoSlice::advance_slices(&mut bufs, count);
                    deadline = None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match deadline {
                        None => deadline = self.deadline(),
                        Some(deadline) if Instant::now() >= deadline => {
                            return Err(Lost::Stalled.into());
                        }
                        Some(_) => {}
                    }
                    self.wait_to_send(flights)?;
                }
                Err(error) => return Err(Lost::from(error).into()),
            }
        }
        Ok(())
    }

    /// The server takes nothing in: it may be that it waits for its replies to
    /// be read. If nobody reads, this thread does.
    fn wait_to_send(&self, flights: &mut Flights<'_, '_>) -> Result<()> {
        let mut state = self.lock();
        if let Some(lost) = state.lost {
            return Err(lost.into());
        }
        let reader = state.take_reader(&flights.list);
        drop(state);
        let Some(mut reader) = reader else {
            self.transport
                .wait_to_send(false, GLANCE)
                .map_err(Lost::from)?;
            return Ok(());
        };
        let waited = self.transport.wait_to_send(true, self.tick);
        let step = match waited {
            Ok(true) => self.read_some(&mut reader, &mut flights.list),
            Ok(false) => Ok(super::Step::Read),
            Err(error) => Err(error.into()),
        };
        let mut state = self.lock();
        state.put_reader_back(reader, step);
        state.pass_on();
        Ok(())
    }
}

/// Appends a request, its payload not included.
fn encode(tag: u16, request: &Request<'_>, dialect: Dialect, message: &mut Vec<u8>) -> Result<()> {
    let at = message.len();
    for room in [USUAL_LEN, REQUEST_MAX] {
        message.resize(at + room, 0);
        let free = message.get_mut(at..).unwrap_or_default();
        if let Ok(len) = encode_request(tag, request, dialect, free) {
            message.truncate(at + len);
            return Ok(());
        }
    }
    Err(Error::TooLong)
}
