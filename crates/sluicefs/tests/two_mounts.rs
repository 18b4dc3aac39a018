//! Two mounts of one service in memory, at a time and one after the other. Their
//! kernels cache everything for ever: what one changes, the other learns through
//! notifications.

mod common;

use common::{PATIENCE, skip};
use sluice_lab::model::ModelService;
use sluice_vfs::FileService;
use sluicefs::mount::{MountOptions, Mounted};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

/// Whether this process can mount; it does so where nobody else sees it.
fn can_mount() -> bool {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        skip("mounting needs root and /dev/fuse here");
        return false;
    }
    sluice_lab::own_mounts().unwrap();
    true
}

struct Pair {
    // Unmounted before the directory goes.
    _mounts: [Mounted; 2],
    _dir: TempDir,
    here: PathBuf,
    there: PathBuf,
}

impl Pair {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Pair> {
        if !can_mount() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let service: Arc<dyn FileService> = Arc::new(ModelService::default());
        let mut options = MountOptions::default();
        options.add("cache=always,negtimeout=-1").unwrap();
        let mount = |name: &str| {
            let target = dir.path().join(name);
            fs::create_dir(&target).unwrap();
            let mounted = Mounted::start(Arc::clone(&service), "model", &target, &options);
            (mounted.unwrap(), target)
        };
        let ((first, here), (second, there)) = (mount("here"), mount("there"));
        Some(Pair {
            _mounts: [first, second],
            _dir: dir,
            here,
            there,
        })
    }
}

/// Notifications are on their way for a moment.
fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn what_one_mount_changes_the_other_sees() {
    let Some(Pair { here, there, .. }) = &Pair::new() else {
        return;
    };
    // A missing name is remembered until it comes.
    assert!(!there.join("file").exists());
    fs::write(here.join("file"), "one").unwrap();
    soon("the new name", || there.join("file").exists());
    assert_eq!(fs::read(there.join("file")).unwrap(), b"one");

    // Content and size are remembered until they change.
    fs::write(here.join("file"), "another").unwrap();
    soon("the new content", || {
        fs::read(there.join("file")).unwrap() == b"another"
    });

    // So is where a name leads.
    fs::rename(here.join("file"), here.join("moved")).unwrap();
    soon("the old name gone", || !there.join("file").exists());
    soon("the new name", || there.join("moved").exists());
    fs::remove_file(here.join("moved")).unwrap();
    soon("the file gone", || !there.join("moved").exists());
}

/// A notification for a directory waits in the kernel for whoever works in it.
#[test]
fn notifications_and_requests_never_wait_for_each_other() {
    let Some(Pair { here, there, .. }) = &Pair::new() else {
        return;
    };
    let churn = |dir: &Path, own: &str| {
        for round in 0..400 {
            let shared = dir.join(format!("name-{}", round % 5));
            let _ = fs::write(&shared, own);
            let _ = fs::rename(&shared, dir.join(format!("{own}-{}", round % 3)));
            let _ = fs::read_dir(dir).map(Iterator::count);
            let _ = fs::remove_file(&shared);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| churn(here, "here"));
        scope.spawn(|| churn(there, "there"));
    });
    let names = |dir: &Path| {
        let listed = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    soon("the same names", || names(here) == names(there));
}

/// The kernel gives a mount the numbers of the last one that is gone.
#[test]
fn who_was_unmounted_leaves_the_next_mount_alone() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let service: Arc<dyn FileService> = Arc::new(ModelService::default());
    let options = MountOptions::default();
    let mount = || Mounted::start(Arc::clone(&service), "model", dir.path(), &options).unwrap();
    let first = mount();
    fs::write(dir.path().join("file"), "content").unwrap();
    rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert!(!dir.path().join("file").exists());
    let second = mount();
    drop(first);
    let content = fs::read(dir.path().join("file"));
    assert_eq!(content.expect("the second mount"), b"content");
    drop(second);
    assert!(!dir.path().join("file").exists());
}
