//! Node ids for qids. A fid belongs to the user who attached it, so each node
//! has one for every user that uses it; it is found as Linux finds it, by
//! walking from a directory where the node was seen.

use super::client::P9Client;
use super::translate;
use super::transport::P9Transport;
use sluice_proto::p9::wire::Qid;
use sluice_vfs::{Caller, Entry, Errno, NodeId, Result, Stamp};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

/// Who a fid belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Owner {
    fn new(caller: &Caller<'_>) -> Self {
        Owner {
            uid: caller.uid,
            gid: caller.gid,
            groups: caller.groups.to_vec(),
        }
    }
}

/// A file, as Linux tells it from others: by the path and the version of its qid,
/// since a path may be another file's later.
type File = (u64, u32);

fn file(qid: &Qid) -> File {
    (qid.path, qid.version)
}

/// The nodes that are known.
#[derive(Default)]
pub(super) struct Nodes {
    by_id: HashMap<NodeId, Known>,
    by_file: HashMap<File, NodeId>,
    last_slot: u32,
}

struct Known {
    file: File,
    place: Option<(NodeId, Vec<u8>)>,
    fids: HashMap<Owner, u32>,
    refs: u64,
}

impl<T: P9Transport> P9Client<T> {
    /// A fid of the node for this caller.
    pub(super) fn fid_of(&self, caller: &Caller<'_>, node: NodeId) -> Result<u32> {
        let owner = Owner::new(caller);
        let place = match (self.lock_nodes().by_id.get(&node), node) {
            (Some(known), _) => match known.fids.get(&owner) {
                Some(fid) => return Ok(*fid),
                None => known.place.clone(),
            },
            (None, NodeId::ROOT) => None,
            (None, _) => return Err(Errno::ESTALE),
        };
        let (fid, qid) = match (node, place) {
            (NodeId::ROOT, _) => self.attach(caller)?,
            (_, Some((dir, name))) => {
                let dir = self.fid_of(caller, dir)?;
                let (fid, qid) = self.walk(dir, Some(&name))?;
                (fid, qid.ok_or(Errno::EIO)?)
            }
            (_, None) => return Err(Errno::ESTALE),
        };
        self.keep_fid(node, &owner, fid, &qid)
    }

    fn keep_fid(&self, node: NodeId, owner: &Owner, fid: u32, qid: &Qid) -> Result<u32> {
        let mut nodes = self.lock_nodes();
        if node == NodeId::ROOT && !nodes.by_id.contains_key(&node) {
            nodes.by_file.insert(file(qid), node);
            let root = Known {
                file: file(qid),
                place: None,
                fids: HashMap::new(),
                refs: 1,
            };
            nodes.by_id.insert(node, root);
        }
        let is_same = match nodes.by_id.get_mut(&node) {
            Some(known) if known.file == file(qid) => {
                known.fids.insert(owner.clone(), fid);
                true
            }
            _ => false,
        };
        drop(nodes);
        if !is_same {
            self.clunk(fid)?;
            return Err(Errno::ESTALE);
        }
        Ok(fid)
    }

    /// Finds a name; `..` too.
    pub(super) fn find(&self, caller: &Caller<'_>, dir: NodeId, name: &[u8]) -> Result<Entry> {
        let dir_fid = self.fid_of(caller, dir)?;
        let (fid, _) = self.walk(dir_fid, Some(name))?;
        let attr = match self.getattr_fid(fid) {
            Ok(attr) => attr,
            Err(error) => {
                self.clunk(fid)?;
                return Err(error);
            }
        };
        let place = (name != b"..").then(|| (dir, name.to_vec()));
        let node = self.refer(caller, fid, &attr.qid, place)?;
        Ok(Entry {
            node,
            attr: translate::attr(&attr),
            stamp: Stamp::NONE,
            dir_stamp: Stamp::NONE,
        })
    }

    /// Takes a reference to what `fid` stands for; the fid is kept if there is
    /// none for this caller.
    fn refer(
        &self,
        caller: &Caller<'_>,
        fid: u32,
        qid: &Qid,
        place: Option<(NodeId, Vec<u8>)>,
    ) -> Result<NodeId> {
        let owner = Owner::new(caller);
        let mut nodes = self.lock_nodes();
        let node = match nodes.by_file.get(&file(qid)) {
            Some(node) => *node,
            None => {
                nodes.last_slot += 1;
                let node = NodeId::new(nodes.last_slot, 1);
                nodes.by_file.insert(file(qid), node);
                node
            }
        };
        let known = nodes.by_id.entry(node).or_insert_with(|| Known {
            file: file(qid),
            place: None,
            fids: HashMap::new(),
            refs: 0,
        });
        known.refs += 1;
        if place.is_some() {
            known.place = place;
        }
        let is_new = !known.fids.contains_key(&owner);
        if is_new {
            known.fids.insert(owner, fid);
        }
        drop(nodes);
        if !is_new {
            self.clunk(fid)?;
        }
        Ok(node)
    }

    /// Takes another reference to a node that is known.
    pub(super) fn refer_again(&self, node: NodeId) -> Result<()> {
        let mut nodes = self.lock_nodes();
        let known = nodes.by_id.get_mut(&node).ok_or(Errno::ESTALE)?;
        known.refs += 1;
        Ok(())
    }

    /// Gives references back; the last one gives the fids back.
    pub(super) fn give_back(&self, node: NodeId, count: u64) {
        if node == NodeId::ROOT {
            return;
        }
        let mut nodes = self.lock_nodes();
        let Some(known) = nodes.by_id.get_mut(&node) else {
            return;
        };
        known.refs = known.refs.saturating_sub(count);
        if known.refs > 0 {
            return;
        }
        let gone = nodes.by_id.remove(&node);
        if let Some(known) = &gone {
            nodes.by_file.remove(&known.file);
        }
        drop(nodes);
        for fid in gone.into_iter().flat_map(|known| known.fids.into_values()) {
            let clunked = self.clunk(fid);
            assert_eq!(clunked, Ok(()), "a fid that is not open is given back");
        }
    }

    /// A name leads to another place.
    pub(super) fn moved(&self, old: (NodeId, &[u8]), new: (NodeId, &[u8])) {
        let mut nodes = self.lock_nodes();
        let is_there = |known: &&mut Known| {
            let place = known.place.as_ref();
            place.is_some_and(|(dir, name)| (*dir, &name[..]) == old)
        };
        if let Some(known) = nodes.by_id.values_mut().find(is_there) {
            known.place = Some((new.0, new.1.to_vec()));
        }
    }

    fn lock_nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
