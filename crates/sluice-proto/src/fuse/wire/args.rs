//! Fixed structures of requests.

use super::field::{CountHead, Fixed, fixed};
use super::flags::{
    FattrValid, FsyncFlags, GetattrFlags, IoctlFlags, LkFlags, OpenInFlags, PollFlags, ReadFlags,
    ReleaseFlags, SetupmappingFlags, SetxattrFlags, WriteFlags, check_flags,
};
use super::out::FileLock;
use crate::codec::Malformed;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Declares structures with the derives that all of them need.
macro_rules! wire_structs {
    ($(
        $(#[$meta:meta])*
        struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty,)* }
    )*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$field_meta])* pub $field: $ty,)* }
    )*};
}
pub(super) use wire_structs;

wire_structs! {
    /// `fuse_in_header`, at the start of every request.
    struct InHeader {
        /// Bytes of the whole request.
        len: u32,
        /// What is asked for.
        opcode: u32,
        /// Names the request; the reply repeats it.
        unique: u64,
        /// The node that it is about.
        nodeid: u64,
        /// File system user id of the caller.
        uid: u32,
        /// File system group id of the caller.
        gid: u32,
        /// Process id of the caller.
        pid: u32,
        /// Extensions at the end, in units of 8 bytes.
        total_extlen: u16,
        /// Zero.
        padding: u16,
    }

    /// FORGET.
    struct ForgetIn {
        /// References to give back.
        nlookup: u64,
    }

    /// Head of BATCH_FORGET.
    struct BatchForgetIn {
        /// Items that follow.
        count: u32,
        /// Zero.
        dummy: u32,
    }

    /// Item of BATCH_FORGET.
    struct ForgetOne {
        /// The node.
        nodeid: u64,
        /// References to give back.
        nlookup: u64,
    }

    /// GETATTR.
    struct GetattrIn {
        /// Whether `fh` is given.
        getattr_flags: GetattrFlags,
        /// Zero.
        dummy: u32,
        /// Handle.
        fh: u64,
    }

    /// STATX.
    struct StatxIn {
        /// Whether `fh` is given.
        getattr_flags: GetattrFlags,
        /// Zero.
        reserved: u32,
        /// Handle.
        fh: u64,
        /// `AT_STATX_*` of statx(2).
        sx_flags: u32,
        /// `STATX_*` that are asked for.
        sx_mask: u32,
    }

    /// SETATTR.
    struct SetattrIn {
        /// What to set.
        valid: FattrValid,
        /// Zero.
        padding: u32,
        /// Handle.
        fh: u64,
        /// Size in bytes.
        size: u64,
        /// Lock owner.
        lock_owner: u64,
        /// Access time, seconds.
        atime: u64,
        /// Modification time, seconds.
        mtime: u64,
        /// Change time, seconds.
        ctime: u64,
        /// Access time, nanoseconds.
        atimensec: u32,
        /// Modification time, nanoseconds.
        mtimensec: u32,
        /// Change time, nanoseconds.
        ctimensec: u32,
        /// Mode.
        mode: u32,
        /// Zero.
        unused4: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Zero.
        unused5: u32,
    }

    /// MKNOD.
    struct MknodIn {
        /// Type and permissions.
        mode: u32,
        /// Device number, in the kernel's 32-bit encoding.
        rdev: u32,
        /// The caller's umask.
        umask: u32,
        /// Zero.
        padding: u32,
    }

    /// MKDIR.
    struct MkdirIn {
        /// Permissions.
        mode: u32,
        /// The caller's umask.
        umask: u32,
    }

    /// RENAME.
    struct RenameIn {
        /// The new directory.
        newdir: u64,
    }

    /// RENAME2.
    struct Rename2In {
        /// The new directory.
        newdir: u64,
        /// `RENAME_*` of renameat2(2).
        flags: u32,
        /// Zero.
        padding: u32,
    }

    /// LINK.
    struct LinkIn {
        /// The node that gets another name.
        oldnodeid: u64,
    }

    /// OPEN and OPENDIR.
    struct OpenIn {
        /// `O_*` of the peer.
        flags: u32,
        /// The protocol's own flags.
        open_flags: OpenInFlags,
    }

    /// CREATE and TMPFILE.
    struct CreateIn {
        /// `O_*` of the peer.
        flags: u32,
        /// Permissions.
        mode: u32,
        /// The caller's umask.
        umask: u32,
        /// The protocol's own flags.
        open_flags: OpenInFlags,
    }

    /// READ, READDIR and READDIRPLUS.
    struct ReadIn {
        /// Handle.
        fh: u64,
        /// Offset in bytes, or where to go on in a directory.
        offset: u64,
        /// Most bytes of the reply.
        size: u32,
        /// Whether `lock_owner` is given.
        read_flags: ReadFlags,
        /// Lock owner.
        lock_owner: u64,
        /// `O_*` of the open file.
        flags: u32,
        /// Zero.
        padding: u32,
    }

    /// WRITE.
    struct WriteIn {
        /// Handle.
        fh: u64,
        /// Offset in bytes.
        offset: u64,
        /// Bytes that follow.
        size: u32,
        /// Where it comes from.
        write_flags: WriteFlags,
        /// Lock owner.
        lock_owner: u64,
        /// `O_*` of the open file.
        flags: u32,
        /// Zero.
        padding: u32,
    }

    /// RELEASE and RELEASEDIR.
    struct ReleaseIn {
        /// Handle.
        fh: u64,
        /// `O_*` of the open file.
        flags: u32,
        /// The protocol's own flags.
        release_flags: ReleaseFlags,
        /// Lock owner.
        lock_owner: u64,
    }

    /// FLUSH.
    struct FlushIn {
        /// Handle.
        fh: u64,
        /// Zero.
        unused: u32,
        /// Zero.
        padding: u32,
        /// Lock owner.
        lock_owner: u64,
    }

    /// FSYNC and FSYNCDIR.
    struct FsyncIn {
        /// Handle.
        fh: u64,
        /// Data only?
        fsync_flags: FsyncFlags,
        /// Zero.
        padding: u32,
    }

    /// SETXATTR. Without `SETXATTR_EXT` only the first two fields travel.
    struct SetxattrIn {
        /// Bytes of the value.
        size: u32,
        /// `XATTR_*` of setxattr(2).
        flags: u32,
        /// The protocol's own flags.
        setxattr_flags: SetxattrFlags,
        /// Zero.
        padding: u32,
    }

    /// GETXATTR and LISTXATTR.
    struct GetxattrIn {
        /// Most bytes of the reply; 0 asks for the size.
        size: u32,
        /// Zero.
        padding: u32,
    }

    /// GETLK, SETLK and SETLKW.
    struct LkIn {
        /// Handle.
        fh: u64,
        /// Lock owner.
        owner: u64,
        /// The lock.
        lk: FileLock,
        /// Which family of locks.
        lk_flags: LkFlags,
        /// Zero.
        padding: u32,
    }

    /// ACCESS.
    struct AccessIn {
        /// `R_OK`, `W_OK`, `X_OK`.
        mask: u32,
        /// Zero.
        padding: u32,
    }

    /// INIT.
    struct InitIn {
        /// Major version of the peer.
        major: u32,
        /// Minor version of the peer.
        minor: u32,
        /// Read-ahead that the peer would do, in bytes.
        max_readahead: u32,
        /// Lower half of the flags.
        flags: u32,
        /// Upper half of the flags.
        flags2: u32,
        /// Zero.
        unused: [u32; 11],
    }

    /// INTERRUPT.
    struct InterruptIn {
        /// The request to interrupt.
        unique: u64,
    }

    /// BMAP.
    struct BmapIn {
        /// Block in the file.
        block: u64,
        /// Bytes of a block.
        blocksize: u32,
        /// Zero.
        padding: u32,
    }

    /// IOCTL.
    struct IoctlIn {
        /// Handle.
        fh: u64,
        /// Whose ioctl it is.
        flags: IoctlFlags,
        /// Request number.
        cmd: u32,
        /// Argument.
        arg: u64,
        /// Bytes that follow.
        in_size: u32,
        /// Most bytes of the reply's data.
        out_size: u32,
    }

    /// POLL.
    struct PollIn {
        /// Handle.
        fh: u64,
        /// Kernel's handle for the wake-up.
        kh: u64,
        /// Whether to wake up.
        flags: PollFlags,
        /// Events asked for.
        events: u32,
    }

    /// Reply of the peer to a RETRIEVE notification.
    struct NotifyRetrieveIn {
        /// Zero.
        dummy1: u64,
        /// Offset in bytes.
        offset: u64,
        /// Bytes that follow.
        size: u32,
        /// Zero.
        dummy2: u32,
        /// Zero.
        dummy3: u64,
        /// Zero.
        dummy4: u64,
    }

    /// FALLOCATE.
    struct FallocateIn {
        /// Handle.
        fh: u64,
        /// Offset in bytes.
        offset: u64,
        /// Bytes.
        length: u64,
        /// `FALLOC_FL_*` of fallocate(2).
        mode: u32,
        /// Zero.
        padding: u32,
    }

    /// LSEEK.
    struct LseekIn {
        /// Handle.
        fh: u64,
        /// Offset in bytes.
        offset: u64,
        /// `SEEK_*` of lseek(2).
        whence: u32,
        /// Zero.
        padding: u32,
    }

    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    struct CopyFileRangeIn {
        /// Handle to read from.
        fh_in: u64,
        /// Offset to read from.
        off_in: u64,
        /// Node to write to.
        nodeid_out: u64,
        /// Handle to write to.
        fh_out: u64,
        /// Offset to write to.
        off_out: u64,
        /// Bytes to copy.
        len: u64,
        /// Zero.
        flags: u64,
    }

    /// SETUPMAPPING.
    struct SetupmappingIn {
        /// Handle.
        fh: u64,
        /// Offset in the file.
        foffset: u64,
        /// Bytes to map.
        len: u64,
        /// Protection.
        flags: SetupmappingFlags,
        /// Offset in the window.
        moffset: u64,
    }

    /// Head of REMOVEMAPPING.
    struct RemovemappingIn {
        /// Items that follow.
        count: u32,
    }

    /// Item of REMOVEMAPPING.
    struct RemovemappingOne {
        /// Offset in the window.
        moffset: u64,
        /// Bytes to unmap.
        len: u64,
    }

    /// SYNCFS.
    struct SyncfsIn {
        /// Zero.
        padding: u64,
    }
}

