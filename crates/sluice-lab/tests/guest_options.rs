//! Options of a share in a real guest: what its kernel asks for, and what only
//! virtio-fs shows.

mod common;

use common::daemon::Daemon;
use common::guest::GuestShell;
use common::skip;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sluice_lab::request_log::RequestLog;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

struct Counted {
    shell: GuestShell,
    log: RequestLog,
    share: PathBuf,
    _daemon: Daemon,
    _dir: TempDir,
}

impl Counted {
    /// `None` where there is no guest.
    fn new(options: &[&str]) -> Option<Counted> {
        let dir = tempfile::tempdir().unwrap();
        let share = dir.path().join("share");
        fs::create_dir(&share).unwrap();
        let (daemon, log) = Daemon::serve_counted(&share, &dir.path().join("socket"), options);
        Some(Counted {
            shell: GuestShell::start(&daemon)?,
            log,
            share,
            _daemon: daemon,
            _dir: dir,
        })
    }

    /// What the guest's kernel asks for to run `command`, without what it
    /// doesn't wait for.
    #[track_caller]
    fn requests(&mut self, command: &str) -> Vec<String> {
        self.until_now();
        self.shell.run(command);
        self.until_now()
    }

    /// How much of it is `opcode`.
    #[track_caller]
    fn count(&mut self, opcode: &str, command: &str) -> usize {
        let requests = self.requests(command);
        requests.iter().filter(|one| *one == opcode).count()
    }

    /// STATFS is never answered from a cache.
    #[track_caller]
    fn until_now(&mut self) -> Vec<String> {
        const UNAWAITED: [&str; 4] = ["Release", "Releasedir", "Forget", "BatchForget"];
        self.shell.run("stat -f . >/dev/null");
        let mut requests = self.log.take_until("Statfs");
        requests.retain(|opcode| !UNAWAITED.contains(&opcode.as_str()));
        requests
    }
}

#[test]
fn a_guest_that_owns_the_tree_asks_for_nothing_twice() {
    let Some(mut guest) = Counted::new(&["--cache=always"]) else {
        return;
    };
    fs::write(guest.share.join("file"), "content\n").unwrap();
    let look = "for i in 1 2 3; do [ ! -e missing ] || exit 1; done";
    assert_eq!(guest.requests(look), ["Lookup"]);
    let read = "for i in 1 2 3; do read -r line < file; done";
    let first = guest.requests(read);
    let opens = first.iter().filter(|opcode| *opcode == "Open").count();
    assert_eq!(opens, 1, "{first:?}");
    // From now on not even to open and close.
    assert_eq!(guest.requests(read), [""; 0]);
    let written = guest.requests("echo more > missing");
    assert!(
        !written
            .iter()
            .any(|opcode| ["Open", "Flush", "Lookup"].contains(&opcode.as_str())),
        "{written:?}"
    );
    assert_eq!(fs::read(guest.share.join("missing")).unwrap(), b"more\n");
}

#[test]
fn a_guest_that_shares_the_tree_asks_again() {
    let Some(mut guest) = Counted::new(&["--cache=never"]) else {
        return;
    };
    fs::write(guest.share.join("file"), "content\n").unwrap();
    let look = "for i in 1 2 3; do [ ! -e missing ] || exit 1; done";
    assert_eq!(guest.count("Lookup", look), 3);
    let read = "for i in 1 2 3; do read -r line < file; done";
    assert_eq!(guest.count("Open", read), 3);
}

/// A file system of its own on a directory, until dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(dir: &Path) -> Mounted {
        fs::create_dir(dir).unwrap();
        mount("none", dir, "tmpfs", MountFlags::empty(), None).unwrap();
        Mounted(dir.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn mounts_below_the_share_are_announced_unless_forbidden() {
    if !rustix::process::geteuid().is_root() {
        return skip("mounting needs root");
    }
    for (option, is_announced) in [
        ("--announce-submounts", true),
        ("--no-announce-submounts", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let share = dir.path().join("share");
        fs::create_dir(&share).unwrap();
        let below = Mounted::tmpfs(&share.join("sub"));
        fs::write(below.0.join("file"), "below\n").unwrap();
        let daemon = Daemon::serve(&share, &dir.path().join("socket"), &[option]);
        let Some(mut shell) = GuestShell::start(&daemon) else {
            return;
        };
        // Entering it makes the guest's kernel mount it, if it knows.
        assert_eq!(shell.run("cat sub/file"), "below");
        let devices = shell.run("stat -c %d . sub sub/file");
        let devices: Vec<&str> = devices.lines().collect();
        assert_eq!(devices.len(), 3);
        assert_eq!(devices[1], devices[2]);
        assert_eq!(
            devices[0] != devices[1],
            is_announced,
            "{option}: {devices:?}"
        );
    }
}

/// SELinux without a policy knows no label but the kernel's own first ones: enough to
/// see that what is made has its label from the start.
#[test]
fn what_a_guest_with_labels_makes_has_one() {
    if !rustix::process::geteuid().is_root() {
        return skip("labels on the host need root");
    }
    let options = ["--security-label", "--modcaps=+sys_admin"];
    let Some(mut guest) = Counted::new(&options) else {
        return;
    };
    let lsm = guest
        .shell
        .run("mkdir -p /s && mount -t securityfs s /s && cat /s/lsm");
    if !lsm.split(',').any(|name| name == "selinux") {
        return skip("the guest's kernel has no SELinux");
    }
    let made = guest.requests("echo text >file; mkdir dir; ln -s target link; mkfifo pipe");
    assert!(!made.iter().any(|one| one == "Setxattr"), "{made:?}");
    for name in ["file", "dir", "link", "pipe"] {
        let mut label = [0; 64];
        let path = guest.share.join(name);
        let len = rustix::fs::lgetxattr(&path, "security.selinux", &mut label[..]);
        let len = len.unwrap_or_else(|error| panic!("{name} has no label: {error}"));
        assert_eq!(label[..len], *b"unlabeled\0", "{name}");
    }
}
