//! POSIX locks.

use super::{Tree, odd};
use crate::connection::Flights;
use crate::error::{Error, Result, Violation};
use crate::translate::{held_lock, lock_kind, lock_length};
use sluice_proto::p9::wire::{Getlock, LockArgs, LockFlags, Reply, Request, Str};
use sluice_vfs::{Errno, Lock};

impl Tree {
    /// Takes a lock or gives it up; `EAGAIN` if it is held by another owner and
    /// is not to be waited for. An owner is a name and the lock's process id.
    pub(crate) fn lock(&self, fid: u32, owner: &[u8], lock: &Lock, wait: bool) -> Result<()> {
        loop {
            match self.try_lock(fid, owner, lock, wait, |_| ())? {
                true => return Ok(()),
                // A server that cannot park the request.
                false if wait => std::thread::sleep(RETRY),
                false => return Err(Error::Refused(Errno::EAGAIN)),
            }
        }
    }

    /// Asks for a lock; false if another owner holds one in its way. With `wait`
    /// a server that can answers when it is free. `sent` gets the request's tag.
    pub(crate) fn try_lock(
        &self,
        fid: u32,
        owner: &[u8],
        lock: &Lock,
        wait: bool,
        sent: impl FnOnce(u16),
    ) -> Result<bool> {
        self.require_linux("locks")?;
        let request = Request::Lock {
            fid,
            args: LockArgs {
                kind: lock_kind(lock.kind),
                flags: match wait {
                    true => LockFlags::BLOCK,
                    false => LockFlags::empty(),
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
        let answer = match wait {
            true => flights.wait_for_ever(tag)?,
            false => flights.wait(tag)?,
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

/// How often a server that cannot wait itself is asked again.
pub(crate) const RETRY: std::time::Duration = std::time::Duration::from_millis(200);
