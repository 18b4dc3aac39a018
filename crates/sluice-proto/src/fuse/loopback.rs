//! A peer in the same process: for tests, tools and fuzzing.
//!
//! It speaks real FUSE bytes: every request is encoded, served and its reply
//! decoded from a message of its own.

use super::serve::{Exchange, Parked, Server};
use super::wire::{
    Dialect, Malformed, Operation, OutHeader, PREFIX_MAX, ReplyMessage, RequestHead, decode_reply,
    encode_request,
};
use sluice_vfs::{ReadSink, SliceSource, VecSink, WriteSource};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use zerocopy::IntoBytes;

/// Room for replies, in bytes: a header and the largest payload.
const REPLY_ROOM: usize = size_of::<OutHeader>() + (1 << 20);

/// The peer of a server.
#[derive(Clone, Copy)]
pub struct Loopback<'s> {
    server: &'s Server,
    dialect: Dialect,
}

/// A request that may still be under way.
pub struct Ticket {
    reply: Receiver<Vec<u8>>,
}

impl<'s> Loopback<'s> {
    /// A peer of `server` that speaks as Linux has since 5.13.
    pub fn new(server: &'s Server) -> Self {
        Loopback::with_dialect(server, Dialect::default())
    }

    /// A peer of `server` that lays messages out as INIT settled.
    pub fn with_dialect(server: &'s Server, dialect: Dialect) -> Self {
        Loopback { server, dialect }
    }

    /// Sends a request with its payload.
    pub fn send(&self, head: &RequestHead, operation: &Operation<'_>, payload: &[u8]) -> Ticket {
        let mut prefix = vec![0; PREFIX_MAX];
        let len = encode_request(head, operation, self.dialect, &mut prefix);
        prefix.truncate(len.unwrap_or(0));
        self.send_bytes(&prefix, payload, REPLY_ROOM)
    }

    /// Sends any bytes at all, with so much room for the reply.
    pub fn send_bytes(&self, prefix: &[u8], payload: &[u8], reply_room: usize) -> Ticket {
        let (sender, reply) = channel();
        let exchange = MemoryExchange {
            source: SliceSource::new(payload),
            sink: VecSink::new(reply_room.saturating_sub(size_of::<OutHeader>())),
            has_room: reply_room >= size_of::<OutHeader>(),
            reply: sender,
        };
        self.server.handle(prefix, exchange);
        Ticket { reply }
    }
}

impl Ticket {
    /// Waits for the reply; `None` if there will be none.
    pub fn wait(self) -> Option<Vec<u8>> {
        self.reply.recv().ok()
    }

    /// Whether no reply is there and none will come.
    pub fn is_over(&self) -> bool {
        matches!(self.reply.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// The reply, if it is there already.
    pub fn poll(&self) -> Option<Vec<u8>> {
        self.reply.try_recv().ok()
    }
}

/// Decodes the reply to `operation`.
pub fn reply_to<'m>(
    operation: &Operation<'_>,
    message: &'m [u8],
) -> Result<ReplyMessage<'m>, Malformed> {
    decode_reply(operation.opcode(), message)
}

/// A request whose ends are in memory.
struct MemoryExchange<'p> {
    source: SliceSource<'p>,
    sink: VecSink,
    has_room: bool,
    reply: Sender<Vec<u8>>,
}

impl Exchange for MemoryExchange<'_> {
    fn source(&mut self) -> &mut dyn WriteSource {
        &mut self.source
    }

    fn sink(&mut self) -> &mut dyn ReadSink {
        &mut self.sink
    }

    fn finish(self, header: OutHeader) {
        if !self.has_room {
            return;
        }
        let mut message = header.as_bytes().to_vec();
        message.extend(self.sink.into_bytes());
        message.truncate(header.len as usize);
        // Nobody may be waiting any more.
        let _ = self.reply.send(message);
    }

    fn discard(self) {}

    fn park(self) -> Box<dyn Parked> {
        Box::new(ParkedReply { reply: self.reply })
    }
}

struct ParkedReply {
    reply: Sender<Vec<u8>>,
}

impl Parked for ParkedReply {
    fn finish(self: Box<Self>, header: OutHeader) {
        let _ = self.reply.send(header.as_bytes().to_vec());
    }
}
