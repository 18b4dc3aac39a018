//! The virtio-fs device (Virtual I/O Device 1.3, 5.11): FUSE requests on
//! virtqueues. Queue 0 is for what must not wait behind requests (FORGET,
//! INTERRUPT); the others carry requests. Each has threads of its own.

use super::Tag;
use super::exchange::ChainExchange;
use super::parked::ParkedChains;
use crate::panics;
use sluice_crew::Polling;
use sluice_proto::fuse::serve::{
    Exchange, Parked, ServeOptions, Server, ServerConfig, TransportLimits,
};
use sluice_proto::fuse::wire::{
    Dialect, InHeader, InterruptIn, Operation, OutHeader, PREFIX_MAX, RequestHead, encode_request,
    prefix_len,
};
use sluice_vfs::{
    AccessChecks, FileService, Peer, ReadSink, SessionLimits, SliceSink, SliceSource, WriteSource,
};
use sluice_virtio::queue::Chain;
use sluice_virtio::vhost_user::Device;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, PoisonError, RwLock};

/// Where FORGET comes.
const HIPRIO_QUEUE: u16 = 0;

/// Most request queues that a monitor may set up.
const REQUEST_QUEUES_MAX: u16 = 64;

/// Request queues that a guest is told to use where the monitor lets the
/// device say so; more than host processors would not help.
const REQUEST_QUEUES_DEFAULT_MAX: u16 = 8;

/// Largest payload of a request in either direction, in bytes. The guest
/// halves it until it fits its queue.
const PAYLOAD_MAX: u32 = 1 << 20;

/// `tag`, then `num_request_queues` in little-endian (5.11.4).
const CONFIG_LEN: usize = Tag::SIZE + 4;

thread_local! {
    /// The prefix of the request that a ring's thread is working on.
    static PREFIX: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A service as a virtio-fs device. Every connection of a monitor is a peer of
/// its own; what it held goes when it ends.
pub(super) struct FsDevice {
    service: Arc<dyn FileService>,
    options: ServeOptions,
    polling: Polling,
    label: String,
    config: [u8; CONFIG_LEN],
    connection: RwLock<Option<Arc<Connection>>>,
}

struct Connection {
    server: Server,
    parked: Arc<ParkedChains>,
}

impl FsDevice {
    pub(super) fn new(
        service: Arc<dyn FileService>,
        tag: &Tag,
        options: ServeOptions,
        polling: Polling,
    ) -> Self {
        FsDevice {
            service,
            options,
            polling,
            label: format!("virtiofs:{tag}"),
            config: config_space(tag),
            connection: RwLock::new(None),
        }
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn replace_connection(&self, connection: Option<Arc<Connection>>) {
        let mut slot = self
            .connection
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::replace(&mut *slot, connection);
        drop(slot);
        if let Some(ended) = ended {
            ended.server.reset();
        }
    }

    fn server_config(&self) -> ServerConfig {
        ServerConfig {
            peer: Peer {
                label: self.label.clone(),
                checks: AccessChecks::Peer, // the guest's kernel always checks
            },
            export: Vec::new(),
            limits: SessionLimits::default(),
            options: self.options,
            transport: TransportLimits {
                max_payload: PAYLOAD_MAX,
                allows_reinit: true, // a remount is an INIT on running rings
            },
            notifier: None, // no Linux driver takes notifications
        }
    }
}

impl Device for FsDevice {
    fn config_space(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.config)
    }

    fn queues(&self) -> u16 {
        1 + REQUEST_QUEUES_MAX
    }

    fn connected(&self) {
        tracing::info!(peer = self.label, "connected");
        let server = Server::new(Arc::clone(&self.service), self.server_config());
        self.replace_connection(Some(Arc::new(Connection {
            server,
            parked: Arc::default(),
        })));
    }

    fn polling(&self, queue: u16) -> Polling {
        match queue {
            HIPRIO_QUEUE => Polling::Off, // nobody waits for what comes there
            _ => self.polling,
        }
    }

    fn process(&self, _: u16, chain: Chain) {
        if let Some(connection) = self.connection() {
            panics::contain(|| connection.serve(chain));
        }
    }

    fn ring_stopped(&self, queue: u16) {
        if let Some(connection) = self.connection() {
            connection.interrupt_waits(queue);
        }
    }

    fn reset(&self) {
        if let Some(connection) = self.connection() {
            connection.server.reset();
        }
    }

    fn disconnected(&self) {
        tracing::info!(peer = self.label, "disconnected");
        self.replace_connection(None);
    }
}

impl Connection {
    fn serve(&self, chain: Chain) {
        // Taken out for the call, so that a panic in it costs the buffer only.
        let mut prefix = PREFIX.take();
        let header = read_prefix(&chain, &mut prefix);
        let unique = header.map_or(0, |header| header.unique);
        let exchange = ChainExchange::new(chain, unique, prefix.len(), &self.parked);
        self.server.handle(&prefix, exchange);
        PREFIX.set(prefix);
    }

    /// Takes back what waits on a queue that stops: the service gives up, and
    /// the guest's kernel sees an interrupted call.
    fn interrupt_waits(&self, queue: u16) {
        for unique in self.parked.waiting_on(queue) {
            let mut message = [0; size_of::<InHeader>() + size_of::<InterruptIn>()];
            let head = RequestHead::default();
            let operation = Operation::Interrupt {
                args: InterruptIn { unique },
            };
            if encode_request(&head, &operation, Dialect::default(), &mut message).is_ok() {
                self.server.handle(&message, Unanswered::default());
            }
        }
        self.parked.interrupt(queue);
    }
}

/// Copies header and arguments out of the guest's memory, each byte once, and
/// returns the header if it is all there.
fn read_prefix(chain: &Chain, prefix: &mut Vec<u8>) -> Option<InHeader> {
    let mut reader = chain.reader();
    let header_len = size_of::<InHeader>().min(reader.remaining());
    prefix.clear();
    prefix.resize(header_len, 0);
    reader.read(prefix);
    // What is not understood goes to the server whole, for it to say why.
    let wanted = prefix_len(prefix).unwrap_or(PREFIX_MAX).min(PREFIX_MAX);
    let rest = wanted.saturating_sub(header_len).min(reader.remaining());
    prefix.resize(header_len + rest, 0);
    if let Some(tail) = prefix.get_mut(header_len..) {
        reader.read(tail);
    }
    InHeader::peek(prefix).ok()
}

fn config_space(tag: &Tag) -> [u8; CONFIG_LEN] {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = u16::try_from(cpus).unwrap_or(u16::MAX);
    let request_queues = u32::from(cpus.min(REQUEST_QUEUES_DEFAULT_MAX));
    let mut config = [0; CONFIG_LEN];
    let (tag_field, queues_field) = config.split_at_mut(Tag::SIZE);
    tag_field.copy_from_slice(&tag.to_config_field());
    queues_field.copy_from_slice(&request_queues.to_le_bytes());
    config
}

/// For a request of our own that has no reply.
struct Unanswered {
    source: SliceSource<'static>,
    sink: SliceSink<'static>,
}

impl Default for Unanswered {
    fn default() -> Self {
        Unanswered {
            source: SliceSource::new(&[]),
            sink: SliceSink::new(&mut []),
        }
    }
}

impl Exchange for Unanswered {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, _: OutHeader) {}

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(Nobody)
    }
}

struct Nobody;

impl Parked for Nobody {
    fn finish(self: Box<Self>, _: OutHeader) {}
}
