//! `/dev/fuse` as a queue of requests, each served by the thread that reads it.

use super::MAX_MESSAGE_BYTES;
use super::buffer::AlignedBuffer;
use super::device::{Device, Received};
use super::exchange::DeviceExchange;
use crate::panics;
use sluice_crew::{Next, Queue};
use sluice_proto::fuse::serve::Server;
use sluice_proto::fuse::wire::{InHeader, WriteIn, prefix_len};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the data of a WRITE begins.
const PAYLOAD_AT: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// A mount's requests and who answers them.
pub(super) struct Requests {
    /// Sleeps for requests.
    patient: Arc<Device>,
    /// The same connection without sleep, where this process may have that.
    eager: Option<Arc<Device>>,
    server: Arc<Server>,
    /// How many there were.
    count: Arc<AtomicU64>,
}

/// A thread's buffers.
pub(super) struct Buffers {
    request: AlignedBuffer,
    body: AlignedBuffer,
}

/// A request that is in a thread's buffer.
pub(super) struct Request {
    len: usize,
    from: Arc<Device>,
}

impl Requests {
    pub(super) fn new(device: Arc<Device>, server: Arc<Server>, count: Arc<AtomicU64>) -> Self {
        let eager = device.without_sleep();
        if let Err(error) = &eager {
            tracing::debug!(%error, "no second descriptor of /dev/fuse: no polling");
        }
        Requests {
            patient: device,
            eager: eager.ok().map(Arc::new),
            server,
            count,
        }
    }

    fn receive(&self, device: &Arc<Device>, buffers: &mut Buffers) -> Next<Request> {
        match device.receive(&mut buffers.request) {
            Ok(Received::Message(len)) => {
                return Next::Job(Request {
                    len,
                    from: Arc::clone(device),
                });
            }
            Ok(Received::Nothing) => return Next::Nothing,
            Ok(Received::Ended) => {}
            Err(error) => tracing::error!(%error, "cannot read from /dev/fuse"),
        }
        self.end();
        Next::Ended
    }

    /// Threads that wait for a server that is away need not.
    fn end(&self) {
        self.server.reset();
    }
}

impl Queue for Requests {
    type Hand = Buffers;
    type Job = Request;

    /// Looking is a system call itself.
    const LOOKS_PER_YIELD: u32 = 1;
    const LOOKS_ARE_CALLS: bool = true;

    fn hand(&self) -> Buffers {
        Buffers {
            request: AlignedBuffer::new(PAYLOAD_AT + MAX_MESSAGE_BYTES, PAYLOAD_AT),
            body: AlignedBuffer::new(MAX_MESSAGE_BYTES, 0),
        }
    }

    fn take(&self, buffers: &mut Buffers) -> Next<Request> {
        match &self.eager {
            Some(device) => self.receive(device, buffers),
            None => Next::Nothing,
        }
    }

    fn wait(&self, buffers: &mut Buffers) -> Next<Request> {
        self.receive(&self.patient, buffers)
    }

    fn may_wait(&self) -> bool {
        self.patient.has_request()
    }

    fn run(&self, buffers: &mut Buffers, request: Request) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let message = buffers.request.get(..request.len).unwrap_or_default();
        let prefix_len = prefix_len(message).unwrap_or(message.len());
        let (prefix, payload) = message.split_at(prefix_len.min(message.len()));
        let exchange = DeviceExchange::new(&request.from, payload, &mut buffers.body);
        panics::contain(|| self.server.handle(prefix, exchange));
    }

    fn has_ended(&self) -> bool {
        let has_ended = self.patient.has_ended();
        if has_ended {
            self.end();
        }
        has_ended
    }
}
