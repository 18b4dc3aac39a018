//! Who asks, and under which conditions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whom a session is opened for.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Short description for logs, such as `virtiofs:build` or `unix:1234`.
    pub label: String,
    /// Who decides whether a caller may do what it asks.
    pub checks: AccessChecks,
}

/// Where permission to act is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessChecks {
    /// The peer's kernel has checked (FUSE with `default_permissions`, as
    /// virtio-fs always has). The caller's ids decide ownership of what is
    /// made, nothing else.
    Peer,
    /// The service checks every operation against the caller's ids, as a local
    /// disk would.
    Service,
}

/// The identity an operation is done for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// User id for file access (`fsuid`).
    pub uid: u32,
    /// Group id for file access (`fsgid`).
    pub gid: u32,
    /// Supplementary groups, as far as the peer tells them.
    pub groups: &'a [u32],
    /// Process id in the peer's own numbering; 0 where it is not known.
    pub pid: u32,
}

impl Caller<'static> {
    /// The superuser with no further groups.
    pub const ROOT: Caller<'static> = Caller {
        uid: 0,
        gid: 0,
        groups: &[],
        pid: 0,
    };
}

/// An opaque token: requests with equal tokens come from one lock owner
/// (a process for POSIX locks, an open file description for flock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// Tells a running operation that nobody waits for it any more.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// A token that is not cancelled.
    pub const fn new() -> Self {
        Cancel(AtomicBool::new(false))
    }

    /// Asks the operation to end with `EINTR` as soon as it can.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What comes with every call: the session is the receiver, all else is here.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The identity the operation is done for.
    pub caller: Caller<'a>,
    /// The lock owner that the request names.
    pub lock_owner: LockOwner,
    /// When the answer is of no more use. Services that wait give up with
    /// `ETIMEDOUT`; system calls that are under way are not cut short.
    pub deadline: Option<Instant>,
    /// Set when the peer has taken the request back.
    pub cancel: Option<&'a Cancel>,
}

impl<'a> Ctx<'a> {
    /// A context of `caller` with neither lock owner, deadline nor cancellation.
    pub const fn new(caller: Caller<'a>) -> Self {
        Ctx {
            caller,
            lock_owner: LockOwner(0),
            deadline: None,
            cancel: None,
        }
    }

    /// The same with a lock owner.
    pub const fn with_lock_owner(self, lock_owner: LockOwner) -> Self {
        Ctx { lock_owner, ..self }
    }

    /// The same, ending early once `cancel` is set.
    pub const fn with_cancel(self, cancel: &'a Cancel) -> Self {
        Ctx {
            cancel: Some(cancel),
            ..self
        }
    }

    /// Whether the peer has taken the request back.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(Cancel::is_cancelled)
    }
}
