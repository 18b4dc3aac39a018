//! Programs that people use, at work on a mount and in a guest: `lab/programs`
//! says what they do and checks it.

mod common;

use common::daemon::Daemon;
use common::{lab, lab_cache, skip};
use rustix::mount::UnmountFlags;
use sluicefs::mount::{MountOptions, Mounted};
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use sluicefs::share;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

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
fn on_a_mounted_server() {
    let Some(scene) = ServerScene::new("allow_other") else {
        return;
    };
    assert_did(&scene.place.programs(&[]).output().unwrap(), PROGRAMS);
    assert_eq!(fs::read_dir(&scene.place.export).unwrap().count(), 0);
}

/// A database neither fails nor loses anything when the server is killed under it,
/// again and again.
#[test]
fn a_database_survives_its_server() {
    const KILLS: usize = 5;
    let Some(mut scene) = ServerScene::new("allow_other") else {
        return;
    };
    let mut command = scene.place.programs(&["postgres"]);
    command.env("PGBENCH", "-t 500");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut kills = 0;
    while kills < KILLS && scene.is_written_to(&mut child) {
        scene.restart_server();
        kills += 1;
    }
    let output = child.wait_with_output().unwrap();
    assert_did(&output, 1);
    // The last ones depend on how fast the transactions are.
    assert!(kills > 0, "it ended before anybody killed its server");
}

#[test]
fn in_a_guest() {
    let Some(root) = lab_folder("root") else {
        return;
    };
    let share = tempfile::tempdir().unwrap();
    let mut guest = Guest::new([&["/lab/programs", "/share"], &IN_GUESTS[..]].concat())
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
    assert_eq!(ok_lines(&said), IN_GUESTS.len(), "{said}");
}

/// How many programs there are: none may drop out unseen.
const PROGRAMS: usize = 13;

/// Those that the guests' root has.
const IN_GUESTS: [&str; 11] = [
    "git",
    "sqlite_wal",
    "sqlite_rollback",
    "tar",
    "rsync",
    "build",
    "fio_psync",
    "fio_mmap",
    "fio_direct",
    "fsx",
    "pjdfstest",
];

fn on_a_mount(options: &str) {
    let Some(place) = Place::new() else {
        return;
    };
    let mut mount_options = MountOptions::default();
    mount_options.add(options).unwrap();
    let service = share::open(&place.export, &mount_options.policy).unwrap();
    let mounted = Mounted::start(service, "programs", &place.target, &mount_options).unwrap();
    assert_did(&place.programs(&[]).output().unwrap(), PROGRAMS);
    drop(mounted);
    assert_eq!(fs::read_dir(&place.export).unwrap().count(), 0);
}

/// A directory, and another to mount it on.
struct Place {
    export: PathBuf,
    target: PathBuf,
    peers: PathBuf,
    dir: TempDir,
}

impl Place {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skip("mounting needs root and /dev/fuse");
            return None;
        }
        let peers = lab_folder("bin")?;
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        // Users of the programs pass through here.
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let [export, target] = ["export", "mnt"].map(|name| dir.path().join(name));
        fs::create_dir(&export).unwrap();
        fs::create_dir(&target).unwrap();
        Some(Place {
            export,
            target,
            peers,
            dir,
        })
    }

    /// Runs the named programs, or all.
    fn programs(&self, names: &[&str]) -> Command {
        let path = format!(
            "{}:{}",
            self.peers.display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new(lab().join("programs"));
        command.arg(&self.target).args(names).env("PATH", path);
        command
    }
}

/// A directory that is served, and mounted from there by `sluice mount`.
struct ServerScene {
    server: Option<Daemon>,
    listener: UnixListener,
    place: Place,
}

impl ServerScene {
    fn new(options: &str) -> Option<ServerScene> {
        let place = Place::new()?;
        let socket = place.dir.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut scene = ServerScene {
            server: None,
            listener,
            place,
        };
        scene.restart_server();
        let source = format!("unix:{}", socket.display());
        let mut mount = Command::new(env!("CARGO_BIN_EXE_sluice-here"));
        mount.args(["mount", &source, "-o", options]);
        let mounted = mount.arg(&scene.place.target).status().unwrap();
        assert!(mounted.success());
        Some(scene)
    }

    /// Kills the server, if there is one, and starts another in its place.
    fn restart_server(&mut self) {
        self.server = None;
        let listener = self.listener.try_clone().unwrap();
        let export = &self.place.export;
        self.server = Some(Daemon::serve_9p(export, listener, &["--sandbox=none"]));
    }

    /// Waits until the database writes its log once more, after which transactions
    /// are under way. False if it has ended, or `child` has.
    fn is_written_to(&self, child: &mut Child) -> bool {
        let mut seen = None;
        while child.try_wait().unwrap().is_none() {
            let written = self.last_write();
            if seen.is_some() && written.is_none() {
                return false;
            }
            if seen.is_some() && written != seen {
                return true;
            }
            seen = written;
            std::thread::yield_now();
        }
        false
    }

    /// When the log of a database with transactions was written last.
    fn last_write(&self) -> Option<SystemTime> {
        let run = fs::read_dir(&self.place.export).unwrap().next()?.unwrap();
        let folder = run.path().join("postgres");
        if !folder.join("busy").exists() {
            return None;
        }
        let log = fs::read_dir(folder.join("data/pg_wal")).ok()?;
        let times = log.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok());
        times.max()
    }
}

impl Drop for ServerScene {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.place.target, UnmountFlags::DETACH);
    }
}

/// Whether each of so many programs did what it must.
#[track_caller]
fn assert_did(output: &Output, programs: usize) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(ok_lines(&said), programs, "{said}");
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
