//! What holds from one Tversion to the next.

use super::config::ServerConfig;
use super::fids::{FidTable, Tree};
use super::quota::Budget;
use super::schedule::Ticket;
use super::users::User;
use crate::p9::wire::{Dialect, REPLY_PAYLOAD_AT};
use crate::parked::ParkedLocks;
use sluice_vfs::{AttachOptions, Errno, Event, EventSink, FileService, Result, WaitId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What holds from one Tversion to the next.
pub(super) struct Connection {
    pub(super) dialect: Dialect,
    pub(super) msize: u32,
    pub(super) fids: FidTable,
    pub(super) xattr_budget: Arc<Budget>,
    /// Trees that fids still refer to.
    trees: Mutex<Vec<Weak<Tree>>>,
}

impl Connection {
    pub(super) fn new(dialect: Dialect, msize: u32, config: &ServerConfig) -> Self {
        Connection {
            dialect,
            msize,
            fids: FidTable::new(config.common.fids(config.bounds.fids)),
            xattr_budget: config.common.xattr_bytes(config.bounds.xattr_bytes),
            trees: Mutex::default(),
        }
    }

    /// Most bytes that an Rread or Rreaddir can carry.
    pub(super) fn payload_max(&self) -> usize {
        (self.msize as usize).saturating_sub(REPLY_PAYLOAD_AT)
    }

    /// The tree of this name, attached now if no fid refers to it yet.
    pub(super) fn tree(
        &self,
        service: &dyn FileService,
        config: &ServerConfig,
        aname: &[u8],
    ) -> Result<Arc<Tree>> {
        if let Some(tree) = self.find(aname)? {
            return Ok(tree);
        }
        if self.trees().len() >= config.bounds.trees {
            return Err(Errno::ENFILE);
        }
        let parked = Arc::new(ParkedLocks::default());
        let attached = service.attach(AttachOptions {
            peer: config.peer.clone(),
            export: aname,
            events: Arc::new(Events(Arc::clone(&parked))),
            limits: config.limits,
        })?;
        let tree = Arc::new(Tree {
            session: attached.session,
            features: attached.features,
            aname: aname.to_vec(),
            parked,
        });
        // Another request may have attached it meanwhile.
        let known = self.find(aname)?;
        if known.is_none() {
            self.trees().push(Arc::downgrade(&tree));
        }
        Ok(known.unwrap_or(tree))
    }

    /// The lock request of this ticket, if it waits: where, and as what.
    pub(super) fn interrupt(&self, ticket: Ticket) -> Option<(Arc<Tree>, WaitId)> {
        let mut live = self.live_trees().into_iter();
        live.find_map(|tree| tree.parked.interrupt(ticket).map(|wait| (tree, wait)))
    }

    /// Answers all locks that wait, and lets no more wait.
    pub(super) fn close_parked(&self) {
        for tree in self.live_trees() {
            tree.parked.close();
        }
    }

    /// A new fid's user: by number if there is one, else by name.
    pub(super) fn user(config: &ServerConfig, uname: &[u8], uid: Option<u32>) -> Result<Arc<User>> {
        let users = &config.users;
        let user = match uid {
            Some(uid) => users.by_id(uid),
            None if uname.is_empty() => users.by_id(User::NOBODY),
            None => users.by_name(uname).ok_or(Errno::EACCES)?,
        };
        Ok(Arc::new(config.options.squash.apply(user)))
    }

    fn find(&self, aname: &[u8]) -> Result<Option<Arc<Tree>>> {
        Ok(self
            .live_trees()
            .into_iter()
            .find(|tree| tree.aname == aname))
    }

    fn live_trees(&self) -> Vec<Arc<Tree>> {
        let mut trees = self.trees();
        trees.retain(|tree| tree.strong_count() > 0);
        trees.iter().filter_map(Weak::upgrade).collect()
    }

    fn trees(&self) -> MutexGuard<'_, Vec<Weak<Tree>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a session's events. A 9P server says nothing of its own accord, so
/// locks are all that matters.
struct Events(Arc<ParkedLocks>);

impl EventSink for Events {
    fn publish(&self, event: &Event<'_>) {
        if let Event::LockSettled { wait, result } = event {
            self.0.settle(*wait, *result);
        }
    }
}
