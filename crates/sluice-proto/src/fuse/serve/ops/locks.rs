//! Advisory locks. The family of a lock is in `lk_flags`, its owner is opaque.

use super::put;
use crate::fuse::serve::dispatch::Call;
use crate::fuse::wire::{FileLock, LkFlags, LkIn, LkOut};
use sluice_vfs::{
    Errno, HandleId, Lock, LockKind, LockOutcome, LockRange, LockStyle, ReadSink, Result, WaitId,
};

pub(in super::super) fn getlk(call: &Call<'_>, args: &LkIn, sink: &mut dyn ReadSink) -> Result<()> {
    let lock = lock(args)?;
    let in_the_way = call.session().getlk(
        &call.ctx_of(args.owner),
        call.node,
        HandleId(args.fh),
        &lock,
    )?;
    let lk = match in_the_way {
        Some(other) => file_lock(&other),
        None => FileLock {
            kind: FileLock::UNLOCK,
            ..args.lk
        },
    };
    put(sink, &LkOut { lk })
}

/// Takes or gives up a lock at once; `EAGAIN` if it is held by someone else.
pub(in super::super) fn setlk(call: &Call<'_>, args: &LkIn) -> Result<()> {
    match request(call, args, None)? {
        LockOutcome::Done => Ok(()),
        // Nobody could be told of its end.
        LockOutcome::Waiting => Err(Errno::EIO),
    }
}

/// Takes a lock; `false` says that `wait` will be settled later.
pub(in super::super) fn setlk_waiting(call: &Call<'_>, args: &LkIn, wait: WaitId) -> Result<bool> {
    Ok(request(call, args, Some(wait))? == LockOutcome::Done)
}

fn request(call: &Call<'_>, args: &LkIn, wait: Option<WaitId>) -> Result<LockOutcome> {
    call.session().setlk(
        &call.ctx_of(args.owner),
        call.node,
        HandleId(args.fh),
        &lock(args)?,
        wait,
    )
}

fn lock(args: &LkIn) -> Result<Lock> {
    let kind = match args.lk.kind {
        FileLock::READ => LockKind::Read,
        FileLock::WRITE => LockKind::Write,
        FileLock::UNLOCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    let is_flock = args.lk_flags.contains(LkFlags::FLOCK);
    let (style, range) = if is_flock {
        (LockStyle::Flock, LockRange::ALL)
    } else {
        (LockStyle::Posix, range(&args.lk)?)
    };
    Ok(Lock {
        style,
        kind,
        range,
        pid: args.lk.pid,
    })
}

fn range(lk: &FileLock) -> Result<LockRange> {
    if lk.start > lk.end || lk.start > LockRange::EOF {
        return Err(Errno::EINVAL);
    }
    Ok(LockRange {
        start: lk.start,
        end: lk.end.min(LockRange::EOF),
    })
}

fn file_lock(lock: &Lock) -> FileLock {
    FileLock {
        start: lock.range.start,
        end: lock.range.end,
        kind: match lock.kind {
            LockKind::Read => FileLock::READ,
            LockKind::Write => FileLock::WRITE,
            LockKind::Unlock => FileLock::UNLOCK,
        },
        pid: lock.pid,
    }
}
