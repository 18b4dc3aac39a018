//! `sluice mount` from its first step to a usable mount, or to none.

mod common;

use common::mount::{cannot_mount, unmount};
use common::serving::announced;
use common::{Daemon, skip, sluice, text};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Directories to share and to mount on.
struct Place {
    dir: TempDir,
    target: PathBuf,
}

impl Place {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Place> {
        if let Some(why) = cannot_mount() {
            skip(why);
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("mnt");
        fs::create_dir(&target).unwrap();
        Some(Place { dir, target })
    }
}

impl Drop for Place {
    /// A test that failed leaves no mount behind.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.target, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Serves a directory on `unix:socket`, in that directory.
fn serve_within(dir: &Path) -> Daemon {
    let arguments = ["serve", ".", "--9p", "unix:socket", "--sandbox=none"];
    announced(sluice(&arguments).current_dir(dir), 1).0
}

#[test]
fn a_server_with_a_relative_path_is_found_again_from_the_background() {
    let Some(place) = Place::new() else {
        return;
    };
    // Too long for the address of a socket.
    let deep = place.dir.path().join("deep".repeat(30));
    fs::create_dir(&deep).unwrap();
    let server = serve_within(&deep);
    fs::write(deep.join("file"), "content").unwrap();
    let options = "cache=never,soft,timeo=100";
    let mut mount = sluice(&["mount", "unix:socket", text(&place.target), "-o", options]);
    let output = mount.current_dir(&deep).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = || fs::read(place.target.join("file"));
    assert_eq!(read().unwrap(), b"content");
    drop(server);
    let _server = serve_within(&deep);
    assert_eq!(read().unwrap(), b"content");
    unmount(&place.target);
}
