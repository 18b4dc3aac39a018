//! What files the session knows.

use super::fid::Fid;
use crate::error::Result;
use crate::ops::Tree;
use sluice_vfs::{Attr, AttrMask, Errno, FileType, NodeId, Timestamp};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What makes a file the same one, by whatever name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// The path of its qid.
    path: u64,
    file_type: Option<FileType>,
    /// A number that is another file's later has another time of birth.
    birth: Option<Timestamp>,
}

impl Identity {
    pub(super) fn of(attr: &Attr) -> Self {
        Identity {
            path: attr.ino,
            file_type: attr.mode.file_type(),
            birth: attr.mask.contains(AttrMask::BTIME).then_some(attr.btime),
        }
    }

    pub(super) fn path(&self) -> u64 {
        self.path
    }

    /// Whether another is the same file for certain: without a time of birth, it may
    /// have the number of one that is gone.
    pub(super) fn is_surely(&self, other: Identity) -> bool {
        *self == other && self.birth.is_some()
    }

    pub(super) fn file_type(&self) -> Option<FileType> {
        self.file_type
    }
}

/// Where a node was found.
type Place = (NodeId, Arc<[u8]>);

/// So many places of a node are remembered: it may have several names.
const PLACES_MAX: usize = 4;

struct Node {
    identity: Identity,
    /// The last one is where it was seen last.
    places: Vec<Place>,
    /// Nodes that have a place in this directory.
    children: HashMap<Arc<[u8]>, NodeId>,
    /// What the peer holds.
    refs: u64,
    /// For each user who needed one.
    fids: Vec<(u32, Arc<Fid>)>,
}

struct Slot {
    generation: u32,
    node: Option<Node>,
}

struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_identity: HashMap<Identity, NodeId>,
    known: usize,
}

/// A node has fids of at most so many users; others' are found again.
const USERS_MAX: usize = 8;

/// Longest way to a node, in names; the kernel's paths are shorter.
const DEPTH_MAX: usize = 4096;

/// The nodes of a session.
pub(super) struct Nodes {
    state: Mutex<State>,
    limit: usize,
}

/// The way to a node from one that has a fid.
pub(super) struct Way {
    /// None for the root.
    pub(super) from: Option<Arc<Fid>>,
    pub(super) names: Vec<Arc<[u8]>>,
    pub(super) identity: Identity,
}

impl Nodes {
    /// The root, and up to `limit` nodes with it.
    pub(super) fn new(root: &Attr, limit: u32) -> Self {
        let identity = Identity::of(root);
        let node = Node {
            identity,
            places: Vec::new(),
            children: HashMap::new(),
            refs: 1,
            fids: Vec::new(),
        };
        let slot = |node| Slot {
            generation: 0,
            node,
        };
        Nodes {
            state: Mutex::new(State {
                slots: vec![slot(None), slot(Some(node))],
                free: Vec::new(),
                by_identity: HashMap::from([(identity, NodeId::ROOT)]),
                known: 1,
            }),
            limit: limit as usize,
        }
    }

    /// A fid that means the node to this user on this connection, if there is one.
    pub(super) fn fid(
        &self,
        node: NodeId,
        user: u32,
        tree: &Arc<Tree>,
    ) -> Result<Option<Arc<Fid>>> {
        let state = self.lock();
        let node = state.get(node).ok_or(Errno::ESTALE)?;
        Ok(node.fid(user, tree))
    }

    /// What makes it the file it is.
    pub(super) fn identity(&self, node: NodeId) -> Result<Identity> {
        let state = self.lock();
        let node = state.get(node).ok_or(Errno::ESTALE)?;
        Ok(node.identity)
    }

    /// The node that a name led to, if it has a fid.
    pub(super) fn child(
        &self,
        parent: NodeId,
        name: &[u8],
        user: u32,
        tree: &Arc<Tree>,
    ) -> Option<Identity> {
        let state = self.lock();
        let child = *state.get(parent)?.children.get(name)?;
        let child = state.get(child)?;
        child.fid(user, tree).map(|_| child.identity)
    }

    /// What a name led to when it was seen last.
    pub(super) fn at(&self, dir: NodeId, name: &[u8]) -> Option<Identity> {
        let state = self.lock();
        let child = *state.get(dir)?.children.get(name)?;
        Some(state.get(child)?.identity)
    }

