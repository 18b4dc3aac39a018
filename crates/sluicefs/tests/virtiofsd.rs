//! The contract of virtiofsd 1.14, as programs that start it rely on it: what
//! it prints, the files it makes, and how it ends.

mod common;

use common::{Daemon, run, sluice, status_and_line, text};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use sluice_virtio::driver::{Driver, Options};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WAITING: &str = "Waiting for vhost-user socket connection";

fn virtiofsd(arguments: &[&str]) -> Command {
    let mut command = sluice(arguments);
    command.arg0("/usr/libexec/virtiofsd");
    command
}

/// A server that has said that it listens.
fn listening(mut command: Command) -> Daemon {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(WAITING) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended");
    }
    child.stderr = Some(stderr.into_inner());
    Daemon(child)
}

struct Place {
    dir: tempfile::TempDir,
    socket: PathBuf,
    pid_file: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    Place {
        socket: dir.path().join("socket"),
        pid_file: dir.path().join("socket.pid"),
        dir,
    }
}

impl Place {
    fn options(&self) -> [&str; 4] {
        let share = text(self.dir.path());
        ["--shared-dir", share, "--socket-path", text(&self.socket)]
    }

    fn start(&self, more: &[&str]) -> Daemon {
        listening(virtiofsd(&[&self.options()[..], more].concat()))
    }
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

fn connect(socket: &Path) -> Driver {
    Driver::connect(socket, Options::default()).unwrap()
}

#[test]
fn it_ends_with_its_client() {
    let place = place();
    let mut server = place.start(&[]);
    assert_eq!(mode(&place.socket), 0o700);
    assert_eq!(mode(&place.pid_file), 0o600);
    let pid = format!("{}\n", server.0.id());
    assert_eq!(fs::read_to_string(&place.pid_file).unwrap(), pid);
    let pid_file = fs::File::open(&place.pid_file).unwrap();
    flock(&pid_file, FlockOperation::NonBlockingLockExclusive).unwrap_err();

    let mut driver = connect(&place.socket);
    driver.start_queue(1).unwrap();
    drop(driver);
    assert_eq!(server.status(), 0);
    assert!(!place.socket.exists());
    assert_eq!(fs::read_to_string(&place.pid_file).unwrap(), pid);
    flock(&pid_file, FlockOperation::NonBlockingLockExclusive).unwrap();
}

/// A monitor that is killed leaves replies that nobody reads.
#[test]
fn a_client_that_vanishes_has_disconnected() {
    for request in [&[1_u32, 1, 0][..], &[1, 1]] {
        let place = place();
        let mut server = place.start(&[]);
        let mut client = UnixStream::connect(&place.socket).unwrap();
        let words: Vec<u8> = request.iter().flat_map(|word| word.to_ne_bytes()).collect();
        client.write_all(&words).unwrap();
        drop(client);
        assert_eq!(server.status(), 0);
    }
}

#[test]
fn a_signal_ends_it_with_status_1() {
    for signal in [Signal::TERM, Signal::HUP] {
        let place = place();
        let mut server = place.start(&["--log-level", "debug"]);
        let client = connect(&place.socket);
        server.signal(signal);
        assert_eq!(server.status(), 1);
        assert!(!place.socket.exists() && place.pid_file.exists());
        drop(client);
    }
}

#[test]
fn it_takes_over_a_listening_socket() {
    for (name, arg0) in [(&["virtiofsd"][..], "sluice"), (&[], "virtiofsd")] {
        let place = place();
        let listener = UnixListener::bind(&place.socket).unwrap();
        let number = listener.as_raw_fd().to_string();
        let share = text(place.dir.path());
        let words = ["--fd", &number, "--shared-dir", share, "--tag=given"];
        let mut command = sluice(&[name, &words].concat());
        command.arg0(arg0);
        sluice_sys::bind_child(&mut command, vec![listener.into()]);
        let mut server = listening(command);
        let driver = connect(&place.socket);
        let config = driver.config(0, 36).unwrap().unwrap();
        assert!(config.starts_with(b"given\0"));
        drop(driver);
        assert_eq!(server.status(), 0);
        assert!(place.socket.exists(), "it is the giver's");
        assert!(!place.pid_file.exists());
    }
}

#[test]
fn a_second_one_gives_way() {
    let place = place();
    let _first = place.start(&[]);
    let second = virtiofsd(&place.options()).output().unwrap();
    let (status, line) = status_and_line(&second);
    assert_eq!(status, 1);
    assert!(line.contains("another process serves there"), "{line}");
    connect(&place.socket);
}

#[test]
fn what_cannot_be_served_is_one_line_and_status_1() {
    let place = place();
    let missing = place.dir.path().join("missing");
    let socket = text(&place.socket);
    for words in [
        &["--shared-dir", text(&missing), "--socket-path", socket][..],
        &["--shared-dir", "/", "--socket-path", "no/such/dir/socket"],
        &["--shared-dir", "/", "--fd", "0"],
        &["--shared-dir", "/", "--fd", "1000000"],
        &[
            "--shared-dir",
            "/",
            "--fd",
            "0",
            "--rlimit-nofile=1000000000",
        ],
    ] {
        let (status, line) = status_and_line(&virtiofsd(words).output().unwrap());
        assert_eq!(status, 1, "{line}");
    }
    assert!(!place.socket.exists() && !place.pid_file.exists());
}

#[test]
fn a_bad_command_line_is_one_line_and_status_2() {
    for (words, culprit) in [
        (&["--shared-dir", "/"][..], "--socket-path <SOCKET>"),
        (&["--fd", "3", "--socket-path", "s"], "'--fd <N>'"),
        (&["--shared-dir", "/", "--fd", "3", "--bogus"], "'--bogus'"),
        (&["-o", "bogus"], "'-o bogus'"),
    ] {
        let (status, line) = status_and_line(&virtiofsd(words).output().unwrap());
        assert_eq!(status, 2, "{line}");
        assert!(line.contains(culprit), "{line}");
        assert!(line.starts_with("virtiofsd: "), "{line}");
        assert!(line.ends_with("; see 'virtiofsd --help'"), "{line}");
        let (status, line) = status_and_line(&run(&[&["virtiofsd"], words].concat()));
        assert_eq!(status, 2, "{line}");
        assert!(line.ends_with("; see 'sluice virtiofsd --help'"), "{line}");
    }
}

/// As libvirt and virtme-ng look at a virtiofsd before they use it.
#[test]
fn it_says_what_it_is() {
    let output = virtiofsd(&["--print-capabilities"]).output().unwrap();
    assert!(output.status.success());
    let expected: String = include_str!("../../../dist/50-sluice-virtiofsd.json").into();
    let announced: String = String::from_utf8(output.stdout).unwrap();
    // The file has two keys more.
    let shared = |text: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.contains("\"description\"") && !line.contains("\"binary\""));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(shared(&announced), shared(&expected));

