//! `sluice serve` as a process of its own.

use sluice_lab::request_log::RequestLog;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

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
        let (mut daemon, mut stderr) = Daemon::start(dir, socket, options, "error");
        daemon.said = Some(std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        }));
        daemon
    }

    /// The same, and what it is asked for.
    pub fn serve_counted(dir: &Path, socket: &Path, options: &[&str]) -> (Daemon, RequestLog) {
        let (daemon, stderr) = Daemon::start(dir, socket, options, RequestLog::FILTER);
        (daemon, RequestLog::follow(stderr))
    }

    fn start(
        dir: &Path,
        socket: &Path,
        options: &[&str],
        filter: &str,
    ) -> (Daemon, BufReader<ChildStderr>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluice-here"))
            .arg("serve")
            .arg(dir)
            .arg("--virtiofs")
            .arg(socket)
            .args(["--tag", Daemon::TAG])
            .args(options)
            .env("RUST_LOG", filter)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let daemon = Daemon {
            child,
            socket: socket.to_owned(),
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
