//! Why a connection ended.

use super::channel::ChannelError;
use super::message::BadPayload;
use crate::memory::MemoryError;
use crate::queue::{InflightError, RingError};
use std::io;

/// Why a connection was closed from this side. None of these concerns another
/// connection or the process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket, or what came over it.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A message of an unknown version, or a reply where a request belongs.
    #[error("message {request} has flags {flags:#x}")]
    BadFlags {
        /// Number of the request.
        request: u32,
        /// As received.
        flags: u32,
    },
    /// A message that nobody offered to understand.
    #[error("unknown message {0}")]
    UnknownRequest(u32),
    /// A payload that is too short or has a field out of its range.
    #[error("message {0} has a malformed payload")]
    BadPayload(u32),
    /// Too few or too many descriptors.
    #[error("message {request} came with {count} descriptors")]
    BadFdCount {
        /// Number of the request.
        request: u32,
        /// Descriptors that came.
        count: usize,
    },
    /// Feature bits that were not offered.
    #[error("features {0:#x} were not offered")]
    UnknownFeatures(u64),
    /// A ring that the device does not have.
    #[error("there is no ring {0}")]
    NoSuchRing(u32),
    /// A message that a running ring cannot follow.
    #[error("message {0} for a ring that is running")]
    RingIsRunning(u32),
    /// The memory table.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A ring broke the rules.
    #[error("ring {index}: {error}")]
    Ring {
        /// Which ring.
        index: u16,
        /// What it did.
        error: RingError,
    },
    /// The record of chains in flight is unusable.
    #[error("ring {index}: {error}")]
    Inflight {
        /// Which ring.
        index: u16,
        /// What is wrong.
        error: InflightError,
    },
    /// An area for that record that does not fit the device's rings.
    #[error("in-flight area does not fit the rings")]
    BadInflightArea,
    /// A kick descriptor that is no eventfd, or a call or error descriptor that is neither
    /// that nor a unix socket.
    #[error("unusable notification descriptor: {0}")]
    BadNotifier(#[source] io::Error),
    /// A system call failed on this side.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The device panicked while it served a request.
    #[error("the device panicked on ring {0}")]
    DevicePanicked(u16),
    /// This side panicked while it handled a message.
    #[error("the connection's thread panicked")]
    SessionPanicked,
}

impl Error {
    /// Whether the front-end merely went away, in the middle of something.
    pub fn is_hangup(&self) -> bool {
        match self {
            Error::Channel(ChannelError::CutShort) => true,
            Error::Channel(ChannelError::Io(error)) => matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            ),
            _ => false,
        }
    }

    pub(super) fn bad_payload(request: u32) -> impl Fn(BadPayload) -> Error {
        move |_| Error::BadPayload(request)
    }

    pub(super) fn ring(index: u16) -> impl Fn(RingError) -> Error {
        move |error| Error::Ring { index, error }
    }
}
