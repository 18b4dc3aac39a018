//! The wire format of 9P2000, 9P2000.u, 9P2000.L, and of our extension of that.
//!
//! The normative texts are section 5 of the Plan 9 manual, the draft of
//! 9P2000.u, and diod's description of 9P2000.L; fields carry their names.
//!
//! [`Request`] and [`Reply`] are generated from one table (`table`), which
//! lists for each message its number, the dialects that have it, and the fields
//! of both directions. Strings are borrowed from the message, and the data of
//! reads and writes is not part of it: it stays with the transport, as a
//! [`Payload`]. Nothing here allocates.

mod dialect;
mod dirent;
mod field;
mod flags;
mod lock;
mod message;
mod qid;
mod stat;
mod table;

pub use crate::codec::{BufferTooSmall, Malformed};
pub use dialect::Dialect;
pub use dirent::{DIRENT_MAX, Dirent, Dirents, dirent_len, encode_dirent};
pub use field::{Extended, Names, Payload, Str, Trailing, UnixId};
pub use flags::{GetattrMask, LockFlags, LopenFlags, OpenMode, Perm, QidType, SetattrMask};
pub use lock::{Getlock, LockArgs};
pub use message::{
    Failure, HEADER_LEN, Header, REPLY_PAYLOAD_AT, ReplyMessage, decode_reply, decode_request,
    encode_failure, encode_reply, encode_request,
};
pub use qid::{QID_LEN, Qid, Qids};
pub use stat::{Attr, Counted, SetAttr, Stat, StatFs, Stats, encode_stat};
pub use table::{Reply, Request, Type};

/// Tag of Tversion.
pub const NOTAG: u16 = u16::MAX;

/// Stands for no fid, as in `afid` of a Tattach without authentication.
pub const NOFID: u32 = u32::MAX;

/// Flag of a Txattrcreate in 9P2000.L.sluice, beside `XATTR_CREATE` and
/// `XATTR_REPLACE`: no bytes are an empty value, and do not remove the attribute.
pub const XATTR_EMPTY: u32 = 1 << 8;

/// Room that a message's header and fixed fields take beside the data of a read
/// or write, as iounit(5) and clients reckon it (`IOHDRSZ`).
pub const IO_HEADER_LEN: u32 = 24;

/// Smallest `msize` that a session can work with, in bytes.
pub const MSIZE_MIN: u32 = 4096;

/// Longest text of an error that clients have to expect, in bytes (`ERRMAX`).
pub const ERROR_MAX: usize = 128;

/// What Rversion says to a version that is not known.
pub const VERSION_UNKNOWN: &[u8] = b"unknown";