    let help = virtiofsd(&["--help"]).output().unwrap();
    assert!(help.status.success());
    assert!(
        String::from_utf8(help.stdout)
            .unwrap()
            .contains("--readonly")
    );

    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("virtiofsd");
    symlink(env!("CARGO_BIN_EXE_sluice"), &link).unwrap();
    let version = Command::new(link).arg("--version").output().unwrap();
    assert!(version.status.success());
    let expected = format!("virtiofsd {}\n", env!("CARGO_PKG_VERSION"));
    assert!(
        String::from_utf8(version.stdout)
            .unwrap()
            .ends_with(&expected)
    );
    assert!(run(&["virtiofsd", "--version"]).status.success());
}

/// As far as `[TIME ` goes, which is told apart by its length.
fn assert_line(line: &str, rest: &str) {
    let (head, found) = line.split_at(line.find(' ').unwrap() + 1);
    assert_eq!(head.len(), "[2026-11-22T00:36:37Z ".len(), "{line}");
    assert!(found.starts_with(rest), "{line}");
}

#[test]
fn lines_look_like_virtiofsds() {
    let place = place();
    let mut command = virtiofsd(&place.options());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_line(&line, &format!("INFO  virtiofsd] {WAITING}..."));
    child.stderr = Some(stderr.into_inner());
    let mut server = Daemon(child);
    drop(connect(&place.socket));
    assert_eq!(server.status(), 0);

    let missing = [
        "--shared-dir",
        "/no/such",
        "--socket-path",
        text(&place.socket),
    ];
    let (_, line) = status_and_line(&virtiofsd(&missing).output().unwrap());
    assert_line(&line, "ERROR virtiofsd] cannot serve '/no/such'");
}

