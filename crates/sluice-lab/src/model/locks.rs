//! Advisory locks: who holds what, and who waits.

use super::state::SessionId;
use sluice_vfs::{HandleId, Lock, LockKind, LockOwner, LockRange, LockStyle, WaitId};
use std::collections::BTreeMap;

/// An owner among all sessions: the token is the session's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) session: SessionId,
    pub(super) token: LockOwner,
}

/// A request for a lock, and what stands for it once it is held.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) owner: Owner,
    pub(super) handle: HandleId,
    pub(super) lock: Lock,
}

impl Claim {
    /// Whether the two can't be held at once.
    fn conflicts_with(&self, other: &Claim) -> bool {
        let is_exclusive = self.lock.kind == LockKind::Write || other.lock.kind == LockKind::Write;
        self.owner != other.owner
            && self.lock.style == other.lock.style
            && self.lock.range.overlaps(&other.lock.range)
            && is_exclusive
    }
}

struct Waiting {
    claim: Claim,
    wait: WaitId,
}

#[derive(Default)]
struct FileLocks {
    held: Vec<Claim>,
    /// In order of arrival.
    waiting: Vec<Waiting>,
}

/// The locks of all files.
#[derive(Default)]
pub(super) struct LockTable {
    files: BTreeMap<u64, FileLocks>,
}

impl LockTable {
    /// The first held lock in the way of `claim`.
    pub(super) fn conflict(&self, ino: u64, claim: &Claim) -> Option<Claim> {
        let file = self.files.get(&ino)?;
        file.held
            .iter()
            .find(|held| claim.conflicts_with(held))
            .copied()
    }

    /// Gives the claim its lock, or takes it away for [`LockKind::Unlock`]:
    /// what the owner held in the range is replaced, the rest stays.
    pub(super) fn apply(&mut self, ino: u64, claim: &Claim) {
        let file = self.files.entry(ino).or_default();
        file.apply(claim);
        self.tidy(ino);
    }

    pub(super) fn wait(&mut self, ino: u64, claim: Claim, wait: WaitId) {
        let waiting = Waiting { claim, wait };
        self.files.entry(ino).or_default().waiting.push(waiting);
    }

    /// Grants what waits and can be had, in order of arrival.
    pub(super) fn grant(&mut self, ino: u64) -> Vec<(SessionId, WaitId)> {
        let mut granted = Vec::new();
        if let Some(file) = self.files.get_mut(&ino) {
            while let Some(next) = file.take_grantable() {
                file.apply(&next.claim);
                granted.push((next.claim.owner.session, next.wait));
            }
        }
        granted
    }

    /// Takes a waiting request out; whether there was one.
    pub(super) fn cancel(&mut self, session: SessionId, wait: WaitId) -> bool {
        let mut found = false;
        for file in self.files.values_mut() {
            file.waiting.retain(|waiting| {
                let is_it = waiting.claim.owner.session == session && waiting.wait == wait;
                found |= is_it;
                !is_it
            });
        }
        found
    }

    pub(super) fn is_waiting(&self, session: SessionId, wait: WaitId) -> bool {
        self.waits_of(session).any(|waiting| waiting.wait == wait)
    }

    pub(super) fn wait_count(&self, session: SessionId) -> usize {
        self.waits_of(session).count()
    }

    /// Pairs of file and owner that hold locks.
    pub(super) fn owner_count(&self, session: SessionId) -> usize {
        self.files
            .values()
            .map(|file| file.owner_count(session))
            .sum()
    }

    /// Ranges that POSIX locks of a session hold.
    pub(super) fn range_count(&self, session: SessionId) -> usize {
        let held = self.files.values().flat_map(|file| &file.held);
        held.filter(|held| held.owner.session == session && held.lock.style == LockStyle::Posix)
            .count()
    }

    /// Whether giving up the claim's range leaves two ranges of one.
    pub(super) fn is_split_by(&self, ino: u64, claim: &Claim) -> bool {
        let LockRange { start, end } = claim.lock.range;
        self.files.get(&ino).is_some_and(|file| {
            file.held.iter().any(|held| {
                let its = held.lock;
                held.owner == claim.owner
                    && its.style == claim.lock.style
                    && its.range.start < start
                    && end < its.range.end
            })
        })
    }

    pub(super) fn holds(&self, ino: u64, owner: Owner) -> bool {
        self.files
            .get(&ino)
            .is_some_and(|file| file.held.iter().any(|held| held.owner == owner))
    }