    /// How to get to a node, by the place where it was seen last or the `back`th
    /// before; none if there are no more.
    pub(super) fn way(
        &self,
        node: NodeId,
        back: usize,
        user: u32,
        tree: &Arc<Tree>,
    ) -> Result<Option<Way>> {
        let state = self.lock();
        let known = state.get(node).ok_or(Errno::ESTALE)?;
        let identity = known.identity;
        let mut names = Vec::new();
        let mut place = known.places.iter().rev().nth(back);
        let from = loop {
            let Some((dir, name)) = place else {
                return Ok(None);
            };
            names.push(Arc::clone(name));
            let at = state.get(*dir).ok_or(Errno::ESTALE)?;
            if let Some(fid) = at.fid(user, tree) {
                break Some(fid);
            }
            if *dir == NodeId::ROOT {
                break None;
            }
            // Directories that were moved into each other behind our back.
            if names.len() > DEPTH_MAX {
                return Ok(None);
            }
            place = at.places.last();
        };
        names.reverse();
        Ok(Some(Way {
            from,
            names,
            identity,
        }))
    }

    /// Takes a reference to the file with these attributes, which was found at
    /// `place`, and keeps `fid` for it if that is of use.
    ///
    /// # Errors
    /// `ENOMEM` beyond the limit.
    pub(super) fn refer(
        &self,
        attr: &Attr,
        place: Option<(NodeId, &[u8])>,
        fid: Option<(u32, &Arc<Fid>)>,
    ) -> Result<NodeId> {
        let identity = Identity::of(attr);
        // Dropped after the lock: that may send.
        let mut old = Vec::new();
        let mut state = self.lock();
        let known = state.by_identity.get(&identity).copied();
        let id = match known {
            Some(id) => id,
            None if state.known >= self.limit => return Err(Errno::ENOMEM.into()),
            None => state.add(identity),
        };
        if let Some(node) = state.get_mut(id) {
            node.refs += u64::from(id != NodeId::ROOT);
            if let Some((user, fid)) = fid {
                old.extend(node.keep_fid(user, fid));
            }
        }
        if let Some((dir, name)) = place.filter(|_| id != NodeId::ROOT) {
            state.put_at(id, dir, name, &mut old);
        }
        Ok(id)
    }

    /// Sees to it that what is made under a name can be handed out.
    ///
    /// # Errors
    /// `ENOMEM` at the limit, unless something known is there already.
    pub(super) fn check_room(&self, dir: NodeId, name: &[u8]) -> Result<()> {
        let state = self.lock();
        let is_known = state
            .get(dir)
            .is_some_and(|dir| dir.children.contains_key(name));
        match is_known || state.known < self.limit {
            true => Ok(()),
            false => Err(Errno::ENOMEM.into()),
        }
    }

    /// Takes another reference.
    pub(super) fn refer_again(&self, node: NodeId) -> Result<()> {
        let mut state = self.lock();
        let known = state.get_mut(node).ok_or(Errno::ESTALE)?;
        known.refs += u64::from(node != NodeId::ROOT);
        Ok(())
    }

    /// Keeps a fid of a node in the place of one that is of no use any more.
    pub(super) fn keep_fid(&self, node: NodeId, user: u32, fid: &Arc<Fid>) {
        let mut old = None;
        let mut state = self.lock();
        if let Some(node) = state.get_mut(node) {
            old = node.keep_fid(user, fid);
        }
        drop(state);
        drop(old);
    }

    /// Gives references back.
    pub(super) fn forget(&self, node: NodeId, count: u64) {
        let mut old = Vec::new();
        let mut state = self.lock();
        if node == NodeId::ROOT {
            return;
        }
        if let Some(known) = state.get_mut(node) {
            known.refs = known.refs.saturating_sub(count);
            state.drop_unused(node, &mut old);
        }
        drop(state);
        drop(old);
    }

    /// A name is gone.
    pub(super) fn removed(&self, dir: NodeId, name: &[u8]) {
        let mut old = Vec::new();
        let mut state = self.lock();
        state.take_away(dir, name, &mut old);
        drop(state);
        drop(old);
    }

    /// A name leads elsewhere.
    pub(super) fn moved(&self, from: (NodeId, &[u8]), to: (NodeId, &[u8])) {
        let mut old = Vec::new();
        let mut state = self.lock();
        let moved = state.get(from.0).and_then(|dir| dir.children.get(from.1));
        if let Some(moved) = moved.copied() {
            state.put_at(moved, to.0, to.1, &mut old);
            state.take_away(from.0, from.1, &mut old);
        } else {
            state.take_away(to.0, to.1, &mut old);
        }
        drop(state);
        drop(old);
    }

