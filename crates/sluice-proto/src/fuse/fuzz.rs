//! Bodies of the fuzz targets. Every input must come through without a panic,
//! and what they check must hold for any bytes at all.

use super::loopback::{Loopback, Ticket};
use super::serve::{CacheMode, Offer, ServeOptions, Server, ServerConfig, TransportLimits};
use super::wire::{
    Dialect, Direntpluses, Dirents, InHeader, Opcode, Operation, OutHeader, PREFIX_MAX, Reply,
    Request, decode_notification, decode_reply, encode_notification, encode_reply, encode_request,
    prefix_len,
};
use sluice_vfs::{AccessChecks, FileService, Peer, SessionLimits};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Takes `data` for every kind of message. What can be decoded must, encoded
/// and decoded again, be the same.
pub fn fuzz_request(data: &[u8]) {
    for setxattr_ext in [false, true] {
        let dialect = Dialect { setxattr_ext };
        let prefix_len = prefix_len(data).unwrap_or(data.len()).min(data.len());
        let (prefix, payload) = data.split_at(prefix_len);
        if let Ok(request) = Request::decode(prefix, payload.len(), dialect) {
            assert_same_again(&request, payload.len(), dialect);
        }
    }
    let mut buf = vec![0; data.len() + 64];
    for &opcode in Opcode::ALL {
        let Ok(message) = decode_reply(opcode, data) else {
            continue;
        };
        if let Ok(reply) = message.result {
            let len = encode_reply(message.unique, &reply, &mut buf).expect("it came from less");
            assert_eq!(buf.get(..len), Some(data), "{opcode:?}");
        }
    }
    if let Ok(notification) = decode_notification(data) {
        let len = encode_notification(&notification, &mut buf).expect("it came from less");
        // Padding in the head of a list is not kept.
        let again = decode_notification(buf.get(..len).unwrap_or_default());
        assert_eq!(again, Ok(notification));
    }
    assert!(Dirents(data).count() <= data.len());
    assert!(Direntpluses(data).count() <= data.len());
}

/// A sequence of requests on one connection to `service`.
///
/// `data` is a row of steps: opcode (1 byte), flags (1 byte), length of the
/// body (2 bytes, little-endian), body. The header is made to fit unless the
/// flags say otherwise: bit 0, the body is the whole message; 1 and 3, little or
/// no room for the reply; 2, an extension at the end; 4 to 7, the node: 0, the
/// root, or by number one of those that replies brought. With bit 7 of the
/// opcode, the body begins with the number of a handle in place of the handle.
///
/// Each request must get at most one reply, that a peer can decode; and when
/// the connection ends, none may be left waiting.
pub fn fuzz_session(service: Arc<dyn FileService>, data: &[u8]) {
    let server = Server::new(service, config(data.len().is_multiple_of(2)));
    let peer = Loopback::new(&server);
    let mut rest = data;
    let mut unique = 1;
    let mut waiting = Vec::new();
    let mut told = Told::default();
    while let Some(step) = Step::take(&mut rest) {
        let message = step.message(unique, &told);
        let prefix_len = prefix_len(&message).unwrap_or(message.len());
        let (prefix, payload) = message.split_at(prefix_len.min(message.len()));
        let ticket = peer.send_bytes(prefix, payload, step.reply_room());
        waiting.extend(Sent::new(prefix, step.reply_room(), ticket));
        waiting.retain(|sent| !sent.is_answered(&mut told));
        unique += 1;
    }
    server.reset();
    for sent in waiting {
        assert!(
            sent.is_answered(&mut told) || (sent.ticket.is_over() && !sent.is_owed),
            "{:?} waits for ever",
            sent.opcode
        );
    }
}

/// A request that may be answered yet.
struct Sent {
    opcode: Opcode,
    unique: u64,
    ticket: Ticket,
    /// A reply must come sooner or later.
    is_owed: bool,
}

impl Sent {
    fn new(prefix: &[u8], reply_room: usize, ticket: Ticket) -> Option<Self> {
        let header = InHeader::peek(prefix).ok()?;
        let opcode = header.known_opcode().ok()?;
        Some(Sent {
            opcode,
            unique: header.unique,
            ticket,
            is_owed: opcode.is_answered() && reply_room >= size_of::<OutHeader>(),
        })
    }

    /// Takes the reply, if it is there, checks it, and keeps what it tells.
    fn is_answered(&self, told: &mut Told) -> bool {
        let opcode = self.opcode;
        let Some(message) = self.ticket.poll() else {
            return false;
        };
        let reply = decode_reply(opcode, &message)
            .unwrap_or_else(|why| panic!("{opcode:?} got a malformed reply: {why}"));
        assert_eq!(reply.unique, self.unique, "{opcode:?} got another's reply");
        assert!(
            self.ticket.poll().is_none(),
            "{opcode:?} was answered twice"
        );
        if let Ok(reply) = reply.result {
            told.note(&reply);
        }
        true
    }
}