    /// The kind of flock that an owner holds.
    pub(super) fn held_flock(&self, ino: u64, owner: Owner) -> Option<LockKind> {
        let file = self.files.get(&ino)?;
        file.held
            .iter()
            .find(|held| held.owner == owner && held.lock.style == LockStyle::Flock)
            .map(|held| held.lock.kind)
    }

    /// Drops an owner's locks of one style.
    pub(super) fn drop_owner(&mut self, ino: u64, owner: Owner, style: LockStyle) {
        self.retain(ino, |held| held.owner != owner || held.lock.style != style);
    }

    /// Drops the locks of owners that last used this handle for them.
    pub(super) fn drop_handle(&mut self, ino: u64, session: SessionId, handle: HandleId) {
        self.retain(ino, |held| {
            held.owner.session != session || held.handle != handle
        });
    }

    /// Drops all that a session holds or waits for; the files concerned.
    pub(super) fn drop_session(&mut self, session: SessionId) -> Vec<u64> {
        let inos: Vec<u64> = self.files.keys().copied().collect();
        for &ino in &inos {
            if let Some(file) = self.files.get_mut(&ino) {
                file.waiting.retain(|w| w.claim.owner.session != session);
            }
            self.retain(ino, |held| held.owner.session != session);
        }
        inos
    }

    pub(super) fn drop_file(&mut self, ino: u64) {
        self.files.remove(&ino);
    }

    fn waits_of(&self, session: SessionId) -> impl Iterator<Item = &Waiting> {
        self.files
            .values()
            .flat_map(|file| &file.waiting)
            .filter(move |waiting| waiting.claim.owner.session == session)
    }

    fn retain(&mut self, ino: u64, keep: impl FnMut(&Claim) -> bool) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.held.retain(keep);
        }
        self.tidy(ino);
    }

    fn tidy(&mut self, ino: u64) {
        let is_unused = |file: &FileLocks| file.held.is_empty() && file.waiting.is_empty();
        if self.files.get(&ino).is_some_and(is_unused) {
            self.files.remove(&ino);
        }
    }
}

impl FileLocks {
    fn take_grantable(&mut self) -> Option<Waiting> {
        let is_free = |claim: &Claim| !self.held.iter().any(|held| claim.conflicts_with(held));
        let at = self.waiting.iter().position(|w| is_free(&w.claim))?;
        Some(self.waiting.remove(at))
    }

    fn apply(&mut self, claim: &Claim) {
        let is_same =
            |held: &Claim| held.owner == claim.owner && held.lock.style == claim.lock.style;
        let (mut own, others): (Vec<Claim>, Vec<Claim>) =
            self.held.iter().partition(|h| is_same(h));
        own.iter_mut().for_each(|held| held.handle = claim.handle);
        // Linux keeps an owner's locks together, by offset, where its first one came.
        let first = self.held.iter().position(is_same);
        let first = first.unwrap_or(others.len());
        self.held = others;
        let mut added = (claim.lock.kind != LockKind::Unlock).then_some(*claim);
        let mut kept = Vec::new();
        for held in own {
            match &mut added {
                Some(new) if new.lock.kind == held.lock.kind && touches(new, &held) => {
                    new.lock.range = hull(new.lock.range, held.lock.range);
                }
                _ => kept.extend(without(&held, claim.lock.range)),
            }
        }
        kept.extend(added);
        kept.sort_by_key(|held| held.lock.range.start);
        self.held.splice(first..first, kept);
    }

    fn owner_count(&self, session: SessionId) -> usize {
        let mut owners: Vec<Owner> = self
            .held
            .iter()
            .map(|held| held.owner)
            .filter(|owner| owner.session == session)
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners.len()
    }
}

/// Whether two ranges overlap or lie side by side.
fn touches(a: &Claim, b: &Claim) -> bool {
    let (a, b) = (a.lock.range, b.lock.range);
    a.start <= b.end.saturating_add(1) && b.start <= a.end.saturating_add(1)
}

fn hull(a: LockRange, b: LockRange) -> LockRange {
    LockRange {
        start: a.start.min(b.start),
        end: a.end.max(b.end),
    }
}

/// What is left of a lock when `range` is taken out.
fn without(held: &Claim, range: LockRange) -> impl Iterator<Item = Claim> {
    let LockRange { start, end } = held.lock.range;
    let piece = |start, end| Claim {
        lock: Lock {
            range: LockRange { start, end },
            ..held.lock
        },
        ..*held
    };
    let overlaps = held.lock.range.overlaps(&range);
    let whole = (!overlaps).then_some(*held);
    let before = (overlaps && start < range.start).then(|| piece(start, range.start - 1));
    let after = (overlaps && end > range.end).then(|| piece(range.end + 1, end));
    whole.into_iter().chain(before).chain(after)
}
