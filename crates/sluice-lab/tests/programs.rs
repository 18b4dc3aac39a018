//! Programs that people use, at work on a mount and in a guest: `lab/programs`
//! says what they do and checks it.

mod common;

use common::{lab, lab_cache, skip};
use sluicefs::mount::{MountOptions, Mounted};
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use sluicefs::share;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn on_a_mount_with_the_default_cache() {
    on_a_mount("cache=auto,allow_other");
}

#[test]
fn on_a_mount_without_a_cache() {
    on_a_mount("cache=never,allow_other");
}

#[test]
fn on_a_mount_that_collects_writes() {
    on_a_mount("cache=always,writeback,allow_other");
}

#[test]
fn in_a_guest() {
    let Some(root) = lab_folder("root") else {
        return;
    };
    let share = tempfile::tempdir().unwrap();
    let mut guest = Guest::new(["/lab/programs", "/share"])
        .root(root)
        .share(lab(), "/lab")
        .share(share.path(), "/share");
    guest.machine = MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(600));
    if let Err(missing) = guest.machine.probe() {
        return skip(&missing.to_string());
    }
    let output = guest.output("").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status, 0, "{said}");
    assert_eq!(ok_lines(&said), PROGRAMS, "{said}");
}

/// How many programs there are: none may drop out unseen.
const PROGRAMS: usize = 11;

fn on_a_mount(options: &str) {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return skip("mounting needs root and /dev/fuse");
    }
    let Some(peers) = lab_folder("bin") else {
        return;
    };
    sluice_lab::own_mounts().unwrap();
    let dir = tempfile::tempdir().unwrap();
    // Users of the programs pass through here.
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let [export, target] = ["export", "mnt"].map(|name| dir.path().join(name));
    std::fs::create_dir(&export).unwrap();
    std::fs::create_dir(&target).unwrap();
    let mut mount_options = MountOptions::default();
    mount_options.add(options).unwrap();
    let service = share::open(&export, &mount_options.policy).unwrap();
    let mounted = Mounted::start(service, "programs", &target, &mount_options).unwrap();

    let path = format!("{}:{}", std::env::var("PATH").unwrap(), peers.display());
    let output = Command::new(lab().join("programs"))
        .arg(&target)
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(ok_lines(&said), PROGRAMS, "{said}");
    drop(mounted);
    assert_eq!(std::fs::read_dir(&export).unwrap().count(), 0);
}

fn ok_lines(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("ok ")).count()
}

/// A folder that `lab/prepare` fills.
fn lab_folder(name: &str) -> Option<PathBuf> {
    let folder = lab_cache().join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    skip("the lab is empty; run lab/prepare");
    None
}
