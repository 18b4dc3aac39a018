//! User and group ids between peer and host.

use sluice_vfs::{Errno, Result};

/// A run of ids of one side, and what they are on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRun {
    /// The first id.
    pub first: u32,
    /// How many follow one another.
    pub count: u32,
    /// What becomes of them.
    pub becomes: Becomes,
}

/// What the ids of a run are on the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// As many ids from this one on, in the same order.
    From(u32),
    /// All the same id.
    Only(u32),
    /// None.
    Refused,
}

/// Translates ids of one kind. Each direction is by itself; an id that no run
/// of its side has stays as it is. The default leaves every id as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    to_host: Vec<IdRun>,
    to_peer: Vec<IdRun>,
}

/// What peers see for an id of the host that has no translation: Linux's
/// `overflowuid`.
const OVERFLOW_ID: u32 = 65_534;

/// −1, which system calls take for "none".
const NO_ID: u32 = u32::MAX;

impl IdMap {
    /// Translates this run of the peer's ids; `EINVAL` if the map has one of
    /// them already, or there are no such ids.
    pub fn add_to_host(&mut self, run: IdRun) -> Result<()> {
        add(&mut self.to_host, run)
    }

    /// Translates this run of the host's ids; `EINVAL` as above.
    pub fn add_to_peer(&mut self, run: IdRun) -> Result<()> {
        add(&mut self.to_peer, run)
    }

    /// Whether it changes anything.
    pub fn is_identity(&self) -> bool {
        self.to_host.is_empty() && self.to_peer.is_empty()
    }

    /// The host's id for a peer's. `EPERM` if the peer may not use it; `EINVAL`
    /// for −1, as chown(2) says of ids outside its user name space.
    pub fn to_host(&self, peer: u32) -> Result<u32> {
        let host = translate(&self.to_host, peer).ok_or(Errno::EPERM)?;
        match host {
            NO_ID => Err(Errno::EINVAL),
            host => Ok(host),
        }
    }

    /// What the peer sees for a host's id.
    pub fn to_peer(&self, host: u32) -> u32 {
        translate(&self.to_peer, host).unwrap_or(OVERFLOW_ID)
    }
}

fn add(runs: &mut Vec<IdRun>, run: IdRun) -> Result<()> {
    let last = run.last().ok_or(Errno::EINVAL)?;
    let overlaps = |other: &IdRun| {
        other
            .last()
            .is_some_and(|other_last| run.first <= other_last && other.first <= last)
    };
    if runs.iter().any(overlaps) {
        return Err(Errno::EINVAL);
    }
    if let Becomes::From(first) = run.becomes {
        first.checked_add(run.count).ok_or(Errno::EINVAL)?;
    }
    runs.push(run);
    Ok(())
}

impl IdRun {
    /// Its last id; −1 is none.
    fn last(&self) -> Option<u32> {
        let end = self.first.checked_add(self.count)?;
        end.checked_sub(1).filter(|last| *last >= self.first)
    }

    /// What becomes of `id`, if it is in the run.
    fn find(&self, id: u32) -> Option<Becomes> {
        let at = id.checked_sub(self.first).filter(|at| *at < self.count)?;
        Some(match self.becomes {
            Becomes::From(first) => Becomes::Only(first.checked_add(at)?),
            other => other,
        })
    }
}

fn translate(runs: &[IdRun], id: u32) -> Option<u32> {
    match runs.iter().find_map(|run| run.find(id)) {
        None => Some(id),
        Some(Becomes::Refused) => None,
        Some(Becomes::Only(other) | Becomes::From(other)) => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32, becomes: Becomes) -> IdRun {
        IdRun {
            first,
            count,
            becomes,
        }
    }

    #[test]
    fn the_default_keeps_ids() {
        let map = IdMap::default();
        assert!(map.is_identity());
        assert_eq!(map.to_host(1000), Ok(1000));
        assert_eq!(map.to_peer(1000), 1000);
        assert_eq!(map.to_host(u32::MAX), Err(Errno::EINVAL));
    }

    #[test]
    fn runs_shift_squash_and_refuse_each_way_by_itself() {
        let mut map = IdMap::default();
        map.add_to_host(run(0, 1000, Becomes::From(100_000)))
            .unwrap();
        map.add_to_host(run(2000, 10, Becomes::Only(7))).unwrap();
        map.add_to_host(run(3000, 10, Becomes::Refused)).unwrap();
        map.add_to_peer(run(100_000, 1000, Becomes::From(0)))
            .unwrap();
        map.add_to_peer(run(0, 10, Becomes::Refused)).unwrap();
        assert_eq!(map.to_host(0), Ok(100_000));
        assert_eq!(map.to_host(999), Ok(100_999));
        assert_eq!(map.to_host(1000), Ok(1000));
        assert_eq!([map.to_host(2000), map.to_host(2009)], [Ok(7); 2]);
        assert_eq!(map.to_host(3009), Err(Errno::EPERM));
        assert_eq!(map.to_host(3010), Ok(3010));
        assert_eq!(map.to_peer(100_005), 5);
        assert_eq!(map.to_peer(7), OVERFLOW_ID);
        assert_eq!(map.to_peer(2000), 2000);
    }

    #[test]
    fn runs_neither_overlap_nor_leave_the_range_of_ids() {
        let mut map = IdMap::default();
        map.add_to_host(run(10, 10, Becomes::From(10))).unwrap();
        for bad in [
            run(19, 1, Becomes::Only(1)),
            run(5, 6, Becomes::Refused),
            run(0, 100, Becomes::From(0)),
            run(30, 0, Becomes::Refused),
            run(u32::MAX, 2, Becomes::Refused),
            run(30, 2, Becomes::From(u32::MAX - 1)),
        ] {
            assert_eq!(map.add_to_host(bad), Err(Errno::EINVAL), "{bad:?}");
        }
        map.add_to_host(run(20, u32::MAX - 20, Becomes::Only(u32::MAX)))
            .unwrap();
        assert_eq!(map.to_host(20), Err(Errno::EINVAL));
    }
}
