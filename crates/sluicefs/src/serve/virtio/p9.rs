//! The virtio-9p device (its number is 9 in section 5 of the Virtual I/O Device
//! specification, its driver Linux's `9pnet_virtio`): 9P messages on one virtqueue, each
//! with its reply in one chain.
//!
//! Requests are admitted in the order in which the driver put them on the ring, and run
//! side by side. What waits for others is run by threads of its own.

use super::backlog::{Backlog, Bell};
use super::chain::{ChainEnds, copy_prefix};
use super::slot::{ParkedChain, ParkedChains};
use super::turnstile::Turnstile;
use super::{Connection, Frontend, Tag};
use sluice_crew::Polling;
use sluice_proto::p9::serve::{
    Admission, Bounds, CommonBounds, Exchange, NumericUsers, PREFIX_MAX, Parked, Refused,
    ServeOptions, Server, ServerConfig, Users,
};
use sluice_proto::p9::wire::{HEADER_LEN, Header, REPLY_PAYLOAD_AT};
use sluice_vfs::{AccessChecks, Errno, FileService, Peer, ReadSink, SessionLimits, WriteSource};
use sluice_virtio::queue::Chain;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

/// The configuration space has the share's name (`VIRTIO_9P_MOUNT_TAG`).
const MOUNT_TAG: u64 = 1 << 0;

