//! What a connection is made of.

use super::exchange::Link;
use super::quota::CommonBounds;
use super::users::{NumericUsers, Squash, Users};
use sluice_vfs::{Peer, SessionLimits};
use std::str::FromStr;
use std::sync::Arc;

/// What a connection is made of.
pub struct ServerConfig {
    /// Whose it is, and who decides what it may do.
    pub peer: Peer,
    /// What its session may hold, in each tree that it attaches to.
    pub limits: SessionLimits,
    /// What the connection may hold besides.
    pub bounds: Bounds,
    /// What it may hold together with all others of the process.
    pub common: Arc<CommonBounds>,
    /// How files are shown and users taken.
    pub options: ServeOptions,
    /// Who is who.
    pub users: Arc<dyn Users>,
    /// Wakes the transport.
    pub link: Arc<dyn Link>,
}

impl ServerConfig {
    /// The usual one, of a connection for itself, on which numbers are users.
    pub fn new(peer: Peer, link: Arc<dyn Link>) -> Self {
        ServerConfig {
            peer,
            limits: SessionLimits::default(),
            bounds: Bounds::default(),
            common: Arc::default(),
            options: ServeOptions::default(),
            users: Arc::new(NumericUsers),
            link,
        }
    }
}

/// What a user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// What the version of a qid is made of.
    pub qid_version: QidVersion,
    /// Whose requests are done as someone else.
    pub squash: Squash,
    /// Extended attributes are passed through.
    pub xattr: bool,
    /// POSIX ACLs are passed through, where the file system has them.
    pub posix_acl: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            qid_version: QidVersion::default(),
            squash: Squash::default(),
            xattr: true,
            posix_acl: true,
        }
    }
}

/// What the version of a qid is made of. It is never 0, which makes Linux pass
/// by its page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QidVersion {
    /// The same for as long as the file exists. Linux takes two versions of one
    /// path for two files, so this is what keeps hard links together.
    #[default]
    Stable,
    /// Another one whenever the content changes.
    Content,
}

impl FromStr for QidVersion {
    type Err = UnknownQidVersion;

    fn from_str(name: &str) -> Result<Self, UnknownQidVersion> {
        match name {
            "stable" => Ok(QidVersion::Stable),
            "content" => Ok(QidVersion::Content),
            _ => Err(UnknownQidVersion(name.to_owned())),
        }
    }
}

/// A name that no [`QidVersion`] has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither stable nor content")]
pub struct UnknownQidVersion(String);

/// What a connection may hold. Objects beyond it are an error; work beyond it
/// waits ([`Server::has_room`](super::Server::has_room)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Largest message in bytes, both ways; at least
    /// [`MSIZE_MIN`](crate::p9::wire::MSIZE_MIN).
    pub msize: u32,
    /// Fids; beyond: `ENFILE`.
    pub fids: usize,
    /// Trees attached by different names; beyond: `ENFILE`.
    pub trees: usize,
    /// Values of extended attributes that fids hold, in bytes; beyond: `ENOMEM`.
    pub xattr_bytes: usize,
    /// Requests under way; more wait in the transport.
    pub requests: usize,
    /// Messages of requests under way and room for their replies, in bytes; more
    /// wait in the transport.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            // With room for the longest payload of a request of Linux's.
            msize: (1 << 20) + 4096,
            fids: 65_536,
            trees: 16,
            xattr_bytes: 4 << 20,
            requests: 128,
            bytes: 16 << 20,
        }
    }
}
