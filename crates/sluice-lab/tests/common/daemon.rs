//! `sluice serve` as a process of its own.

use sluice_lab::request_log::RequestLog;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

/// What it serves to.
enum Front<'a> {
    VirtioFs(&'a Path),
    P9(OwnedFd),
}

/// A running `sluice serve`; dropping it ends it.
pub struct Daemon {
    child: Child,
    socket: PathBuf,
    said: Option<JoinHandle<String>>,
}

impl Daemon {
    /// The tag of its device.
    pub const TAG: &str = "lab";

    /// Serves `dir` on `socket`, which it listens on when this returns.
    pub fn serve(dir: &Path, socket: &Path, options: &[&str]) -> Daemon {
        let (daemon, stderr) = Daemon::start(dir, Front::VirtioFs(socket), options, "error");
        daemon.listening(stderr)
    }

    /// Serves `dir` over 9P to whoever connects to `listener`.
    pub fn serve_9p(dir: &Path, listener: impl Into<OwnedFd>, options: &[&str]) -> Daemon {
        let (daemon, stderr) = Daemon::start(dir, Front::P9(listener.into()), options, "error");
        daemon.listening(stderr)
    }

    /// Keeps what it says, for when it ends.
    fn listening(mut self, mut stderr: BufReader<ChildStderr>) -> Daemon {
        self.said = Some(std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        }));
        self
    }

    /// The same, and what it is asked for.
    pub fn serve_counted(dir: &Path, socket: &Path, options: &[&str]) -> (Daemon, RequestLog) {
        let front = Front::VirtioFs(socket);
        let (daemon, stderr) = Daemon::start(dir, front, options, RequestLog::FILTER);
        (daemon, RequestLog::follow(stderr))
    }

    fn start(
        dir: &Path,
        front: Front<'_>,
        options: &[&str],
        filter: &str,
    ) -> (Daemon, BufReader<ChildStderr>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-here"));
        command.arg("serve").arg(dir);
        let socket = match front {
            Front::VirtioFs(socket) => {
                command.arg("--virtiofs").arg(socket);
                command.args(["--tag", Daemon::TAG]).stdin(Stdio::null());
                socket.to_owned()
            }
            Front::P9(listener) => {
                command.args(["--9p", "fd:0"]).stdin(listener);
                PathBuf::new()
            }
        };
        let mut child = command
            .args(options)
            .env("RUST_LOG", filter)
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let daemon = Daemon {
            child,
            socket,
            said: None,
        };
        let mut ready = String::new();
        stderr.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("sluice: serving "), "{ready}");
        (daemon, stderr)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails the test, with what it said, if the daemon has ended.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            let said = self.said.take().map(|said| said.join().unwrap());
            panic!(
                "the daemon ended with {status}: {}",
                said.unwrap_or_default()
            );
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
