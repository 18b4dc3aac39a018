//! `sluice run` as a command: its status, its messages, and what it leaves.

use super::common::{Daemon, PATIENCE, run, sluice, status_and_line};
use super::lab::{cache, uml};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;

/// `sluice run` that finds the lab and keeps its files in `tmp`.
fn sluice_run(tmp: &Path, arguments: &[&str]) -> Command {
    let mut command = sluice(&["run"]);
    command
        .args(arguments)
        .env("SLUICE_LAB_CACHE", cache())
        .env("TMPDIR", tmp);
    command
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn the_command_decides_the_exit_status() {
    if uml("").is_none() {
        return;
    }
    let tmp = tempdir().unwrap();
    let output = sluice_run(
        tmp.path(),
        &["--", "sh", "-c", "echo out; echo err >&2; exit 42"],
    )
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert!(is_empty(tmp.path()));
}

#[test]
fn a_command_that_cannot_be_run_is_one_line_and_its_status() {
    if uml("").is_none() {
        return;
    }
    let [tmp, share] = [(); 2].map(|()| tempdir().unwrap());
    std::fs::write(share.path().join("plain"), "text").unwrap();
    let at = format!("{}:/share", share.path().display());
    for (arguments, expected, words) in [
        (
            &["--", "nothing"][..],
            127,
            "'nothing': the guest has no such command",
        ),
        (
            &["--", "./nothing"],
            127,
            "'./nothing': the guest has no such command",
        ),
        (
            &["--", "./plain"],
            126,
            "'./plain': it is not an executable file",
        ),
        (
            &["--", "/share"],
            126,
            "'/share': it is not an executable file",
        ),
        (
            &["--workdir=/no", "--", "true"],
            125,
            "'/no': the guest has no such directory",
        ),
    ] {
        let arguments = [&["--share", &at][..], arguments].concat();
        let output = sluice_run(tmp.path(), &arguments).output().unwrap();
        let (status, line) = status_and_line(&output);
        assert_eq!(status, expected, "{line}");
        assert!(
            line.starts_with("sluice: cannot ") && line.ends_with(words),
            "{line}"
        );
    }
}

#[test]
fn a_guest_that_fails_is_125() {
    if uml("").is_none() {
        return;
    }
    let tmp = tempdir().unwrap();
    let output = sluice_run(
        tmp.path(),
        &["--", "sh", "-c", "echo c >/proc/sysrq-trigger"],
    )
    .output()
    .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    let (console, last) = stderr.trim_end().rsplit_once('\n').unwrap();
    assert!(
        console
            .lines()
            .all(|line| line.starts_with("sluice: guest: ")),
        "{stderr}"
    );
    assert!(last.starts_with("sluice: the guest died: "), "{stderr}");
    assert!(is_empty(tmp.path()));
}

#[test]
fn what_cannot_start_is_125_and_one_line() {
    let tmp = tempdir().unwrap();
    let missing = tmp.path().join("missing");
    let missing = missing.to_str().unwrap();
    // A host that has nothing.
    let mut bare = sluice(&["run", "--", "true"]);
    let output = bare
        .env("PATH", "/nonexistent")
        .env_remove("SLUICE_LAB_CACHE")
        .output();
    let (status, line) = status_and_line(&output.unwrap());
    assert_eq!(status, 125);
    assert!(
        line.contains("install the package user-mode-linux"),
        "{line}"
    );

    let (status, line) = status_and_line(&run(&["run", "--kernel", missing]));
    assert_eq!(
        (status, line.contains("No such file or directory")),
        (125, true),
        "{line}"
    );

    if uml("").is_some() {
        for arguments in [
            ["--share", missing],
            ["--root", missing],
            ["--modules", missing],
        ] {
            let output = sluice_run(tmp.path(), &arguments).output().unwrap();
            let (status, line) = status_and_line(&output);
            assert_eq!(status, 125, "{line}");
            assert!(line.contains(missing), "{line}");
        }
    }
    assert!(is_empty(tmp.path()));
}

#[test]
fn what_makes_no_sense_is_2_and_one_line() {
    for (arguments, words) in [
        (&["--share", "/tmp:/"][..], "--root"),
        (&["--share", "/tmp:/a/../b"], "'..'"),
        (&["--share", ""], "directory"),
        (&["--share", "/tmp:/a:r0"], "'r0' is neither ro nor rw"),
        (&["--root", "/:wr"], "'wr' is neither ro nor rw"),
        (
            &["--share", "/tmp:/a", "--share", "/var:/a/."],
            "two shares at '/a'",
        ),
        (&["--root", ""], "directory"),
        (&["--workdir", "here"], "slash"),
        (&["--memory", "lots"], "512M"),
        (&["--memory", "8M"], "64M"),
        (&["--machine", "vax"], "qemu"),
        (&["--boot-timeout", "5"], "250ms"),
        (&["--boot-timeout", "0"], "nothing is done in no time"),
        (&["--cache", "sometimes"], "never"),
        (&["true"], "true"),
    ] {
        let (status, line) = status_and_line(&run(&[&["run"], arguments].concat()));
        assert_eq!(status, 2, "{arguments:?}: {line}");
        assert!(line.contains(words), "{arguments:?}: {line}");
    }
}

/// A guest that runs for ever, once it does, and its machine.
fn endless(tmp: &Path, share: &Path) -> Option<(Daemon, OwnedFd)> {
    uml("")?;
    let share = format!("{}:/share", share.display());
    let script = "echo x >file; echo ready; while :; do :; done";
    let child = sluice_run(tmp, &["--share", &share, "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut daemon = Daemon(child);
    let mut line = String::new();
    let stdout = daemon.0.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let machine = only_child(daemon.0.id());
    Some((daemon, pidfd_open(machine, PidfdFlags::empty()).unwrap()))
}

fn only_child(parent: u32) -> Pid {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = tasks.map(|task| {
        std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    });
    let children: Vec<String> = children.collect();
    let [child] = children
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect::<Vec<_>>()[..]
    else {
        panic!("one child, not {children:?}")
    };
    Pid::from_raw(child.parse().unwrap()).unwrap()
}

fn wait_for_death(machine: &OwnedFd) {
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    let mut dead = [PollFd::new(machine, PollFlags::IN)];
    assert_eq!(
        poll(&mut dead, Some(&timeout)).unwrap(),
        1,
        "the machine lives on"
    );
}

#[test]
fn a_signal_ends_the_guest_and_leaves_nothing() {
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let [tmp, share] = [(); 2].map(|()| tempdir().unwrap());
        let Some((mut daemon, machine)) = endless(tmp.path(), share.path()) else {
            return;
        };
        assert!(!is_empty(tmp.path()));
        daemon.signal(signal);
        assert_eq!(daemon.status(), status);
        wait_for_death(&machine);
        assert!(is_empty(tmp.path()));
        assert_eq!(std::fs::read(share.path().join("file")).unwrap(), b"x\n");
    }
}

#[test]
fn no_guest_outlives_a_sluice_that_was_killed() {
    let [tmp, share] = [(); 2].map(|()| tempdir().unwrap());
    let Some((mut daemon, machine)) = endless(tmp.path(), share.path()) else {
        return;
    };
    daemon.0.kill().unwrap();
    daemon.0.wait().unwrap();
    wait_for_death(&machine);
}
