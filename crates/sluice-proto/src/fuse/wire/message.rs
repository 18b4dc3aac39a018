//! Whole messages: headers, lengths, and what is between them.

use super::ERRNO_END;
use super::args::InHeader;
use super::ext;
use super::field::{Field, Reader, Writer};
use super::out::OutHeader;
use super::table::{Opcode, Operation, Reply};
use crate::codec::{BufferTooSmall, Malformed};
use sluice_vfs::Errno;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a request's header.
const IN_LEN: usize = size_of::<InHeader>();

/// What was negotiated about the format itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// SETXATTR has its extended form (`SETXATTR_EXT`).
    pub setxattr_ext: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Dialect { setxattr_ext: true }
    }
}

/// What a header says besides length and opcode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// Names the request; the reply repeats it.
    pub unique: u64,
    /// The node that it is about.
    pub nodeid: u64,
    /// File system user id of the caller.
    pub uid: u32,
    /// File system group id of the caller.
    pub gid: u32,
    /// Process id of the caller.
    pub pid: u32,
}

/// A decoded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks, and about which node.
    pub head: RequestHead,
    /// What is asked for.
    pub operation: Operation<'a>,
}

impl<'a> Request<'a> {
    /// Decodes a request. `prefix` is its first [`prefix_len`] bytes, that is
    /// all but a payload, of which the transport has `payload_len` bytes. Every
    /// byte must be accounted for.
    pub fn decode(
        prefix: &'a [u8],
        payload_len: usize,
        dialect: Dialect,
    ) -> Result<Self, Malformed> {
        let (header, body) = split_header(prefix)?;
        let have = prefix.len().saturating_add(payload_len);
        if header.len as usize != have {
            return Err(Malformed::Length {
                stated: header.len,
                have,
            });
        }
        let opcode = header.known_opcode()?;
        let ext_len = usize::from(header.total_extlen) * ext::UNIT;
        let main_len = body
            .len()
            .checked_sub(ext_len)
            .ok_or(Malformed::Extension("longer than the request"))?;
        let (main, ext) = body.split_at(main_len);
        let mut reader = Reader {
            main,
            ext,
            payload_len,
            dialect,
        };
        let operation = Operation::decode(opcode, &mut reader)?;
        reader.end()?;
        check_counts(&operation)?;
        Ok(Request {
            head: header.head(),
            operation,
        })
    }
}

/// How many bytes from the start of a request [`Request::decode`] needs:
/// header and arguments, but not the data of a WRITE. `start` holds at least
/// the header. The result is as the peer states it: compare it with what there
/// is and with [`PREFIX_MAX`](super::PREFIX_MAX).
pub fn prefix_len(start: &[u8]) -> Result<usize, Malformed> {
    let (header, _) = split_header(start)?;
    let opcode = header.known_opcode()?;
    let len = header.len as usize;
    if Operation::has_payload(opcode) {
        Ok(len.min(IN_LEN + Operation::min_len(opcode)))
    } else {
        Ok(len)
    }
}

impl InHeader {
    /// Reads the header at the start of a message, whatever else is wrong with it.
    pub fn peek(start: &[u8]) -> Result<Self, Malformed> {
        split_header(start).map(|(header, _)| header)
    }

    /// The fields that do not describe the message itself.
    pub fn head(&self) -> RequestHead {
        RequestHead {
            unique: self.unique,
            nodeid: self.nodeid,
            uid: self.uid,
            gid: self.gid,
            pid: self.pid,
        }
    }

    /// The opcode, if the protocol has it.
    pub fn known_opcode(&self) -> Result<Opcode, Malformed> {
        /// `FUSE_INIT_BSWAP_RESERVED`.
        const INIT_SWAPPED: u32 = (Opcode::Init as u32).swap_bytes();
        match self.opcode {
            INIT_SWAPPED => Err(Malformed::ByteOrder),
            code => Opcode::from_raw(code).ok_or(Malformed::UnknownOpcode(code)),
        }
    }
}

/// Appends a request to nothing: `buf` is filled from its start. Payload bytes
/// are counted in the header, but it is the caller who sends them. Returns the
/// bytes written.
pub fn encode_request(
    head: &RequestHead,
    operation: &Operation<'_>,
    dialect: Dialect,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, dialect);
    writer.put(&[0; IN_LEN])?;
    operation.encode(&mut writer)?;
    let len = writer
        .len()
        .checked_add(writer.payload_len)
        .ok_or(BufferTooSmall)?;
    let header = InHeader {
        len: u32::try_from(len).map_err(|_| BufferTooSmall)?,
        opcode: operation.opcode() as u32,
        unique: head.unique,
        nodeid: head.nodeid,
        uid: head.uid,
        gid: head.gid,
        pid: head.pid,
        total_extlen: u16::try_from(writer.ext_len / ext::UNIT).map_err(|_| BufferTooSmall)?,
        padding: 0,
    };
    writer.patch_head(header.as_bytes())?;
    Ok(writer.len())
}

