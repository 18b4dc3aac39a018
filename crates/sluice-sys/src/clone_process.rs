//! A new process in name spaces of its own.

use bitflags::bitflags;
use rustix::process::Pid;
use sluice_vfs::{Errno, Result};

bitflags! {
    /// What a new process does not share with this one (namespaces(7)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NewNamespaces: u32 {
        /// Ids and capabilities.
        const USER = libc::CLONE_NEWUSER as u32;
        /// Mounts.
        const MOUNT = libc::CLONE_NEWNS as u32;
        /// Process ids; the new process is number 1.
        const PID = libc::CLONE_NEWPID as u32;
        /// Network interfaces and abstract sockets.
        const NET = libc::CLONE_NEWNET as u32;
        /// System V IPC and POSIX message queues.
        const IPC = libc::CLONE_NEWIPC as u32;
    }
}

/// Which of the two processes goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloned {
    /// The one that was there before; this is the new one.
    Parent(Pid),
    /// The new one.
    Child,
}

/// Copies this process, as fork(2) does, into new name spaces. `EBUSY` if it has
/// more than one thread: what the others are in the middle of would stay
/// unfinished in the copy.
pub fn clone_process(namespaces: NewNamespaces) -> Result<Cloned> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Errno::EBUSY);
    }
    let flags = libc::c_ulong::from(namespaces.bits() | libc::SIGCHLD as u32);
    // SAFETY: without CLONE_VM and with no stack given this is fork(2), and there is
    // one thread, so no lock or allocator of this process is in use. The call goes
    // around the C library, whose memory of its own thread id is stale in the child:
    // only robust and recursive mutexes look at that, and nothing here uses any.
    let outcome = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    let pid = super::check(outcome)?;
    let pid = i32::try_from(pid).map_err(|_| Errno::EOVERFLOW)?;
    Ok(match Pid::from_raw(pid) {
        Some(child) => Cloned::Parent(child),
        None => Cloned::Child,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_copied() {
        // The test's own thread is not the main one.
        let outcome = clone_process(NewNamespaces::empty());
        assert_eq!(outcome, Err(Errno::EBUSY));
    }
}
