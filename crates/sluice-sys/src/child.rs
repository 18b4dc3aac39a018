//! Child processes that inherit chosen descriptors and do not outlive whoever
//! started them.

use rustix::fd::OwnedFd;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Prepares `command` so that its process
///
/// - is killed when the **thread** that spawned it ends, however that happens
///   (`PR_SET_PDEATHSIG`, prctl(2)), and
/// - inherits the descriptors, under the numbers that they have here.
///
/// The descriptors are closed here when `command` is dropped.
pub fn bind_child(command: &mut Command, descriptors: Vec<OwnedFd>) {
    let parent = getpid();
    // SAFETY: `prepare` runs in the child between fork and exec. It makes plain
    // system calls only: it neither allocates nor takes a lock.
    unsafe { command.pre_exec(move || prepare(parent, &descriptors)) };
}

fn prepare(parent: Pid, descriptors: &[OwnedFd]) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(parent) {
        // It died before the kernel was told.
        return Err(rustix::io::Errno::SRCH.into());
    }
    for descriptor in descriptors {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::process::Stdio;

    #[test]
    fn only_the_named_descriptors_are_inherited() {
        let (mut named, named_end) = io::pipe().unwrap();
        let (mut other, other_end) = io::pipe().unwrap();
        let script = format!(
            "printf one >/proc/self/fd/{}; printf two >/proc/self/fd/{}",
            named_end.as_raw_fd(),
            other_end.as_raw_fd()
        );
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).stderr(Stdio::null());
        bind_child(&mut command, vec![named_end.into()]);
        assert!(!command.status().unwrap().success());
        drop((command, other_end));
        let mut text = String::new();
        named.read_to_string(&mut text).unwrap();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
    }

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let (mut alive, held) = io::pipe().unwrap();
        let spawn = move || {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000").stdin(Stdio::null());
            bind_child(&mut command, vec![held.into()]);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(spawn).join().unwrap();
        // The pipe ends only when the child, its last holder, is gone.
        assert_eq!(alive.read(&mut [0]).unwrap(), 0);
        assert!(!child.wait().unwrap().success());
    }
}
