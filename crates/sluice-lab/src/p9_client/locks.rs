//! Locks as 9P has them: of a client's process, named by the client.

use super::client::P9Client;
use super::translate;
use super::transport::P9Transport;
use crate::conformance::not_expressible;
use sluice_proto::p9::wire::{LockArgs, LockFlags, Request, Str};
use sluice_vfs::{Ctx, Lock, LockKind, LockRange, LockStyle, Result};

impl<T: P9Transport> P9Client<T> {
    pub(super) fn unlock_all(&self, ctx: &Ctx<'_>, fid: u32) -> Result<()> {
        let lock = Lock {
            style: LockStyle::Posix,
            kind: LockKind::Unlock,
            range: LockRange::ALL,
            pid: ctx.caller.pid,
        };
        let owner = owner_name(ctx);
        let args = lock_args(&lock, LockFlags::empty(), &owner);
        self.call(&Request::Lock { fid, args }).map(drop)
    }
}

pub(super) fn lock_args<'a>(lock: &Lock, flags: LockFlags, client_id: &'a [u8]) -> LockArgs<'a> {
    LockArgs {
        kind: translate::lock_kind(lock.kind),
        flags,
        start: lock.range.start,
        length: translate::lock_length(lock.range),
        proc_id: lock.pid,
        client_id: Str(client_id),
    }
}

/// Linux's lock owners have no number that travels; a peer's name does.
pub(super) fn owner_name(ctx: &Ctx<'_>) -> Vec<u8> {
    format!("owner-{}", ctx.lock_owner.0).into_bytes()
}

/// flock(2) travels as a POSIX lock of the whole file.
pub(super) fn require_posix(lock: &Lock) {
    if lock.range.end < lock.range.start {
        not_expressible::<()>("locks that end before they begin");
    }
    if lock.style == LockStyle::Flock {
        not_expressible::<()>("flock(2)");
    }
}
