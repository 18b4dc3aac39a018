//! A running `sluice serve`, and a front-end of it.

use super::{Daemon, sluice, text};
use sluice_virtio::driver::{Driver, Options};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A running server; its line was there.
pub fn start(dir: &Path, socket: &Path, more: &[&str]) -> Daemon {
    let arguments = [&["serve", text(dir), "--virtiofs", text(socket)], more].concat();
    started(sluice(&arguments), dir, socket)
}

/// The same with a command of the caller's.
pub fn started(mut command: Command, dir: &Path, socket: &Path) -> Daemon {
    let (daemon, said) = announced(&mut command, 1);
    let expected = format!(
        "sluice: serving {} as virtio-fs tag sluice on {}",
        dir.display(),
        socket.display()
    );
    assert_eq!(said, [expected]);
    daemon
}

/// Starts a server or a mount and waits for so many lines of what it says.
pub fn announced(command: &mut Command, lines: usize) -> (Daemon, Vec<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = Vec::new();
    for _ in 0..lines {
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let is_ready = ["sluice: serving ", "sluice: mounted "];
        assert!(
            is_ready.iter().any(|words| line.starts_with(words)),
            "{line}"
        );
        said.push(line.trim_end().to_owned());
    }
    child.stderr = Some(stderr.into_inner());
    (Daemon(child), said)
}

/// What a monitor does.
pub fn connect(socket: &Path) -> Driver {
    Driver::connect(socket, Options::default()).unwrap()
}

/// To share, with the path of a socket in it.
pub fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    (dir, socket)
}
