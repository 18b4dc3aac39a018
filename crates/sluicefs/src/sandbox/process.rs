//! The machine's process: ended with us, and with all that it started.

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, mpsc};
use std::thread;

/// Ends a machine, from any thread, at any time.
#[derive(Clone, Debug)]
pub(super) struct Killer(Arc<OwnedFd>);

impl Killer {
    /// Has no effect on a machine that has ended.
    pub(super) fn kill(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

/// Starts the machine in a process group of its own, with `inherited` for it
/// alone, and calls `ended` when it is over. A thread of its own does so: the
/// machine is killed if that thread should end early, and so with the process.
pub(super) fn start(
    mut command: Command,
    inherited: Vec<OwnedFd>,
    ended: impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
) -> io::Result<Killer> {
    let (started, outcome) = mpsc::sync_channel(1);
    let supervise = move || {
        command.process_group(0);
        sluice_sys::bind_child(&mut command, inherited);
        let child = command.spawn().and_then(|child| {
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
            Ok((child, pidfd))
        });
        // Our copies of the machine's descriptors are closed here.
        drop(command);
        match child {
            Ok((child, pidfd)) => {
                let pidfd = Arc::new(pidfd);
                let _ = started.send(Ok(Killer(pidfd.clone())));
                ended(wait(child, &pidfd));
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    thread::Builder::new()
        .name("guest machine".into())
        .spawn(supervise)?;
    outcome
        .recv()
        .unwrap_or_else(|_| Err(io::Error::other("the starting thread is gone")))
}

/// The group is killed before its leader is reaped: its number cannot belong
/// to anyone else until then.
fn wait(mut child: Child, pidfd: &OwnedFd) -> io::Result<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(error) = waitid(WaitId::PidFd(pidfd.as_fd()), options) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    #[test]
    fn nothing_that_a_machine_started_outlives_it() {
        let (mut alive, held) = io::pipe().unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "sleep 1000 & exec sleep 1000"])
            .stdin(Stdio::null());
        let (ended, outcome) = mpsc::channel();
        let killer = start(command, vec![held.into()], move |status| {
            ended.send(status).unwrap();
        })
        .unwrap();
        killer.kill();
        assert_eq!(outcome.recv().unwrap().unwrap().signal(), Some(9));
        // The pipe ends when its last holder is gone.
        assert_eq!(alive.read(&mut [0]).unwrap(), 0);
        killer.kill();
    }

    #[test]
    fn a_program_that_cannot_run_says_why() {
        let error = start(Command::new("/nonexistent"), Vec::new(), |_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
