//! The processes of an isolated server, seen from outside.

mod common;

use common::serving::{connect, directory, start, started};
use common::{Daemon, run, skip, sluice, status_and_line, text};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const NOBODY: u32 = 65_534;

/// Says so, unless this is root.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("what another process has open, and other users, need root");
    }
    is_root
}

/// The process that serves.
fn inside(server: &Daemon) -> Pid {
    let id = server.0.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let inside = children.trim().parse().expect("one process");
    Pid::from_raw(inside).unwrap()
}

fn of_process(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{name}", pid.as_raw_nonzero()))
}

/// A line of /proc/PID/status.
fn status(pid: Pid, key: &str) -> String {
    let text = fs::read_to_string(of_process(pid, "status")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    value.unwrap().trim_start_matches(':').trim().to_owned()
}

/// A service manager asks every process of a service to end.
#[test]
fn a_signal_to_all_of_its_processes_is_one() {
    let (dir, socket) = directory();
    let mut server = start(dir.path(), &socket, &[]);
    let client = connect(&socket);
    for _ in 0..2 {
        kill_process(inside(&server), Signal::TERM).unwrap();
    }
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
    assert!(!socket.exists());
    drop(client);
}

#[test]
fn nothing_that_is_open_leads_out() {
    if !is_root() {
        return;
    }
    let (dir, socket) = directory();
    let share = dir.path().join("share");
    fs::create_dir(&share).unwrap();
    let server = started(serve(&share, &socket), &share, &socket);
    let _client = connect(&socket);
    let pid = inside(&server);
    let share = fs::metadata(&share).unwrap();
    for entry in fs::read_dir(of_process(pid, "fd")).unwrap() {
        let path = entry.unwrap().path();
        let attr = fs::metadata(&path).unwrap();
        let is_share = (attr.dev(), attr.ino()) == (share.dev(), share.ino());
        let is_process = fs::read_link(&path).unwrap().starts_with("/proc");
        let leads_out = attr.is_dir() && !is_share && !is_process;
        assert!(!leads_out, "{:?}", fs::read_link(&path));
    }
    let root: Vec<_> = fs::read_dir(of_process(pid, "root"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(root.len(), 2, "{root:?}");
    assert_eq!(
        fs::read_link(of_process(pid, "cwd")).unwrap(),
        Path::new("/")
    );
}

fn serve(share: &Path, socket: &Path) -> Command {
    sluice(&["serve", text(share), "--virtiofs", text(socket)])
}

#[test]
fn an_ordinary_user_has_as_much_isolation() {
    if !is_root() {
        return;
    }
    let (dir, socket) = directory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = dir.path().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.uid(NOBODY).gid(NOBODY).env_remove("RUST_LOG");
    command.args(["serve", text(dir.path()), "--virtiofs", text(&socket)]);
    let mut server = started(command, dir.path(), &socket);
    let client = connect(&socket);
    let pid = inside(&server);
    assert_eq!(status(pid, "CapEff"), "0000000000000000");
    assert_eq!(status(pid, "CapBnd"), "0000000000000000");
    assert_eq!(status(pid, "Seccomp"), "2");
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    assert!(status(pid, "NSpid").ends_with("\t1"));
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
}

#[test]
fn capabilities_that_cannot_be_kept_are_named() {
    if !is_root() {
        return;
    }
    let (dir, socket) = directory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = dir.path().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.uid(NOBODY).gid(NOBODY).env_remove("RUST_LOG");
    command.args(["serve", "/nowhere", "--virtiofs", text(&socket)]);
    command.args(["--sandbox=none", "--modcaps=+sys_admin:-mknod"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("no SYS_ADMIN to keep"), "{said}");
    assert!(lines[1].contains("/nowhere"), "{said}");
}

/// As in a container that may not make name spaces.
#[test]
fn where_name_spaces_are_refused_it_says_what_to_do() {
    if !is_root() {
        return;
    }
    let without_sys_admin = || {
        remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN).unwrap();
        let (dir, socket) = directory();
        let arguments = ["serve", text(dir.path()), "--virtiofs", text(&socket)];
        let (status, line) = status_and_line(&run(&arguments));
        assert_eq!(status, 1);
        assert!(line.contains("name spaces"), "{line}");
        assert!(line.contains("--sandbox none"), "{line}");
        assert!(!socket.exists());
        let server = start(dir.path(), &socket, &["--sandbox=none"]);
        drop(connect(&socket));
        drop(server);
    };
    // Bounding sets are threads' own.
    std::thread::spawn(without_sys_admin).join().unwrap();
}