    /// What a name leads to, and all below, is found by names when it is needed next.
    pub(super) fn find_anew(&self, (dir, name): (NodeId, &[u8])) {
        let mut old = Vec::new();
        let mut state = self.lock();
        let top = state.get(dir).and_then(|dir| dir.children.get(name));
        let mut left: Vec<NodeId> = top.copied().into_iter().collect();
        // Directories may have been moved into each other behind our back.
        let mut met: HashSet<NodeId> = left.iter().copied().collect();
        while let Some(node) = left.pop().and_then(|id| state.get_mut(id)) {
            old.extend(node.fids.drain(..).map(|(_, fid)| fid));
            left.extend(node.children.values().filter(|id| met.insert(**id)));
        }
        drop(state);
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    fn fid(&self, user: u32, tree: &Arc<Tree>) -> Option<Arc<Fid>> {
        let mut fids = self.fids.iter();
        let found = fids.find(|(owner, fid)| *owner == user && fid.is_of(tree))?;
        Some(Arc::clone(&found.1))
    }

    /// Keeps a fid, which was found by a name that is known to be right now, unlike
    /// those before it; one that is given up.
    fn keep_fid(&mut self, user: u32, fid: &Arc<Fid>) -> Option<Arc<Fid>> {
        let mut fids = self.fids.iter_mut();
        match fids.find(|(owner, _)| *owner == user) {
            Some((_, kept)) => Some(std::mem::replace(kept, Arc::clone(fid))),
            None => {
                self.fids.push((user, Arc::clone(fid)));
                let is_full = self.fids.len() > USERS_MAX;
                is_full.then(|| self.fids.remove(0).1)
            }
        }
    }
}

impl State {
    fn get(&self, id: NodeId) -> Option<&Node> {
        let slot = self.slots.get(id.slot() as usize)?;
        let node = slot.node.as_ref()?;
        (slot.generation == id.generation()).then_some(node)
    }

    fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        let node = slot.node.as_mut()?;
        (slot.generation == id.generation()).then_some(node)
    }

    fn add(&mut self, identity: Identity) -> NodeId {
        let node = Some(Node {
            identity,
            places: Vec::new(),
            children: HashMap::new(),
            refs: 0,
            fids: Vec::new(),
        });
        let reused = self.free.pop();
        let id = match reused.and_then(|at| Some((at, self.slots.get_mut(at as usize)?))) {
            Some((at, slot)) => {
                slot.generation = slot.generation.wrapping_add(1);
                slot.node = node;
                NodeId::new(at, slot.generation)
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    node,
                });
                NodeId::new((self.slots.len() - 1) as u32, 0)
            }
        };
        self.by_identity.insert(identity, id);
        self.known += 1;
        id
    }

    /// A node is found under a name from now on, and no other is.
    fn put_at(&mut self, id: NodeId, dir: NodeId, name: &[u8], old: &mut Vec<Arc<Fid>>) {
        let Some(parent) = self.get_mut(dir).filter(|_| dir != id) else {
            return;
        };
        let name: Arc<[u8]> = name.into();
        let before = parent.children.insert(Arc::clone(&name), id);
        let place = (dir, name);
        if let Some(other) = before.filter(|other| *other != id) {
            self.has_left(other, &place);
        }
        let Some(node) = self.get_mut(id) else {
            return;
        };
        node.places.retain(|known| *known != place);
        node.places.push(place);
        if node.places.len() > PLACES_MAX {
            let (dir, name) = node.places.remove(0);
            if let Some(dir) = self.get_mut(dir) {
                dir.children.remove(&name);
            }
            self.drop_unused(dir, old);
        }
    }

    /// Nothing is known to be under a name any more.
    fn take_away(&mut self, dir: NodeId, name: &[u8], old: &mut Vec<Arc<Fid>>) {
        let known = self.get_mut(dir).map(|dir| &mut dir.children);
        let Some((name, gone)) = known.and_then(|children| children.remove_entry(name)) else {
            return;
        };
        self.has_left(gone, &(dir, name));
        self.drop_unused(dir, old);
    }

    fn has_left(&mut self, id: NodeId, place: &Place) {
        if let Some(node) = self.get_mut(id) {
            node.places.retain(|known| known != place);
        }
    }

    /// Forgets a node that nobody holds and that is on nobody's way, and those
    /// above it for which that was the last reason.
    fn drop_unused(&mut self, id: NodeId, old: &mut Vec<Arc<Fid>>) {
        let mut candidates = vec![id];
        while let Some(id) = candidates.pop() {
            let is_used = |node: &Node| node.refs > 0 || !node.children.is_empty();
            if id == NodeId::ROOT || self.get(id).is_none_or(is_used) {
                continue;
            }
            let slot = self.slots.get_mut(id.slot() as usize);
            let Some(node) = slot.and_then(|slot| slot.node.take()) else {
                continue;
            };
            self.free.push(id.slot());
            self.known -= 1;
            self.by_identity.remove(&node.identity);
            old.extend(node.fids.into_iter().map(|(_, fid)| fid));
            for (dir, name) in node.places {
                if let Some(dir) = self.get_mut(dir) {
                    dir.children.remove(&name);
                }
                candidates.push(dir);
            }
        }
    }
}
