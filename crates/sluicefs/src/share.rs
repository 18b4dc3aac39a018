//! The host directory that a command serves, and how it is to be cached.

use crate::failure::Failure;
use crate::timeout::Timeout;
use sluice_export::{Export, ExportOptions};
use sluice_proto::fuse::serve::{CacheMode, ServeOptions};
use sluice_vfs::FileService;
use std::path::Path;
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
    /// Extended attributes are passed through.
    pub xattr: bool,
    /// POSIX ACLs are kept and obeyed.
    pub posix_acl: bool,
}

impl Default for SharePolicy {
    fn default() -> Self {
        SharePolicy {
            cache: CacheMode::Auto,
            negative_timeout: None,
            writeback: false,
            read_only: false,
            xattr: true,
            posix_acl: false,
        }
    }
}

impl SharePolicy {
    /// Refuses combinations that would lose changes made on the host.
    pub fn check(&self) -> Result<(), String> {
        if self.writeback && self.cache != CacheMode::Always {
            return Err("writeback needs cache mode 'always': \
                a client that collects writes ignores sizes and times from the host"
                .into());
        }
        if self.posix_acl && !self.xattr {
            return Err("POSIX ACLs need extended attributes".into());
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
        options.xattr = self.xattr;
        options.posix_acl = self.posix_acl;
        options
    }

    fn export_options(&self) -> ExportOptions {
        ExportOptions {
            read_only: self.read_only,
            writeback: self.writeback,
            ..ExportOptions::default()
        }
    }
}

/// Opens `dir` for serving, with as many descriptors as this process may have.
pub fn open(dir: &Path, policy: &SharePolicy) -> Result<Arc<dyn FileService>, Failure> {
    if let Err(error) = sluice_sys::raise_nofile_limit() {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
    // Listing is what serving needs first; the engine itself is content with less.
    std::fs::read_dir(dir).map_err(|error| {
        Failure::from_io("serve", dir, &error).advise("give a directory that you can read")
    })?;
    let export = Export::open(dir, policy.export_options())
        .map_err(|error| Failure::new(format!("cannot serve '{}': {error}", dir.display())))?;
    Ok(Arc::new(export))
}
