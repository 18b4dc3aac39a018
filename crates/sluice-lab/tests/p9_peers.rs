//! Other people's 9P clients in front of `sluice serve`, on a unix socket or TCP.

mod common;

use common::daemon::Daemon;
use common::{lab_cache, skip};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Opens with `9P2000.L.Google.7`, which it must not get. It attaches as nobody known.
#[test]
fn hugelgupfs_client_works() {
    go_client("l", &["--access=any"], 11);
}

#[test]
fn the_plan_9_client_works() {
    go_client("plan9", &[], 7);
}

fn go_client(name: &str, options: &[&str], steps: usize) {
    let Some(program) = lab_program("p9peers") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path());
    let socket = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let _daemon = Daemon::serve_9p(&share, listener, options);
    let output = limited(Command::new(program).arg(name).arg(&socket));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", errors(&output));
    assert_eq!(said.lines().count(), steps, "{said}");
    assert_eq!(fs::read_dir(&share).unwrap().count(), 0, "all was removed");
}

#[test]
fn diods_tools_work() {
    let (Some(ls), Some(cat)) = (lab_program("diodls"), lab_program("diodcat")) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let share = share(dir.path());
    fs::create_dir(share.join("sub")).unwrap();
    fs::write(share.join("sub/short"), "short\n").unwrap();
    let long: Vec<u8> = (0..3_000_000_u32).map(|byte| (byte % 251) as u8).collect();
    fs::write(share.join("sub/long"), &long).unwrap();
    symlink("short", share.join("sub/link")).unwrap();

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _daemon = Daemon::serve_9p(&share, listener, &["--aname=share"]);
    let tool = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["--server", &address]);
        command
    };
    // The name of the share, and the directory's own path, as diod has it.
    for aname in ["share", share.to_str().unwrap()] {
        let listed = limited(tool(&ls).args(["--aname", aname, "sub"]));
        let text = String::from_utf8_lossy(&listed.stdout);
        let mut names: Vec<&str> = text.split_whitespace().collect();
        names.sort_unstable();
        assert_eq!(names, ["link", "long", "short"], "{}", errors(&listed));
    }
    let both = ["--aname", "share", "sub/short", "sub/long"];
    let content = limited(tool(&cat).args(both));
    assert!(content.status.success(), "{}", errors(&content));
    assert!(content.stdout == [&b"short\n"[..], &long].concat());
    let missing = limited(tool(&cat).args(["--aname", "share", "sub/missing"]));
    assert!(!missing.status.success());
    assert!(
        errors(&missing).contains("No such file"),
        "{}",
        errors(&missing)
    );
}

fn share(parent: &Path) -> PathBuf {
    let share = parent.join("share");
    fs::create_dir(&share).unwrap();
    share
}

fn lab_program(name: &str) -> Option<PathBuf> {
    let program = lab_cache().join("bin").join(name);
    if program.exists() {
        return Some(program);
    }
    skip(&format!("lab/prepare has made no {name}"));
    None
}

/// Runs it for two minutes at most: many times what it takes.
fn limited(command: &mut Command) -> Output {
    let mut limited = Command::new("timeout");
    limited
        .arg("120")
        .arg(command.get_program())
        .args(command.get_args());
    limited.stdin(Stdio::null()).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
