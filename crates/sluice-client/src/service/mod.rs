//! A 9P server as a [`FileService`]: what `sluice mount` puts under a kernel,
//! and what layers stand on.
//!
//! Each session has a connection of its own. A node is a file by its identity
//! (the path of its qid, its type, and its time of birth where that is told),
//! with a fid where one was needed so far; a name that is looked up again costs
//! one message and no fid. A handle is a fid that is open.
//!
//! **Who asks**: with [`Access::PerUser`] every user of the session attaches by
//! number, as Linux's client does with `access=user` and `access=client`, so
//! that the server knows whose each request is: what they make is theirs, and
//! what they may do is the server's to say, if it checks at all. With
//! [`Access::Single`] all of it is done as the user of [`ConnectOptions`].
//!
//! **What 9P lacks** is answered as a kernel expects: `ENOSYS` where it then does
//! without (`lseek`, `fallocate`, `copy_range`, `syncfs`, `access`, `tmpfile`),
//! `EINVAL` for the flags of renames, `ENOTTY` for `ioctl`, `EOPNOTSUPP` for what
//! is asked for once.
//!
//! **flock(2)** travels as a POSIX lock of the whole file, by an owner of its
//! own. So the two families meet each other, as they do on NFS.
//!
//! | module | duty |
//! |---|---|
//! | `options` | what can be chosen |
//! | `link` | the connection, and the next one |
//! | `session` | the neck, one delegating method per operation |
//! | `turn` | one operation for one user over one connection, and errors |
//! | `nodes`, `handles`, `fid` | what the session knows, and the fids for it |
//! | `names`, `attrs`, `open`, `content`, `listing`, `locks` | operations |
//!
//! Lock order: a handle's own state, then one of the tables (nodes, handles,
//! locks), which are never held together or while anything is sent.

mod attrs;
mod content;
mod fid;
mod handles;
mod link;
mod listing;
mod locks;
mod names;
mod nodes;
mod open;
mod options;
mod session;
mod turn;

pub use options::{Access, Connect, Persistence, ServiceOptions};

use crate::address::Address;
use crate::meter::Counts;
use crate::ops::Tree;
use session::{Inner, RemoteSession};
use sluice_vfs::{AttachOptions, Attached, FileService, Result, Stamp, Stat};
use std::sync::{Arc, Mutex, PoisonError};

/// A 9P server that sessions are attached to.
///
/// ```no_run
/// use sluice_client::{RemoteService, ServiceOptions};
///
/// let address = "unix:/run/share.sock".parse()?;
/// let service = RemoteService::new(address, ServiceOptions::default());
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct RemoteService {
    connect: Arc<dyn Connect>,
    options: ServiceOptions,
    /// For the first session.
    ahead: Mutex<Option<Tree>>,
}

impl RemoteService {
    /// The server at an address. Nothing is sent before a session is attached.
    pub fn new(address: Address, options: ServiceOptions) -> Self {
        RemoteService::over(address, options)
    }

    /// The server that `connect` leads to.
    pub fn over(connect: impl Connect + 'static, options: ServiceOptions) -> Self {
        RemoteService {
            connect: Arc::new(connect),
            options,
            ahead: Mutex::default(),
        }
    }

    /// Makes the connection of the first session now. A session's own attempt has but a
    /// number to say what is wrong.
    ///
    /// # Errors
    /// [`Error::Connect`](crate::Error::Connect) if there is no such server or it speaks
    /// no dialect that was offered; what the server answers to the attachment.
    pub fn connect_ahead(&self) -> crate::Result<()> {
        let tree = Tree::connect(&|| self.connect.connect(), &self.options.connect)?;
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree);
        Ok(())
    }

    fn take_ahead(&self) -> Option<Tree> {
        self.ahead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// What the connections of all sessions did so far.
    pub fn counts(&self) -> Counts {
        self.options.connect.meter.counts()
    }
}

impl FileService for RemoteService {
    /// Connects once: a server that is not there is an error (`ENOTCONN`), also
    /// where later ones would be waited for.
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let mut chosen = self.options.clone();
        let mut ahead = None;
        match options.export {
            [] => ahead = self.take_ahead(),
            export => chosen.connect.aname = export.to_vec(),
        }
        let (inner, root) = Inner::start(Arc::clone(&self.connect), ahead, chosen, &options)?;
        let features = inner.features();
        Ok(Attached {
            session: Arc::new(RemoteSession::new(inner)),
            root: Stat {
                attr: root,
                stamp: Stamp::NONE,
            },
            features,
        })
    }
}
