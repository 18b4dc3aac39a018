//! Advisory locks.

use super::Call;
use crate::model::locks::{Claim, Owner};
use sluice_vfs::{
    Errno, HandleId, Lock, LockKind, LockOutcome, LockRange, LockStyle, NodeId, OpenFlags, Result,
    WaitId,
};

impl Call<'_> {
    pub(in crate::model) fn getlk(
        &self,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        if lock.kind == LockKind::Unlock {
            return Err(Errno::EINVAL);
        }
        let (ino, claim) = self.claim(node, handle, lock)?;
        let found = self.state.locks.conflict(ino, &claim);
        Ok(found.map(|held| Lock {
            pid: self.pid_for_peer(&held),
            ..held.lock
        }))
    }

    pub(in crate::model) fn setlk(
        &mut self,
        node: NodeId,
        handle: HandleId,
        lock: &Lock,
        wait: Option<WaitId>,
    ) -> Result<LockOutcome> {
        let (ino, claim) = self.claim(node, handle, lock)?;
        if lock.kind == LockKind::Unlock {
            let is_split = self.state.locks.is_split_by(ino, &claim);
            self.check_ranges(usize::from(is_split))?;
            self.state.locks.apply(ino, &claim);
            self.state.settle_locks(ino);
            return Ok(LockOutcome::Done);
        }
        self.check_lock_mode(node, handle, lock)?;
        let limits = self.session()?.limits;
        let is_another = !self.state.locks.holds(ino, claim.owner);
        let owners = self.state.locks.owner_count(self.id);
        if is_another && owners >= limits.lock_owners as usize {
            return Err(Errno::ENOLCK);
        }
        if lock.style == LockStyle::Posix {
            self.check_ranges(2)?;
        }
        if lock.style == LockStyle::Flock {
            self.give_up_other_flock(ino, &claim);
        }
        if self.state.locks.conflict(ino, &claim).is_none() {
            self.state.locks.apply(ino, &claim);
            // A smaller claim than before may let others in.
            self.state.settle_locks(ino);
            return Ok(LockOutcome::Done);
        }
        let wait = wait.ok_or(Errno::EAGAIN)?;
        if self.state.locks.is_waiting(self.id, wait) {
            return Err(Errno::EINVAL);
        }
        if self.state.locks.wait_count(self.id) >= limits.lock_waits as usize {
            return Err(Errno::ENOLCK);
        }
        self.state.locks.wait(ino, claim, wait);
        Ok(LockOutcome::Waiting)
    }

    pub(in crate::model) fn cancel_wait(&mut self, wait: WaitId) {
        if self.state.locks.cancel(self.id, wait) {
            self.state.tell_wait(self.id, wait, Err(Errno::EINTR));
        }
    }

    /// Room for as many ranges more.
    fn check_ranges(&self, more: usize) -> Result<()> {
        let limit = self.session()?.limits.lock_ranges as usize;
        match more > 0 && self.state.locks.range_count(self.id) + more > limit {
            true => Err(Errno::ENOLCK),
            false => Ok(()),
        }
    }

    fn claim(&self, node: NodeId, handle: HandleId, lock: &Lock) -> Result<(u64, Claim)> {
        let ino = self.handle(node, handle)?.ino;
        let range = match lock.style {
            LockStyle::Flock => LockRange::ALL,
            LockStyle::Posix => LockRange {
                start: lock.range.start,
                end: lock.range.end.min(LockRange::EOF),
            },
        };
        if range.start > range.end {
            return Err(Errno::EINVAL);
        }
        let owner = Owner {
            session: self.id,
            token: self.ctx.lock_owner,
        };
        let lock = Lock { range, ..*lock };
        Ok((
            ino,
            Claim {
                owner,
                handle,
                lock,
            },
        ))
    }

    /// A POSIX lock takes a descriptor that could do what it guards.
    fn check_lock_mode(&self, node: NodeId, handle: HandleId, lock: &Lock) -> Result<()> {
        let needed = match (lock.style, lock.kind) {
            (LockStyle::Posix, LockKind::Read) => OpenFlags::READ,
            (LockStyle::Posix, LockKind::Write) => OpenFlags::WRITE,
            _ => return Ok(()),
        };
        self.opened(node, Some(handle), needed).map(drop)
    }

    /// flock(2) changes kind by giving the old lock up first, for good.
    fn give_up_other_flock(&mut self, ino: u64, claim: &Claim) {
        let same = self.state.locks.held_flock(ino, claim.owner);
        if same.is_some_and(|kind| kind != claim.lock.kind) {
            self.state
                .locks
                .drop_owner(ino, claim.owner, LockStyle::Flock);
            self.state.settle_locks(ino);
        }
    }

    /// Process ids mean something within the peer's own session only.
    fn pid_for_peer(&self, held: &Claim) -> u32 {
        if held.owner.session == self.id {
            held.lock.pid
        } else {
            0
        }
    }
}
