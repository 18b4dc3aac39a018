//! `sluice serve` as a process of its own.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

/// How it is started.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    pub(crate) program: PathBuf,
    pub(crate) share: PathBuf,
    /// The option that says where it serves.
    pub(crate) place: &'static str,
    pub(crate) options: Vec<String>,
}

impl Daemon {
    /// Starts it to serve at `place`, and waits until it does.
    pub(crate) fn start(&self, place: impl AsRef<OsStr>) -> io::Result<RunningDaemon> {
        let mut process = Command::new(&self.program)
            .arg("serve")
            .arg(&self.share)
            .arg(self.place)
            .arg(place)
            .args(&self.options)
            .env("RUST_LOG", "warn")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = process.stderr.take();
        let running = RunningDaemon(process);
        let mut stderr = BufReader::new(stderr.ok_or(io::ErrorKind::BrokenPipe)?);
        let mut said = String::new();
        stderr.read_line(&mut said)?;
        if !said.starts_with("sluice: serving ") {
            return Err(io::Error::other(said));
        }
        thread::spawn(move || {
            stderr
                .lines()
                .map_while(|line| line.ok())
                .for_each(|line| eprintln!("{line}"))
        });
        Ok(running)
    }
}

/// A daemon until it is dropped: then it must end as if it had been asked to, not
/// by what it did.
pub(crate) struct RunningDaemon(Child);

impl Drop for RunningDaemon {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::TERM).expect("it was not waited for");
        let status = self.0.wait().expect("it is a child");
        if !status.success() && !thread::panicking() {
            panic!("sluice serve ended with {status}");
        }
    }
}