/// What is asked of virtiofsd by name is asked of this program.
#[test]
fn rust_log_may_name_virtiofsd_and_must_make_sense() {
    for (filter, words) in [
        ("virtiofsd=debug", "DEBUG virtiofsd] "),
        ("", "INFO  virtiofsd] "),
        ("a=b=c", "ERROR virtiofsd] RUST_LOG='a=b=c' makes no sense"),
    ] {
        let place = place();
        let mut command = virtiofsd(&place.options());
        command.env("RUST_LOG", filter);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_line(&line, words);
        Daemon(child);
    }
}

#[test]
fn rust_log_comes_before_log_level() {
    let place = place();
    let mut command = virtiofsd(&place.options());
    command
        .args(["--log-level", "error"])
        .env("RUST_LOG", "info");
    let mut server = listening(command);
    drop(connect(&place.socket));
    assert_eq!(server.status(), 0);
    assert!(server.stderr().contains("disconnected"));
}

/// Lines of programs that start it, as far as they go here.
#[test]
fn real_command_lines_are_served() {
    for line in [
        "--syslog --no-announce-submounts --posix-acl --readonly --sandbox none --cache always",
        "--cache always --sandbox none --xattr --thread-pool-size=16 --rlimit-nofile=512",
        "--syslog --cache=auto",
        "--cache never --sandbox none --seccomp none --inode-file-handles prefer",
        "--xattr --posix-acl --announce-submounts --allow-direct-io --cache=always --syslog",
        "--sandbox=none --migration-on-error=guest-error --migration-mode=find-paths",
        "--thread-pool-size 2 --posix-acl --xattr --cache=auto --tag=store",
        "-o xattr,cache=none,no_posix_lock,no_flock -f -d",
    ] {
        let place = place();
        let listener = UnixListener::bind(&place.socket).unwrap();
        let number = listener.as_raw_fd().to_string();
        let share = ["--fd", &number, "--shared-dir", text(place.dir.path())];
        let more: Vec<_> = line.split(' ').collect();
        let mut command = virtiofsd(&[&share[..], &more].concat());
        command.stderr(Stdio::null());
        sluice_sys::bind_child(&mut command, vec![listener.into()]);
        let mut server = Daemon(command.spawn().unwrap());
        drop(command); // and with it the socket, here
        let mut driver = connect(&place.socket);
        driver.start_queue(1).unwrap();
        drop(driver);
        assert_eq!(server.status(), 0, "{line}");
    }
}

/// `mandatory` is a promise: kept, or refused with one line before a monitor waits.
#[test]
fn handles_are_had_or_the_share_is_refused() {
    const MANDATORY: &str = "--inode-file-handles=mandatory";
    let place = place();
    if rustix::process::geteuid().is_root() {
        for sandbox in ["--sandbox=namespace", "--sandbox=chroot", "--sandbox=none"] {
            let mut server = place.start(&[MANDATORY, sandbox]);
            drop(connect(&place.socket));
            assert_eq!(server.status(), 0, "{sandbox}");
        }
    } else {
        common::skip("only root opens files by handle");
    }
    // procfs has no handles, whoever asks.
    let share = [
        "--shared-dir",
        "/proc/self",
        "--socket-path",
        text(&place.socket),
    ];
    let more = ["--sandbox=none", "--seccomp=none", MANDATORY];
    let refused = virtiofsd(&[&share[..], &more].concat()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("cannot be opened by handle"), "{said}");
    assert!(!said.contains("os error"), "{said}");
    assert!(!said.contains(WAITING), "{said}");
}

/// The service that starts it has a manager of its own, to whom it is not to speak.
#[test]
fn no_service_manager_is_told() {
    let place = place();
    let path = place.dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_nonblocking(true).unwrap();
    let mut command = virtiofsd(&place.options());
    command.env("NOTIFY_SOCKET", &path);
    let mut server = listening(command);
    drop(connect(&place.socket));
    assert_eq!(server.status(), 0);
    let told = manager.recv(&mut [0; 64]);
    assert_eq!(told.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
