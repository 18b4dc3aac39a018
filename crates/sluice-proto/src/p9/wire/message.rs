//! Whole messages: headers, sizes, and what is between them.

use super::dialect::Dialect;
use super::field::{Extended, Field, Reader, Str, Writer};
use super::table::{Reply, Request, Type};
use crate::codec::{BufferTooSmall, Malformed};

/// Bytes of a header: size, type and tag.
pub const HEADER_LEN: usize = 7;

/// Where the payload of an Rread or Rreaddir begins: behind header and count.
pub const REPLY_PAYLOAD_AT: usize = HEADER_LEN + 4;

/// Type of Rlerror.
const RLERROR: u8 = 7;

/// Type of Rerror.
const RERROR: u8 = 107;

/// What every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message.
    pub size: u32,
    /// Number of the message.
    pub kind: u8,
    /// Names the request among those of its connection.
    pub tag: u16,
}

impl Header {
    /// Reads the header at the start of a message, whatever else is wrong with it.
    pub fn peek(start: &[u8]) -> Result<Self, Malformed> {
        match *start {
            [s0, s1, s2, s3, kind, t0, t1, ..] => Ok(Header {
                size: u32::from_le_bytes([s0, s1, s2, s3]),
                kind,
                tag: u16::from_le_bytes([t0, t1]),
            }),
            _ => Err(Malformed::ShortHeader {
                have: start.len(),
                need: HEADER_LEN,
            }),
        }
    }

    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [s0, s1, s2, s3] = self.size.to_le_bytes();
        let [t0, t1] = self.tag.to_le_bytes();
        [s0, s1, s2, s3, self.kind, t0, t1]
    }

    /// How many bytes from the start of the message decoding needs: all but the
    /// data of Twrite, Rread and Rreaddir, which stay with the transport. The
    /// result is as the peer states it: compare it with what there may be.
    pub fn prefix_len(&self) -> usize {
        let size = self.size as usize;
        let Some(kind) = Type::from_raw(self.kind) else {
            return size;
        };
        let fixed = match self.kind & 1 {
            0 if Request::has_payload(kind) => Request::min_len(kind),
            1 if Reply::has_payload(kind) => Reply::min_len(kind),
            _ => return size,
        };
        size.min(HEADER_LEN + fixed)
    }
}

/// Takes a T-message apart. `prefix` is its first [`Header::prefix_len`] bytes;
/// of what follows, the transport has `payload_len` bytes. Every byte must be
/// accounted for.
pub fn decode_request(
    prefix: &[u8],
    payload_len: usize,
    dialect: Dialect,
) -> Result<(u16, Request<'_>), Malformed> {
    let (header, mut reader) = open(prefix, payload_len, dialect)?;
    let unknown = Malformed::UnknownOpcode(header.kind.into());
    let kind = match Type::from_raw(header.kind) {
        Some(kind) if header.kind & 1 == 0 && kind.is_in(dialect) => kind,
        _ => return Err(unknown),
    };
    let request = Request::decode(kind, &mut reader)?;
    reader.end()?;
    Ok((header.tag, request))
}

/// Writes a T-message to the start of `buf`; its payload is counted, but it is
/// the caller who sends it. Returns the bytes written.
pub fn encode_request(
    tag: u16,
    request: &Request<'_>,
    dialect: Dialect,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    let kind = request.kind() as u8;
    encode(tag, kind, dialect, buf, |writer| request.encode(writer))
}

/// Why a request failed, as Rerror and Rlerror tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure<'a> {
    /// What happened, in words; empty in 9P2000.L.
    pub ename: Str<'a>,
    /// Error number; 0 in plain 9P2000.
    pub errno: u32,
}

/// A decoded R-message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyMessage<'a> {
    /// The request that is answered.
    pub tag: u16,
    /// Its outcome.
    pub result: Result<Reply<'a>, Failure<'a>>,
}

/// Takes an R-message apart; as [`decode_request`].
pub fn decode_reply(
    prefix: &[u8],
    payload_len: usize,
    dialect: Dialect,
) -> Result<ReplyMessage<'_>, Malformed> {
    let (header, mut reader) = open(prefix, payload_len, dialect)?;
    let unknown = Malformed::UnknownOpcode(header.kind.into());
    let result = match (header.kind, dialect, Type::from_raw(header.kind)) {
        (RLERROR, Dialect::Linux | Dialect::Sluice, _) => Err(Failure {
            ename: Str(b""),
            errno: Field::decode(&mut reader)?,
        }),
        (RERROR, Dialect::Plan9 | Dialect::Unix, _) => Err(Failure {
            ename: Field::decode(&mut reader)?,
            errno: Extended::decode(&mut reader)?.0,
        }),
        (number, _, Some(kind)) if number & 1 == 1 && kind.is_in(dialect) => {
            Ok(Reply::decode(kind, &mut reader)?)
        }
        _ => return Err(unknown),
    };
    reader.end()?;
    Ok(ReplyMessage {
        tag: header.tag,
        result,
    })
}

/// Writes an R-message to the start of `buf`; as [`encode_request`].
pub fn encode_reply(
    tag: u16,
    reply: &Reply<'_>,
    dialect: Dialect,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    let kind = reply.kind() as u8 | 1;
    encode(tag, kind, dialect, buf, |writer| reply.encode(writer))
}

/// Writes an Rerror or, in 9P2000.L, an Rlerror to the start of `buf`; returns
/// the bytes written.
pub fn encode_failure(
    tag: u16,
    failure: &Failure<'_>,
    dialect: Dialect,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    match dialect {
        Dialect::Linux | Dialect::Sluice => encode(tag, RLERROR, dialect, buf, |writer| {
            failure.errno.encode(writer)
        }),
        Dialect::Plan9 | Dialect::Unix => encode(tag, RERROR, dialect, buf, |writer| {
            failure.ename.encode(writer)?;
            Extended(failure.errno).encode(writer)
        }),
    }
}

fn open(
    prefix: &[u8],
    payload_len: usize,
    dialect: Dialect,
) -> Result<(Header, Reader<'_>), Malformed> {
    let header = Header::peek(prefix)?;
    let have = prefix.len().saturating_add(payload_len);
    if header.size as usize != have {
        return Err(Malformed::Length {
            stated: header.size,
            have,
        });
    }
    let reader = Reader {
        main: prefix.get(HEADER_LEN..).unwrap_or_default(),
        payload_len,
        dialect,
    };
    Ok((header, reader))
}

fn encode(
    tag: u16,
    kind: u8,
    dialect: Dialect,
    buf: &mut [u8],
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferTooSmall>,
) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, dialect);
    writer.put(&[0; HEADER_LEN])?;
    body(&mut writer)?;
    let size = writer.len().checked_add(writer.payload_len);
    let size = size.and_then(|size| u32::try_from(size).ok());
    let header = Header {
        size: size.ok_or(BufferTooSmall)?,
        kind,
        tag,
    };
    writer.patch(0, &header.to_bytes())?;
    Ok(writer.len())
}