/// A decoded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyMessage<'a> {
    /// The request that is answered.
    pub unique: u64,
    /// Its outcome.
    pub result: Result<Reply<'a>, Errno>,
}

/// Decodes a reply to an `opcode` request.
pub fn decode_reply(opcode: Opcode, message: &[u8]) -> Result<ReplyMessage<'_>, Malformed> {
    let (header, mut reader) = split_out_header(message)?;
    let result = match header.error {
        0 => Ok(Reply::decode(opcode, &mut reader)?),
        error if error < 0 && error > -ERRNO_END => Err(Errno::from_raw(-error)),
        error => {
            return Err(Malformed::Value {
                field: "OutHeader.error",
                value: error as u32 as u64,
            });
        }
    };
    reader.end()?;
    Ok(ReplyMessage {
        unique: header.unique,
        result,
    })
}

/// Writes a successful reply to the start of `buf`; returns its bytes.
pub fn encode_reply(
    unique: u64,
    reply: &Reply<'_>,
    buf: &mut [u8],
) -> Result<usize, BufferTooSmall> {
    encode_out(buf, 0, unique, |writer| reply.encode(writer))
}

/// Writes an error reply to the start of `buf`; returns its bytes.
pub fn encode_error(unique: u64, error: Errno, buf: &mut [u8]) -> Result<usize, BufferTooSmall> {
    encode_out(buf, OutHeader::error_code(error), unique, |_| Ok(()))
}

impl OutHeader {
    /// Header of a successful reply with `body_len` bytes behind it.
    pub fn success(unique: u64, body_len: usize) -> Self {
        OutHeader {
            len: (size_of::<OutHeader>() + body_len) as u32,
            error: 0,
            unique,
        }
    }

    /// Header that is an error reply by itself.
    pub fn failure(unique: u64, error: Errno) -> Self {
        OutHeader {
            len: size_of::<OutHeader>() as u32,
            error: Self::error_code(error),
            unique,
        }
    }

    /// Linux refuses replies with error numbers from [`ERRNO_END`] on.
    fn error_code(error: Errno) -> i32 {
        match error.raw() {
            number if number < ERRNO_END => -number,
            _ => -Errno::EIO.raw(),
        }
    }
}

/// Encodes a message with an out header.
pub(super) fn encode_out(
    buf: &mut [u8],
    error: i32,
    unique: u64,
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferTooSmall>,
) -> Result<usize, BufferTooSmall> {
    let mut writer = Writer::new(buf, Dialect::default());
    OutHeader::default().encode(&mut writer)?;
    body(&mut writer)?;
    let len = writer.len();
    let header = OutHeader {
        len: u32::try_from(len).map_err(|_| BufferTooSmall)?,
        error,
        unique,
    };
    writer.patch_head(header.as_bytes())?;
    Ok(len)
}

/// Splits a reply or notification into its header and a reader of the rest.
pub(super) fn split_out_header(message: &[u8]) -> Result<(OutHeader, Reader<'_>), Malformed> {
    let (header, body) =
        OutHeader::read_from_prefix(message).map_err(|_| Malformed::ShortHeader {
            have: message.len(),
            need: size_of::<OutHeader>(),
        })?;
    if header.len as usize != message.len() {
        return Err(Malformed::Length {
            stated: header.len,
            have: message.len(),
        });
    }
    Ok((header, Reader::new(body)))
}

fn split_header(message: &[u8]) -> Result<(InHeader, &[u8]), Malformed> {
    InHeader::read_from_prefix(message).map_err(|_| Malformed::ShortHeader {
        have: message.len(),
        need: IN_LEN,
    })
}

/// Compares sizes that a request states with what follows.
fn check_counts(operation: &Operation<'_>) -> Result<(), Malformed> {
    let (field, stated, have) = match operation {
        Operation::Write { args, data } => ("WriteIn.size", args.size, data.len),
        Operation::NotifyReply { args, data } => ("NotifyRetrieveIn.size", args.size, data.len),
        Operation::Setxattr { args, value, .. } => ("SetxattrIn.size", args.size, value.0.len()),
        Operation::Ioctl { args, data } => ("IoctlIn.in_size", args.in_size, data.0.len()),
        _ => return Ok(()),
    };
    if stated as usize != have {
        return Err(Malformed::Count {
            field,
            stated: stated.into(),
            have: have as u64,
        });
    }
    Ok(())
}
