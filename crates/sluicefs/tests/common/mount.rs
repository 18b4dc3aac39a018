//! `sluice mount --export` in the foreground.

use super::{Daemon, PATIENCE, skip, sluice, text};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use sluice_lab::request_log::RequestLog;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// A directory, mounted elsewhere in the foreground.
pub struct Mount {
    _dir: TempDir,
    pub export: PathBuf,
    pub target: PathBuf,
    pub daemon: Daemon,
}

impl Mount {
    /// `None` where nothing can be mounted.
    pub fn new(options: &str) -> Option<Mount> {
        let (mut mount, stderr) = Mount::with_log(options, "error")?;
        mount.daemon.0.stderr = Some(stderr.into_inner());
        Some(mount)
    }

    /// With what the daemon says after it is ready.
    fn with_log(options: &str, filter: &str) -> Option<(Mount, BufReader<ChildStderr>)> {
        if let Some(why) = cannot_mount() {
            skip(why);
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (export, target) = (dir.path().join("export"), dir.path().join("mnt"));
        fs::create_dir(&export).unwrap();
        fs::create_dir(&target).unwrap();
        let (daemon, stderr) = foreground(&export, &target, options, filter);
        let mount = Mount {
            _dir: dir,
            export,
            target,
            daemon,
        };
        Some((mount, stderr))
    }

    pub fn unmount(&self) {
        unmount(&self.target);
    }
}

impl Drop for Mount {
    /// A test that failed leaves no mount behind.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.target, UnmountFlags::DETACH);
    }
}

/// A mount whose requests are counted.
pub struct Counted {
    pub mount: Mount,
    log: RequestLog,
}

impl Counted {
    /// `None` where nothing can be mounted.
    pub fn new(options: &str) -> Option<Counted> {
        let (mount, stderr) = Mount::with_log(options, RequestLog::FILTER)?;
        let log = RequestLog::follow(stderr);
        Some(Counted { mount, log })
    }

    /// The requests that the kernel waits for while `action` runs on the mount.
    /// Another test's child that starts meanwhile has all files that are open
    /// here, and flushes what it closes: FLUSH may come more than once.
    #[track_caller]
    pub fn requests(&self, action: impl FnOnce(&Path)) -> Vec<String> {
        self.until_now();
        action(&self.mount.target);
        self.until_now()
    }

    /// How many of them are `opcode`.
    #[track_caller]
    pub fn count(&self, opcode: &str, action: impl FnOnce(&Path)) -> usize {
        let requests = self.requests(action);
        requests.iter().filter(|one| *one == opcode).count()
    }

    /// STATFS is never answered from a cache, so it parts what was before from
    /// what comes; but for what the kernel sends and doesn't wait for.
    #[track_caller]
    fn until_now(&self) -> Vec<String> {
        const UNAWAITED: [&str; 4] = ["Release", "Releasedir", "Forget", "BatchForget"];
        rustix::fs::statfs(&self.mount.target).unwrap();
        let mut requests = self.log.take_until("Statfs");
        requests.retain(|opcode| !UNAWAITED.contains(&opcode.as_str()));
        requests
    }
}

/// Unmounts what nobody uses. Another test's child that starts meanwhile has all files
/// that were open here for a moment.
#[track_caller]
pub fn unmount(target: &Path) {
    let start = Instant::now();
    let mut outcome = rustix::mount::unmount(target, UnmountFlags::NOFOLLOW);
    while outcome == Err(Errno::BUSY) && start.elapsed() < PATIENCE {
        std::thread::yield_now();
        outcome = rustix::mount::unmount(target, UnmountFlags::NOFOLLOW);
    }
    outcome.unwrap();
}

/// What the mount table says of the mount on `target`, but not of its file system; none
/// if there is none.
pub fn mount_words(target: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let mut lines = table.lines().map(|line| line.split(' ').skip(4));
    let mut fields = lines.find_map(|mut fields| {
        let is_here = fields.next() == Some(text(target));
        is_here.then_some(fields)
    })?;
    fields.next().map(str::to_owned)
}

/// Why nothing can be mounted here, if so.
pub fn cannot_mount() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root here");
    }
    let device = File::options().read(true).write(true).open("/dev/fuse");
    device.is_err().then_some("there is no usable /dev/fuse")
}

/// Starts a foreground mount and waits for its line, the first but for those
/// that the log has.
fn foreground(
    export: &Path,
    target: &Path,
    options: &str,
    filter: &str,
) -> (Daemon, BufReader<ChildStderr>) {
    let arguments = [
        "mount",
        "--foreground",
        "--export",
        text(export),
        text(target),
    ];
    let mut command = sluice(&arguments);
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    command.env("RUST_LOG", filter);
    let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut stderr = BufReader::new(daemon.0.stderr.take().unwrap());
    let mut line = String::new();
    while line.is_empty() || line.contains("TRACE") {
        line.clear();
        stderr.read_line(&mut line).unwrap();
        assert_ne!(line, "", "it ended");
    }
    assert_eq!(
        line,
        format!(
            "sluice: mounted {} on {}\n",
            export.display(),
            target.display()
        )
    );
    (daemon, stderr)
}
