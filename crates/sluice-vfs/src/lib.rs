//! The neck of Sluice: the words that every part shares, and the one trait
//! through which everything that asks speaks to everything that answers.
//!
//! ```text
//! frontends (FUSE, 9P, library)  ->  Session  ->  layers  ->  backends (export, client, model)
//! ```
//!
//! - [`FileService`] attaches a peer to an export and hands out a [`Session`].
//! - [`Session`] carries every file operation. Node and handle ids mean
//!   something within their session only; dropping it releases what it held.
//! - [`ReadSink`] and [`WriteSource`] are the two ends of a payload. They make
//!   the system call themselves, so file data goes straight between the kernel
//!   and its final buffer and no engine ever sees that buffer.
//! - [`EventSink`] is how a service speaks first: invalidations, granted
//!   locks, revoked mappings.
//!
//! Nothing in here knows a wire format, and nothing in here does I/O of its
//! own besides the system call that a payload end is asked to make.
#![forbid(unsafe_code)]

mod attr;
mod context;
mod dir;
mod errno;
mod event;
mod file;
mod forward;
mod ids;
mod limits;
mod lock;
mod lock_ranges;
mod name;
mod payload;
mod service;

pub use attr::{
    Attr, AttrMask, Device, FileType, SetAttr, SetTime, Stat, StatFs, Timestamp, UnixMode,
};
pub use context::{AccessChecks, Caller, Cancel, Ctx, LockOwner, Peer};
pub use dir::{DirEntry, DirSink, DirWant, Entry, Lookup, Walk, WalkStep};
pub use errno::Errno;
pub use event::{Event, EventSink, NoEvents};
pub use file::{
    Access, Backing, CopyRange, CopySide, CreateArgs, Created, FallocateMode, FileIoctl,
    FileIoctlReply, Fsx, NewNode, OpenFlags, OpenHints, Opened, Release, RenameFlags, Renamed,
    SecurityLabel, Whence, WriteArgs, Written, XattrFlags,
};
pub use ids::{BackingId, HandleId, NodeId, Stamp, WaitId};
pub use limits::{
    NAME_MAX, SYMLINK_TARGET_MAX, SessionLimits, WALK_MAX, XATTR_LIST_MAX, XATTR_NAME_MAX,
    XATTR_VALUE_MAX,
};
pub use lock::{Lock, LockKind, LockOutcome, LockRange, LockStyle};
pub use lock_ranges::LockRanges;
pub use name::{InvalidName, Name, XattrName};
pub use payload::{ReadSink, SliceSink, SliceSource, VecSink, WriteFlags, WriteSource};
pub use service::{AttachOptions, Attached, Features, FileService, Session};

/// Result of every operation at the neck: an [`Errno`] is all that a peer may
/// learn of a failure.
pub type Result<T> = std::result::Result<T, Errno>;
