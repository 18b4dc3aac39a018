//! User and group ids between peer and host.

use sluice_vfs::{Errno, Result};

/// A run of ids that are mapped one to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// First id as the peer sees it.
    pub peer: u32,
    /// First id on the host.
    pub host: u32,
    /// How many follow one another.
    pub count: u32,
}

/// Translates ids of one kind. The default leaves every id as it is.
#[derive(Clone, Debug, Default)]
pub struct IdMap {
    ranges: Vec<IdRange>,
}

/// What peers see for an id of the host that has no translation: Linux's
/// `overflowuid`.
const OVERFLOW_ID: u32 = 65_534;

/// −1, which system calls take for "none".
const NO_ID: u32 = u32::MAX;

impl IdMap {
    /// A map of these ranges; where they overlap the first counts. With no
    /// range at all every id stays as it is.
    pub fn new(ranges: Vec<IdRange>) -> Self {
        IdMap { ranges }
    }

    /// The host's id for a peer's. `EINVAL` if it has none, as chown(2) says
    /// of ids outside its user name space.
    pub fn to_host(&self, peer: u32) -> Result<u32> {
        let host = if self.ranges.is_empty() {
            Some(peer)
        } else {
            let range = |range: &IdRange| shift(peer, range.peer, range.host, range.count);
            self.ranges.iter().find_map(range)
        };
        host.filter(|id| *id != NO_ID).ok_or(Errno::EINVAL)
    }

    /// What the peer sees for a host's id.
    pub fn to_peer(&self, host: u32) -> u32 {
        if self.ranges.is_empty() {
            return host;
        }
        let range = |range: &IdRange| shift(host, range.host, range.peer, range.count);
        self.ranges.iter().find_map(range).unwrap_or(OVERFLOW_ID)
    }
}

/// `id` moved from the run at `from` to the one at `to`, if it is in it.
fn shift(id: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let at = id.checked_sub(from).filter(|at| *at < count)?;
    to.checked_add(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_keeps_ids() {
        let map = IdMap::default();
        assert_eq!(map.to_host(1000), Ok(1000));
        assert_eq!(map.to_peer(1000), 1000);
        assert_eq!(map.to_host(u32::MAX), Err(Errno::EINVAL));
    }

    #[test]
    fn ranges_shift_ids_and_the_rest_is_nobody() {
        let map = IdMap::new(vec![
            IdRange {
                peer: 0,
                host: 100_000,
                count: 1000,
            },
            IdRange {
                peer: 1000,
                host: 1000,
                count: 1,
            },
        ]);
        assert_eq!(map.to_host(0), Ok(100_000));
        assert_eq!(map.to_host(999), Ok(100_999));
        assert_eq!(map.to_host(1000), Ok(1000));
        assert_eq!(map.to_host(1001), Err(Errno::EINVAL));
        assert_eq!(map.to_peer(100_005), 5);
        assert_eq!(map.to_peer(1000), 1000);
        assert_eq!(map.to_peer(0), OVERFLOW_ID);
    }
}
