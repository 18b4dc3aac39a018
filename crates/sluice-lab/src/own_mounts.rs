//! Mounts that nobody else holds on to.

use rustix::mount::UnmountFlags;
use std::cell::Cell;
use std::fs;
use std::io;

/// Gives the calling thread, and the threads and processes that it starts from now on,
/// mounts of its own, if they don't have them. Without the rights for that they see
/// what everybody sees.
///
/// Whoever unshares his mounts takes copies of all that there are, and what is mounted
/// lives as long as one of them: without this, any process of this machine could keep a
/// test's file system alive after it was unmounted, and the server that waits for its end.
///
/// # Errors
/// When the kernel refuses for another reason.
pub fn own_mounts() -> io::Result<()> {
    thread_local! {
        static HAS_OWN: Cell<bool> = const { Cell::new(false) };
    }
    let of_thread = fs::read_link("/proc/thread-self/ns/mnt")?;
    let is_inherited = of_thread != fs::read_link("/proc/self/ns/mnt")?;
    if is_inherited || HAS_OWN.get() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    sluice_sys::unshare_thread_mounts()?;
    HAS_OWN.set(true);
    let_go_of_others()
}

/// The same the other way round: others' mounts end without us.
fn let_go_of_others() -> io::Result<()> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo")?;
    for line in table.lines().filter(|line| line.contains(" - fuse")) {
        // One with a space in its name is none of a test.
        if let Some(target) = line.split(' ').nth(4) {
            // It may be hidden below another, or its server be gone.
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            let _ = rustix::mount::unmount(target, flags);
        }
    }
    Ok(())
}
