//! What INIT settles.
//!
//! | flag | taken | because |
//! |---|---|---|
//! | `ASYNC_READ` | yes | reads of one file are independent here |
//! | `POSIX_LOCKS`, `FLOCK_LOCKS` | by option, unless without open | locks are seen by the host and other peers; they need a handle |
//! | `FILE_OPS` | no | Linux never used it |
//! | `ATOMIC_O_TRUNC` | unless without open | saves a SETATTR; an OPEN that is never sent can't truncate |
//! | `EXPORT_SUPPORT` | yes | `.` and `..` can be looked up, so the peer's file handles work |
//! | `BIG_WRITES` | yes | writes up to `max_write` |
//! | `DONT_MASK` | yes | the service applies the umask, since a default ACL replaces it |
//! | `SPLICE_*`, `HAS_IOCTL_DIR`, `HAS_EXPIRE_ONLY` | no | they tell about the kernel and need no answer |
//! | `AUTO_INVAL_DATA` | by cache mode | drops pages when the host changed a file; would drop the peer's own writes where it owns the tree |
//! | `DO_READDIRPLUS`, `READDIRPLUS_AUTO` | by option | entries with the listing, where the kernel expects to need them |
//! | `ASYNC_DIO` | yes | direct I/O in pieces side by side |
//! | `WRITEBACK_CACHE` | by option | makes the kernel ignore the host's sizes and times |
//! | `NO_OPEN_SUPPORT`, `NO_OPENDIR_SUPPORT` | by option, if the service can | taken by answering OPEN or OPENDIR with `ENOSYS`, once |
//! | `PARALLEL_DIROPS` | yes | a directory needs no serialisation here |
//! | `HANDLE_KILLPRIV` | no | it would clear set-id bits for privileged writers too |
//! | `HANDLE_KILLPRIV_V2` | if the service can | the kernel says when to clear them; saves a GETXATTR per write |
//! | `POSIX_ACL` | by option, if the service can | also turns the kernel's permission checks on |
//! | `ABORT_ERROR` | yes | tells an aborted connection from an unmounted one |
//! | `MAX_PAGES` | yes | messages of more than 128 KiB |
//! | `CACHE_SYMLINKS` | by cache mode | a node's target never changes |
//! | `EXPLICIT_INVAL_DATA` | no | nothing could tell the kernel of every change |
//! | `MAP_ALIGNMENT`, `HAS_INODE_DAX` | no | there is no DAX window |
//! | `SUBMOUNTS` | by option | host mounts keep a device number of their own |
//! | `SETXATTR_EXT` | yes | brings `ACL_KILL_SGID` |
//! | `INIT_EXT` | yes | brings the upper half of the flags |
//! | `SECURITY_CTX` | by option | labels new nodes atomically |
//! | `CREATE_SUPP_GROUP` | yes | a caller in the directory's group keeps set-group-id |
//! | `DIRECT_IO_ALLOW_MMAP` | by option | shared mappings where content is not cached |
//! | `PASSTHROUGH` | no | needs privilege, and backing files registered with the device |
//! | `NO_EXPORT_SUPPORT` | no | see `EXPORT_SUPPORT` |
//! | `HAS_RESEND` | no | a request runs once |
//! | `ALLOW_IDMAP` | no | ids would arrive mapped per mount |
//! | `OVER_IO_URING`, `REQUEST_TIMEOUT` | no | the transport reads the device; slow disks are no error |

use super::options::{Offer, ServeOptions};
use crate::fuse::wire::{Dialect, InitFlags, InitIn, InitOut, MAJOR, MINOR};
use sluice_vfs::Features;
use thiserror::Error;

/// Oldest minor version that is served (Linux 4.18).
pub const MINOR_MIN: u32 = 27;

/// Bytes of a page, in which `max_pages` counts.
const PAGE_LEN: u32 = 4096;

/// Smallest `max_write` that the kernel takes.
const MAX_WRITE_MIN: u32 = 4096;

/// What a transport can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// Most bytes of payload in a request or reply.
    pub max_payload: u32,
    /// INIT may come again with no DESTROY and no reset between.
    pub allows_reinit: bool,
}

/// What was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Minor version in use.
    pub minor: u32,
    /// The flags that hold.
    pub flags: InitFlags,
    /// Files are used without being opened.
    pub is_without_open: bool,
    /// Directories are used without being opened.
    pub is_without_opendir: bool,
    /// Most bytes of a write.
    pub max_write: u32,
}

impl Negotiated {
    /// Whether all of `flags` hold.
    pub fn has(&self, flags: InitFlags) -> bool {
        self.flags.contains(flags)
    }

    /// How messages are laid out.
    pub fn dialect(&self) -> Dialect {
        Dialect {
            setxattr_ext: self.has(InitFlags::SETXATTR_EXT),
        }
    }
}

