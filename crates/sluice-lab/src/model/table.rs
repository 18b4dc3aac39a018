//! Ids of one session: slots with generations.

use sluice_vfs::{Errno, HandleId, NodeId, OpenFlags, Result};
use std::collections::BTreeMap;

/// Slots that are reused under a new generation. Slot 0 is never used, so that
/// no id is 0.
struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    fn new() -> Self {
        let unused = Slot {
            generation: 0,
            value: None,
        };
        Slots {
            slots: vec![unused],
            free: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.slots.len() - 1 - self.free.len()
    }

    /// Slot and generation of the new value.
    fn insert(&mut self, value: T) -> (u32, u32) {
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            slot.value = Some(value);
            return (index, slot.generation);
        }
        self.slots.push(Slot {
            generation: 0,
            value: Some(value),
        });
        (self.slots.len() as u32 - 1, 0)
    }

    fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == generation)
    }

    fn get_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(index as usize)?;
        slot.value
            .as_mut()
            .filter(|_| slot.generation == generation)
    }

    fn remove(&mut self, index: u32, generation: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }
}

struct Node {
    ino: u64,
    references: u64,
}

/// The nodes that a session knows.
pub(super) struct NodeTable {
    slots: Slots<Node>,
    by_ino: BTreeMap<u64, NodeId>,
    limit: u32,
}

impl NodeTable {
    /// With the root known as [`NodeId::ROOT`]; `limit` counts the others.
    pub(super) fn new(root_ino: u64, limit: u32) -> Self {
        let mut slots = Slots::new();
        slots.insert(Node {
            ino: root_ino,
            references: 1,
        });
        NodeTable {
            slots,
            by_ino: BTreeMap::from([(root_ino, NodeId::ROOT)]),
            limit,
        }
    }

    pub(super) fn ino(&self, node: NodeId) -> Result<u64> {
        self.slots
            .get(node.slot(), node.generation())
            .map(|node| node.ino)
            .ok_or(Errno::ESTALE)
    }

    pub(super) fn find(&self, ino: u64) -> Option<NodeId> {
        self.by_ino.get(&ino).copied()
    }

    /// `ENOMEM` if another node would be one too many.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.slots.len() > self.limit as usize {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Takes a reference; the flag says that the node wasn't known before.
    pub(super) fn take(&mut self, ino: u64) -> Result<(NodeId, bool)> {
        if let Some(id) = self.find(ino) {
            if let Some(node) = self.slots.get_mut(id.slot(), id.generation()) {
                node.references = node.references.saturating_add(1);
            }
            return Ok((id, false));
        }
        self.check_room()?;
        let (slot, generation) = self.slots.insert(Node { ino, references: 1 });
        let id = NodeId::new(slot, generation);
        self.by_ino.insert(ino, id);
        Ok((id, true))
    }

    /// Gives references back; the inode if the node isn't known any more.
    pub(super) fn forget(&mut self, id: NodeId, count: u64) -> Option<u64> {
        if id == NodeId::ROOT {
            return None;
        }
        let node = self.slots.get_mut(id.slot(), id.generation())?;
        node.references = node.references.saturating_sub(count);
        if node.references > 0 {
            return None;
        }
        let node = self.slots.remove(id.slot(), id.generation())?;
        self.by_ino.remove(&node.ino);
        Some(node.ino)
    }

    pub(super) fn inos(&self) -> impl Iterator<Item = u64> {
        self.slots.values().map(|node| node.ino)
    }
}

/// An open file or directory.
#[derive(Clone, Copy)]
pub(super) struct Handle {
    pub(super) ino: u64,
    pub(super) flags: OpenFlags,
}

/// The handles that a session has open.
pub(super) struct HandleTable {
    slots: Slots<Handle>,
    limit: u32,
}

impl HandleTable {
    pub(super) fn new(limit: u32) -> Self {
        HandleTable {
            slots: Slots::new(),
            limit,
        }
    }

    /// `ENFILE` if another handle would be one too many.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.slots.len() >= self.limit as usize {
            return Err(Errno::ENFILE);
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, handle: Handle) -> Result<HandleId> {
        self.check_room()?;
        let (slot, generation) = self.slots.insert(handle);
        Ok(HandleId::new(slot, generation))
    }

    pub(super) fn get(&self, id: HandleId) -> Result<Handle> {
        self.slots
            .get(id.slot(), id.generation())
            .copied()
            .ok_or(Errno::EBADF)
    }

    pub(super) fn remove(&mut self, id: HandleId) -> Result<Handle> {
        self.slots
            .remove(id.slot(), id.generation())
            .ok_or(Errno::EBADF)
    }

    pub(super) fn inos(&self) -> impl Iterator<Item = u64> {
        self.slots.values().map(|handle| handle.ino)
    }
}
