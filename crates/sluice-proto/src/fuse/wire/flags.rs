//! Flag words. Bits that are not listed are unknown to this version of the
//! protocol.

use crate::codec::Malformed;
use bitflags::{Flags, bitflags};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares flag words that can stand in wire structures.
macro_rules! wire_flags {
    ($(
        $(#[$meta:meta])*
        struct $name:ident: $int:ty {
            $($(#[$attr:ident $($args:tt)*])* const $flag:ident = $value:expr;)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash,
            FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(transparent)]
        pub struct $name(pub $int);

        bitflags! {
            impl $name: $int {
                $($(#[$attr $($args)*])* const $flag = $value;)*
            }
        }
    )*};
}

wire_flags! {
    /// `fuse_attr.flags`.
    struct AttrFlags: u32 {
        /// The node is the root of a submount.
        const SUBMOUNT = 1 << 0;
        /// DAX is on for this file.
        const DAX = 1 << 1;
    }

    /// `fuse_setattr_in.valid`: which fields are to be set.
    struct FattrValid: u32 {
        /// `mode`.
        const MODE = 1 << 0;
        /// `uid`.
        const UID = 1 << 1;
        /// `gid`.
        const GID = 1 << 2;
        /// `size`.
        const SIZE = 1 << 3;
        /// `atime`.
        const ATIME = 1 << 4;
        /// `mtime`.
        const MTIME = 1 << 5;
        /// `fh` names an open handle.
        const FH = 1 << 6;
        /// `atime` is the server's now.
        const ATIME_NOW = 1 << 7;
        /// `mtime` is the server's now.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner` is given.
        const LOCKOWNER = 1 << 9;
        /// `ctime`.
        const CTIME = 1 << 10;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 11;
    }

    /// `fuse_open_out.open_flags`.
    struct FopenFlags: u32 {
        /// Past the page cache.
        const DIRECT_IO = 1 << 0;
        /// Keep what is cached from before.
        const KEEP_CACHE = 1 << 1;
        /// No seeking.
        const NONSEEKABLE = 1 << 2;
        /// The listing of this directory may be cached.
        const CACHE_DIR = 1 << 3;
        /// No file position at all.
        const STREAM = 1 << 4;
        /// No FLUSH on close (unless the writeback cache is on).
        const NOFLUSH = 1 << 5;
        /// Direct writes to one file may run side by side.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// I/O goes to the backing file.
        const PASSTHROUGH = 1 << 7;
    }

    /// Flags of INIT. Bits 32 and up travel in `flags2`.
    struct InitFlags: u64 {
        /// Reads of one file may run side by side.
        const ASYNC_READ = 1 << 0;
        /// POSIX locks go to the server.
        const POSIX_LOCKS = 1 << 1;
        /// Handles come with every operation (never used).
        const FILE_OPS = 1 << 2;
        /// The server truncates in OPEN.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// LOOKUP of `.` and `..` works.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes may be larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// Splicing into the device works.
        const SPLICE_WRITE = 1 << 7;
        /// Splicing may move pages.
        const SPLICE_MOVE = 1 << 8;
        /// Splicing out of the device works.
        const SPLICE_READ = 1 << 9;
        /// flock(2) goes to the server.
        const FLOCK_LOCKS = 1 << 10;
        /// IOCTL works on directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// Pages are dropped when size or mtime changed.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS is used.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIRPLUS is used only where it seems to pay.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O is submitted side by side.
        const ASYNC_DIO = 1 << 15;
        /// Buffered writes are kept back.
        const WRITEBACK_CACHE = 1 << 16;
        /// OPEN may be answered by ENOSYS.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// LOOKUP and READDIR of one directory may run side by side.
        const PARALLEL_DIROPS = 1 << 18;
        /// The server clears set-id bits (first form).
        const HANDLE_KILLPRIV = 1 << 19;
        /// The server has POSIX ACLs.
        const POSIX_ACL = 1 << 20;
        /// Reading the device after an abort gives ECONNABORTED.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` is given.
        const MAX_PAGES = 1 << 22;
        /// READLINK replies are cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// OPENDIR may be answered by ENOSYS.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Pages are dropped only when the server says so.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// `map_alignment` is given.
        const MAP_ALIGNMENT = 1 << 26;
        /// Submounts are announced.
        const SUBMOUNTS = 1 << 27;
        /// The server clears set-id bits when told to.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has its extended form.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` is given.
        const INIT_EXT = 1 << 30;
        /// Never used.
        const INIT_RESERVED = 1 << 31;
        /// Create requests carry security labels.
        const SECURITY_CTX = 1 << 32;
        /// DAX is chosen per inode.
        const HAS_INODE_DAX = 1 << 33;
        /// Create requests carry a supplementary group.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// INVAL_ENTRY can expire only.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Shared mappings work under direct I/O.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Backing files can be registered.
        const PASSTHROUGH = 1 << 37;
        /// File handles can't be decoded.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Pending requests can be sent again.
        const HAS_RESEND = 1 << 39;
        /// The mount may be idmapped.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests travel over io_uring.
        const OVER_IO_URING = 1 << 41;
        /// `request_timeout` is given.
        const REQUEST_TIMEOUT = 1 << 42;
    }

    /// `fuse_release_in.release_flags`.
    struct ReleaseFlags: u32 {
        /// Flush first.
        const FLUSH = 1 << 0;
        /// Drop the flock of `lock_owner`.
        const FLOCK_UNLOCK = 1 << 1;
    }

    /// `fuse_getattr_in.getattr_flags`.
    struct GetattrFlags: u32 {
        /// `fh` is given.
        const FH = 1 << 0;
    }

    /// `fuse_lk_in.lk_flags`.
    struct LkFlags: u32 {
        /// It is a flock(2) lock.
        const FLOCK = 1 << 0;
    }

    /// `fuse_write_in.write_flags`.
    struct WriteFlags: u32 {
        /// From the page cache; the handle is guessed.
        const CACHE = 1 << 0;
        /// `lock_owner` is given.
        const LOCKOWNER = 1 << 1;
        /// Clear set-id bits.
        const KILL_SUIDGID = 1 << 2;
    }

    /// `fuse_read_in.read_flags`.
    struct ReadFlags: u32 {
        /// `lock_owner` is given.
        const LOCKOWNER = 1 << 1;
    }

    /// `fuse_ioctl_in.flags` and `fuse_ioctl_out.flags`.
    struct IoctlFlags: u32 {
        /// From a 32-bit process on a 64-bit machine.
        const COMPAT = 1 << 0;
        /// May be retried with other buffers.
        const UNRESTRICTED = 1 << 1;
        /// Retry with other buffers.
        const RETRY = 1 << 2;
        /// The process is 32-bit.
        const IS_32BIT = 1 << 3;
        /// The node is a directory.
        const DIR = 1 << 4;
        /// From an x32 process.
        const COMPAT_X32 = 1 << 5;
    }

    /// `fuse_poll_in.flags`.
    struct PollFlags: u32 {
        /// Tell when something happens.
        const SCHEDULE_NOTIFY = 1 << 0;
    }

    /// `fuse_fsync_in.fsync_flags`.
    struct FsyncFlags: u32 {
        /// Data only.
        const FDATASYNC = 1 << 0;
    }

    /// `open_flags` of `fuse_open_in` and `fuse_create_in`.
    struct OpenInFlags: u32 {
        /// Clear set-id bits when truncating.
        const KILL_SUIDGID = 1 << 0;
    }

    /// `fuse_setxattr_in.setxattr_flags`.
    struct SetxattrFlags: u32 {
        /// Clear set-group-id when an access ACL is set.
        const ACL_KILL_SGID = 1 << 0;
    }

    /// `fuse_notify_inval_entry_out.flags`.
    struct InvalEntryFlags: u32 {
        /// Let the entry expire instead of dropping it.
        const EXPIRE_ONLY = 1 << 0;
    }

    /// `fuse_setupmapping_in.flags`.
    struct SetupmappingFlags: u64 {
        /// Map for writing.
        const WRITE = 1 << 0;
        /// Map for reading.
        const READ = 1 << 1;
    }
}

/// Fails if `flags` has bits that the protocol does not have.
pub(super) fn check_flags<F: Flags<Bits: Into<u64>> + Copy>(
    field: &'static str,
    flags: F,
) -> Result<(), Malformed> {
    let bits: u64 = flags.bits().into() & !F::all().bits().into();
    match bits {
        0 => Ok(()),
        bits => Err(Malformed::UnknownFlags { field, bits }),
    }
}
