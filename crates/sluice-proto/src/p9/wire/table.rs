//! The table of messages, from which requests and replies are generated.

use super::dialect::Dialect;
use super::field::{Extended, Field, Names, Payload, Reader, Str, Trailing, UnixId, Writer};
use super::flags::{GetattrMask, LopenFlags, OpenMode, Perm};
use super::lock::{Getlock, LockArgs};
use super::qid::{Qid, Qids};
use super::stat::{Attr, Counted, SetAttr, Stat, StatFs};
use crate::codec::{BufferTooSmall, Malformed};

/// Generates [`Type`], [`Request`] and [`Reply`]. A row has the name of a
/// message, the number of its T-message (that of the R-message is one more),
/// the dialects that have it, and the fields of both.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident = $code:literal in $dialects:ident { $($field:ident: $ty:ty),* }
            => { $($out:ident: $out_ty:ty),* };
    )*) => {
        /// What a message is about: the number of the T-message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Type {
            $($(#[$doc])* $name = $code,)*
        }

        impl Type {
            /// Every type.
            pub const ALL: &'static [Type] = &[$(Type::$name),*];

            /// The type whose T-message or R-message has this number.
            pub const fn from_raw(code: u8) -> Option<Self> {
                match code & !1 {
                    $($code => Some(Type::$name),)*
                    _ => None,
                }
            }

            /// Whether `dialect` has it.
            pub const fn is_in(self, dialect: Dialect) -> bool {
                match self {
                    $(Type::$name => $dialects(dialect),)*
                }
            }
        }

        /// A T-message behind its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are those of the specifications
        pub enum Request<'a> {
            $($(#[$doc])* $name { $($field: $ty),* },)*
        }

        impl<'a> Request<'a> {
            /// Which message it is.
            pub const fn kind(&self) -> Type {
                match self {
                    $(Request::$name { .. } => Type::$name,)*
                }
            }

            /// Fewest bytes of such a message, header and payload not counted.
            pub(super) const fn min_len(kind: Type) -> usize {
                match kind {
                    $(Type::$name => 0 $(+ <$ty as Field<'a>>::MIN_LEN)*,)*
                }
            }

            /// Whether its last field stays with the transport.
            pub(super) const fn has_payload(kind: Type) -> bool {
                match kind {
                    $(Type::$name => false $(|| <$ty as Field<'a>>::IS_PAYLOAD)*,)*
                }
            }

            pub(super) fn decode(kind: Type, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match kind {
                    $(Type::$name => Request::$name { $($field: Field::decode(reader)?),* },)*
                })
            }

            pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                match self {
                    $(Request::$name { $($field),* } => { $($field.encode(writer)?;)* })*
                }
                Ok(())
            }
        }

        /// An R-message behind its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are those of the specifications
        pub enum Reply<'a> {
            $($(#[$doc])* $name { $($out: $out_ty),* },)*
        }

        impl<'a> Reply<'a> {
            /// Which message it answers.
            pub const fn kind(&self) -> Type {
                match self {
                    $(Reply::$name { .. } => Type::$name,)*
                }
            }

            /// Fewest bytes of such a message, header and payload not counted.
            pub(super) const fn min_len(kind: Type) -> usize {
                match kind {
                    $(Type::$name => 0 $(+ <$out_ty as Field<'a>>::MIN_LEN)*,)*
                }
            }

            /// Whether its last field stays with the transport.
            pub(super) const fn has_payload(kind: Type) -> bool {
                match kind {
                    $(Type::$name => false $(|| <$out_ty as Field<'a>>::IS_PAYLOAD)*,)*
                }
            }

            pub(super) fn decode(kind: Type, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match kind {
                    $(Type::$name => Reply::$name { $($out: Field::decode(reader)?),* },)*
                })
            }

            pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                match self {
                    $(Reply::$name { $($out),* } => { $($out.encode(writer)?;)* })*
                }
                Ok(())
            }
        }
    };
}

const fn all(_: Dialect) -> bool {
    true
}

const fn linux(dialect: Dialect) -> bool {
    dialect.is_linux()
}

const fn not_linux(dialect: Dialect) -> bool {
    !linux(dialect)
}

const fn sluice(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Sluice)
}

messages! {
    /// Figures of the file system.
    Statfs = 8 in linux { fid: u32 } => { statfs: StatFs };
    /// Opens a file.
    Lopen = 12 in linux { fid: u32, flags: LopenFlags } => { qid: Qid, iounit: u32 };
    /// Makes and opens a file; the fid moves to it.
    Lcreate = 14 in linux { fid: u32, name: Str<'a>, flags: LopenFlags, mode: u32, gid: u32 }
        => { qid: Qid, iounit: u32 };
    /// Makes a symlink.
    Symlink = 16 in linux { fid: u32, name: Str<'a>, target: Str<'a>, gid: u32 } => { qid: Qid };
    /// Makes a node that is neither directory nor symlink.
    Mknod = 18 in linux { dfid: u32, name: Str<'a>, mode: u32, major: u32, minor: u32, gid: u32 }
        => { qid: Qid };
    /// Moves the file of a fid.
    Rename = 20 in linux { fid: u32, dfid: u32, name: Str<'a> } => {};
    /// Reads a symlink's target.
    Readlink = 22 in linux { fid: u32 } => { target: Str<'a> };
    /// Reads attributes.
    Getattr = 24 in linux { fid: u32, mask: GetattrMask } => { attr: Attr };
    /// Changes attributes.
    Setattr = 26 in linux { fid: u32, changes: SetAttr } => {};
    /// Makes a fid from which an extended attribute, or without a name the list
    /// of them, is read.
    Xattrwalk = 30 in linux { fid: u32, newfid: u32, name: Str<'a> } => { size: u64 };
    /// Turns a fid into one to which an extended attribute is written. It is
    /// set when the fid is clunked.
    Xattrcreate = 32 in linux { fid: u32, name: Str<'a>, size: u64, flags: u32 } => {};
    /// Lists a directory.
    Readdir = 40 in linux { fid: u32, offset: u64, count: u32 } => { entries: Payload };
    /// Brings a file to the disk.
    Fsync = 50 in linux { fid: u32, datasync: Trailing } => {};
    /// Takes or gives up a lock.
    Lock = 52 in linux { fid: u32, args: LockArgs<'a> } => { status: u8 };
    /// Finds a lock that is in the way.
    Getlock = 54 in linux { fid: u32, args: Getlock<'a> } => { lock: Getlock<'a> };
    /// Gives a file another name.
    Link = 70 in linux { dfid: u32, fid: u32, name: Str<'a> } => {};
    /// Makes a directory.
    Mkdir = 72 in linux { dfid: u32, name: Str<'a>, mode: u32, gid: u32 } => { qid: Qid };
    /// Moves a name.
    Renameat = 74 in linux { old_dfid: u32, old_name: Str<'a>, new_dfid: u32, new_name: Str<'a> }
        => {};
    /// Removes a name.
    Unlinkat = 76 in linux { dfid: u32, name: Str<'a>, flags: u32 } => {};
    /// Begins a session.
    Version = 100 in all { msize: u32, version: Str<'a> } => { msize: u32, version: Str<'a> };
    /// Makes a fid for authentication.
    Auth = 102 in all { afid: u32, uname: Str<'a>, aname: Str<'a>, n_uname: Extended<UnixId> }
        => { aqid: Qid };
    /// Makes a fid for the root of a tree.
    Attach = 104 in all {
        fid: u32, afid: u32, uname: Str<'a>, aname: Str<'a>, n_uname: Extended<UnixId>
    } => { qid: Qid };
    /// Takes a request back.
    Flush = 108 in all { oldtag: u16 } => {};
    /// Makes a fid for what names lead to.
    Walk = 110 in all { fid: u32, newfid: u32, names: Names<'a> } => { qids: Qids<'a> };
    /// Opens a file.
    Open = 112 in not_linux { fid: u32, mode: OpenMode } => { qid: Qid, iounit: u32 };
    /// Makes and opens a file; the fid moves to it.
    Create = 114 in not_linux {
        fid: u32, name: Str<'a>, perm: Perm, mode: OpenMode, extension: Extended<Str<'a>>
    } => { qid: Qid, iounit: u32 };
    /// Reads a file; where there is no Treaddir also a directory.
    Read = 116 in all { fid: u32, offset: u64, count: u32 } => { data: Payload };
    /// Writes a file.
    Write = 118 in all { fid: u32, offset: u64, data: Payload } => { count: u32 };
    /// Gives a fid back.
    Clunk = 120 in all { fid: u32 } => {};
    /// Removes the file of a fid, and gives the fid back.
    Remove = 122 in all { fid: u32 } => {};
    /// Reads attributes.
    Stat = 124 in not_linux { fid: u32 } => { stat: Counted<Counted<Stat<'a>>> };
    /// Changes attributes.
    Wstat = 126 in not_linux { fid: u32, stat: Counted<Counted<Stat<'a>>> } => {};
    /// Walks, and opens what is there: Twalk, Tlopen and Tgetattr.
    OpenAt = 160 in sluice { fid: u32, newfid: u32, flags: LopenFlags, names: Names<'a> }
        => { iounit: u32, attr: Attr, qids: Qids<'a> };
    /// Walks to a directory, and makes and opens a file there, whose name is the
    /// last: Twalk, Tlcreate and Tgetattr.
    CreateAt = 162 in sluice {
        fid: u32, newfid: u32, flags: LopenFlags, mode: u32, gid: u32, names: Names<'a>
    } => { iounit: u32, attr: Attr, qids: Qids<'a> };
    /// Walks, and reads attributes: Twalk and Tgetattr. With no fid to make for
    /// what is there, also Tclunk.
    StatAt = 164 in sluice { fid: u32, newfid: u32, names: Names<'a> }
        => { attr: Attr, qids: Qids<'a> };
}
