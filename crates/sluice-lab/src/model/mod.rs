//! A file service in memory: the executable specification of the neck.
//!
//! It favours saying plainly what is right over being fast: one lock around
//! everything, every operation a few checks in Linux's order and then its
//! effect. The same conformance cases judge it and the real engines, and
//! random operations are compared between it and them.
//!
//! | module | owns |
//! |---|---|
//! | `state` | the one lock, the sessions, what is to be published |
//! | `table` | node and handle ids of a session |
//! | `tree`, `inode` | inodes, clock, versions, space |
//! | `content`, `directory` | what files and directories hold |
//! | `acl`, `check` | POSIX ACLs; who may do what |
//! | `locks` | advisory locks and who waits for them |
//! | `ops` | the operations, by group |
//!
//! **Lock order**: there is one lock, the state's. Events are collected under
//! it and published after it is released.

mod acl;
mod check;
mod content;
mod directory;
mod inode;
mod locks;
mod ops;
mod session;
mod state;
mod table;
mod tree;

use session::ModelSession;
use sluice_vfs::{AttachOptions, Attached, Errno, Features, FileService, Result};
use state::Shared;
use std::sync::Arc;

/// How much a model can hold, and whether it can be changed.
#[derive(Clone, Copy, Debug)]
pub struct ModelOptions {
    /// Room for file content in bytes; beyond: `ENOSPC`.
    pub capacity_bytes: u64,
    /// Room for inodes; beyond: `ENOSPC`.
    pub inodes: u64,
    /// Every change fails with `EROFS`.
    pub read_only: bool,
}

impl Default for ModelOptions {
    fn default() -> Self {
        ModelOptions {
            capacity_bytes: 1 << 30,
            inodes: 1 << 20,
            read_only: false,
        }
    }
}

/// A tree in memory. Every session attached to it sees the same tree.
pub struct ModelService {
    shared: Arc<Shared>,
}

impl ModelService {
    /// An empty tree whose root belongs to the superuser, mode 0755.
    pub fn new(options: ModelOptions) -> Self {
        ModelService {
            shared: Arc::new(Shared::new(options)),
        }
    }

    /// How many inodes exist, the root and those without a name included.
    pub fn inode_count(&self) -> u64 {
        self.shared.lock().tree.inode_count()
    }

    /// How many sessions are attached.
    pub fn session_count(&self) -> usize {
        self.shared.lock().sessions.len()
    }
}

impl Default for ModelService {
    fn default() -> Self {
        Self::new(ModelOptions::default())
    }
}

impl FileService for ModelService {
    /// There is one export, and it has no name.
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        if !options.export.is_empty() {
            return Err(Errno::ENOENT);
        }
        let session = ModelSession::new(Arc::clone(&self.shared), options);
        let root = session.root()?;
        let mut features = Features::POSIX_ACL
            | Features::LOCKS
            | Features::TMPFILE
            | Features::KILL_SUIDGID
            | Features::NO_OPEN
            | Features::EVENTS;
        features.set(Features::READ_ONLY, self.shared.lock().tree.is_read_only());
        Ok(Attached {
            session: Arc::new(session),
            root,
            features,
        })
    }
}
