//! Inode numbers as peers see them: unique within the export, although it may
//! span host file systems whose numbers collide.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{PoisonError, RwLock};

/// Numbers below 2^48 on the root's device stay as they are. All others get an
/// index for their device and their own high bits in the place of those bits,
/// so the map is as small as the number of file systems, not of files.
pub(crate) struct InoMap {
    root_dev: u64,
    indices: RwLock<HashMap<Prefix, u16>>,
}

/// Device, and the high bits of the number on it.
type Prefix = (u64, u16);

const LOW_BITS: u32 = 48;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

/// Stands for all prefixes that come when every other index is taken. There
/// a number is a hash, unique only by chance.
const OVERFLOW_INDEX: u16 = u16::MAX;

impl InoMap {
    pub(crate) fn new(root_dev: u64) -> Self {
        InoMap {
            root_dev,
            indices: RwLock::default(),
        }
    }

    /// The number that peers see for inode `ino` of device `dev`.
    pub(crate) fn to_peer(&self, dev: u64, ino: u64) -> u64 {
        let high = (ino >> LOW_BITS) as u16;
        if dev == self.root_dev && high == 0 {
            return ino;
        }
        let index = self.index_of((dev, high));
        let low = if index == OVERFLOW_INDEX {
            hash(dev, ino)
        } else {
            ino
        };
        u64::from(index) << LOW_BITS | (low & LOW_MASK)
    }

    /// An index between 1 and [`OVERFLOW_INDEX`].
    fn index_of(&self, prefix: Prefix) -> u16 {
        let indices = self.indices.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = indices.get(&prefix) {
            return *index;
        }
        drop(indices);
        let mut indices = self.indices.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = indices.get(&prefix) {
            return *index;
        }
        match u16::try_from(indices.len() + 1) {
            Ok(index) if index < OVERFLOW_INDEX => {
                indices.insert(prefix, index);
                index
            }
            _ => OVERFLOW_INDEX,
        }
    }
}

fn hash(dev: u64, ino: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (dev, ino).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_roots_own_numbers_stay() {
        let map = InoMap::new(7);
        assert_eq!(map.to_peer(7, 1), 1);
        assert_eq!(map.to_peer(7, LOW_MASK), LOW_MASK);
    }

    #[test]
    fn equal_numbers_of_different_devices_differ_for_good() {
        let map = InoMap::new(7);
        let hosts = [(7, 2), (8, 2), (9, 2), (7, 2 | 1 << 60), (8, 2 | 1 << 60)];
        let first: Vec<u64> = hosts.iter().map(|(d, i)| map.to_peer(*d, *i)).collect();
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), hosts.len());
        let again: Vec<u64> = hosts.iter().map(|(d, i)| map.to_peer(*d, *i)).collect();
        assert_eq!(first, again);
    }

    #[test]
    fn more_prefixes_than_indices_still_get_numbers() {
        let map = InoMap::new(0);
        for dev in 1..=70_000 {
            map.to_peer(dev, 1);
        }
        let numbers: HashSet<u64> = (1..=70_000).map(|dev| map.to_peer(dev, 1)).collect();
        assert_eq!(numbers.len(), 70_000);
        assert!(map.indices.read().unwrap().len() < usize::from(OVERFLOW_INDEX));
    }
}
