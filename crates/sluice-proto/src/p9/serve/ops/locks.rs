//! POSIX locks. A lock's owner is a process of a peer; Linux sends flock(2) as
//! a lock of the whole file, by its process too.

use crate::p9::serve::answer::Answer;
use crate::p9::serve::dispatch::Call;
use crate::p9::serve::fids::Fid;
use crate::p9::serve::translate::{Mix, lock_kind, lock_length, lock_range, wire_lock_kind};
use crate::p9::wire::{Getlock, LockArgs, Reply};
use sluice_vfs::{Errno, Lock, LockOutcome, LockOwner, LockStyle, Result, WaitId};

/// A lock that is to be had at once or not at all.
pub(in super::super) fn lock(
    call: &Call<'_>,
    fid: u32,
    args: &LockArgs<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let status = status(request(&fid, args, None).map(drop))?;
    answer.set(&Reply::Lock { status })
}

pub(in super::super) fn getlock(
    call: &Call<'_>,
    fid: u32,
    args: &Getlock<'_>,
    answer: &mut Answer,
) -> Result<()> {
    let fid = call.fid(fid)?;
    let open = fid.require_open()?;
    let ctx = fid
        .ctx()
        .with_lock_owner(owner(args.client_id.0, args.proc_id));
    let lock = Lock {
        style: LockStyle::Posix,
        kind: lock_kind(args.kind)?,
        range: lock_range(args.start, args.length)?,
        pid: args.proc_id,
    };
    let found = fid
        .session()
        .getlk(&ctx, fid.node.node, open.handle, &lock)?;
    let lock = match found {
        Some(other) => Getlock {
            kind: wire_lock_kind(other.kind),
            start: other.range.start,
            length: lock_length(other.range),
            proc_id: other.pid,
            client_id: args.client_id,
        },
        None => Getlock {
            kind: LockArgs::UNLOCK,
            ..*args
        },
    };
    answer.set(&Reply::Getlock { lock })
}

/// Asks for a lock, or gives one up.
pub(in super::super) fn request(
    fid: &Fid,
    args: &LockArgs<'_>,
    wait: Option<WaitId>,
) -> Result<LockOutcome> {
    let open = fid.require_open()?;
    let ctx = fid
        .ctx()
        .with_lock_owner(owner(args.client_id.0, args.proc_id));
    let lock = Lock {
        style: LockStyle::Posix,
        kind: lock_kind(args.kind)?,
        range: lock_range(args.start, args.length)?,
        pid: args.proc_id,
    };
    fid.session()
        .setlk(&ctx, fid.node.node, open.handle, &lock, wait)
}

/// The status of an Rlock; what it can't say is an error.
pub(in super::super) fn status(result: Result<()>) -> Result<u8> {
    match result {
        Ok(()) => Ok(LockArgs::SUCCESS),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(LockArgs::BLOCKED),
        Err(Errno::ENOLCK) => Ok(LockArgs::ERROR),
        Err(error) => Err(error),
    }
}

fn owner(client_id: &[u8], proc_id: u32) -> LockOwner {
    let mut mix = Mix::new();
    mix.add(proc_id.into());
    for byte in client_id {
        mix.add(u64::from(*byte));
    }
    LockOwner(mix.0)
}
