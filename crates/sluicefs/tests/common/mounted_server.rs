//! `sluice mount` of a 9P server in the foreground.

use super::mount::cannot_mount;
use super::serving::announced;
use super::{Daemon, run, skip, sluice, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory, served on a unix socket and mounted elsewhere.
pub struct Scene {
    pub share: PathBuf,
    pub socket: PathBuf,
    pub target: PathBuf,
    pub mount: Daemon,
    pub server: Option<Daemon>,
    pub dir: TempDir,
}

impl Scene {
    /// `None` where nothing can be mounted.
    pub fn new(options: &str, more: &[&str]) -> Option<Scene> {
        Scene::of("", options, more)
    }

    /// Of the directory `within` the share.
    pub fn of(within: &str, options: &str, more: &[&str]) -> Option<Scene> {
        if let Some(why) = cannot_mount() {
            skip(why);
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let [share, target, socket] = ["share", "mnt", "socket"].map(|it| dir.path().join(it));
        let path = within.trim_start_matches([':', '/']);
        fs::create_dir_all(share.join(path)).unwrap();
        fs::create_dir(&target).unwrap();
        let server = serve(&share, &socket);
        let source = format!("unix:{}{within}", text(&socket));
        let arguments = [
            "mount",
            "--foreground",
            &source,
            text(&target),
            "-o",
            options,
        ];
        let mut command = sluice(&[&arguments[..], more].concat());
        let (mount, said) = announced(&mut command, 1);
        assert_eq!(
            said,
            [format!("sluice: mounted {source} on {}", text(&target))]
        );
        Some(Scene {
            share,
            socket,
            target,
            mount,
            server: Some(server),
            dir,
        })
    }

    pub fn stats(&self) -> Value {
        let output = run(&["stats", "--json", text(&self.target)]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// How many the kernel made.
    pub fn requests(&self) -> u64 {
        self.stats()["requests"].as_u64().unwrap()
    }

    /// Messages sent and replies waited for while something is done.
    pub fn messages(&self, action: impl FnOnce(&Path)) -> (u64, u64) {
        let counts = |stats: &Value| {
            let server = &stats["server"];
            let sent = server["sent_bytes"]["count"].as_u64().unwrap();
            (sent, server["replies_waited"].as_u64().unwrap())
        };
        let before = counts(&self.stats());
        action(&self.target);
        let after = counts(&self.stats());
        (after.0 - before.0, after.1 - before.1)
    }
}

impl Drop for Scene {
    /// A test that failed leaves no mount behind.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.target, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Serves a directory on a unix socket.
pub fn serve(share: &Path, socket: &Path) -> Daemon {
    let address = format!("unix:{}", text(socket));
    let arguments = ["serve", text(share), "--9p", &address, "--sandbox=none"];
    announced(&mut sluice(&arguments), 1).0
}
