//! The POSIX cases on local file systems, which is what tells that the cases
//! are right, and through `/dev/fuse`.

mod common;

use common::daemon::Daemon;
use common::{OVER_9P, POSIX, WITHOUT_OPEN, passes, skip};
use sluice_client::{Address, RemoteService, ServiceOptions};
use sluice_proto::fuse::serve::{CacheMode, Offer};
use sluice_vfs::FileService;
use sluicefs::mount::{MountOptions, Mounted};
use sluicefs::share::{self, SharePolicy};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// For what takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a file system of the host may lack: ACLs, long attributes, zeroing of
/// ranges, whiteouts in a container.
const MAX_SKIPS: usize = 16;
/// An ordinary user cannot become others.
const MAX_SKIPS_OF_USERS: usize = 100;

fn max_skips() -> usize {
    if is_root() {
        MAX_SKIPS
    } else {
        MAX_SKIPS_OF_USERS
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn the_disk_passes() {
    let dir = tempfile::tempdir().unwrap();
    passes(Command::new(POSIX).arg(dir.path()), max_skips());
}

#[test]
fn a_tmpfs_passes() {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(dir) => passes(Command::new(POSIX).arg(dir.path()), max_skips()),
        Err(error) => skip(&format!("/dev/shm: {error}")),
    }
}

#[test]
fn a_mount_passes_with_cache_never() {
    mount_passes(CacheMode::Never, false);
}

#[test]
fn a_mount_passes_with_cache_auto() {
    mount_passes(CacheMode::Auto, false);
}

#[test]
fn a_mount_passes_with_cache_always() {
    mount_passes(CacheMode::Always, false);
}

#[test]
fn a_mount_passes_with_writeback() {
    mount_passes(CacheMode::Always, true);
}

fn mount_passes(cache: CacheMode, writeback: bool) {
    if !is_root() {
        return skip("mounting for everybody needs root");
    }
    if let Some(mount) = Mount::new(cache, writeback, true) {
        let mut command = Command::new(POSIX);
        command.arg(mount.target());
        if cache == CacheMode::Always {
            command.args(WITHOUT_OPEN);
        }
        passes(&mut command, MAX_SKIPS);
    }
}

#[test]
fn a_mount_of_a_server_passes() {
    if !is_root() {
        return skip("mounting for everybody needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let (share, socket) = (dir.path().join("share"), dir.path().join("socket"));
    fs::create_dir(&share).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let _daemon = Daemon::serve_9p(&share, listener, &["--access=client", "--posix-acl=always"]);
    let options = ServiceOptions {
        posix_acl: true,
        ..ServiceOptions::default()
    };
    let service = RemoteService::new(Address::Unix(socket), options);
    let options = Mount::options(CacheMode::Never, false, true);
    if let Some(mount) = Mount::of(|_| Arc::new(service), &options) {
        let known = OVER_9P.iter().flat_map(|case| ["--known", case]);
        let mut command = Command::new(POSIX);
        passes(command.arg(mount.target()).args(known), MAX_SKIPS);
    }
}

/// Tells the child that it is one.
const PART: &str = "SLUICE_TEST_AS_USER";

/// This program again, as a user, who mounts through fusermount3.
#[test]
fn a_users_own_mount_passes() {
    if std::env::var_os(PART).is_some() || !is_root() {
        if let Some(mount) = Mount::new(CacheMode::Auto, false, false) {
            let program = std::env::var_os(PART).unwrap_or_else(|| POSIX.into());
            passes(
                Command::new(program).arg(mount.target()),
                MAX_SKIPS_OF_USERS,
            );
        }
        return;
    }
    // Copies, for users may not enter the folders that these lie in.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    let (this, posix) = (dir.path().join("this"), dir.path().join("posix"));
    fs::copy(std::env::current_exe().unwrap(), &this).unwrap();
    fs::copy(POSIX, &posix).unwrap();
    // A mount namespace with a device that everybody may open, as distributions have it.
    let script = r#"
        set -e
        mkdir dev
        mount -t tmpfs none dev
        mknod -m 666 dev/fuse c 10 229
        mount --bind dev/fuse /dev/fuse
        exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
    "#;
    let status = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(&this)
        .args(["--exact", "a_users_own_mount_passes", "--nocapture"])
        .env(PART, &posix)
        .env("TMPDIR", dir.path())
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(status.success());
}

/// A process that has copies of the mounts of this one, until it is dropped.
struct Hoarder(Child);

impl Hoarder {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sleep", "100"]);
        let child = Hoarder(command.spawn().unwrap());
        let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
        while mounts(&child.0.id().to_string()) == mounts("self") {
            std::thread::yield_now();
        }
        child
    }
}

impl Drop for Hoarder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A mount lives as long as a copy of it does, wherever that is.
#[test]
fn nobody_keeps_a_tests_mount_alive() {
    if !is_root() {
        return skip("mounts of one's own need root");
    }
    let (begin, begun) = mpsc::channel();
    let (hoard, hoarding) = mpsc::channel();
    // Sees what everybody sees.
    let bystander = thread::spawn(move || {
        begun.recv().unwrap();
        let hoarder = Hoarder::new();
        hoard.send(()).unwrap();
        begun.recv().unwrap();
        drop(hoarder);
    });
    let (end, ended) = mpsc::channel();
    let owner = thread::spawn(move || {
        let mount = Mount::new(CacheMode::Auto, false, true);
        begin.send(()).unwrap();
        hoarding.recv().unwrap();
        drop(mount);
        end.send(begin).unwrap();
    });
    let begin = ended.recv_timeout(PATIENCE);
    let begin = begin.expect("the mount ends although somebody copied what he saw");
    begin.send(()).unwrap();
    owner.join().unwrap();
    bystander.join().unwrap();
}

/// A directory, mounted elsewhere by this process.
struct Mount {
    // Unmounted before the directory is removed: fields are dropped in this order.
    _mounted: Mounted,
    dir: TempDir,
}

impl Mount {
    /// The engine's. `None` where nothing can be mounted.
    fn new(cache: CacheMode, writeback: bool, for_all: bool) -> Option<Mount> {
        let options = Mount::options(cache, writeback, for_all);
        let open = |dir: &Path| {
            let export = dir.join("export");
            fs::create_dir(&export).unwrap();
            share::open(&export, &options.policy).unwrap()
        };
        Mount::of(open, &options)
    }

    fn options(cache: CacheMode, writeback: bool, for_all: bool) -> MountOptions {
        let policy = SharePolicy {
            cache,
            writeback,
            posix_acl: if for_all { Offer::Auto } else { Offer::Never },
            ..SharePolicy::default()
        };
        MountOptions {
            allow_other: for_all,
            policy,
            ..MountOptions::default()
        }
    }

    /// Of what `open` makes of a folder.
    fn of(
        open: impl FnOnce(&Path) -> Arc<dyn FileService>,
        options: &MountOptions,
    ) -> Option<Mount> {
        if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
            skip(&format!("/dev/fuse: {error}"));
            return None;
        }
        if !is_root() && !has_fusermount() {
            skip("there is no fusermount3");
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        // Users of the cases pass through here.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let target = dir.path().join("mnt");
        fs::create_dir(&target).unwrap();
        let service = open(dir.path());
        let mounted = Mounted::start(service, "posix", &target, options);
        Some(Mount {
            _mounted: mounted.unwrap(),
            dir,
        })
    }

    fn target(&self) -> std::path::PathBuf {
        self.dir.path().join("mnt")
    }
}

fn has_fusermount() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_program(&dir.join("fusermount3")))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}
