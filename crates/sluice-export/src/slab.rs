//! Values under ids that are never given out twice.

/// A table of values. An id is a slot and the slot's generation, which moves
/// on whenever the slot is emptied, so that an id whose value was removed
/// finds nothing, even after the slot is used again.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn get(&self, slot: u32, generation: u32) -> Option<&T> {
        let found = self.slots.get(slot as usize)?;
        found
            .value
            .as_ref()
            .filter(|_| found.generation == generation)
    }

    /// Stores what `make` makes of its slot and generation; `None` if the
    /// table can't grow further.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32, u32) -> T) -> Option<&T> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.add_slot()?,
        };
        let found = self.slots.get_mut(slot as usize)?;
        Some(found.value.insert(make(slot, found.generation)))
    }

    pub(crate) fn remove(&mut self, slot: u32, generation: u32) -> Option<T> {
        let found = self.slots.get_mut(slot as usize)?;
        if found.generation != generation {
            return None;
        }
        let value = found.value.take()?;
        found.generation = found.generation.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    fn add_slot(&mut self) -> Option<u32> {
        let slot = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot {
            generation: 0,
            value: None,
        });
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_outlived_by_its_slot_finds_nothing() {
        let mut slab = Slab::new();
        let first = *slab
            .insert_with(|slot, generation| (slot, generation))
            .unwrap();
        assert_eq!(first, (0, 0));
        assert_eq!(slab.remove(0, 1), None);
        assert_eq!(slab.remove(0, 0), Some((0, 0)));
        assert_eq!(slab.remove(0, 0), None);
        let second = *slab
            .insert_with(|slot, generation| (slot, generation))
            .unwrap();
        assert_eq!(second, (0, 1));
        assert_eq!(slab.get(0, 0), None);
        assert_eq!(slab.get(0, 1), Some(&(0, 1)));
        assert_eq!(slab.get(7, 0), None);
    }
}
