//! The byte ranges that one lock owner holds on one file, as the kernel keeps them.

use crate::lock::{LockKind, LockRange};
use std::collections::BTreeMap;

/// Ranges that do not overlap. Those of one kind do not touch either: the kernel joins
/// them.
#[derive(Clone, Debug, Default)]
pub struct LockRanges {
    /// By first byte: the last byte, and the kind.
    by_start: BTreeMap<u64, (u64, LockKind)>,
}

impl LockRanges {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// All of them, by their first bytes.
    pub fn iter(&self) -> impl Iterator<Item = (LockKind, LockRange)> {
        let held = self.by_start.iter();
        held.map(|(&start, &(end, kind))| (kind, LockRange { start, end }))
    }

    /// Whether exactly this range is held, as this kind.
    pub fn has(&self, kind: LockKind, range: LockRange) -> bool {
        self.by_start.get(&range.start) == Some(&(range.end, kind))
    }

    /// Whether taking `range` out leaves two ranges of one.
    pub fn is_split_by(&self, range: LockRange) -> bool {
        self.last_from(range.end)
            .is_some_and(|(held, _)| held.start < range.start && range.end < held.end)
    }

    /// `range` becomes `kind`; what is held beside it stays.
    pub fn set(&mut self, kind: LockKind, range: LockRange) {
        self.cut(range);
        if kind == LockKind::Unlock {
            return;
        }
        let LockRange { mut start, mut end } = range;
        let before = self.last_from(start);
        if let Some((held, _)) =
            before.filter(|(held, its)| *its == kind && held.end.checked_add(1) == Some(start))
        {
            start = held.start;
        }
        let behind = end.checked_add(1);
        if let Some((held_end, _)) = behind.and_then(|behind| {
            self.by_start
                .get(&behind)
                .copied()
                .filter(|held| held.1 == kind)
        }) {
            self.by_start.remove(&(end + 1));
            end = held_end;
        }
        self.by_start.insert(start, (end, kind));
    }

    /// Takes out what is held in `range`.
    fn cut(&mut self, range: LockRange) {
        while let Some((held, kind)) = self
            .last_from(range.end)
            .filter(|(held, _)| held.overlaps(&range))
        {
            self.by_start.remove(&held.start);
            if held.start < range.start {
                self.by_start.insert(held.start, (range.start - 1, kind));
            }
            if held.end > range.end {
                self.by_start.insert(range.end + 1, (held.end, kind));
            }
        }
    }

    /// The last range that begins at `offset` or before.
    fn last_from(&self, offset: u64) -> Option<(LockRange, LockKind)> {
        let (&start, &(end, kind)) = self.by_start.range(..=offset).next_back()?;
        Some((LockRange { start, end }, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockKind::{Read, Unlock, Write};

    fn range(start: u64, end: u64) -> LockRange {
        LockRange { start, end }
    }

    fn held(ranges: &LockRanges) -> Vec<(u64, u64, LockKind)> {
        let held = ranges.iter();
        held.map(|(kind, range)| (range.start, range.end, kind))
            .collect()
    }

    #[test]
    fn ranges_are_split_and_joined() {
        let mut ranges = LockRanges::default();
        ranges.set(Write, range(10, 19));
        ranges.set(Read, range(13, 15));
        assert_eq!(
            held(&ranges),
            [(10, 12, Write), (13, 15, Read), (16, 19, Write)]
        );
        assert!(ranges.has(Read, range(13, 15)));
        assert!(!ranges.has(Write, range(13, 15)));
        ranges.set(Write, range(13, 15));
        assert_eq!(held(&ranges), [(10, 19, Write)]);
        ranges.set(Unlock, range(0, 10));
        ranges.set(Unlock, range(19, LockRange::EOF));
        assert_eq!(held(&ranges), [(11, 18, Write)]);
        ranges.set(Read, LockRange::ALL);
        assert_eq!(held(&ranges), [(0, LockRange::EOF, Read)]);
        ranges.set(Unlock, LockRange::ALL);
        assert!(ranges.is_empty());
    }

    /// Against an array of bytes, with all ranges of a small file.
    #[test]
    fn every_step_is_what_bytes_would_be() {
        const LEN: usize = 8;
        let all = (0..LEN).flat_map(|start| (start..LEN).map(move |end| (start, end)));
        let steps: Vec<_> = all
            .flat_map(|(start, end)| [Read, Write, Unlock].map(|kind| (start, end, kind)))
            .collect();
        let mut ranges = LockRanges::default();
        let mut bytes = [Unlock; LEN];
        // A stride that has no factor in common with their number visits all.
        for nth in 0..20 * steps.len() {
            let (start, end, kind) = steps[nth * 61 % steps.len()];
            let asked = range(start as u64, end as u64);
            let most = match kind {
                Unlock => ranges.len() + usize::from(ranges.is_split_by(asked)),
                Read | Write => ranges.len() + 2,
            };
            ranges.set(kind, asked);
            bytes[start..=end].fill(kind);
            let mut runs = Vec::new();
            for at in (0..LEN).filter(|at| bytes[*at] != Unlock) {
                match runs.last_mut() {
                    Some((_, end, kind)) if *end + 1 == at && *kind == bytes[at] => *end = at,
                    _ => runs.push((at, at, bytes[at])),
                }
            }
            let runs: Vec<_> = runs
                .iter()
                .map(|&(start, end, kind)| (start as u64, end as u64, kind))
                .collect();
            assert_eq!(held(&ranges), runs);
            assert!(ranges.len() <= most);
        }
    }
}
