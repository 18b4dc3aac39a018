//! The virtio-fs device (Virtual I/O Device 1.3, 5.11): FUSE requests on
//! virtqueues. Queue 0 is for what must not wait behind requests (FORGET,
//! INTERRUPT); the others carry requests. Each has threads of its own.

use super::chain::{ChainEnds, copy_prefix};
use super::slot::{ParkedChain, ParkedChains};
use super::{Connection, Frontend, Tag};
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
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use zerocopy::IntoBytes;

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

/// FUSE on virtqueues. Every connection of a monitor is a peer of its own; what
/// it held goes when it ends.
pub(in crate::serve) struct FsFrontend {
    service: Arc<dyn FileService>,
    options: ServeOptions,
    polling: Polling,
    label: String,
    config: [u8; CONFIG_LEN],
}

impl FsFrontend {
    pub(in crate::serve) fn new(
        service: Arc<dyn FileService>,
        tag: &Tag,
        options: ServeOptions,
        polling: Polling,
    ) -> Self {
        FsFrontend {
            service,
            options,
            polling,
            label: format!("virtiofs:{tag}"),
            config: config_space(tag),
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

impl Frontend for FsFrontend {
    type Connection = FsConnection;

    fn config_space(&self) -> &[u8] {
        &self.config
    }

    fn queues(&self) -> u16 {
        1 + REQUEST_QUEUES_MAX
    }

    fn polling(&self, queue: u16) -> Polling {
        match queue {
            HIPRIO_QUEUE => Polling::Off, // nobody waits for what comes there
            _ => self.polling,
        }
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn connect(&self) -> io::Result<FsConnection> {
        Ok(FsConnection {
            server: Server::new(Arc::clone(&self.service), self.server_config()),
            parked: Arc::default(),
        })
    }
}

pub(in crate::serve) struct FsConnection {
    server: Server,
    parked: Arc<ParkedChains>,
}

impl Connection for FsConnection {
    fn serve(self: &Arc<Self>, chain: Chain) {
        // Taken out for the call, so that a panic in it costs the buffer only.
        let mut prefix = PREFIX.take();
        let header = read_prefix(&chain, &mut prefix);
        let exchange = FsExchange {
            ends: ChainEnds::new(chain, prefix.len(), size_of::<OutHeader>()),
            unique: header.map_or(0, |header| header.unique),
            parked: &self.parked,
        };
        self.server.handle(&prefix, exchange);
        PREFIX.set(prefix);
    }

    /// The service gives up what waits there, and the guest's kernel sees
    /// interrupted calls.
    fn queue_stopped(&self, queue: u16) {
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

    fn end(&self) {
        self.server.reset();
    }
}

/// A request from a virtqueue until it is answered.
struct FsExchange<'a> {
    ends: ChainEnds,
    unique: u64,
    parked: &'a Arc<ParkedChains>,
}

impl Exchange for FsExchange<'_> {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.ends
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.ends
    }

    fn finish(self, header: OutHeader) {
        let message = header.as_bytes();
        let payload_len = (header.len as usize).saturating_sub(message.len());
        self.ends.finish(message, payload_len);
    }

    fn discard(self) {
        self.ends.finish(&[], 0);
    }

    fn park(self) -> Box<dyn Parked> {
        let unique = self.unique;
        let failure = move |errno| OutHeader::failure(unique, errno).as_bytes().to_vec();
        let chain = self.ends.into_chain();
        self.parked.park(chain, unique, Box::new(failure))
    }
}

impl Parked for ParkedChain {
    fn finish(self: Box<Self>, header: OutHeader) {
        self.answer(header.as_bytes());
    }
}

/// Copies header and arguments out of the guest's memory, and returns the header
/// if it is all there.
fn read_prefix(chain: &Chain, prefix: &mut Vec<u8>) -> Option<InHeader> {
    // What is not understood goes to the server whole, for it to say why.
    let wanted = |head: &[u8]| prefix_len(head).unwrap_or(PREFIX_MAX).min(PREFIX_MAX);
    copy_prefix(chain, size_of::<InHeader>(), wanted, prefix);
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
