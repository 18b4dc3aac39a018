//! What a device brings along.

use crate::queue::Chain;
use sluice_crew::Polling;
use std::borrow::Cow;

/// A virtio device that a [`Backend`] serves. All methods but [`Device::process`] are
/// called by the thread that serves the connection, one at a time; `process` by the
/// threads of each ring.
///
/// [`Backend`]: super::Backend
pub trait Device: Send + Sync + 'static {
    /// Feature bits of the device type, beyond those of the transport and the rings,
    /// which are added.
    fn features(&self) -> u64 {
        0
    }

    /// The configuration space. Reads beyond its end give zeros.
    fn config_space(&self) -> Cow<'_, [u8]>;

    /// Number of queues, 1 to 256; constant.
    fn queues(&self) -> u16;

    /// A front-end connected.
    fn connected(&self) {}

    /// How a queue's threads look for requests before they sleep.
    fn polling(&self, _queue: u16) -> Polling {
        Polling::default()
    }

    /// Serves a request of a queue, and answers it through the chain, now or later.
    /// It may take its time: another thread then goes on with the queue.
    fn process(&self, queue: u16, chain: Chain);

    /// A ring starts.
    fn ring_started(&self, _queue: u16) {}

    /// A ring stopped (a pause, a reset, a lost connection): no more chains of it come.
    /// Chains of this queue that wait for something must be answered now, with an
    /// error, as the stop is complete only when none is in flight; requests that are
    /// being worked on elsewhere may end in their own time.
    fn ring_stopped(&self, _queue: u16) {}

    /// The front-end reset the device (`RESET_DEVICE`); its rings are stopped.
    fn reset(&self) {}

    /// The connection is over and its rings are stopped.
    fn disconnected(&self) {}
}
