//! A directory, its server, and a wire to a guest.

use crate::common::daemon::Daemon;
use crate::common::{POSIX, lab, lab_cache, skip};
use sluice_lab::diod::Diod;
use sluice_lab::wire::Wire;
use sluicefs::sandbox::{Guest, GuestShare, MachineChoice, MachineKind, ShareSource};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For booting, and for everything that a guest does: many times what it takes.
/// A test that hangs fails then, with what the guest's kernel said last.
const LIMIT: Duration = Duration::from_secs(120);

/// Where guests have the tree.
pub(crate) const TREE: &str = "/mnt/tree";

pub(crate) struct Scene {
    dir: tempfile::TempDir,
    wire: Wire,
    _server: Server,
}

/// Ends with the scene.
enum Server {
    Sluice { _daemon: Daemon },
    Diod { _diod: Diod },
}

impl Scene {
    /// A tree that Sluice serves; `None` where there can be no guest.
    pub(crate) fn with_sluice(options: &[&str]) -> Option<Scene> {
        let (dir, wire) = prepare()?;
        let server = Daemon::serve_9p(
            &dir.path().join("tree"),
            wire.listeners[0].try_clone().unwrap(),
            options,
        );
        Some(Scene {
            dir,
            wire,
            _server: Server::Sluice { _daemon: server },
        })
    }

    /// A tree that diod serves.
    pub(crate) fn with_diod() -> Option<Scene> {
        let program = Diod::program(&lab_cache());
        if !program.exists() {
            skip("lab/prepare has fetched no diod");
            return None;
        }
        let (dir, wire) = prepare()?;
        let server = Diod::serve(&program, &dir.path().join("tree"), &wire.listeners[0]);
        Some(Scene {
            dir,
            wire,
            _server: Server::Diod {
                _diod: server.unwrap(),
            },
        })
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Runs a shell script in a guest that has the lab's programs, and has mounted
    /// the tree once for each of `mounts` (options of mount(2)): on [`TREE`], with
    /// a number behind it but for the first. Returns what it printed.
    #[track_caller]
    pub(crate) fn run(&self, mounts: &[&str], script: &str) -> String {
        let output = self.guest(mounts, script).output("").unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status, 0, "{text}");
        text.into_owned()
    }

    /// The guest of [`run`](Self::run).
    pub(crate) fn guest(&self, mounts: &[&str], script: &str) -> Guest {
        let mut guest = Guest::new(["bash", "-c", script])
            .root(lab_cache().join("root"))
            .share(self.dir.path().join("tools"), "/mnt/tools")
            .share(lab(), "/mnt/lab");
        guest.machine = machine();
        guest.network = Some(self.wire.network.clone());
        guest.memory_mib = 256;
        for (nth, options) in mounts.iter().enumerate() {
            let number = if nth == 0 {
                String::new()
            } else {
                nth.to_string()
            };
            guest.shares.push(GuestShare {
                source: self.share(options),
                at: format!("{TREE}{number}").into(),
                read_only: false,
            });
        }
        guest.workdir = Some(TREE.into());
        guest.boot_timeout = LIMIT;
        guest.time_limit = Some(LIMIT);
        guest
    }

    fn share(&self, options: &str) -> ShareSource {
        let aname = self.tree();
        ShareSource::P9 {
            server: Wire::address(&self.wire.listeners[0]).unwrap(),
            options: format!("uname=root,aname={},{options}", aname.display()),
        }
    }
}

fn machine() -> MachineChoice {
    MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    }
}

fn prepare() -> Option<(tempfile::TempDir, Wire)> {
    let missing = machine().probe().err().map(|missing| missing.to_string());
    let missing = missing.or_else(|| lacks(&lab_cache()));
    if let Some(missing) = missing {
        skip(&missing);
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["tools", "tree"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::copy(POSIX, dir.path().join("tools/posix")).unwrap();
    Some((dir, Wire::lay(1).unwrap()))
}

fn lacks(cache: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a network of one's own needs root".to_owned());
    }
    let has_root = cache.join("root/usr/bin/bash").exists();
    (!has_root).then(|| "lab/prepare has made no root for guests".to_owned())
}
