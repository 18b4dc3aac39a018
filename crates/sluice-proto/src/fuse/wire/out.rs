//! Fixed structures of replies.

use super::args::wire_structs;
use super::field::{Fixed, fixed};
use super::flags::{AttrFlags, FopenFlags, InitFlags, IoctlFlags};
use crate::codec::Malformed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire_structs! {
    /// `fuse_out_header`, at the start of every reply and notification.
    struct OutHeader {
        /// Bytes of the whole message.
        len: u32,
        /// Zero, a negative error number, or the code of a notification.
        error: i32,
        /// The request that is answered; 0 for a notification.
        unique: u64,
    }

    /// Attributes of a node.
    struct Attr {
        /// Inode number to show.
        ino: u64,
        /// Size in bytes.
        size: u64,
        /// Space taken, in units of 512 bytes.
        blocks: u64,
        /// Access time, seconds (signed).
        atime: u64,
        /// Modification time, seconds (signed).
        mtime: u64,
        /// Change time, seconds (signed).
        ctime: u64,
        /// Access time, nanoseconds.
        atimensec: u32,
        /// Modification time, nanoseconds.
        mtimensec: u32,
        /// Change time, nanoseconds.
        ctimensec: u32,
        /// Type and permissions.
        mode: u32,
        /// Hard links.
        nlink: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Device number, in the kernel's 32-bit encoding.
        rdev: u32,
        /// Preferred I/O size in bytes.
        blksize: u32,
        /// Submount, DAX.
        flags: AttrFlags,
    }

    /// An entry: LOOKUP and all that makes a node.
    struct EntryOut {
        /// The node; 0 says that the name doesn't exist.
        nodeid: u64,
        /// Generation of the node id.
        generation: u64,
        /// For how long the name may be cached, seconds.
        entry_valid: u64,
        /// For how long the attributes may be cached, seconds.
        attr_valid: u64,
        /// Nanoseconds of `entry_valid`.
        entry_valid_nsec: u32,
        /// Nanoseconds of `attr_valid`.
        attr_valid_nsec: u32,
        /// Attributes.
        attr: Attr,
    }

    /// GETATTR and SETATTR.
    struct AttrOut {
        /// For how long the attributes may be cached, seconds.
        attr_valid: u64,
        /// Nanoseconds of `attr_valid`.
        attr_valid_nsec: u32,
        /// Zero.
        dummy: u32,
        /// Attributes.
        attr: Attr,
    }

    /// A time of [`Statx`].
    struct SxTime {
        /// Seconds.
        tv_sec: i64,
        /// Nanoseconds.
        tv_nsec: u32,
        /// Zero.
        reserved: i32,
    }

    /// Attributes in the layout of statx(2).
    struct Statx {
        /// `STATX_*` that are filled.
        mask: u32,
        /// Preferred I/O size in bytes.
        blksize: u32,
        /// `STATX_ATTR_*` that are set.
        attributes: u64,
        /// Hard links.
        nlink: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Type and permissions.
        mode: u16,
        /// Zero.
        spare0: [u16; 1],
        /// Inode number.
        ino: u64,
        /// Size in bytes.
        size: u64,
        /// Space taken, in units of 512 bytes.
        blocks: u64,
        /// `STATX_ATTR_*` that are supported.
        attributes_mask: u64,
        /// Access time.
        atime: SxTime,
        /// Birth time.
        btime: SxTime,
        /// Change time.
        ctime: SxTime,
        /// Modification time.
        mtime: SxTime,
        /// Major number of a device node.
        rdev_major: u32,
        /// Minor number of a device node.
        rdev_minor: u32,
        /// Major number of the file system's device.
        dev_major: u32,
        /// Minor number of the file system's device.
        dev_minor: u32,
        /// Zero.
        spare2: [u64; 14],
    }

    /// STATX.
    struct StatxOut {
        /// For how long the attributes may be cached, seconds.
        attr_valid: u64,
        /// Nanoseconds of `attr_valid`.
        attr_valid_nsec: u32,
        /// As in [`Attr`].
        flags: AttrFlags,
        /// Zero.
        spare: [u64; 2],
        /// Attributes.
        stat: Statx,
    }

    /// OPEN, OPENDIR and the second half of CREATE.
    struct OpenOut {
        /// Handle.
        fh: u64,
        /// How the peer may use it.
        open_flags: FopenFlags,
        /// Backing file, with `PASSTHROUGH`.
        backing_id: i32,
    }

    /// WRITE and COPY_FILE_RANGE.
    struct WriteOut {
        /// Bytes written.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// File system figures.
    struct Kstatfs {
        /// Blocks in all.
        blocks: u64,
        /// Free blocks.
        bfree: u64,
        /// Free blocks for unprivileged users.
        bavail: u64,
        /// Inodes in all.
        files: u64,
        /// Free inodes.
        ffree: u64,
        /// Optimal transfer size in bytes.
        bsize: u32,
        /// Longest name in bytes.
        namelen: u32,
        /// Bytes of a block.
        frsize: u32,
        /// Zero.
        padding: u32,
        /// Zero.
        spare: [u32; 6],
    }

    /// STATFS.
    struct StatfsOut {
        /// The figures.
        st: Kstatfs,
    }

    /// GETXATTR and LISTXATTR when the size was asked for.
    struct GetxattrOut {
        /// Bytes of the value or list.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// A byte-range lock.
    struct FileLock {
        /// First byte.
        start: u64,
        /// Last byte.
        end: u64,
        /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
        kind: u32,
        /// Process that holds it.
        pid: u32,
    }

    /// GETLK.
    struct LkOut {
        /// The lock that is in the way.
        lk: FileLock,
    }

    /// INIT.
    struct InitOut {
        /// Major version.
        major: u32,
        /// Minor version in use.
        minor: u32,
        /// Read-ahead in bytes.
        max_readahead: u32,
        /// Lower half of the flags.
        flags: u32,
        /// Most requests in the background.
        max_background: u16,
        /// From how many on the peer feels congested.
        congestion_threshold: u16,
        /// Most bytes of a write.
        max_write: u32,
        /// Granularity of times in nanoseconds.
        time_gran: u32,
        /// Most pages of a request.
        max_pages: u16,
        /// log2 of the alignment of mappings.
        map_alignment: u16,
        /// Upper half of the flags.
        flags2: u32,
        /// How deep passthrough may stack.
        max_stack_depth: u32,
        /// When the peer gives up on a request, seconds.
        request_timeout: u16,
        /// Zero.
        unused: [u16; 11],
    }

    /// BMAP.
    struct BmapOut {
        /// Block on the device.
        block: u64,
    }

    /// IOCTL.
    struct IoctlOut {
        /// Return value.
        result: i32,
        /// Whether to retry.
        flags: IoctlFlags,
        /// Input buffers for the retry.
        in_iovs: u32,
        /// Output buffers for the retry.
        out_iovs: u32,
    }

    /// A buffer of the caller, for a retried ioctl.
    struct IoctlIovec {
        /// Address.
        base: u64,
        /// Bytes.
        len: u64,
    }

    /// POLL.
    struct PollOut {
        /// Events that are there.
        revents: u32,
        /// Zero.
        padding: u32,
    }

    /// LSEEK.
    struct LseekOut {
        /// Where it ended.
        offset: u64,
    }

    /// COPY_FILE_RANGE_64.
    struct CopyFileRangeOut {
        /// Bytes copied.
        bytes_copied: u64,
    }
}

fixed! {
    OutHeader: 16, Attr: 88, EntryOut: 128, AttrOut: 104, SxTime: 16, Statx: 256, StatxOut: 288,
    OpenOut: 16, WriteOut: 8, Kstatfs: 80, StatfsOut: 80, GetxattrOut: 8, InitOut: 64, BmapOut: 8,
    IoctlOut: 16, IoctlIovec: 16, PollOut: 8, LseekOut: 8, CopyFileRangeOut: 8,
}

impl FileLock {
    /// `F_RDLCK`.
    pub const READ: u32 = 0;
    /// `F_WRLCK`.
    pub const WRITE: u32 = 1;
    /// `F_UNLCK`.
    pub const UNLOCK: u32 = 2;
}

impl Fixed for FileLock {
    const NAME: &'static str = "FileLock";

    fn check(&self) -> Result<(), Malformed> {
        if self.kind > FileLock::UNLOCK {
            return Err(Malformed::Value {
                field: "FileLock.kind",
                value: self.kind.into(),
            });
        }
        if self.end < self.start {
            return Err(Malformed::Value {
                field: "FileLock.end",
                value: self.end,
            });
        }
        Ok(())
    }
}

impl Fixed for LkOut {
    const NAME: &'static str = "LkOut";

    fn check(&self) -> Result<(), Malformed> {
        self.lk.check()
    }
}

const _: () = assert!(size_of::<FileLock>() == 24);
const _: () = assert!(size_of::<LkOut>() == 24);

impl InitOut {
    /// Both halves of the flags.
    pub fn init_flags(&self) -> InitFlags {
        InitFlags::from_bits_retain(u64::from(self.flags) | u64::from(self.flags2) << 32)
    }

    /// The same with these flags.
    pub fn with_init_flags(self, flags: InitFlags) -> Self {
        InitOut {
            flags: flags.bits() as u32,
            flags2: (flags.bits() >> 32) as u32,
            ..self
        }
    }
}
