//! The FUSE wire format, version 7.45.
//!
//! The normative text is Linux's `include/uapi/linux/fuse.h`. Structures and
//! fields carry its names, without the `fuse_` prefix. Everything is in the
//! byte order of the machine, as the protocol has it.
//!
//! [`Operation`] and [`Reply`] are generated from one table
//! ([`table`](self::Opcode) lists opcode, request fields and reply fields).
//! Fixed structures are copied out of the message (it need not be aligned);
//! names and values are borrowed from it. Nothing here allocates.

mod args;
mod compat;
mod dirent;
mod ext;
mod field;
mod flags;
mod message;
mod notify;
mod out;
mod table;

pub use crate::codec::{BufferTooSmall, Malformed};
pub use args::{
    AccessIn, BatchForgetIn, BmapIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn,
    ForgetOne, FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn,
    LkIn, LseekIn, MkdirIn, MknodIn, NotifyRetrieveIn, OpenIn, PollIn, ReadIn, ReleaseIn,
    RemovemappingIn, RemovemappingOne, Rename2In, RenameIn, SetattrIn, SetupmappingIn, SetxattrIn,
    StatxIn, SyncfsIn, WriteIn,
};
pub use dirent::{
    DIRENT_MAX, Dirent, DirentRecord, Direntplus, DirentplusRecord, Direntpluses, Dirents,
    dirent_len, direntplus_len, encode_dirent, encode_direntplus,
};
pub use ext::{ExtHeader, Extensions, Groups, Label, SUPP_GROUPS_MAX, Secctx, SuppGroups};
pub use field::{CBytes, Counted, Payload, Rest};
pub use flags::{
    AttrFlags, FattrValid, FopenFlags, FsyncFlags, GetattrFlags, InitFlags, InvalEntryFlags,
    IoctlFlags, LkFlags, OpenInFlags, PollFlags, ReadFlags, ReleaseFlags, SetupmappingFlags,
    SetxattrFlags, WriteFlags,
};
pub use message::{
    Dialect, ReplyMessage, Request, RequestHead, decode_reply, encode_error, encode_reply,
    encode_request, prefix_len,
};
pub use notify::{
    Notification, NotifyCode, NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut,
    NotifyPollWakeupOut, NotifyPruneOut, NotifyRetrieveOut, NotifyStoreOut, PrunedNode,
    decode_notification, encode_notification,
};
pub use out::{
    Attr, AttrOut, BmapOut, CopyFileRangeOut, EntryOut, FileLock, GetxattrOut, InitOut, IoctlIovec,
    IoctlOut, Kstatfs, LkOut, LseekOut, OpenOut, OutHeader, PollOut, StatfsOut, Statx, StatxOut,
    SxTime, WriteOut,
};
pub use table::{Opcode, Operation, Reply};

/// Major version of the protocol.
pub const MAJOR: u32 = 7;

/// Newest minor version that this codec knows (Linux 7.2).
pub const MINOR: u32 = 45;

/// Node id of the root.
pub const ROOT_ID: u64 = 1;

/// Longest request prefix that a peer has reason to send, in bytes: SETXATTR
/// with the longest name and value, rounded up. Payloads come on top.
pub const PREFIX_MAX: usize = 80 * 1024;

/// Longest error number that a reply may carry, plus one; the kernel refuses
/// replies beyond.
pub const ERRNO_END: i32 = 512;
