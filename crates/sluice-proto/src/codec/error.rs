//! What can be wrong with a message.

use sluice_vfs::Errno;
use thiserror::Error;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// There is no complete header.
    #[error("{have} bytes are too few for a header of {need}")]
    ShortHeader {
        /// Bytes that came.
        have: usize,
        /// Bytes of a header.
        need: usize,
    },
    /// The header states another length than the message has.
    #[error("the header states {stated} bytes, the message has {have}")]
    Length {
        /// `len` of the header.
        stated: u32,
        /// Bytes that came.
        have: usize,
    },
    /// An operation that the protocol does not have: FUSE's opcode, 9P's type.
    #[error("unknown opcode {0}")]
    UnknownOpcode(u32),
    /// INIT in the other byte order.
    #[error("the peer has the other byte order")]
    ByteOrder,
    /// The message ends within a field.
    #[error("the message ends within {field}")]
    Short {
        /// The field.
        field: &'static str,
    },
    /// A name has no NUL at its end.
    #[error("a name is not terminated")]
    Unterminated,
    /// Bytes are left behind the last field.
    #[error("{count} bytes are left over")]
    Trailing {
        /// How many.
        count: usize,
    },
    /// A flag that the protocol does not have.
    #[error("{field} has unknown bits {bits:#x}")]
    UnknownFlags {
        /// The field.
        field: &'static str,
        /// The bits.
        bits: u64,
    },
    /// A value that its field can't have.
    #[error("{field} can't be {value}")]
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// A stated size or count differs from what follows.
    #[error("{field} states {stated}, but {have} follow")]
    Count {
        /// The field.
        field: &'static str,
        /// What it says.
        stated: u64,
        /// What is there.
        have: u64,
    },
    /// An extension of a create request is inconsistent.
    #[error("bad extension: {0}")]
    Extension(&'static str),
}

impl Malformed {
    /// The error that a FUSE peer gets for it. `ENOSYS` for an unknown operation
    /// makes Linux stop asking; everything else is `EINVAL`.
    pub const fn errno(self) -> Errno {
        match self {
            Malformed::UnknownOpcode(_) => Errno::ENOSYS,
            _ => Errno::EINVAL,
        }
    }
}

impl From<Malformed> for Errno {
    fn from(why: Malformed) -> Self {
        why.errno()
    }
}

/// The buffer has no room for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the buffer is too small for the message")]
pub struct BufferTooSmall;
