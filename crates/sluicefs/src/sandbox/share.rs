//! What a guest is given to mount, and the servers behind it.

use super::initramfs::{Mount, MountKind};
use super::machine::Attachment;
use crate::failure::Failure;
use crate::serve::{Serving, Tag};
use crate::share::{self, SharePolicy};
use sluice_proto::fuse::serve::ServeOptions;
use sluice_vfs::FileService;
use std::fmt;
use std::net::SocketAddrV4;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tree in the guest.
#[derive(Clone, Debug)]
pub struct GuestShare {
    /// Who serves it.
    pub source: ShareSource,
    /// Where the guest mounts it; an absolute path. Directories that are
    /// missing there are made.
    pub at: PathBuf,
    /// The guest may change nothing.
    pub read_only: bool,
}

/// The guest's root directory.
#[derive(Clone, Debug)]
pub struct GuestRoot {
    /// Who serves it.
    pub source: ShareSource,
    /// Changes reach the source. Otherwise the guest keeps them in memory, and
    /// they end with it.
    pub writable: bool,
}

/// Who serves a share.
#[derive(Clone)]
pub enum ShareSource {
    /// This process, from a host directory.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// How it is served.
        policy: SharePolicy,
    },
    /// This process, from any service.
    Service {
        /// The service.
        service: Arc<dyn FileService>,
        /// What the guest is offered.
        options: ServeOptions,
    },
    /// Another process, with a virtio-fs device on a vhost-user socket.
    Socket {
        /// The socket; the server listens already.
        socket: PathBuf,
        /// The tag that the server's device has.
        tag: Tag,
    },
    /// A 9P server that the guest reaches over its
    /// [network](super::Guest::network).
    P9 {
        /// The server, which listens already.
        server: SocketAddrV4,
        /// For the guest's mount(2), beside those that name the server:
        /// `version=9p2000.L,cache=none`.
        options: String,
    },
}

impl ShareSource {
    /// A host directory, served as usual.
    pub fn directory(dir: impl Into<PathBuf>) -> Self {
        ShareSource::Directory {
            dir: dir.into(),
            policy: SharePolicy::default(),
        }
    }
}

impl fmt::Debug for ShareSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareSource::Directory { dir, policy } => f
                .debug_struct("Directory")
                .field("dir", dir)
                .field("policy", policy)
                .finish(),
            ShareSource::Service { .. } => f.debug_struct("Service").finish_non_exhaustive(),
            ShareSource::Socket { socket, tag } => f
                .debug_struct("Socket")
                .field("socket", socket)
                .field("tag", tag)
                .finish(),
            ShareSource::P9 { server, options } => f
                .debug_struct("P9")
                .field("server", server)
                .field("options", options)
                .finish(),
        }
    }
}

/// The shares of one guest, being served.
pub(super) struct Shares {
    pub(super) attachments: Vec<Attachment>,
    pub(super) mounts: Vec<Mount>,
    /// Stops serving when dropped.
    _servers: Vec<Serving>,
}

/// Serves what is not served yet, on sockets in `dir`.
pub(super) fn serve(
    shares: &[GuestShare],
    root: Option<&GuestRoot>,
    dir: &Path,
) -> Result<Shares, Failure> {
    let root = root.map(|root| (&root.source, Path::new("/"), Use::of_root(root)));
    let others = shares
        .iter()
        .map(|share| (&share.source, share.at.as_path(), Use::of_share(share)));
    let mut served = Shares {
        attachments: Vec::new(),
        mounts: Vec::new(),
        _servers: Vec::new(),
    };
    for (nth, (source, at, purpose)) in root.into_iter().chain(others).enumerate() {
        let socket = dir.join(format!("fs{nth}"));
        let one = serve_one(source, &socket, nth, purpose)?;
        served.mounts.push(Mount {
            source: one.name.clone(),
            at: at.to_owned(),
            kind: one.kind,
            options: one.options,
        });
        if one.kind == MountKind::VirtioFs {
            let tag = one.name;
            served.attachments.push(Attachment { socket, tag });
        }
        served._servers.extend(one.server);
    }
    Ok(served)
}

/// One tree, and what the guest needs to know to mount it.
struct Served {
    name: String,
    kind: MountKind,
    options: String,
    server: Option<Serving>,
}

/// What the guest does with a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    ReadWrite,
    ReadOnly,
    /// It lies under an overlay that takes the changes.
    Lower,
}

impl Use {
    fn of_root(root: &GuestRoot) -> Self {
        if root.writable {
            Use::ReadWrite
        } else {
            Use::Lower
        }
    }

    fn of_share(share: &GuestShare) -> Self {
        if share.read_only {
            Use::ReadOnly
        } else {
            Use::ReadWrite
        }
    }

    fn mount_options(self) -> &'static str {
        match self {
            Use::ReadWrite => "rw",
            Use::ReadOnly => "ro",
            Use::Lower => "ro,x-overlay",
        }
    }

    fn policy(self, given: &SharePolicy) -> SharePolicy {
        SharePolicy {
            read_only: given.read_only || self != Use::ReadWrite,
            ..given.clone()
        }
    }

    /// An overlay refuses directories that are about to be mounted over, which
    /// is what an announced mount of the host's looks like
    /// (`ovl_dentry_weird()` in Linux).
    fn options(self, given: ServeOptions) -> ServeOptions {
        ServeOptions {
            announce_submounts: given.announce_submounts && self != Use::Lower,
            ..given
        }
    }
}

fn serve_one(source: &ShareSource, at: &Path, nth: usize, purpose: Use) -> Result<Served, Failure> {
    let attached = |tag: &Tag, server| Served {
        name: tag.as_str().to_owned(),
        kind: MountKind::VirtioFs,
        options: purpose.mount_options().to_owned(),
        server,
    };
    let (service, options) = match source {
        ShareSource::Directory { dir, policy } => {
            let policy = purpose.policy(policy);
            (share::open(dir, &policy)?, policy.fuse_options())
        }
        ShareSource::Service { service, options } => (service.clone(), *options),
        ShareSource::Socket { socket, tag } => {
            // The link's own path is short and has nothing that needs quoting.
            let target = std::path::absolute(socket).unwrap_or_else(|_| socket.clone());
            symlink(&target, at).map_err(|error| Failure::from_io("make the link", at, &error))?;
            return Ok(attached(tag, None));
        }
        ShareSource::P9 { server, options } => {
            let (port, own) = (server.port(), purpose.mount_options());
            return Ok(Served {
                name: server.ip().to_string(),
                kind: MountKind::P9,
                options: format!("{own},trans=tcp,port={port},{options}"),
                server: None,
            });
        }
    };
    let tag: Tag = format!("sluice{nth}").parse().map_err(Failure::new)?;
    let server = Serving::start(service, at, &tag, purpose.options(options))?;
    Ok(attached(&tag, Some(server)))
}
