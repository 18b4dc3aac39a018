//! What a guest is given to mount, and the servers behind it.

use super::initramfs::{Mount, MountKind};
use super::machine::{AttachedServer, Attachment};
use crate::failure::Failure;
use crate::serve::{DeviceKind, Serving, Tag};
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
    /// A 9P server behind a virtio device. User-mode Linux as Debian has it has no
    /// driver for that.
    Virtio9p {
        /// Who serves it.
        server: Virtio9pServer,
        /// For the guest's mount(2), beside those that name transport and dialect:
        /// `cache=none`.
        options: String,
    },
}

/// Who is behind a virtio-9p device.
#[derive(Clone, Debug)]
pub enum Virtio9pServer {
    /// This process, from a host directory.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// How it is served.
        policy: SharePolicy,
    },
    /// Another process, on a vhost-user socket.
    Socket {
        /// The socket; the server listens already.
        socket: PathBuf,
        /// The tag that the server's device has.
        tag: Tag,
    },
    /// QEMU itself, with the rights that it has; for comparison.
    Qemu {
        /// The directory; only characters that a command line need not quote.
        dir: PathBuf,
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
            ShareSource::Virtio9p { server, options } => f
                .debug_struct("Virtio9p")
                .field("server", server)
                .field("options", options)
                .finish(),
        }
    }
}

impl ShareSource {
    /// Whether only QEMU can be given it, as far as is known.
    pub(super) fn wants_qemu(&self) -> bool {
        matches!(self, ShareSource::Virtio9p { .. })
    }

    /// Whether only QEMU can serve it.
    pub(super) fn needs_qemu(&self) -> bool {
        let server = match self {
            ShareSource::Virtio9p { server, .. } => server,
            _ => return false,
        };
        matches!(server, Virtio9pServer::Qemu { .. })
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
        if let Some(server) = one.device {
            let tag = one.name;
            served.attachments.push(Attachment { server, tag });
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
    device: Option<AttachedServer>,
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

    /// What the guest mounts from the device at `socket`.
    fn virtio_fs(self, tag: &Tag, socket: &Path, server: Option<Serving>) -> Served {
        Served {
            name: tag.as_str().to_owned(),
            kind: MountKind::VirtioFs,
            options: self.mount_options().to_owned(),
            device: Some(AttachedServer::VhostUser {
                kind: DeviceKind::Fs,
                socket: socket.to_owned(),
            }),
            server,
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
    let tag: Tag = format!("sluice{nth}").parse().map_err(Failure::new)?;
    match source {
        ShareSource::Directory { dir, policy } => {
            let policy = purpose.policy(policy);
            let service = share::open(dir, &policy)?;
            let server = Serving::start(service, at, &tag, purpose.options(policy.fuse_options()))?;
            Ok(purpose.virtio_fs(&tag, at, Some(server)))
        }
        ShareSource::Service { service, options } => {
            let server = Serving::start(service.clone(), at, &tag, purpose.options(*options))?;
            Ok(purpose.virtio_fs(&tag, at, Some(server)))
        }
        ShareSource::Socket { socket, tag } => {
            link_to(socket, at)?;
            Ok(purpose.virtio_fs(tag, at, None))
        }
        ShareSource::P9 { server, options } => {
            let (port, own) = (server.port(), purpose.mount_options());
            Ok(Served {
                name: server.ip().to_string(),
                kind: MountKind::P9,
                options: format!("{own},trans=tcp,port={port},{options}"),
                device: None,
                server: None,
            })
        }
        ShareSource::Virtio9p { server, options } => {
            serve_virtio_9p(server, options, at, tag, purpose)
        }
    }
}

fn serve_virtio_9p(
    server: &Virtio9pServer,
    options: &str,
    at: &Path,
    own_tag: Tag,
    purpose: Use,
) -> Result<Served, Failure> {
    let here = AttachedServer::VhostUser {
        kind: DeviceKind::P9,
        socket: at.to_owned(),
    };
    let (tag, device, serving) = match server {
        Virtio9pServer::Directory { dir, policy } => {
            let policy = purpose.policy(policy);
            let service = share::open(dir, &policy)?;
            let serving = Serving::start(service, at, &own_tag, policy.p9_options())?;
            (own_tag, here, Some(serving))
        }
        Virtio9pServer::Socket { socket, tag } => {
            link_to(socket, at)?;
            (tag.clone(), here, None)
        }
        Virtio9pServer::Qemu { dir } => {
            let device = AttachedServer::Machine { dir: dir.clone() };
            (own_tag, device, None)
        }
    };
    let own = purpose.mount_options();
    Ok(Served {
        name: tag.as_str().to_owned(),
        kind: MountKind::Virtio9p,
        options: format!("{own},trans=virtio,version=9p2000.L,msize={P9_MSIZE},{options}"),
        device: Some(device),
        server: serving,
    })
}

/// Most that Linux's driver takes (`p9_virtio_trans.maxsize`), in bytes.
const P9_MSIZE: u32 = 4096 * (128 - 3);

/// The link's own path is short and has nothing that needs quoting.
fn link_to(socket: &Path, at: &Path) -> Result<(), Failure> {
    let target = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    symlink(&target, at).map_err(|error| Failure::from_io("make the link", at, &error))
}
