//! A running `sluice serve --9p`.

use crate::common::serving::announced;
use crate::common::{Daemon, sluice, text};
use crate::peer::Peer;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A share in a directory of its own, and a server of it.
pub(crate) struct Server {
    pub(crate) daemon: Daemon,
    /// What it said when it was ready.
    pub(crate) said: Vec<String>,
    pub(crate) dir: TempDir,
}

impl Server {
    /// On a unix socket.
    pub(crate) fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Server::in_dir(dir, more)
    }

    /// The same, with `dir/share` in whatever state the caller made it.
    pub(crate) fn in_dir(dir: TempDir, more: &[&str]) -> Self {
        let share = dir.path().join("share");
        if !share.exists() {
            std::fs::create_dir(&share).unwrap();
        }
        let address = format!("unix:{}", text(&dir.path().join("socket")));
        let arguments = [&["serve", text(&share), "--9p", &address], more].concat();
        let (daemon, said) = announced(&mut sluice(&arguments), 1);
        Server { daemon, said, dir }
    }

    pub(crate) fn share(&self) -> PathBuf {
        self.dir.path().join("share")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Somebody who has just connected.
    pub(crate) fn stranger(&self) -> Peer {
        Peer::unix(&self.socket())
    }

    /// Somebody who is attached as the superuser.
    pub(crate) fn peer(&self) -> Peer {
        self.stranger().mounted(1 << 20)
    }

    /// Ends it as an administrator does; it must end well.
    pub(crate) fn stop(mut self) {
        self.daemon.signal(rustix::process::Signal::TERM);
        assert_eq!(self.daemon.status(), 0);
        assert!(!self.socket().exists());
    }
}

/// Fills a file with bytes that tell where they are.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

pub(crate) fn write_pattern(path: &Path, len: usize) -> Vec<u8> {
    let bytes = pattern(len);
    std::fs::write(path, &bytes).unwrap();
    bytes
}
