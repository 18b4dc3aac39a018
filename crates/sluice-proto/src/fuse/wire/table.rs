//! The table of operations, from which requests and replies are generated.

use super::args::*;
use super::ext::Extensions;
use super::field::{CBytes, Counted, Field, Payload, Reader, Rest, Writer};
use super::out::*;
use crate::codec::{BufferTooSmall, Malformed};

/// Reads the mark of a row.
macro_rules! is_answered {
    (unanswered) => {
        false
    };
    () => {
        true
    };
}

/// Generates [`Opcode`], [`Operation`] and [`Reply`]. A row has the opcode's
/// name and number, the fields of its request, and those of its reply;
/// `unanswered` marks requests that get none.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $op:ident = $code:literal { $($field:ident: $ty:ty),* }
            => $($unanswered:ident)? { $($out:ident: $out_ty:ty),* };
    )*) => {
        /// What a request asks for (`enum fuse_opcode`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum Opcode {
            $($(#[$doc])* $op = $code,)*
        }

        impl Opcode {
            /// Every opcode.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$op),*];

            /// The opcode with this number.
            pub const fn from_raw(code: u32) -> Option<Self> {
                match code {
                    $($code => Some(Opcode::$op),)*
                    _ => None,
                }
            }

            /// Whether its requests are answered.
            pub const fn is_answered(self) -> bool {
                match self {
                    $(Opcode::$op => is_answered!($($unanswered)?),)*
                }
            }
        }

        /// A request behind its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are those of the specification
        pub enum Operation<'a> {
            $($(#[$doc])* $op { $($field: $ty),* },)*
        }

        impl<'a> Operation<'a> {
            /// Which operation it is.
            pub const fn opcode(&self) -> Opcode {
                match self {
                    $(Operation::$op { .. } => Opcode::$op,)*
                }
            }

            /// Fewest bytes of such a request, header and payload not counted.
            pub(super) const fn min_len(opcode: Opcode) -> usize {
                match opcode {
                    $(Opcode::$op => 0 $(+ <$ty as Field<'a>>::MIN_LEN)*,)*
                }
            }

            /// Whether a payload stays with the transport.
            pub(super) const fn has_payload(opcode: Opcode) -> bool {
                match opcode {
                    $(Opcode::$op => false $(|| <$ty as Field<'a>>::IS_PAYLOAD)*,)*
                }
            }

            pub(super) fn decode(
                opcode: Opcode,
                reader: &mut Reader<'a>,
            ) -> Result<Self, Malformed> {
                Ok(match opcode {
                    $(Opcode::$op => Operation::$op { $($field: Field::decode(reader)?),* },)*
                })
            }

            pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                match self {
                    $(Operation::$op { $($field),* } => { $($field.encode(writer)?;)* })*
                }
                Ok(())
            }
        }

        /// A successful reply behind its header.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are those of the specification
        pub enum Reply<'a> {
            $($(#[$doc])* $op { $($out: $out_ty),* },)*
        }

        impl<'a> Reply<'a> {
            /// Which operation it answers.
            pub const fn opcode(&self) -> Opcode {
                match self {
                    $(Reply::$op { .. } => Opcode::$op,)*
                }
            }

            /// Fewest bytes of such a reply, header not counted.
            pub const fn min_len(opcode: Opcode) -> usize {
                match opcode {
                    $(Opcode::$op => 0 $(+ <$out_ty as Field<'a>>::MIN_LEN)*,)*
                }
            }

            pub(super) fn decode(
                opcode: Opcode,
                reader: &mut Reader<'a>,
            ) -> Result<Self, Malformed> {
                Ok(match opcode {
                    $(Opcode::$op => Reply::$op { $($out: Field::decode(reader)?),* },)*
                })
            }

            pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                match self {
                    $(Reply::$op { $($out),* } => { $($out.encode(writer)?;)* })*
                }
                Ok(())
            }
        }
    };
}

operations! {
    /// Finds a name in a directory.
    Lookup = 1 { name: CBytes<'a> } => { entry: EntryOut };
    /// Gives references to a node back.
    Forget = 2 { args: ForgetIn } => unanswered {};
    /// Reads attributes.
    Getattr = 3 { args: GetattrIn } => { attr: AttrOut };
    /// Changes attributes.
    Setattr = 4 { args: SetattrIn } => { attr: AttrOut };
    /// Reads a symlink's target.
    Readlink = 5 {} => { target: Rest<'a> };
    /// Makes a symlink.
    Symlink = 6 { name: CBytes<'a>, target: CBytes<'a>, extensions: Extensions<'a> }
        => { entry: EntryOut };
    /// Makes a node that is neither directory nor symlink.
    Mknod = 8 { args: MknodIn, name: CBytes<'a>, extensions: Extensions<'a> }
        => { entry: EntryOut };
    /// Makes a directory.
    Mkdir = 9 { args: MkdirIn, name: CBytes<'a>, extensions: Extensions<'a> }
        => { entry: EntryOut };
    /// Removes a name that is not a directory's.
    Unlink = 10 { name: CBytes<'a> } => {};
    /// Removes a directory.
    Rmdir = 11 { name: CBytes<'a> } => {};
    /// Moves a name.
    Rename = 12 { args: RenameIn, old_name: CBytes<'a>, new_name: CBytes<'a> } => {};
    /// Gives a node another name.
    Link = 13 { args: LinkIn, name: CBytes<'a> } => { entry: EntryOut };
    /// Opens a file.
    Open = 14 { args: OpenIn } => { open: OpenOut };
    /// Reads a file.
    Read = 15 { args: ReadIn } => { data: Rest<'a> };
    /// Writes a file.
    Write = 16 { args: WriteIn, data: Payload } => { written: WriteOut };
    /// Reads figures of the file system.
    Statfs = 17 {} => { statfs: StatfsOut };
    /// Closes a file for good.
    Release = 18 { args: ReleaseIn } => {};
    /// Brings a file to the disk.
    Fsync = 20 { args: FsyncIn } => {};
    /// Sets an extended attribute.
    Setxattr = 21 { args: SetxattrIn, name: CBytes<'a>, value: Rest<'a> } => {};
    /// Reads an extended attribute. If the request's size is 0, the reply is a
    /// [`GetxattrOut`].
    Getxattr = 22 { args: GetxattrIn, name: CBytes<'a> } => { value: Rest<'a> };
    /// Lists extended attributes; as [`Opcode::Getxattr`].
    Listxattr = 23 { args: GetxattrIn } => { names: Rest<'a> };
    /// Removes an extended attribute.
    Removexattr = 24 { name: CBytes<'a> } => {};
    /// One descriptor of an open file was closed.
    Flush = 25 { args: FlushIn } => {};
    /// Begins a session.
    Init = 26 { args: InitIn } => { init: InitOut };
    /// Opens a directory.
    Opendir = 27 { args: OpenIn } => { open: OpenOut };
    /// Lists a directory.
    Readdir = 28 { args: ReadIn } => { entries: Rest<'a> };
    /// Closes a directory for good.
    Releasedir = 29 { args: ReleaseIn } => {};
    /// Brings a directory to the disk.
    Fsyncdir = 30 { args: FsyncIn } => {};
    /// Finds a lock that is in the way.
    Getlk = 31 { args: LkIn } => { lock: LkOut };
    /// Takes or gives up a lock at once.
    Setlk = 32 { args: LkIn } => {};
    /// Takes a lock, and waits for it.
    Setlkw = 33 { args: LkIn } => {};
    /// Checks permission.
    Access = 34 { args: AccessIn } => {};
    /// Makes and opens a file.
    Create = 35 { args: CreateIn, name: CBytes<'a>, extensions: Extensions<'a> }
        => { entry: EntryOut, open: OpenOut };
    /// Takes a request back. Answered only by an error, if at all.
    Interrupt = 36 { args: InterruptIn } => unanswered {};
    /// Maps a block of a file to one of the device.
    Bmap = 37 { args: BmapIn } => { block: BmapOut };
    /// Ends a session.
    Destroy = 38 {} => {};
    /// ioctl(2).
    Ioctl = 39 { args: IoctlIn, data: Rest<'a> } => { result: IoctlOut, data: Rest<'a> };
    /// poll(2).
    Poll = 40 { args: PollIn } => { poll: PollOut };
    /// Data that a RETRIEVE notification asked for.
    NotifyReply = 41 { args: NotifyRetrieveIn, data: Payload } => unanswered {};
    /// Gives references to many nodes back.
    BatchForget = 42 { nodes: Counted<'a, BatchForgetIn, ForgetOne> } => unanswered {};
    /// Allocates or frees space.
    Fallocate = 43 { args: FallocateIn } => {};
    /// Lists a directory, with entries.
    Readdirplus = 44 { args: ReadIn } => { entries: Rest<'a> };
    /// Moves a name, with flags.
    Rename2 = 45 { args: Rename2In, old_name: CBytes<'a>, new_name: CBytes<'a> } => {};
    /// Finds data or a hole.
    Lseek = 46 { args: LseekIn } => { position: LseekOut };
    /// Copies within the server.
    CopyFileRange = 47 { args: CopyFileRangeIn } => { written: WriteOut };
    /// Maps a file into the window.
    Setupmapping = 48 { args: SetupmappingIn } => {};
    /// Takes mappings out of the window.
    Removemapping = 49 { mappings: Counted<'a, RemovemappingIn, RemovemappingOne> } => {};
    /// Brings a file system to the disk.
    Syncfs = 50 { args: SyncfsIn } => {};
    /// Makes and opens a file without a name.
    Tmpfile = 51 { args: CreateIn, name: CBytes<'a>, extensions: Extensions<'a> }
        => { entry: EntryOut, open: OpenOut };
    /// Reads attributes in the layout of statx(2).
    Statx = 52 { args: StatxIn } => { stat: StatxOut };
    /// Copies within the server; the reply counts in 64 bits.
    CopyFileRange64 = 53 { args: CopyFileRangeIn } => { copied: CopyFileRangeOut };
}
