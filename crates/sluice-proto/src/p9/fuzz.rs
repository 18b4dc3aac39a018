//! Bodies of the fuzz targets. Every input must come through without a panic,
//! and what they check must hold for any bytes at all.

use super::loopback::{Loopback, Ticket};
use super::serve::{Bounds, Link, ServerConfig};
use super::wire::{
    Dialect, Dirents, Extended, HEADER_LEN, Header, NOFID, NOTAG, Request, Stats, Str, UnixId,
    decode_reply, decode_request, encode_failure, encode_reply, encode_request,
};
use sluice_vfs::{AccessChecks, FileService, Peer};
use std::sync::Arc;

/// Takes `data` for every kind of message, in every dialect. What can be
/// decoded must, encoded again, be the same bytes.
pub fn fuzz_message(data: &[u8]) {
    let prefix_len = Header::peek(data).map_or(data.len(), |header| header.prefix_len());
    let (prefix, payload) = data.split_at(prefix_len.min(data.len()));
    let mut buf = vec![0xaa; data.len()];
    for dialect in Dialect::ALL {
        if let Ok((tag, request)) = decode_request(prefix, payload.len(), dialect) {
            let len = encode_request(tag, &request, dialect, &mut buf);
            assert_eq!(len, Ok(prefix.len()), "{request:?}");
            assert_eq!(buf.get(..prefix.len()), Some(prefix), "{request:?}");
        }
        if let Ok(message) = decode_reply(prefix, payload.len(), dialect) {
            let len = match &message.result {
                Ok(reply) => encode_reply(message.tag, reply, dialect, &mut buf),
                Err(failure) => encode_failure(message.tag, failure, dialect, &mut buf),
            };
            assert_eq!(len, Ok(prefix.len()), "{message:?}");
            assert_eq!(buf.get(..prefix.len()), Some(prefix), "{message:?}");
        }
        assert!(Stats::new(data, dialect).count() <= data.len());
    }
    assert!(Dirents(data).count() <= data.len());
}

/// A sequence of messages on one connection to `service`.
///
/// The first byte picks the dialect; then `data` is a row of steps: number of
/// the T-message (1 byte), flags (1 byte), length of the body (2 bytes,
/// little-endian), body. Size, number and tag are put before it, and of a Twrite
/// what is behind its count is the payload. Flags: bit 0, the body is the whole
/// message; 1, the tag is that of the step before; 2, the size is one too many.
///
/// Each request must get at most one reply, that a peer can decode; and when
/// the connection ends, none may be left waiting.
pub fn fuzz_session(service: Arc<dyn FileService>, data: &[u8]) {
    let peer = Loopback::new(service, config);
    let (dialect, messages) = messages(data);
    let mut sent = begin(&peer, dialect);
    for message in messages {
        let prefix_len = Header::peek(&message).map_or(message.len(), |head| head.prefix_len());
        let (prefix, payload) = message.split_at(prefix_len.min(message.len()));
        match peer.send_bytes(prefix, payload) {
            Ok(ticket) => sent.push((message.get(5..7).map(<[u8]>::to_vec), ticket)),
            // A peer like that is not heard any more.
            Err(_) => break,
        }
    }
    peer.server().close();
    for (tag, ticket) in sent {
        if let Some(reply) = ticket.wait() {
            check_reply(tag.as_deref(), &reply);
        }
    }
    peer.end();
}

/// The dialect and the messages that [`fuzz_session`] takes `data` for, for other
/// transports.
pub fn messages(data: &[u8]) -> (Dialect, impl Iterator<Item = Vec<u8>> + '_) {
    let (first, mut rest) = data.split_at(data.len().min(1));
    let dialect = match first {
        [0] => Dialect::Plan9,
        [1] => Dialect::Unix,
        [3] => Dialect::Sluice,
        _ => Dialect::Linux,
    };
    let mut tag = 2_u16;
    let messages = std::iter::from_fn(move || {
        let step = Step::take(&mut rest)?;
        tag = tag.wrapping_add(u16::from(!step.has(Step::HAS_LAST_TAG)));
        Some(step.message(tag))
    });
    (dialect, messages)
}

/// Tversion, and a Tattach of fid 0.
fn begin(peer: &Loopback, dialect: Dialect) -> Vec<(Option<Vec<u8>>, Ticket)> {
    let version = Request::Version {
        msize: 1 << 16,
        version: Str(dialect.version()),
    };
    let attach = Request::Attach {
        fid: 0,
        afid: NOFID,
        uname: Str(b""),
        aname: Str(b""),
        n_uname: Extended(UnixId(0)),
    };
    let sent = [(NOTAG, version), (1, attach)].map(|(tag, request)| {
        let ticket = peer.send(tag, &request, dialect, b"");
        let ticket = ticket.expect("a connection begins like this");
        (Some(tag.to_le_bytes().to_vec()), ticket)
    });
    sent.into()
}

/// It must be one in some dialect: a Tversion may have changed it.
fn check_reply(tag: Option<&[u8]>, reply: &[u8]) {
    assert_eq!(reply.get(5..7), tag, "another's reply");
    let header = Header::peek(reply).expect("a reply has a header");
    let (prefix, payload) = reply.split_at(header.prefix_len().min(reply.len()));
    let is_reply = |dialect| decode_reply(prefix, payload.len(), dialect).is_ok();
    assert!(
        Dialect::ALL.into_iter().any(is_reply),
        "malformed: {reply:?}"
    );
}

/// One message of a sequence.
struct Step<'a> {
    kind: u8,
    flags: u8,
    body: &'a [u8],
}

impl<'a> Step<'a> {
    /// The body is the whole message, header included.
    const IS_RAW: u8 = 1 << 0;
    /// The tag is used again.
    const HAS_LAST_TAG: u8 = 1 << 1;
    /// The size counts a byte too many.
    const HAS_FALSE_SIZE: u8 = 1 << 2;

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let (&[kind, flags, low, high], behind) = rest.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes([low, high])).min(behind.len());
        let (body, behind) = behind.split_at(len);
        *rest = behind;
        Some(Step { kind, flags, body })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn message(&self, tag: u16) -> Vec<u8> {
        if self.has(Step::IS_RAW) {
            return self.body.to_vec();
        }
        let size = HEADER_LEN + self.body.len() + usize::from(self.has(Step::HAS_FALSE_SIZE));
        let mut out = (size as u32).to_le_bytes().to_vec();
        out.push(self.kind);
        out.extend(tag.to_le_bytes());
        out.extend(self.body);
        out
    }
}

fn config(link: Arc<dyn Link>) -> ServerConfig {
    let peer = Peer {
        label: "fuzz".to_owned(),
        checks: AccessChecks::Service,
    };
    ServerConfig {
        bounds: Bounds {
            fids: 64,
            xattr_bytes: 100_000,
            ..Bounds::default()
        },
        ..ServerConfig::new(peer, link)
    }
}
