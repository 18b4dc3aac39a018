//! A directory, its servers, and a wire to a guest.

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
const LIMIT: Duration = Duration::from_secs(300);

/// The command, for guests.
const SLUICE: &str = env!("CARGO_BIN_EXE_sluice-here");

/// Where guests have the tree.
pub(crate) const TREE: &str = "/mnt/tree";

pub(crate) struct Scene {
    dir: tempfile::TempDir,
    tree: PathBuf,
    wire: Wire,
    /// On the wire's listeners, in their order.
    _servers: Vec<Server>,
}

/// Ends with the scene.
enum Server {
    Sluice { _daemon: Daemon },
    Diod { _diod: Diod },
}

impl Scene {
    /// A tree that Sluice serves; `None` where there can be no guest.
    pub(crate) fn with_sluice(options: &[&str]) -> Option<Scene> {
        Scene::with_sluices(&[options])
    }

    /// The same with a server for each of several sets of options.
    pub(crate) fn with_sluices(options: &[&[&str]]) -> Option<Scene> {
        Scene::of_tree(None, options)
    }

    /// The same for a tree that is there already, or for one of its own.
    pub(crate) fn of_tree(tree: Option<&Path>, options: &[&[&str]]) -> Option<Scene> {
        let (dir, wire) = prepare(options.len())?;
        let tree = tree.map_or_else(|| dir.path().join("tree"), Path::to_owned);
        let servers = wire.listeners.iter().zip(options);
        let servers = servers.map(|(listener, options)| Server::Sluice {
            _daemon: Daemon::serve_9p(&tree, listener.try_clone().unwrap(), options),
        });
        Some(Scene {
            _servers: servers.collect(),
            dir,
            tree,
            wire,
        })
    }

    /// A tree that diod serves.
    pub(crate) fn with_diod() -> Option<Scene> {
        let program = Diod::program(&lab_cache());
        if !program.exists() {
            skip("lab/prepare has fetched no diod");
            return None;
        }
        let (dir, wire) = prepare(1)?;
        let tree = dir.path().join("tree");
        let server = Diod::serve(&program, &tree, &wire.listeners[0]);
        Some(Scene {
            dir,
            tree,
            wire,
            _servers: vec![Server::Diod {
                _diod: server.unwrap(),
            }],
        })
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.tree.clone()
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
        let mounts: Vec<(usize, &str)> = mounts.iter().map(|options| (0, *options)).collect();
        self.guest_of(&mounts, script)
    }

    /// A guest whose mounts are of the servers with these numbers.
    pub(crate) fn guest_of(&self, mounts: &[(usize, &str)], script: &str) -> Guest {
        let mut guest = Guest::new(["bash", "-c", script])
            .root(lab_cache().join("root"))
            .share(self.dir.path().join("tools"), "/mnt/tools")
            .share(lab(), "/mnt/lab");
        guest.machine = machine();
        guest.network = Some(self.wire.network.clone());
        guest.memory_mib = 256;
        for (nth, (server, options)) in mounts.iter().enumerate() {
            let number = if nth == 0 {
                String::new()
            } else {
                nth.to_string()
            };
            guest.shares.push(GuestShare {
                source: self.source(*server, options),
                at: format!("{TREE}{number}").into(),
                read_only: false,
            });
        }
        guest.workdir = mounts.first().map(|_| TREE.into());
        guest.boot_timeout = LIMIT;
        guest.time_limit = Some(LIMIT);
        guest
    }

    /// The first words of a guest's command that mounts the tree by our own client.
    pub(crate) fn mount_command(&self) -> String {
        fs::copy(SLUICE, self.dir.path().join("tools/sluice")).unwrap();
        let server = Wire::address(&self.wire.listeners[0]).unwrap();
        format!("/mnt/tools/sluice mount tcp:{server}")
    }

    /// The tree as a server has it, for a guest of this wire.
    pub(crate) fn source(&self, server: usize, options: &str) -> ShareSource {
        ShareSource::P9 {
            server: Wire::address(&self.wire.listeners[server]).unwrap(),
            options: format!("uname=root,aname={},{options}", self.tree.display()),
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

fn prepare(servers: usize) -> Option<(tempfile::TempDir, Wire)> {
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
    Some((dir, Wire::lay(servers).unwrap()))
}

fn lacks(cache: &Path) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a network of one's own needs root".to_owned());
    }
    let has_root = cache.join("root/usr/bin/bash").exists();
    (!has_root).then(|| "lab/prepare has made no root for guests".to_owned())
}
