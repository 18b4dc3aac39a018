//! The process outside: it stays where it was started, waits for the one that
//! serves, passes on what others tell it and what it is to tell others.

use super::IsolationOptions;
use super::id_maps;
use super::notify::{Notify, Stage};
use crate::failure::{Failure, system_words};
use crate::logging;
use crate::signals::OnEndSignal;
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, geteuid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sluice_sys::{Cloned, NewNamespaces, clone_process};
use sluice_vfs::Errno;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which process this is now.
pub(super) enum Side {
    /// The one outside, after the other has ended with this status.
    Outside(u8),
    /// The one inside.
    Inside(Notify),
}

/// Starts a process in name spaces of its own, and waits for its end in this one.
pub(super) fn start(options: &IsolationOptions, manager: Notify) -> Result<Side, Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot make a pipe: {error}"));
    let (from_inside, to_outside) = io::pipe().map_err(cannot)?;
    let (from_outside, to_inside) = io::pipe().map_err(cannot)?;
    match clone_process(namespaces(options)).map_err(refused)? {
        Cloned::Parent(child) => {
            drop((to_outside, from_outside));
            let inside = Inside::found(child, from_inside)?;
            let asked = Arc::new(Mutex::new(Asked::default()));
            // Listening before it goes on: who sees it serve may send signals.
            let _signals = inside.forward_signals(asked.clone())?;
            inside.let_go(options, to_inside)?;
            inside.wait(&asked, manager).map(Side::Outside)
        }
        Cloned::Child => {
            drop((from_inside, to_inside, manager));
            begin(options, from_outside)?;
            Ok(Side::Inside(bound_to_outside(to_outside)?))
        }
    }
}

fn namespaces(options: &IsolationOptions) -> NewNamespaces {
    let mut namespaces =
        NewNamespaces::MOUNT | NewNamespaces::PID | NewNamespaces::NET | NewNamespaces::IPC;
    namespaces.set(NewNamespaces::USER, options.needs_user_namespace());
    namespaces
}

fn refused(error: Errno) -> Failure {
    let words = system_words(&io::Error::from_raw_os_error(error.raw()));
    let advice = match geteuid().is_root() {
        true => "run with CAP_SYS_ADMIN, or give --sandbox none (or chroot)",
        false => "allow user name spaces (user_namespaces(7)), or give --sandbox none",
    };
    Failure::new(format!("cannot make name spaces: {words}")).advise(advice)
}

/// The first steps inside, once the process outside has mapped the ids.
fn begin(options: &IsolationOptions, mut from_outside: PipeReader) -> Result<(), Failure> {
    let mut go = [0];
    if from_outside.read_exact(&mut go).is_err() {
        // It has said why.
        std::process::exit(1);
    }
    if id_maps::has_root(&options.uid_map) {
        become_root(options).map_err(|error| cannot_become("root inside", error))?;
    }
    Ok(())
}

fn become_root(options: &IsolationOptions) -> rustix::io::Result<()> {
    if id_maps::has_root(&options.gid_map) {
        set_thread_groups(&[])?;
        set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    }
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
}

fn cannot_become(what: &str, error: rustix::io::Errno) -> Failure {
    let words = system_words(&error.into());
    Failure::new(format!("cannot become {what}: {words}"))
}

/// The process outside is told how it goes, and does not go before this one.
fn bound_to_outside(mut to_outside: PipeWriter) -> Result<Notify, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| cannot_become("bound to the process outside", error))?;
    // The kernel was told too late if it is gone already.
    if to_outside.write_all(&[0]).is_err() {
        std::process::exit(1);
    }
    Ok(Notify::Outside(to_outside))
}

/// The process inside, seen from outside.
struct Inside {
    process: Arc<OwnedFd>,
    pid: Pid,
    says: PipeReader,
}

impl Inside {
    fn found(pid: Pid, says: PipeReader) -> Result<Self, Failure> {
        let process = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| cannot_become("its supervisor", error))?;
        Ok(Inside {
            process: Arc::new(process),
            pid,
            says,
        })
    }

    /// Maps its ids and lets it begin. If that fails it ends by itself.
    fn let_go(&self, options: &IsolationOptions, mut to_inside: PipeWriter) -> Result<(), Failure> {
        if options.needs_user_namespace() {
            id_maps::write(self.pid, &options.uid_map, &options.gid_map)?;
        }
        // If it has ended meanwhile, that is seen by waiting.
        let _ = to_inside.write_all(&[0]);
        Ok(())
    }

    /// Waits for its end; its exit status.
    fn wait(mut self, asked: &Mutex<Asked>, mut manager: Notify) -> Result<u8, Failure> {
        let mut byte = [0];
        while self.says.read_exact(&mut byte).is_ok() {
            let [byte] = byte;
            if let Some(stage) = Stage::from_byte(byte) {
                lock(asked).when_ready(&self.process);
                manager.tell(stage);
            }
        }
        self.status()
    }

    fn forward_signals(&self, asked: Arc<Mutex<Asked>>) -> Result<OnEndSignal, Failure> {
        let process = self.process.clone();
        OnEndSignal::new(move |_| lock(&asked).once_more(&process))
            .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
    }

    fn status(&self) -> Result<u8, Failure> {
        let status = loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => break status,
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(cannot_become("its supervisor", error)),
            }
        };
        Ok(ended_with(status))
    }
}

/// How often the process inside was asked to end.
#[derive(Default)]
struct Asked {
    is_ready: bool,
    times: usize,
}

impl Asked {
    /// Until it serves it may not listen, and is asked later; whoever cannot wait
    /// for that asks twice.
    fn once_more(&mut self, process: &OwnedFd) {
        self.times += 1;
        match self.is_ready {
            true => send(process, END),
            false if self.times > 1 => send(process, Signal::KILL),
            false => {}
        }
    }

    fn when_ready(&mut self, process: &OwnedFd) {
        if !self.is_ready && self.times > 0 {
            send(process, END);
        }
        self.is_ready = true;
    }
}

/// [`FROM_OUTSIDE`](crate::signals::FROM_OUTSIDE).
const END: Signal = Signal::USR1;

/// To a process that may have ended.
fn send(process: &OwnedFd, signal: Signal) {
    let _ = pidfd_send_signal(process, signal);
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ended_with(status: WaitStatus) -> u8 {
    if let Some(code) = status.exit_status() {
        return u8::try_from(code).unwrap_or(1);
    }
    match status.terminating_signal() {
        Some(libc::SIGSYS) => logging::say(
            "the serving process was ended by a system call that it must not make; \
            please report it, and give --seccomp log meanwhile",
        ),
        Some(signal) => logging::say(format_args!(
            "the serving process was ended by signal {signal}"
        )),
        None => {}
    }
    1
}
