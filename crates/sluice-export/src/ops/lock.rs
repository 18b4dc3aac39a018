//! Advisory locks, as the peer asks for them; what is held and who waits is
//! [`LockTable`](crate::lock_table::LockTable)'s affair.

use crate::handle_table::Handle;
use crate::lock_table::{PosixRequest, Waiting};
use crate::service::ExportSession;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use sluice_vfs::{
    Ctx, Errno, HandleId, Lock, LockKind, LockOutcome, LockStyle, NodeId, OpenFlags, Result, WaitId,
};
use std::sync::Arc;

pub(crate) fn getlk(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    handle: HandleId,
    lock: &Lock,
) -> Result<Option<Lock>> {
    let file = session.handle(node, handle)?;
    match (lock.style, lock.kind) {
        (LockStyle::Posix, LockKind::Read | LockKind::Write) => {
            let open = || open_to_lock(session, &file);
            let request = request(ctx, node, handle, lock);
            session.locks.conflict_posix(&request, open)
        }
        // fcntl(2) has no such question, and flock(2) none at all.
        (LockStyle::Posix, LockKind::Unlock) | (LockStyle::Flock, _) => Err(Errno::EINVAL),
    }
}

pub(crate) fn setlk(
    session: &ExportSession,
    ctx: &Ctx<'_>,
    node: NodeId,
    handle: HandleId,
    lock: &Lock,
    wait: Option<WaitId>,
) -> Result<LockOutcome> {
    let file = session.handle(node, handle)?;
    let wait = wait.map(|id| Waiting {
        id,
        deadline: ctx.deadline,
    });
    match lock.style {
        LockStyle::Flock => session.locks.set_flock(handle, file, lock.kind, wait),
        LockStyle::Posix => {
            require_mode(&file, lock.kind)?;
            let open = || open_to_lock(session, &file);
            let request = request(ctx, node, handle, lock);
            session.locks.set_posix(&request, wait, open)
        }
    }
}

pub(crate) fn cancel_wait(session: &ExportSession, wait: WaitId) {
    session.locks.cancel_wait(wait);
}

/// Gives up the POSIX locks that the context's owner has on the handle's node.
pub(crate) fn drop_posix_locks(session: &ExportSession, ctx: &Ctx<'_>, handle: &Arc<Handle>) {
    session.locks.drop_owner(handle.inode.id, ctx.lock_owner);
}

fn request(ctx: &Ctx<'_>, node: NodeId, handle: HandleId, lock: &Lock) -> PosixRequest {
    PosixRequest {
        node,
        handle,
        owner: ctx.lock_owner,
        lock: *lock,
    }
}

/// fcntl(2): a read lock needs a file open for reading, a write lock one open
/// for writing. The description that holds the lock may be open wider.
fn require_mode(handle: &Handle, kind: LockKind) -> Result<()> {
    let wanted = match kind {
        LockKind::Read => OpenFlags::READ | OpenFlags::EXEC,
        LockKind::Write => OpenFlags::WRITE,
        LockKind::Unlock => return Ok(()),
    };
    match handle.flags.intersects(wanted) {
        true => Ok(()),
        false => Err(Errno::EBADF),
    }
}

/// Opens the handle's file once more, for locks of either kind: an owner that
/// read-locks now may write-lock through another handle later, and its locks
/// must stay on one description.
fn open_to_lock(session: &ExportSession, handle: &Handle) -> Result<OwnedFd> {
    let reopen = |flags| session.host.descriptors.reopen(&handle.inode, flags);
    if session.host.options.read_only {
        return reopen(OFlags::RDONLY);
    }
    reopen(OFlags::RDWR).or_else(|_| reopen(OFlags::RDONLY))
}
