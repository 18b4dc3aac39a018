//! What a front-end configured for one ring, and the ring while it runs.

use super::device::Device;
use super::error::Error;
use super::inflight_area::InflightArea;
use super::message::VringAddr;
use super::ring_crew::RingCrew;
use crate::memory::GuestMemory;
use crate::notify::{self, Caller};
use crate::queue::layout::{F_EVENT_IDX, F_INDIRECT_DESC};
use crate::queue::{InflightRecord, Ring, RingLayout, SplitQueue};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How a ring learns that chains came.
#[derive(Clone, Debug)]
pub(super) enum Kick {
    /// By this descriptor.
    Fd(Arc<OwnedFd>),
    /// By looking.
    Poll,
}

/// A ring's configuration and, while it runs, the ring.
#[derive(Debug, Default)]
pub(super) struct Vring {
    pub(super) size: u16,
    pub(super) addr: Option<VringAddr>,
    /// Where the available ring goes on.
    pub(super) base: u16,
    /// Set while the ring is started ("Ring states" in the specification).
    pub(super) kick: Option<Kick>,
    call: Option<Arc<Caller>>,
    err: Option<Arc<Caller>>,
    /// `None` until `SET_VRING_ENABLE`.
    pub(super) enabled: Option<bool>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    ring: Arc<Ring>,
    crew: RingCrew,
}

/// What a ring needs beyond its own configuration.
pub(super) struct Surroundings<'a> {
    pub(super) device: &'a Arc<dyn Device>,
    pub(super) memory: &'a Arc<GuestMemory>,
    pub(super) features: u64,
    /// Whether rings run before they are enabled.
    pub(super) enabled_at_first: bool,
    pub(super) inflight: Option<&'a InflightArea>,
}

impl Vring {
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the ring if it has all it needs and does not run yet. A failure of the
    /// running ring goes to `failed`.
    pub(super) fn start_if_ready(
        &mut self,
        index: u16,
        around: &Surroundings<'_>,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Result<(), Error> {
        let enabled = self.enabled.unwrap_or(around.enabled_at_first);
        let (Some(addr), Some(kick)) = (self.addr, &self.kick) else {
            return Ok(());
        };
        if self.is_running() || !enabled || self.size == 0 {
            return Ok(());
        }
        let ring = Arc::new(self.make_ring(index, addr, around)?);
        let kick = match kick {
            Kick::Fd(fd) => Some(fd.clone()),
            Kick::Poll => None,
        };
        let err = self.err.clone();
        let failed = move |error| {
            if let Some(err) = err {
                err.signal();
            }
            failed(error);
        };
        around.device.ring_started(index);
        match RingCrew::start(ring.clone(), kick, around.device.clone(), failed) {
            Ok(crew) => {
                self.running = Some(Running { ring, crew });
                Ok(())
            }
            Err(error) => {
                around.device.ring_stopped(index);
                Err(Error::Io("cannot start a ring's threads", error))
            }
        }
    }

    /// Stops the ring if it runs, and waits until none of its chains is in flight.
    pub(super) fn stop(&mut self, index: u16, device: &dyn Device) {
        if let Some(Running { ring, crew }) = self.running.take() {
            notify::unstuck(&self.signalled(), || {
                crew.stop();
                device.ring_stopped(index);
                ring.drain();
            });
            self.base = ring.next_avail();
        }
    }

    pub(super) fn set_call(&mut self, call: Option<Arc<Caller>>) {
        self.call.clone_from(&call);
        if let Some(running) = &self.running {
            notify::unstuck(&self.signalled(), || running.ring.set_call(call));
        }
    }

    /// The descriptors on which the front-end is signalled.
    fn signalled(&self) -> Vec<Arc<Caller>> {
        [&self.call, &self.err]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    pub(super) fn set_err(&mut self, err: Option<Arc<Caller>>) {
        self.err = err;
    }

    pub(super) fn set_memory(&self, index: u16, memory: &Arc<GuestMemory>) -> Result<(), Error> {
        match &self.running {
            None => Ok(()),
            Some(running) => running
                .ring
                .set_memory(memory.clone())
                .map_err(Error::ring(index)),
        }
    }

    fn make_ring(
        &self,
        index: u16,
        addr: VringAddr,
        around: &Surroundings<'_>,
    ) -> Result<Ring, Error> {
        let layout = RingLayout {
            size: self.size,
            descriptors: addr.descriptor,
            available: addr.available,
            used: addr.used,
        };
        let event_idx = around.features & F_EVENT_IDX != 0;
        let indirect = around.features & F_INDIRECT_DESC != 0;
        let memory = around.memory;
        let queue =
            SplitQueue::new(layout, memory, self.base, event_idx).map_err(Error::ring(index))?;
        let used_idx = queue.next_used();
        let ring = Ring::new(index, indirect, queue, memory.clone(), self.call.clone());
        let area = around.inflight;
        let window = area.map_or(Ok(None), |area| area.record(index, self.size))?;
        if let Some(window) = window {
            let (record, heads) = InflightRecord::open(window, self.size, used_idx)
                .map_err(|error| Error::Inflight { index, error })?;
            ring.track(record, heads);
        }
        Ok(ring)
    }
}