/// Why an INIT is not taken as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    /// A newer major version: the reply names ours, and another INIT follows.
    #[error("the peer speaks FUSE {major}, this is FUSE {MAJOR}")]
    NewerMajor { major: u32 },
    /// Too old to serve.
    #[error("the peer speaks FUSE {major}.{minor}, at least {MAJOR}.{MINOR_MIN} is needed")]
    TooOld { major: u32, minor: u32 },
    /// Something that was made a condition cannot be had.
    #[error("{what} are not to be had with this peer and this share, but always wanted")]
    Lacks { what: &'static str },
}

/// The minor version to use with this peer.
pub(super) fn agree_on_version(init: &InitIn) -> Result<u32, Refusal> {
    let InitIn { major, minor, .. } = *init;
    if major > MAJOR {
        return Err(Refusal::NewerMajor { major });
    }
    if major < MAJOR || minor < MINOR_MIN {
        return Err(Refusal::TooOld { major, minor });
    }
    Ok(minor.min(MINOR))
}

/// Settles everything else, for the `minor` version that was agreed on.
pub(super) fn negotiate(
    init: &InitIn,
    minor: u32,
    options: &ServeOptions,
    features: Features,
    limits: &TransportLimits,
) -> Result<(Negotiated, InitOut), Refusal> {
    let offered = init.init_flags();
    let can_skip = |flag| features.contains(Features::NO_OPEN) && offered.contains(flag);
    let is_without_open = options.no_open && can_skip(InitFlags::NO_OPEN_SUPPORT);
    let is_without_opendir = options.no_opendir && can_skip(InitFlags::NO_OPENDIR_SUPPORT);
    let max_write = options.max_write.min(limits.max_payload).max(MAX_WRITE_MIN);
    let negotiated = Negotiated {
        minor,
        flags: offered & wanted(options, features, is_without_open),
        is_without_open,
        is_without_opendir,
        max_write,
    };
    for (what, flag, offer) in [
        ("POSIX ACLs", InitFlags::POSIX_ACL, options.posix_acl),
        (
            "security labels",
            InitFlags::SECURITY_CTX,
            options.security_label,
        ),
    ] {
        if offer == Offer::Always && !negotiated.has(flag) {
            return Err(Refusal::Lacks { what });
        }
    }
    Ok((negotiated, reply(init, &negotiated, options)))
}

/// The flags of the table above.
fn wanted(options: &ServeOptions, features: Features, is_without_open: bool) -> InitFlags {
    let cache = &options.cache;
    let mut flags = InitFlags::ASYNC_READ
        | InitFlags::EXPORT_SUPPORT
        | InitFlags::BIG_WRITES
        | InitFlags::DONT_MASK
        | InitFlags::ASYNC_DIO
        | InitFlags::PARALLEL_DIROPS
        | InitFlags::ABORT_ERROR
        | InitFlags::MAX_PAGES
        | InitFlags::SETXATTR_EXT
        | InitFlags::INIT_EXT
        | InitFlags::CREATE_SUPP_GROUP;
    let can_lock = !is_without_open;
    for (flag, is_wanted) in [
        (InitFlags::POSIX_LOCKS, options.posix_locks && can_lock),
        (InitFlags::FLOCK_LOCKS, options.flock && can_lock),
        (InitFlags::ATOMIC_O_TRUNC, !is_without_open),
        (InitFlags::AUTO_INVAL_DATA, cache.auto_inval_data),
        (InitFlags::DO_READDIRPLUS, options.readdirplus),
        (InitFlags::READDIRPLUS_AUTO, options.readdirplus),
        (InitFlags::WRITEBACK_CACHE, options.writeback),
        (
            InitFlags::HANDLE_KILLPRIV_V2,
            features.contains(Features::KILL_SUIDGID),
        ),
        (
            InitFlags::POSIX_ACL,
            options.posix_acl != Offer::Never && features.contains(Features::POSIX_ACL),
        ),
        (InitFlags::CACHE_SYMLINKS, cache.cache_symlinks),
        (InitFlags::SUBMOUNTS, options.announce_submounts),
        (
            InitFlags::SECURITY_CTX,
            options.security_label != Offer::Never,
        ),
        (
            InitFlags::DIRECT_IO_ALLOW_MMAP,
            options.direct_io_mmap && cache.direct_io,
        ),
    ] {
        flags.set(flag, is_wanted);
    }
    flags
}

fn reply(init: &InitIn, negotiated: &Negotiated, options: &ServeOptions) -> InitOut {
    let max_pages = negotiated.max_write.div_ceil(PAGE_LEN);
    InitOut {
        major: MAJOR,
        minor: negotiated.minor,
        max_readahead: init.max_readahead,
        max_background: options.max_background,
        congestion_threshold: options.max_background / 4 * 3,
        max_write: negotiated.max_write,
        time_gran: 1,
        max_pages: u16::try_from(max_pages).unwrap_or(u16::MAX),
        ..InitOut::default()
    }
    .with_init_flags(negotiated.flags)
}

/// The reply to a peer of a newer major version.
pub(super) fn own_version() -> InitOut {
    InitOut {
        major: MAJOR,
        minor: MINOR,
        ..InitOut::default()
    }
}
