//! What a user may choose about serving.

use std::str::FromStr;
use std::time::Duration;

/// How far the peer's kernel may trust what it has cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheMode {
    /// Nothing is cached.
    Never,
    /// Names and attributes are cached for good, content is not.
    Metadata,
    /// Names and attributes are trusted for a second; content until a file is
    /// opened or its size or modification time is seen to change.
    Auto,
    /// Everything is cached for good: the peer owns the tree.
    Always,
}

/// An unknown name of a [`CacheMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cache mode (never, metadata, auto or always)")]
pub struct UnknownCacheMode(String);

impl FromStr for CacheMode {
    type Err = UnknownCacheMode;

    fn from_str(name: &str) -> Result<Self, UnknownCacheMode> {
        match name {
            "never" | "none" => Ok(CacheMode::Never),
            "metadata" => Ok(CacheMode::Metadata),
            "auto" => Ok(CacheMode::Auto),
            "always" | "loose" => Ok(CacheMode::Always),
            _ => Err(UnknownCacheMode(name.to_owned())),
        }
    }
}

/// Whether a peer is offered what not every peer and every share can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offer {
    /// No.
    Never,
    /// Where both can.
    Auto,
    /// Yes: a peer that can't, or a share, is refused altogether.
    Always,
}

/// An unknown name of an [`Offer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of never, auto and always")]
pub struct UnknownOffer(String);

impl FromStr for Offer {
    type Err = UnknownOffer;

    fn from_str(name: &str) -> Result<Self, UnknownOffer> {
        match name {
            "never" => Ok(Offer::Never),
            "auto" => Ok(Offer::Auto),
            "always" => Ok(Offer::Always),
            _ => Err(UnknownOffer(name.to_owned())),
        }
    }
}

/// Longest time for which anything is cached; "for good" on the wire.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// What the peer's kernel may cache, in the protocol's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// How long a name is trusted to lead where it did.
    pub entry_timeout: Duration,
    /// How long attributes are trusted.
    pub attr_timeout: Duration,
    /// How long a name is trusted to be missing; zero caches no missing names.
    pub negative_timeout: Duration,
    /// Content stays cached from one open to the next.
    pub keep_cache: bool,
    /// Content is not cached (`FOPEN_DIRECT_IO`).
    pub direct_io: bool,
    /// Listings are cached.
    pub cache_dirs: bool,
    /// Symlink targets are cached.
    pub cache_symlinks: bool,
    /// Content is dropped when size or modification time are seen to change.
    pub auto_inval_data: bool,
}

impl From<CacheMode> for CachePolicy {
    fn from(mode: CacheMode) -> Self {
        let timeout = match mode {
            CacheMode::Never => Duration::ZERO,
            CacheMode::Auto => Duration::from_secs(1),
            CacheMode::Metadata | CacheMode::Always => TIMEOUT_MAX,
        };
        CachePolicy {
            entry_timeout: timeout,
            attr_timeout: timeout,
            negative_timeout: timeout,
            keep_cache: mode == CacheMode::Always,
            direct_io: matches!(mode, CacheMode::Never | CacheMode::Metadata),
            cache_dirs: matches!(mode, CacheMode::Metadata | CacheMode::Always),
            // A node's target never changes: another target is another node.
            cache_symlinks: mode != CacheMode::Never,
            auto_inval_data: matches!(mode, CacheMode::Never | CacheMode::Auto),
        }
    }
}

/// Everything about serving that is a choice and not a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// What the peer may cache.
    pub cache: CachePolicy,
    /// The peer keeps writes back. Its kernel then ignores the server's sizes
    /// and times, so this is only for trees that the peer owns.
    pub writeback: bool,
    /// Files are used without being opened, where service and peer can do
    /// that. Locks then stay with the peer, and content is cached for good.
    pub no_open: bool,
    /// So are directories, whose listings are then cached for good.
    pub no_opendir: bool,
    /// POSIX locks reach the server, and with it the host and other peers.
    pub posix_locks: bool,
    /// So do flock(2) locks.
    pub flock: bool,
    /// Extended attributes exist.
    pub xattr: bool,
    /// POSIX ACLs exist and are obeyed.
    pub posix_acl: Offer,
    /// New nodes get the security label that the peer sends.
    pub security_label: Offer,
    /// Mounts below the root show as such.
    pub announce_submounts: bool,
    /// `O_DIRECT` of the peer is `O_DIRECT` here too.
    pub direct_io_passthrough: bool,
    /// Shared mappings work where content is not cached.
    pub direct_io_mmap: bool,
    /// READDIRPLUS is used.
    pub readdirplus: bool,
    /// Most bytes of a read or write.
    pub max_write: u32,
    /// Most requests that the peer keeps going in the background.
    pub max_background: u16,
}

impl ServeOptions {
    /// The defaults for a cache mode.
    pub fn new(mode: CacheMode) -> Self {
        ServeOptions {
            cache: mode.into(),
            writeback: false,
            no_open: false,
            no_opendir: false,
            posix_locks: true,
            flock: true,
            xattr: true,
            posix_acl: Offer::Never,
            security_label: Offer::Never,
            announce_submounts: true,
            direct_io_passthrough: false,
            direct_io_mmap: true,
            readdirplus: true,
            max_write: 1 << 20,
            max_background: 256,
        }
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions::new(CacheMode::Auto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_and_aliases() {
        for (name, mode) in [
            ("never", CacheMode::Never),
            ("none", CacheMode::Never),
            ("metadata", CacheMode::Metadata),
            ("auto", CacheMode::Auto),
            ("always", CacheMode::Always),
            ("loose", CacheMode::Always),
        ] {
            assert_eq!(name.parse(), Ok(mode));
        }
        assert!("Auto".parse::<CacheMode>().is_err());
    }

    #[test]
    fn a_mode_that_caches_nothing_lets_nothing_be_kept() {
        let never = CachePolicy::from(CacheMode::Never);
        assert_eq!(never.entry_timeout, Duration::ZERO);
        assert_eq!(never.negative_timeout, Duration::ZERO);
        assert!(never.direct_io && !never.keep_cache && !never.cache_dirs);
    }

    #[test]
    fn content_is_either_cached_or_past_the_cache() {
        for mode in [
            CacheMode::Never,
            CacheMode::Metadata,
            CacheMode::Auto,
            CacheMode::Always,
        ] {
            let policy = CachePolicy::from(mode);
            assert!(!(policy.direct_io && policy.keep_cache), "{mode:?}");
        }
    }
}
