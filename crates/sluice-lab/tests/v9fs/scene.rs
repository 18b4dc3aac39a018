//! A directory, its server, and a wire to a guest.

use crate::common::{POSIX, lab_cache, skip};
use sluice_lab::diod::Diod;
use sluice_lab::wire::Wire;
use sluicefs::sandbox::{Guest, GuestShare, MachineChoice, MachineKind, ShareSource};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// For booting and for everything a guest does: many times what it takes.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    dir: tempfile::TempDir,
    wire: Wire,
    _server: Diod,
}

impl Scene {
    pub(crate) fn with_diod() -> Option<Scene> {
        let program = Diod::program(&lab_cache());
        if !program.exists() {
            skip("lab/prepare has fetched no diod");
            return None;
        }
        let (dir, wire) = prepare()?;
        let server = Diod::serve(&program, &dir.path().join("tree"), &wire.listeners[0]).unwrap();
        Some(Scene {
            dir,
            wire,
            _server: server,
        })
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Runs a script in a guest that has mounted the tree on `/mnt/tree`, on
    /// a Debian root with the program `posix`. Returns what it printed.
    #[track_caller]
    pub(crate) fn run(&self, options: &str, script: &str) -> String {
        let tree = self.tree();
        let mut guest = Guest::new(["bash", "-c", script])
            .root(lab_cache().join("root"))
            .share(self.dir.path().join("tools"), "/mnt/tools");
        guest.machine = machine();
        guest.network = Some(self.wire.network.clone());
        guest.shares.push(GuestShare {
            source: ShareSource::P9 {
                server: Wire::address(&self.wire.listeners[0]).unwrap(),
                options: format!(
                    "version=9p2000.L,uname=root,access=user,aname={},{options}",
                    tree.display()
                ),
            },
            at: "/mnt/tree".into(),
            read_only: false,
        });
        guest.workdir = Some("/".into());
        guest.boot_timeout = LIMIT;
        guest.time_limit = Some(LIMIT);
        let output = guest.output("").unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status, 0, "{text}");
        text.into_owned()
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
    if let Err(missing) = machine().probe() {
        skip(&missing.to_string());
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skip("a network of one's own needs root");
        return None;
    }
    if !lab_cache().join("root/usr/bin/bash").exists() {
        skip("lab/prepare has made no root for guests");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["tools", "tree"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::copy(POSIX, dir.path().join("tools/posix")).unwrap();
    Some((dir, Wire::lay(1).unwrap()))
}
