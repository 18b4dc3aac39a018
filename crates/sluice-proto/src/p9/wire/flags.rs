//! Words of flags. Bits that are not listed are kept as they come; what they
//! are worth is the session's affair.

use super::field::{Field, Reader, Writer};
use crate::codec::{BufferTooSmall, Malformed};
use bitflags::bitflags;

/// Declares words of flags that are fields.
macro_rules! wire_flags {
    ($(
        $(#[$meta:meta])*
        struct $name:ident: $int:ty {
            $($(#[$attr:ident $($args:tt)*])* const $flag:ident = $value:expr;)*
        }
    )*) => {$(
        bitflags! {
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name: $int {
                $($(#[$attr $($args)*])* const $flag = $value;)*
            }
        }

        impl<'a> Field<'a> for $name {
            const MIN_LEN: usize = size_of::<$int>();

            fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                <$int>::decode(reader).map($name::from_bits_retain)
            }

            fn encode(&self, writer: &mut Writer<'_>) -> Result<(), BufferTooSmall> {
                self.bits().encode(writer)
            }
        }
    )*};
}

wire_flags! {
    /// The kind of file that a qid names: the upper byte of [`Perm`].
    struct QidType: u8 {
        /// A directory.
        const DIR = 0x80;
        /// Every write goes to the end.
        const APPEND = 0x40;
        /// Open once at a time.
        const EXCL = 0x20;
        /// An authentication file.
        const AUTH = 0x08;
        /// Not backed up.
        const TMP = 0x04;
        /// A symbolic link (9P2000.u and 9P2000.L).
        const SYMLINK = 0x02;
    }

    /// Mode of a file in `Stat` and Tcreate. The low nine bits are as in Unix.
    struct Perm: u32 {
        /// A directory.
        const DIR = 0x8000_0000;
        /// Every write goes to the end.
        const APPEND = 0x4000_0000;
        /// Open once at a time.
        const EXCL = 0x2000_0000;
        /// An authentication file.
        const AUTH = 0x0800_0000;
        /// Not backed up.
        const TMP = 0x0400_0000;
        /// A symbolic link (9P2000.u, as all below).
        const SYMLINK = 0x0200_0000;
        /// Another name for a file whose fid is in the extension.
        const LINK = 0x0100_0000;
        /// A device; the extension says which.
        const DEVICE = 0x0080_0000;
        /// A named pipe.
        const NAMED_PIPE = 0x0020_0000;
        /// A socket.
        const SOCKET = 0x0010_0000;
        /// Set user id.
        const SETUID = 0x0008_0000;
        /// Set group id.
        const SETGID = 0x0004_0000;
        /// Sticky.
        const SETVTX = 0x0001_0000;
    }

    /// Which attributes Tgetattr asks for, and Rgetattr has.
    struct GetattrMask: u64 {
        /// `mode`.
        const MODE = 0x0001;
        /// `nlink`.
        const NLINK = 0x0002;
        /// `uid`.
        const UID = 0x0004;
        /// `gid`.
        const GID = 0x0008;
        /// `rdev`.
        const RDEV = 0x0010;
        /// `atime`.
        const ATIME = 0x0020;
        /// `mtime`.
        const MTIME = 0x0040;
        /// `ctime`.
        const CTIME = 0x0080;
        /// The path of the qid.
        const INO = 0x0100;
        /// `size`.
        const SIZE = 0x0200;
        /// `blocks`.
        const BLOCKS = 0x0400;
        /// `btime`.
        const BTIME = 0x0800;
        /// `gen`.
        const GEN = 0x1000;
        /// `data_version`.
        const DATA_VERSION = 0x2000;
        /// What stat(2) reports.
        const BASIC = 0x07ff;
    }

    /// Which attributes Tsetattr sets.
    struct SetattrMask: u32 {
        /// `mode`.
        const MODE = 0x001;
        /// `uid`.
        const UID = 0x002;
        /// `gid`.
        const GID = 0x004;
        /// `size`.
        const SIZE = 0x008;
        /// `atime`, or now.
        const ATIME = 0x010;
        /// `mtime`, or now.
        const MTIME = 0x020;
        /// The change time, which can only be now.
        const CTIME = 0x040;
        /// `atime` is given.
        const ATIME_SET = 0x080;
        /// `mtime` is given.
        const MTIME_SET = 0x100;
    }

    /// Flags of Tlopen and Tlcreate (`P9_DOTL_*`). The two lowest bits are the
    /// access mode: 0 to read, 1 to write, 2 for both.
    struct LopenFlags: u32 {
        /// To write.
        const WRONLY = 0o1;
        /// To read and write.
        const RDWR = 0o2;
        /// Make it if it is not there.
        const CREATE = 0o100;
        /// Fail if it is there.
        const EXCL = 0o200;
        /// Not as a controlling terminal.
        const NOCTTY = 0o400;
        /// Empty it.
        const TRUNC = 0o1000;
        /// Every write goes to the end.
        const APPEND = 0o2000;
        /// Don't block.
        const NONBLOCK = 0o4000;
        /// Data reaches the disk with each write.
        const DSYNC = 0o10000;
        /// Signals.
        const FASYNC = 0o20000;
        /// Past the caches.
        const DIRECT = 0o40000;
        /// Large files.
        const LARGEFILE = 0o100000;
        /// Only if it is a directory.
        const DIRECTORY = 0o200000;
        /// Not through a symlink.
        const NOFOLLOW = 0o400000;
        /// Leave the access time alone.
        const NOATIME = 0o1000000;
        /// Not for the programs it runs.
        const CLOEXEC = 0o2000000;
        /// Data and metadata reach the disk with each write.
        const SYNC = 0o4000000;
    }

    /// Mode of Topen and Tcreate. The two lowest bits are the access mode:
    /// 0 to read, 1 to write, 2 for both, 3 to execute.
    struct OpenMode: u8 {
        /// To write.
        const WRITE = 0x01;
        /// To read and write.
        const RDWR = 0x02;
        /// To execute.
        const EXEC = 0x03;
        /// Empty it.
        const TRUNC = 0x10;
        /// Remove it when the fid is clunked.
        const RCLOSE = 0x40;
        /// Every write goes to the end (9P2000.u).
        const APPEND = 0x80;
    }

    /// Flags of Tlock.
    struct LockFlags: u32 {
        /// Wait for it.
        const BLOCK = 1;
        /// Taken before the server went away.
        const RECLAIM = 2;
    }
}
