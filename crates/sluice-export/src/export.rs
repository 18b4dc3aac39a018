//! A host directory that peers can attach to.

use crate::attr::{FULL, HostStat};
use crate::creds;
use crate::idmap::IdMap;
use crate::ino_map::InoMap;
use crate::inode::InodeKey;
use crate::ops::xattr::supports_acl;
use crate::reach;
use crate::resolve::{self, Descriptors};
use crate::service::ExportSession;
use rustix::fd::{AsFd, OwnedFd};
use sluice_vfs::{
    AttachOptions, Attached, Errno, Features, FileService, FileType, Result, Stamp, Stat,
};
use std::path::Path;
use std::sync::Arc;

/// How a directory is exported.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// A name to attach by. The empty one always works.
    pub name: Vec<u8>,
    /// Nothing can be changed: `EROFS`.
    pub read_only: bool,
    /// Peers cache writes, so their kernel reads through descriptors that were
    /// opened for writing only. Files opened for writing are then opened for
    /// reading too where that is allowed.
    pub writeback: bool,
    /// `O_NOATIME` is asked for even where it is refused (`EPERM`), as to
    /// those who don't own the file; otherwise it is dropped there.
    pub preserve_noatime: bool,
    /// Files must be found again by handle, wherever the host moves them:
    /// otherwise nothing is exported.
    pub require_handles: bool,
    /// User ids of peers on the host.
    pub uid_map: IdMap,
    /// Group ids of peers on the host.
    pub gid_map: IdMap,
}

/// A host directory as a [`FileService`]. Cheap to clone.
#[derive(Clone)]
pub struct Export {
    host: Arc<Host>,
}

/// Why a directory can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory itself.
    #[error("cannot open the directory: {0}")]
    Root(Errno),
    /// Files can't be opened by what is held of them.
    #[error("cannot use /proc/self/fd, which must be a proc file system: {0}")]
    Proc(Errno),
    /// Handles are required and cannot be used.
    #[error("its files cannot be opened by handle: {0}")]
    Handles(Errno),
}

impl Export {
    /// Exports the directory at `path`, whose symlinks are followed here. To be
    /// called in the process that serves, not before a fork(2), and while
    /// `/proc` is there; the process' root may change afterwards.
    pub fn open(path: &Path, options: ExportOptions) -> std::result::Result<Self, OpenError> {
        let root = resolve::open_root(path).map_err(OpenError::Root)?;
        Self::from_fd(root, options)
    }

    /// Exports the directory that `root` holds; `O_PATH` is enough.
    pub fn from_fd(root: OwnedFd, options: ExportOptions) -> std::result::Result<Self, OpenError> {
        let stat = HostStat::of_fd(root.as_fd(), FULL).map_err(OpenError::Root)?;
        if stat.file_type != FileType::Directory {
            return Err(OpenError::Root(Errno::ENOTDIR));
        }
        let host = Host {
            root_key: stat.identity.key,
            inos: InoMap::new(stat.identity.key.dev),
            descriptors: Descriptors::open().map_err(OpenError::Proc)?,
            root,
            options,
        };
        if host.options.require_handles {
            reach::mount_for_handles(&host).map_err(OpenError::Handles)?;
        }
        Ok(Export {
            host: Arc::new(host),
        })
    }
}

impl FileService for Export {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        if !options.export.is_empty() && options.export != self.host.options.name {
            return Err(Errno::ENOENT);
        }
        let root = HostStat::of_fd(self.host.root.as_fd(), FULL)?;
        let session = ExportSession::new(self.host.clone(), options)?;
        Ok(Attached {
            root: Stat {
                attr: root.to_attr(&self.host),
                stamp: Stamp::NONE,
            },
            features: self.host.features(),
            session: Arc::new(session),
        })
    }
}

/// What all sessions of an export have in common.
pub(crate) struct Host {
    pub(crate) root: OwnedFd,
    pub(crate) root_key: InodeKey,
    pub(crate) descriptors: Descriptors,
    pub(crate) inos: InoMap,
    pub(crate) options: ExportOptions,
}

impl Host {
    fn features(&self) -> Features {
        let mut features =
            Features::LOCKS | Features::TMPFILE | Features::KILL_SUIDGID | Features::BACKING;
        // What was opened may be written to though its mode forbids that by
        // now, or did from the start: opening it once more takes a privilege.
        let passes_checks = creds::passes_checks().unwrap_or(false);
        features.set(Features::NO_OPEN, passes_checks);
        features.set(Features::POSIX_ACL, supports_acl(self));
        features.set(Features::READ_ONLY, self.options.read_only);
        features
    }
}
