//! POSIX locks.

use super::{Tree, odd};
use crate::connection::Flights;
use crate::error::{Error, Result, Violation};
use crate::translate::{held_lock, lock_kind, lock_length};
use sluice_proto::p9::wire::{Getlock, LockArgs, LockFlags, Reply, Request, Str};
use sluice_vfs::{Errno, Lock, LockRange};
use std::time::{Duration, Instant};

/// How long a lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// Not at all.
    No,
    Until(Instant),
    ForEver,
}

impl Tree {
    /// Takes a lock or gives it up; `EAGAIN` if another owner holds one in its way for
    /// as long as it is waited for. An owner is a name and the lock's process id.
    pub(crate) fn lock(&self, fid: u32, owner: &[u8], lock: &Lock, wait: LockWait) -> Result<()> {
        loop {
            if self.ask_for_lock(fid, owner, lock, wait, |_| ())? {
                return Ok(());
            }
            let left = match wait {
                LockWait::No => Duration::ZERO,
                LockWait::Until(end) => end.saturating_duration_since(Instant::now()),
                LockWait::ForEver => RETRY,
            };
            if left.is_zero() {
                return Err(Error::Refused(Errno::EAGAIN));
            }
            std::thread::sleep(left.min(RETRY));
        }
    }

    /// Asks for a lock; false if another owner holds one in its way. A server that can
    /// answers when it is free, if it is waited for. `sent` gets the request's tag.
    pub(crate) fn ask_for_lock(
        &self,
        fid: u32,
        owner: &[u8],
        lock: &Lock,
        wait: LockWait,
        sent: impl FnOnce(u16),
    ) -> Result<bool> {
        let end = match wait {
            LockWait::No => None,
            // Its end is noticed at the next tick; what is left is waited for here.
            LockWait::Until(end) => end
                .checked_sub(self.connection.tick)
                .filter(|end| *end > Instant::now())
                .map(Some),
            LockWait::ForEver => Some(None),
        };
        self.require_linux("locks")?;
        check_range(lock)?;
        let request = Request::Lock {
            fid,
            args: LockArgs {
                kind: lock_kind(lock.kind),
                flags: match end {
                    Some(_) => LockFlags::BLOCK,
                    None => LockFlags::empty(),
                },
                start: lock.range.start,
                length: lock_length(lock.range),
                proc_id: lock.pid,
                client_id: Str(owner),
            },
        };
        let mut flights = Flights::new(&self.connection);
        let tag = flights.send(&request, Vec::new(), &[])?;
        sent(tag);
        let answer = match end {
            None => flights.wait(tag)?,
            Some(end) => match flights.wait_until(tag, || end) {
                // It was taken back.
                Err(Error::TimedOut(_)) => return Ok(false),
                outcome => outcome?,
            },
        };
        match answer.get()? {
            Reply::Lock { status } => match status {
                LockArgs::SUCCESS => Ok(true),
                LockArgs::BLOCKED => Ok(false),
                LockArgs::GRACE => Err(Error::Refused(Errno::EAGAIN)),
                LockArgs::ERROR => Err(Error::Refused(Errno::ENOLCK)),
                _ => Err(Violation::Value("the status of an Rlock").into()),
            },
            other => Err(odd(&other)),
        }
    }

    /// A lock in the way of `lock`.
    pub(crate) fn getlock(&self, fid: u32, owner: &[u8], lock: &Lock) -> Result<Option<Lock>> {
        self.require_linux("locks")?;
        check_range(lock)?;
        let args = Getlock {
            kind: lock_kind(lock.kind),
            start: lock.range.start,
            length: lock_length(lock.range),
            proc_id: lock.pid,
            client_id: Str(owner),
        };
        let answer = self.connection.call(&Request::Getlock { fid, args })?;
        match answer.get()? {
            Reply::Getlock { lock } => held_lock(&lock),
            other => Err(odd(&other)),
        }
    }
}

/// A range has a byte at least: in a message, a length of none stands for all to the end.
pub(crate) fn check_range(lock: &Lock) -> Result<()> {
    match lock.range.start <= lock.range.end && lock.range.end <= LockRange::EOF {
        true => Ok(()),
        false => Err(Error::Refused(Errno::EINVAL)),
    }
}

/// How often a server that cannot wait itself is asked again.
pub(crate) const RETRY: Duration = Duration::from_millis(200);
