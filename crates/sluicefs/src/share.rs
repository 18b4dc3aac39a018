//! The host directory that a command serves, and how it is to be offered.

use crate::failure::Failure;
use crate::layers::xattr_map::{XattrMap, XattrMapped};
use crate::timeout::Timeout;
use crate::translate::{IdTranslation, id_map};
use sluice_export::{Export, ExportOptions};
use sluice_proto::fuse::serve::{CacheMode, Offer, ServeOptions};
use sluice_proto::p9;
use sluice_vfs::FileService;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How a share is to be offered, whatever the frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePolicy {
    /// How long clients trust what they were told.
    pub cache: CacheMode,
    /// For how long they remember that a name does not exist; the cache mode
    /// decides if it is not given.
    pub negative_timeout: Option<Timeout>,
    /// Clients collect writes.
    pub writeback: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Where advisory locks are kept; the cache mode decides if it is not given.
    pub locks: Option<LockPlace>,
    /// Shared mappings work where content is not cached.
    pub allow_mmap: bool,
    /// A client's `O_DIRECT` is `O_DIRECT` here too.
    pub allow_direct_io: bool,
    /// A client's `O_NOATIME` is never dropped, be it that opening fails.
    pub preserve_noatime: bool,
    /// Without files that can be opened by handle nothing is served.
    pub require_handles: bool,
    /// Clients are told where mounts are below the directory.
    pub announce_submounts: bool,
    /// Directories are listed with attributes.
    pub readdirplus: bool,
    /// Extended attributes are passed through.
    pub xattr: bool,
    /// Extended attributes have other names on the host.
    pub xattr_map: Option<XattrMap>,
    /// POSIX ACLs are kept and obeyed.
    pub posix_acl: Offer,
    /// What a client makes gets the security label that it sends.
    pub security_label: Offer,
    /// User ids that are others on the host.
    pub translate_uid: Vec<IdTranslation>,
    /// The same for groups.
    pub translate_gid: Vec<IdTranslation>,
}

/// Where advisory locks (POSIX and flock) are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPlace {
    /// On the host, whose processes and other clients see them.
    Host,
    /// In each client, which nobody else sees.
    Guest,
}

impl FromStr for LockPlace {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "host" => Ok(LockPlace::Host),
            "guest" => Ok(LockPlace::Guest),
            _ => Err("locks are kept on the host or in the guest".to_owned()),
        }
    }
}

impl Default for SharePolicy {
    fn default() -> Self {
        SharePolicy {
            cache: CacheMode::Auto,
            negative_timeout: None,
            writeback: false,
            read_only: false,
            locks: None,
            allow_mmap: true,
            allow_direct_io: false,
            preserve_noatime: false,
            require_handles: false,
            announce_submounts: true,
            readdirplus: true,
            xattr: true,
            xattr_map: None,
            posix_acl: Offer::Never,
            security_label: Offer::Never,
            translate_uid: Vec::new(),
            translate_gid: Vec::new(),
        }
    }
}

impl SharePolicy {
    /// Refuses combinations that contradict themselves, or would lose changes
    /// made on the host.
    pub fn check(&self) -> Result<(), String> {
        if self.writeback && self.cache != CacheMode::Always {
            return Err("writeback needs cache mode 'always': \
                a client that collects writes ignores sizes and times from the host"
                .into());
        }
        for (what, offer) in [
            ("POSIX ACLs", self.posix_acl),
            ("security labels", self.security_label),
        ] {
            if offer != Offer::Never && !self.xattr {
                return Err(format!("{what} need extended attributes"));
            }
        }
        for (option, ids) in [
            ("--translate-uid", &self.translate_uid),
            ("--translate-gid", &self.translate_gid),
        ] {
            id_map(ids).map_err(|why| format!("{option}: {why}"))?;
            if !ids.is_empty() && self.posix_acl != Offer::Never {
                return Err(format!(
                    "{option} does not reach the ids in POSIX ACLs: give them up"
                ));
            }
        }
        if let Some(map) = &self.xattr_map {
            if !self.xattr {
                return Err("a map of extended attributes needs them".into());
            }
            if self.posix_acl != Offer::Never && !map.keeps_acls() {
                return Err("POSIX ACLs must keep their names: \
                    the map of extended attributes gives them others"
                    .into());
            }
        }
        Ok(())
    }