thread_local! {
    /// The message of the request that a ring's thread is working on.
    static PREFIX: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// How 9P is served on a device.
pub struct P9DeviceOptions {
    /// How files are shown and users taken.
    pub serve: ServeOptions,
    /// Who decides what the guest's users may do.
    pub checks: AccessChecks,
    /// Largest message in bytes, both ways.
    pub msize: u32,
    /// Who is who.
    pub users: Arc<dyn Users>,
    /// What the guest may hold together with other peers of the process.
    pub common: Arc<CommonBounds>,
}

impl From<ServeOptions> for P9DeviceOptions {
    /// For users who are known to the guest alone, and whose rights it checks.
    fn from(serve: ServeOptions) -> Self {
        P9DeviceOptions {
            serve,
            checks: AccessChecks::Peer,
            msize: Bounds::default().msize,
            users: Arc::new(NumericUsers),
            common: Arc::default(),
        }
    }
}

/// 9P on a virtqueue. Every connection of a monitor is a peer of its own; what it held
/// goes when it ends.
pub(in crate::serve) struct P9Frontend {
    service: Arc<dyn FileService>,
    options: P9DeviceOptions,
    polling: Polling,
    label: String,
    config: Vec<u8>,
}

impl P9Frontend {
    pub(in crate::serve) fn new(
        service: Arc<dyn FileService>,
        tag: &Tag,
        options: P9DeviceOptions,
        polling: Polling,
    ) -> Self {
        P9Frontend {
            service,
            options,
            polling,
            label: format!("9p:{tag}"),
            config: config_space(tag),
        }
    }

    fn server_config(&self, bell: Arc<Bell>) -> ServerConfig {
        ServerConfig {
            peer: Peer {
                label: self.label.clone(),
                checks: self.options.checks,
            },
            limits: SessionLimits::default(),
            // The ring bounds the requests under way; their data is in the guest's memory.
            bounds: Bounds {
                msize: self.options.msize,
                ..Bounds::default()
            },
            common: Arc::clone(&self.options.common),
            options: self.options.serve,
            users: Arc::clone(&self.options.users),
            link: bell,
        }
    }
}

impl Frontend for P9Frontend {
    type Connection = P9Connection;

    fn features(&self) -> u64 {
        MOUNT_TAG
    }

    fn config_space(&self) -> &[u8] {
        &self.config
    }

    fn queues(&self) -> u16 {
        1
    }

    fn polling(&self, _: u16) -> Polling {
        self.polling
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn connect(&self) -> io::Result<P9Connection> {
        let bell = Arc::new(Bell::default());
        let config = self.server_config(Arc::clone(&bell));
        let server = Arc::new(Server::new(Arc::clone(&self.service), config));
        Ok(P9Connection {
            _backlog: Backlog::start(Arc::clone(&server), bell)?,
            server,
            parked: Arc::default(),
            turnstile: Turnstile::default(),
        })
    }
}

/// `le16 tag_len`, then the tag.
fn config_space(tag: &Tag) -> Vec<u8> {
    let name = tag.as_str().as_bytes();
    let len = u16::try_from(name.len()).unwrap_or(u16::MAX);
    [&len.to_le_bytes(), name].concat()
}

pub(in crate::serve) struct P9Connection {
    server: Arc<Server<P9Exchange>>,
    parked: Arc<ParkedChains>,
    turnstile: Turnstile,
    _backlog: Backlog<P9Exchange>,
}

impl Connection for P9Connection {
    fn serve(self: &Arc<Self>, chain: Chain) {
        // Taken out for the call, so that a panic in it costs the buffer only.
        let mut prefix = PREFIX.take();
        let number = chain.number();
        match read_prefix(&chain, &mut prefix) {
            Some(header) => self.handle(&prefix, header, chain),
            None => self.turnstile.pass(number, || {
                // Nobody would know what an answer is about.
                chain.break_ring("a 9P message without a header");
            }),
        }
        PREFIX.set(prefix);
    }

    fn queue_started(&self, _: u16) {
        self.turnstile.restart();
        self.server.allow_waits();
    }

    fn queue_stopped(&self, queue: u16) {
        self.server.stop_waits();
        self.parked.interrupt(queue);
    }

    fn end(&self) {
        self.server.close();
    }
}

impl P9Connection {
    fn handle(&self, prefix: &[u8], header: Header, chain: Chain) {
        let number = chain.number();
        let exchange = P9Exchange {
            ends: ChainEnds::new(chain, prefix.len(), REPLY_PAYLOAD_AT),
            tag: header.tag,
            server: Arc::clone(&self.server),
            parked: Arc::clone(&self.parked),
        };
        let admit = || self.admit(prefix, &header, exchange);
        match self.turnstile.pass(number, admit) {
            Ok(Admission::Run(job)) => self.server.run(job, prefix),
            Ok(Admission::Waiting | Admission::Over) => {}
            Err(Refused { why, exchange }) => {
                tracing::debug!(tag = header.tag, "refused: {why}");
                exchange.refuse();
            }
        }
    }

    fn admit(
        &self,
        prefix: &[u8],
        header: &Header,
        exchange: P9Exchange,
    ) -> Result<Admission<P9Exchange>, Refused<P9Exchange>> {
        match self.server.check_header(header) {
            Ok(()) => self.server.try_admit(prefix, exchange),
            Err(why) => Err(Refused::new(why, exchange)),
        }
    }
}

/// Copies the message out of the guest's memory but for the data of a Twrite, and returns
/// its header if it is all there.
fn read_prefix(chain: &Chain, prefix: &mut Vec<u8>) -> Option<Header> {
    // What is too long is refused for what its header says.
    let wanted = |head: &[u8]| Header::peek(head).map_or(0, |header| header.prefix_len());
    copy_prefix(
        chain,
        HEADER_LEN,
        |head| wanted(head).min(PREFIX_MAX),
        prefix,
    );
    Header::peek(prefix).ok()
}

/// A request from a virtqueue until it is answered.
pub(in crate::serve) struct P9Exchange {
    ends: ChainEnds,
    tag: u16,
    server: Arc<Server<P9Exchange>>,
    parked: Arc<ParkedChains>,
}

impl P9Exchange {
    /// Answers what was not admitted. On a socket that would end the connection, lest the
    /// answer be taken for another one's; here it comes in the chain of its request.
    fn refuse(self) {
        let message = self.server.error_reply(self.tag, Errno::EINVAL);
        self.ends.finish(&message, 0);
    }
}

impl Exchange for P9Exchange {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.ends
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.ends
    }

    fn finish(self, message: &[u8], payload_len: usize) {
        match message.len() <= self.ends.room() {
            true => self.ends.finish(message, payload_len),
            false => {
                let message = self.server.error_reply(self.tag, Errno::EMSGSIZE);
                self.ends.finish(&message, 0);
            }
        }
    }

    fn discard(self) {
        self.ends.finish(&[], 0);
    }

    fn park(self) -> Box<dyn Parked> {
        let P9Exchange {
            ends,
            tag,
            server,
            parked,
        } = self;
        let failure = move |errno| server.error_reply(tag, errno);
        parked.park(ends.into_chain(), tag.into(), Box::new(failure))
    }
}

impl Parked for ParkedChain {
    fn finish(self: Box<Self>, message: &[u8]) {
        self.answer(message);
    }

    fn discard(self: Box<Self>) {
        ParkedChain::discard(&self);
    }
}
