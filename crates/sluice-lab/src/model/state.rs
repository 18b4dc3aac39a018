//! The one lock, what it protects, and what is published after it.

use super::ModelOptions;
use super::locks::LockTable;
use super::table::{HandleTable, NodeTable};
use super::tree::{ROOT_INO, Tree};
use sluice_vfs::{
    AccessChecks, AttachOptions, Event, EventSink, Name, NodeId, Result, SessionLimits, WaitId,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names a session within its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionId(u64);

pub(super) struct Shared {
    state: Mutex<State>,
}

impl Shared {
    pub(super) fn new(options: ModelOptions) -> Self {
        Shared {
            state: Mutex::new(State::new(options)),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `act` under the lock, then publishes what it caused without it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let outcome = act(&mut state);
        let outbox = std::mem::take(&mut state.outbox);
        drop(state);
        for (events, notice) in &outbox {
            notice.publish(events.as_ref());
        }
        outcome
    }
}

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) locks: LockTable,
    pub(super) sessions: BTreeMap<SessionId, SessionState>,
    next_session: u64,
    outbox: Vec<(Arc<dyn EventSink>, Notice)>,
}

/// What one session holds.
pub(super) struct SessionState {
    pub(super) nodes: NodeTable,
    pub(super) handles: HandleTable,
    pub(super) limits: SessionLimits,
    pub(super) checks: AccessChecks,
    events: Arc<dyn EventSink>,
}

impl State {
    fn new(options: ModelOptions) -> Self {
        State {
            tree: Tree::new(options),
            locks: LockTable::default(),
            sessions: BTreeMap::new(),
            next_session: 0,
            outbox: Vec::new(),
        }
    }

    pub(super) fn open_session(&mut self, options: AttachOptions<'_>) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.tree.pin(ROOT_INO);
        let session = SessionState {
            nodes: NodeTable::new(ROOT_INO, options.limits.nodes),
            handles: HandleTable::new(options.limits.handles),
            limits: options.limits,
            checks: options.peer.checks,
            events: options.events,
        };
        self.sessions.insert(id, session);
        id
    }

    /// Releases everything that a session held.
    pub(super) fn close_session(&mut self, id: SessionId) {
        for ino in self.locks.drop_session(id) {
            self.settle_locks(ino);
        }
        let Some(session) = self.sessions.remove(&id) else {
            return;
        };
        for ino in session.nodes.inos().chain(session.handles.inos()) {
            self.unpin(ino);
        }
    }

    pub(super) fn unpin(&mut self, ino: u64) {
        if self.tree.unpin(ino) {
            self.locks.drop_file(ino);
        }
    }

    /// Answers the waiting lock requests on a file that can be answered now.
    pub(super) fn settle_locks(&mut self, ino: u64) {
        for (session, wait) in self.locks.grant(ino) {
            self.tell_wait(session, wait, Ok(()));
        }
    }

    pub(super) fn tell_wait(&mut self, session: SessionId, wait: WaitId, result: Result<()>) {
        self.tell(session, Notice::Lock { wait, result });
    }

    /// Tells every session but `author` that knows the inode.
    pub(super) fn tell_inode(&mut self, author: SessionId, ino: u64, data: Option<Range<u64>>) {
        for (session, node) in self.others_who_know(author, ino) {
            let data = data.clone();
            self.tell(session, Notice::Inode { node, data });
        }
    }

    /// Tells every session but `author` that knows the directory.
    pub(super) fn tell_entry(&mut self, author: SessionId, dir: u64, name: Name<'_>) {
        for (session, parent) in self.others_who_know(author, dir) {
            let name = name.as_bytes().to_vec();
            self.tell(session, Notice::Entry { parent, name });
        }
    }

    fn others_who_know(&self, author: SessionId, ino: u64) -> Vec<(SessionId, NodeId)> {
        self.sessions
            .iter()
            .filter(|&(&id, _)| id != author)
            .filter_map(|(&id, session)| Some((id, session.nodes.find(ino)?)))
            .collect()
    }

    fn tell(&mut self, session: SessionId, notice: Notice) {
        if let Some(session) = self.sessions.get(&session) {
            self.outbox.push((Arc::clone(&session.events), notice));
        }
    }
}

/// An [`Event`] that owns what it says.
enum Notice {
    Inode {
        node: NodeId,
        data: Option<Range<u64>>,
    },
    Entry {
        parent: NodeId,
        name: Vec<u8>,
    },
    Lock {
        wait: WaitId,
        result: Result<()>,
    },
}

impl Notice {
    fn publish(&self, events: &dyn EventSink) {
        match self {
            Notice::Inode { node, data } => events.publish(&Event::InodeChanged {
                node: *node,
                data: data.clone(),
            }),
            Notice::Entry { parent, name } => {
                if let Ok(name) = Name::new(name) {
                    events.publish(&Event::EntryChanged {
                        parent: *parent,
                        name,
                    });
                }
            }
            Notice::Lock { wait, result } => events.publish(&Event::LockSettled {
                wait: *wait,
                result: *result,
            }),
        }
    }
}