/// Ids that replies brought, for later requests to use.
#[derive(Default)]
struct Told {
    nodes: Vec<u64>,
    handles: Vec<u64>,
}

impl Told {
    fn note(&mut self, reply: &Reply<'_>) {
        match reply {
            Reply::Lookup { entry }
            | Reply::Symlink { entry }
            | Reply::Mknod { entry }
            | Reply::Mkdir { entry }
            | Reply::Link { entry } => self.nodes.push(entry.nodeid),
            Reply::Create { entry, open } | Reply::Tmpfile { entry, open } => {
                self.nodes.push(entry.nodeid);
                self.handles.push(open.fh);
            }
            Reply::Open { open } | Reply::Opendir { open } => self.handles.push(open.fh),
            _ => {}
        }
    }

    /// 0, the root, and what was told from 2 on; itself beyond.
    fn node(&self, number: u8) -> u64 {
        let told = usize::from(number).checked_sub(2);
        let told = told.and_then(|index| self.nodes.get(index));
        told.copied().unwrap_or(number.into())
    }

    fn handle(&self, number: u8) -> u64 {
        let told = self.handles.get(usize::from(number));
        told.copied().unwrap_or(number.into())
    }
}

/// One request of a sequence.
struct Step<'a> {
    opcode: u8,
    flags: u8,
    body: &'a [u8],
}

impl<'a> Step<'a> {
    /// The body is the whole message, header included.
    const IS_RAW: u8 = 1 << 0;
    /// There is room for 20 bytes of reply.
    const HAS_LITTLE_ROOM: u8 = 1 << 1;
    /// The last 8 bytes are an extension.
    const HAS_EXTENSION: u8 = 1 << 2;
    /// There is room for 8 bytes of reply.
    const HAS_NO_ROOM: u8 = 1 << 3;
    // The upper four bits name the node.
    /// Of the opcode: the body begins with the number of a handle.
    const HAS_HANDLE: u8 = 1 << 7;

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let (&[opcode, flags, low, high], behind) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
        let (body, behind) = behind.split_at(len);
        *rest = behind;
        Some(Step {
            opcode,
            flags,
            body,
        })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn message(&self, unique: u64, told: &Told) -> Vec<u8> {
        if self.has(Step::IS_RAW) {
            return self.body.to_vec();
        }
        let mut body = self.body.to_vec();
        if self.opcode & Step::HAS_HANDLE != 0
            && let Some(field) = body.first_chunk_mut::<8>()
        {
            *field = told.handle(field[0]).to_ne_bytes();
        }
        let header = InHeader {
            len: (size_of::<InHeader>() + body.len()) as u32,
            opcode: (self.opcode & !Step::HAS_HANDLE).into(),
            unique,
            nodeid: told.node(self.flags >> 4),
            total_extlen: self.has(Step::HAS_EXTENSION).into(),
            ..InHeader::default()
        };
        [header.as_bytes(), &body].concat()
    }

    fn reply_room(&self) -> usize {
        match (self.has(Step::HAS_NO_ROOM), self.has(Step::HAS_LITTLE_ROOM)) {
            (true, _) => 8,
            (false, true) => 20,
            (false, false) => 128 * 1024,
        }
    }
}

fn config(allows_reinit: bool) -> ServerConfig {
    ServerConfig {
        peer: Peer {
            label: "fuzz".to_owned(),
            checks: AccessChecks::Peer,
        },
        export: Vec::new(),
        limits: SessionLimits::default(),
        options: ServeOptions {
            posix_acl: Offer::Auto,
            security_label: Offer::Auto,
            ..ServeOptions::new(CacheMode::Auto)
        },
        transport: TransportLimits {
            max_payload: 128 * 1024,
            allows_reinit,
        },
        notifier: None,
    }
}

fn assert_same_again(request: &Request<'_>, payload_len: usize, dialect: Dialect) {
    // An INIT of another major version is known only as far as its version.
    if matches!(request.operation, Operation::Init { .. }) {
        return;
    }
    let mut buf = vec![0xaa; PREFIX_MAX.max(payload_len)];
    let Ok(len) = encode_request(&request.head, &request.operation, dialect, &mut buf) else {
        return; // longer than any peer has reason to send
    };
    let again = buf
        .get(..len)
        .map(|bytes| Request::decode(bytes, payload_len, dialect));
    assert_eq!(again, Some(Ok(*request)));
}
