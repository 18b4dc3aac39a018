//! What carries FUSE messages, and servers in this process.

use sluice_proto::fuse::loopback::Loopback;
use sluice_proto::fuse::serve::{Notifier, ServeOptions, Server, ServerConfig, TransportLimits};
use sluice_proto::fuse::wire::{Notification, OutHeader};
use sluice_vfs::{AttachOptions, Event, EventSink, FileService, Name, NodeId, Result};
use std::ops::Range;
use std::sync::Arc;
use std::thread;

/// A request in its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Header and arguments.
    pub prefix: &'a [u8],
    /// What follows them.
    pub payload: &'a [u8],
    /// Room for the body of the reply in bytes; `None` if there will be no reply.
    pub body_room: Option<usize>,
    /// It must not wait behind others (FORGET, INTERRUPT).
    pub is_urgent: bool,
}

/// Takes a reply, or that there will be none.
pub type Done = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// Carries messages of one connection.
pub trait FuseTransport: Send + Sync {
    /// Sends a request and waits until it was served; its reply, if it has one.
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>>;

    /// Sends a request that may have to wait. If it could be served at once,
    /// `done` has run when this returns; else it runs later, on any thread.
    fn exchange_later(&self, message: Message<'_>, done: Done);
}

/// Makes connections.
pub trait Connector: Send + Sync {
    /// What carries their messages.
    type Transport: FuseTransport + 'static;

    /// Makes a connection on these terms, as far as it can carry them.
    fn connect(&self, options: AttachOptions<'_>) -> Result<Self::Transport>;
}

/// Most bytes of payload that a message carries here.
const PAYLOAD_MAX: u32 = 1 << 20;

/// Servers in this process, asked by function calls.
pub struct InProcessConnector {
    service: Arc<dyn FileService>,
    options: ServeOptions,
}

impl InProcessConnector {
    /// Servers over `service`.
    pub fn new(service: Arc<dyn FileService>, options: ServeOptions) -> Self {
        InProcessConnector { service, options }
    }
}

impl Connector for InProcessConnector {
    type Transport = InProcess;

    fn connect(&self, options: AttachOptions<'_>) -> Result<InProcess> {
        let config = ServerConfig {
            peer: options.peer,
            export: options.export.to_vec(),
            limits: options.limits,
            options: self.options,
            transport: TransportLimits {
                max_payload: PAYLOAD_MAX,
                allows_reinit: true,
            },
            notifier: Some(Arc::new(Told(options.events))),
        };
        let server = Server::new(Arc::clone(&self.service), config);
        Ok(InProcess { server })
    }
}

/// A server in this process.
pub struct InProcess {
    server: Server,
}

impl InProcess {
    fn send(&self, message: Message<'_>) -> sluice_proto::fuse::loopback::Ticket {
        let room = message.body_room.map_or(0, |room| header_len() + room);
        Loopback::new(&self.server).send_bytes(message.prefix, message.payload, room)
    }
}

impl FuseTransport for InProcess {
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        self.send(message).wait()
    }

    fn exchange_later(&self, message: Message<'_>, done: Done) {
        let ticket = self.send(message);
        match ticket.poll() {
            Some(reply) => done(Some(reply)),
            // It ends at the latest when the server goes.
            None => drop(thread::spawn(move || done(ticket.wait()))),
        }
    }
}

fn header_len() -> usize {
    size_of::<OutHeader>()
}

/// Turns notifications into the events that they stand for.
struct Told(Arc<dyn EventSink>);

impl Notifier for Told {
    fn notify(&self, notification: &Notification<'_>) {
        match notification {
            Notification::InvalInode { args } => self.0.publish(&Event::InodeChanged {
                node: NodeId(args.ino),
                data: changed_bytes(args.off, args.len),
            }),
            Notification::InvalEntry { args, name } => {
                let name = Name::new(name.0).expect("a name is told");
                self.0.publish(&Event::EntryChanged {
                    parent: NodeId(args.parent),
                    name,
                });
            }
            Notification::IncEpoch {} => self.0.publish(&Event::EpochMoved),
            other => panic!("the server says {other:?}"),
        }
    }
}

/// A negative offset says that no content changed; a length of nothing or less
/// reaches to the end.
fn changed_bytes(off: i64, len: i64) -> Option<Range<u64>> {
    let start = u64::try_from(off).ok()?;
    match u64::try_from(len) {
        Ok(0) | Err(_) => Some(start..u64::MAX),
        Ok(len) => Some(start..start.saturating_add(len)),
    }
}
