//! What a thread shares with its process besides memory and descriptors.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use sluice_vfs::Result;

/// Gives the calling thread a root, working directory and umask of its own.
/// What the process does to its own afterwards no longer reaches the thread.
pub fn unshare_thread_fs() -> Result<()> {
    // SAFETY: only unsharing the descriptor table is unsafe, and FS is not it.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    Ok(())
}

/// Gives the calling thread, and what it starts, copies of all mounts: what is mounted
/// and unmounted there shows nowhere else, nor the other way round.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn unshare_thread_mounts() -> Result<()> {
    // SAFETY: only unsharing the descriptor table is unsafe, and NEWNS is not it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let all_private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change("/", all_private)?)
}

/// Gives the calling thread a network of its own, with nothing in it but a
/// loopback device that is down. Sockets stay in the network in which they were
/// made, and keep it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn unshare_thread_network() -> Result<()> {
    // SAFETY: only unsharing the descriptor table is unsafe, and NEWNET is not it.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;
    use rustix::process::umask;

    #[test]
    fn the_umask_becomes_the_threads_own() {
        let set_in_thread = || {
            unshare_thread_fs().unwrap();
            umask(Mode::from_raw_mode(0o123));
            umask(Mode::from_raw_mode(0o123))
        };
        let inside = std::thread::spawn(set_in_thread).join().unwrap();
        assert_eq!(inside.as_raw_mode(), 0o123);
        unshare_thread_fs().unwrap();
        assert_ne!(umask(Mode::empty()).as_raw_mode(), 0o123);
    }
}
