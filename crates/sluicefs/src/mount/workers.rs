//! The threads that read requests from `/dev/fuse` and serve them.

use super::MAX_MESSAGE_BYTES;
use super::buffer::AlignedBuffer;
use super::device::Device;
use super::exchange::DeviceExchange;
use crate::panics;
use sluice_proto::fuse::serve::Server;
use sluice_proto::fuse::wire::{InHeader, WriteIn, prefix_len};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Where the data of a WRITE begins.
const PAYLOAD_AT: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// One reader of the device with its buffers.
pub(super) struct Worker {
    device: Arc<Device>,
    server: Arc<Server>,
    request: AlignedBuffer,
    body: AlignedBuffer,
}

/// How many threads serve a mount: a few more than can run at once, since
/// some of them wait for the disk.
pub(super) fn thread_count() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cpus).clamp(4, 16)
}

impl Worker {
    pub(super) fn new(device: Arc<Device>, server: Arc<Server>) -> Self {
        Worker {
            device,
            server,
            request: AlignedBuffer::new(PAYLOAD_AT + MAX_MESSAGE_BYTES, PAYLOAD_AT),
            body: AlignedBuffer::new(MAX_MESSAGE_BYTES, 0),
        }
    }

    /// Serves requests on a thread of its own until the file system is unmounted.
    pub(super) fn spawn(mut self, index: usize) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name(format!("fuse-{index}"))
            .spawn(move || while self.serve_one() {})
    }

    /// Waits for one request and serves it; false when no more will come.
    pub(super) fn serve_one(&mut self) -> bool {
        let len = match self.device.receive(&mut self.request) {
            Ok(Some(len)) => len,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!(%error, "cannot read from /dev/fuse");
                return false;
            }
        };
        let message = self.request.get(..len).unwrap_or_default();
        let prefix_len = prefix_len(message).unwrap_or(len);
        let (prefix, payload) = message.split_at(prefix_len.min(len));
        let exchange = DeviceExchange::new(&self.device, payload, &mut self.body);
        panics::contain(|| self.server.handle(prefix, exchange));
        true
    }
}
