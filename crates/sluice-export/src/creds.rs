//! Acting for someone else, on the calling thread and for a while.
//!
//! The identity is switched by setresuid(2) and its kin, which unlike
//! setfsuid(2) say when they fail. They are called raw, so they affect one
//! thread. What a thread was before is learned the first time it gets here;
//! a daemon gives up privileges before it starts threads that serve.

use rustix::fs::Mode;
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use sluice_sys::unshare_thread_fs;
use sluice_vfs::{Errno, Result};
use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::rc::Rc;

/// Ids of the host that something is done for.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
}

/// What an ordinary user's identity may do beyond that user's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Powers {
    /// Pass access checks, since the peer has made them. What a new node looks
    /// like is still as for an ordinary user: no `CAP_FSETID`, `CAP_CHOWN`, …
    Access,
    /// Nothing.
    None,
}

/// Whether this thread can act for others.
pub(crate) fn can_switch() -> Result<bool> {
    Ok(base()?.can_switch())
}

/// Whether the daemon may read and write every file, whatever its mode.
pub(crate) fn passes_checks() -> Result<bool> {
    Ok(base()?.caps.effective.contains(CapabilitySet::DAC_OVERRIDE))
}

/// Whether `uid` is the one this thread acts as anyhow.
pub(crate) fn is_own(uid: Uid) -> Result<bool> {
    Ok(base()?.uid == uid)
}

/// Acts as `identity` until the guard is dropped. The superuser keeps all the
/// powers that the daemon has. Guards don't nest.
pub(crate) fn assume(identity: &Identity, powers: Powers) -> Result<Guard> {
    let base = base()?;
    let effective = match powers {
        _ if identity.uid.is_root() => base.caps.effective,
        Powers::Access => base.caps.effective & ACCESS_CAPABILITIES,
        Powers::None => CapabilitySet::empty(),
    };
    let mut guard = Guard::new(base.clone())?;
    // The superuser passes every check that groups count for.
    if !identity.uid.is_root() && identity.groups != base.groups {
        set_thread_groups(&identity.groups)?;
        guard.groups = true;
    }
    if identity.gid != base.gid {
        set_thread_res_gid(None, identity.gid, None).map_err(unmapped_is_eperm)?;
        guard.gid = true;
    }
    if identity.uid != base.uid {
        set_thread_res_uid(None, identity.uid, None).map_err(unmapped_is_eperm)?;
        guard.uid = true;
    }
    if guard.uid || effective != base.caps.effective {
        set_effective(&base, effective)?;
        guard.caps = true;
    }
    Ok(guard)
}

/// Acts as someone without `CAP_FSETID`, whose changes to a file make it lose
/// its set-id bits, until the guard is dropped.
pub(crate) fn drop_fsetid() -> Result<Guard> {
    let base = base()?;
    let mut guard = Guard::new(base.clone())?;
    if base.caps.effective.contains(CapabilitySet::FSETID) {
        set_effective(&base, base.caps.effective - CapabilitySet::FSETID)?;
        guard.caps = true;
    }
    Ok(guard)
}

/// Makes `mask` this thread's umask, until it is called again. The kernel then
/// applies it, and knows when a default ACL takes its place.
pub(crate) fn set_umask(mask: u32) -> Result<()> {
    let mask = mask & 0o777;
    UMASK.with(|current| {
        if current.get().is_none() {
            unshare_thread_fs()?;
        }
        if current.get() != Some(mask) {
            umask(Mode::from_raw_mode(mask));
            current.set(Some(mask));
        }
        Ok(())
    })
}

/// The thread's own identity comes back when this is dropped.
#[must_use]
pub(crate) struct Guard {
    base: Rc<Base>,
    groups: bool,
    gid: bool,
    uid: bool,
    caps: bool,
    not_send: PhantomData<*const ()>,
}

impl Guard {
    /// Nothing is changed yet. One guard inside another would give the
    /// daemon's powers back too early, so that is refused.
    fn new(base: Rc<Base>) -> Result<Self> {
        if base.is_left.replace(true) {
            return Err(Errno::EDEADLK);
        }
        Ok(Guard {
            base,
            groups: false,
            gid: false,
            uid: false,
            caps: false,
            not_send: PhantomData,
        })
    }

    fn restore(&self) -> Result<()> {
        // The user id first: it brings the right to change the others back.
        if self.uid {
            set_thread_res_uid(None, self.base.uid, None)?;
        }
        if self.caps || self.uid {
            set_effective(&self.base, self.base.caps.effective)?;
        }
        if self.gid {
            set_thread_res_gid(None, self.base.gid, None)?;
        }
        if self.groups {
            set_thread_groups(&self.base.groups)?;
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.base.is_left.set(false);
        if self.restore().is_err() {
            // The kernel refuses nothing of this to a thread that could leave
            // its identity. Serving others under the wrong one would be worse.
            tracing::error!("a thread can't get its own identity back");
            std::process::abort();
        }
    }
}

/// Which capabilities let a file system client pass access checks.
const ACCESS_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD);

/// What a thread is by itself.
struct Base {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    caps: CapabilitySets,
    /// A guard is alive.
    is_left: Cell<bool>,
}

impl Base {
    fn of_this_thread() -> Result<Self> {
        Ok(Base {
            uid: geteuid(),
            gid: getegid(),
            groups: getgroups()?,
            caps: capabilities(None)?,
            is_left: Cell::new(false),
        })
    }

    fn can_switch(&self) -> bool {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        self.caps.effective.contains(needed)
    }
}

thread_local! {
    static BASE: OnceCell<Rc<Base>> = const { OnceCell::new() };
    /// The umask, once the thread has its own.
    static UMASK: Cell<Option<u32>> = const { Cell::new(None) };
}

fn base() -> Result<Rc<Base>> {
    BASE.with(|cell| {
        if let Some(base) = cell.get() {
            return Ok(base.clone());
        }
        let base = Rc::new(Base::of_this_thread()?);
        Ok(cell.get_or_init(|| base).clone())
    })
}

/// An id that the daemon's user name space does not have is one that it may
/// not take.
fn unmapped_is_eperm(errno: rustix::io::Errno) -> Errno {
    match errno {
        rustix::io::Errno::INVAL => Errno::EPERM,
        other => other.into(),
    }
}

fn set_effective(base: &Base, effective: CapabilitySet) -> Result<()> {
    let sets = CapabilitySets {
        effective,
        ..base.caps
    };
    set_capabilities(None, sets).map_err(Errno::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_do_not_nest() {
        let own = Identity {
            uid: geteuid(),
            gid: getegid(),
            groups: Vec::new(),
        };
        let guard = assume(&own, Powers::Access).unwrap();
        assert_eq!(assume(&own, Powers::None).err(), Some(Errno::EDEADLK));
        drop(guard);
        drop(drop_fsetid().unwrap());
        assert!(drop_fsetid().is_ok());
    }
}
