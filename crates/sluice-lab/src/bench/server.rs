//! A server's process: started, watched, and ended with its guard.

use super::contest::Placement;
use super::error::{BenchError, Context};
use super::machine::{self, Processors};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to become usable, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A running server. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
    placed: Option<Placement>,
}

impl Server {
    /// Starts `command`; what it says goes to `log`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: Command, log: &Path) -> Result<Self, BenchError> {
        Server::start_on(Stdio::null(), command, log)
    }

    /// The same, with its standard input: a socket to listen on, for instance.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_on(input: Stdio, mut command: Command, log: &Path) -> Result<Self, BenchError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = File::create(log).context(log.display())?;
        let child = command
            .stdin(input)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context(program)?;
        Ok(Server {
            child,
            log: log.to_owned(),
            placed: None,
        })
    }

    /// Waits until `attempt` gives something.
    ///
    /// # Errors
    /// When the server ends or takes too long; with the last lines it said.
    pub fn wait_until<T>(
        &mut self,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, BenchError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = attempt() {
                return Ok(value);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(self.complaint(&format!("ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(self.complaint("is not ready after 10 s"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Process id of the one that serves: where the one that was started has
    /// started another, as an isolated server has, it only waits for that.
    pub fn pid(&self) -> u32 {
        let started = self.child.id();
        machine::only_child(started).unwrap_or(started)
    }

    /// Of its processor time.
    pub fn cpu_clock(&self) -> CpuClock {
        CpuClock { pid: self.pid() }
    }

    /// Puts the calling thread and all threads of the server where they belong.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn place(
        &mut self,
        processors: &Processors,
        placement: Placement,
    ) -> Result<(), BenchError> {
        processors.place_driver(placement)?;
        if self.placed != Some(placement) {
            processors.place_server(self.pid(), placement)?;
            self.placed = Some(placement);
        }
        Ok(())
    }

    fn complaint(&self, what: &str) -> BenchError {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = said.lines().rev().take(3).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        BenchError::new(format!("the server {what}: {}", lines.join(" / ")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let asked = kill_process(Pid::from_child(&self.child), Signal::TERM).is_ok();
        let deadline = Instant::now() + PATIENCE;
        while asked && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads how much processor time a process has used.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock {
    pid: u32,
}

impl CpuClock {
    /// Of this process.
    pub fn own() -> Self {
        CpuClock {
            pid: std::process::id(),
        }
    }

    /// Of nothing: what is measured has no process of its own.
    pub fn none() -> Self {
        CpuClock { pid: 0 }
    }

    /// Time used so far by the threads that live: exact while they sleep.
    /// `None` where the kernel does not keep the account, or the process is
    /// gone.
    pub fn read(&self) -> Option<Duration> {
        machine::threads(self.pid)
            .ok()?
            .into_iter()
            .map(|thread| self.read_thread(thread))
            .sum()
    }

    /// First field of `schedstat`: nanoseconds on a processor.
    fn read_thread(&self, thread: Pid) -> Option<Duration> {
        let path = format!(
            "/proc/{}/task/{}/schedstat",
            self.pid,
            thread.as_raw_nonzero()
        );
        match fs::read_to_string(path) {
            Ok(text) => Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?)),
            // The thread ended meanwhile; its time is lost to us.
            Err(_) if self.is_accounted() => Some(Duration::ZERO),
            Err(_) => None,
        }
    }

    fn is_accounted(&self) -> bool {
        Path::new(&format!("/proc/{}/schedstat", self.pid)).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_server_that_ends_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut server =
            Server::start(shell("echo one; echo no such share >&2; exit 3"), &log).unwrap();
        let error = server.wait_until(|| None::<()>).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("one / no such share"), "{error}");
    }

    #[test]
    fn a_server_ends_with_its_guard() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(shell("exec cat"), &folder.path().join("log")).unwrap();
        let process = format!("/proc/{}", server.pid());
        drop(server);
        assert!(!Path::new(&process).exists());
    }

    #[test]
    fn the_process_that_serves_is_the_one_that_was_started_or_its_child() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let said = |script| {
            let mut server = Server::start(shell(script), &log).unwrap();
            let pid =
                server.wait_until(|| fs::read_to_string(&log).ok()?.trim().parse::<u32>().ok());
            assert_eq!(server.pid(), pid.unwrap());
        };
        said("echo $$; exec sleep 1000");
        said("trap 'kill $!' TERM; sh -c 'echo $$; exec sleep 1000' & wait");
    }

    #[test]
    fn own_processor_time_grows() {
        let clock = CpuClock::own();
        let before = clock.read().unwrap();
        let mut sum = 0_u64;
        while clock.read().unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