    /// The same in the words of the FUSE server.
    pub fn fuse_options(&self) -> ServeOptions {
        let mut options = ServeOptions::new(self.cache);
        if let Some(timeout) = self.negative_timeout {
            options.cache.negative_timeout = timeout.as_duration();
        }
        options.writeback = self.writeback;
        options.posix_locks = self.lock_place() == LockPlace::Host;
        options.flock = options.posix_locks;
        // O_DIRECT is something that opening says.
        options.no_open = options.cache.keep_cache && !options.flock && !self.allow_direct_io;
        options.no_opendir = options.cache.cache_dirs;
        options.direct_io_mmap = self.allow_mmap;
        options.direct_io_passthrough = self.allow_direct_io;
        options.announce_submounts = self.announce_submounts;
        options.readdirplus = self.readdirplus;
        options.xattr = self.xattr;
        options.posix_acl = self.posix_acl;
        options.security_label = self.security_label;
        options
    }

    /// The same in the words of the 9P server. What the guest caches and where it
    /// keeps locks, its mount options say.
    pub fn p9_options(&self) -> p9::serve::ServeOptions {
        p9::serve::ServeOptions {
            xattr: self.xattr,
            posix_acl: self.posix_acl != Offer::Never,
            ..p9::serve::ServeOptions::default()
        }
    }

    /// A client that owns the tree need not share its locks.
    fn lock_place(&self) -> LockPlace {
        self.locks.unwrap_or(match self.cache {
            CacheMode::Always => LockPlace::Guest,
            _ => LockPlace::Host,
        })
    }

    fn export_options(&self) -> Result<ExportOptions, String> {
        Ok(ExportOptions {
            uid_map: id_map(&self.translate_uid)?,
            gid_map: id_map(&self.translate_gid)?,
            read_only: self.read_only,
            writeback: self.writeback,
            preserve_noatime: self.preserve_noatime,
            require_handles: self.require_handles,
            ..ExportOptions::default()
        })
    }
}

/// Refuses what is no directory that can be listed: that is what serving needs
/// first, though the engine itself is content with less.
pub fn check_directory(dir: &Path) -> Result<(), Failure> {
    std::fs::read_dir(dir).map(drop).map_err(|error| {
        Failure::from_io("serve", dir, &error).advise("give a directory that you can read")
    })
}

/// Opens `dir` for serving, with as many descriptors as this process may have.
pub fn open(dir: &Path, policy: &SharePolicy) -> Result<Arc<dyn FileService>, Failure> {
    if let Err(error) = sluice_sys::raise_nofile_limit() {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
    check_directory(dir)?;
    let export = Export::open(dir, policy.export_options().map_err(Failure::new)?)
        .map_err(|error| Failure::new(format!("cannot serve '{}': {error}", dir.display())))?;
    Ok(match &policy.xattr_map {
        Some(map) => Arc::new(XattrMapped::new(Arc::new(export), map.clone())),
        None => Arc::new(export),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let good = SharePolicy::default();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            SharePolicy {
                writeback: true,
                ..good.clone()
            },
            SharePolicy {
                xattr: false,
                posix_acl: Offer::Auto,
                ..good.clone()
            },
            SharePolicy {
                xattr: false,
                security_label: Offer::Always,
                ..good.clone()
            },
            SharePolicy {
                xattr: false,
                xattr_map: ":ok:all:::".parse().ok(),
                ..good.clone()
            },
            SharePolicy {
                xattr_map: ":map::user.virtiofs.:".parse().ok(),
                posix_acl: Offer::Auto,
                ..good.clone()
            },
        ];
        for policy in bad {
            assert!(policy.check().is_err(), "{policy:?}");
        }
    }

    #[test]
    fn locks_stay_with_a_guest_that_owns_the_tree() {
        let taken = |cache, locks| {
            let policy = SharePolicy {
                cache,
                locks,
                ..SharePolicy::default()
            };
            let options = policy.fuse_options();
            assert_eq!(options.posix_locks, options.flock);
            options.flock
        };
        assert!(taken(CacheMode::Never, None));
        assert!(taken(CacheMode::Metadata, None));
        assert!(taken(CacheMode::Auto, None));
        assert!(!taken(CacheMode::Always, None));
        assert!(taken(CacheMode::Always, Some(LockPlace::Host)));
        assert!(!taken(CacheMode::Auto, Some(LockPlace::Guest)));
    }
}