fixed! {
    InHeader: 40, ForgetIn: 8, BatchForgetIn: 8, ForgetOne: 16, MknodIn: 16, MkdirIn: 8,
    RenameIn: 8, Rename2In: 16, LinkIn: 8, FlushIn: 24, GetxattrIn: 8, InterruptIn: 8, BmapIn: 16,
    NotifyRetrieveIn: 40, FallocateIn: 32, LseekIn: 24, CopyFileRangeIn: 56, RemovemappingIn: 4,
    RemovemappingOne: 16, SyncfsIn: 8,
}

/// Declares [`Fixed`] with the flag words that must be known.
macro_rules! fixed_with_flags {
    ($($name:ident: $size:literal, $($field:ident),+;)*) => {$(
        impl Fixed for $name {
            const NAME: &'static str = stringify!($name);

            fn check(&self) -> Result<(), Malformed> {
                $(check_flags(
                    concat!(stringify!($name), ".", stringify!($field)),
                    self.$field,
                )?;)+
                Ok(())
            }
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

fixed_with_flags! {
    GetattrIn: 16, getattr_flags;
    StatxIn: 24, getattr_flags;
    SetattrIn: 88, valid;
    OpenIn: 8, open_flags;
    CreateIn: 16, open_flags;
    ReadIn: 40, read_flags;
    WriteIn: 40, write_flags;
    ReleaseIn: 24, release_flags;
    FsyncIn: 16, fsync_flags;
    IoctlIn: 32, flags;
    PollIn: 24, flags;
    SetupmappingIn: 40, flags;
}

impl Fixed for LkIn {
    const NAME: &'static str = "LkIn";

    fn check(&self) -> Result<(), Malformed> {
        check_flags("LkIn.lk_flags", self.lk_flags)?;
        self.lk.check()
    }
}

impl Fixed for AccessIn {
    const NAME: &'static str = "AccessIn";

    fn check(&self) -> Result<(), Malformed> {
        match self.mask & !0o7 {
            0 => Ok(()),
            bits => Err(Malformed::UnknownFlags {
                field: "AccessIn.mask",
                bits: bits.into(),
            }),
        }
    }
}

impl CountHead for BatchForgetIn {
    fn count(&self) -> u32 {
        self.count
    }

    fn with_count(count: u32) -> Self {
        BatchForgetIn { count, dummy: 0 }
    }
}

impl CountHead for RemovemappingIn {
    fn count(&self) -> u32 {
        self.count
    }

    fn with_count(count: u32) -> Self {
        RemovemappingIn { count }
    }
}

const _: () = assert!(size_of::<LkIn>() == 48);
const _: () = assert!(size_of::<AccessIn>() == 8);
