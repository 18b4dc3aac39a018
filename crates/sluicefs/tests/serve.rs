//! `sluice serve` as a process: when it is ready, how it ends, what it leaves.

mod common;

use common::serving::{connect, directory, start, started};
use common::{Daemon, PATIENCE, run, skip, sluice, status_and_line, text};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The process that serves ends with the one that was started, a moment later.
fn wait_until_refused(socket: &Path) {
    let started = Instant::now();
    while UnixStream::connect(socket).is_ok() {
        assert!(started.elapsed() < PATIENCE, "it goes on serving");
        std::thread::yield_now();
    }
    assert!(socket.exists());
}

#[test]
fn a_signal_ends_it_with_status_0_and_without_a_trace() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (dir, socket) = directory();
        let mut server = start(dir.path(), &socket, &[]);
        let client = connect(&socket);
        server.signal(signal);
        assert_eq!(server.status(), 0);
        assert!(!socket.exists());
        assert_eq!(server.stderr(), "", "quiet unless asked");
        drop(client);
    }
}

#[test]
fn it_goes_on_after_a_client_has_gone() {
    let (dir, socket) = directory();
    let mut server = start(
        dir.path(),
        &socket,
        &["--cache", "always", "--negative-timeout", "always"],
    );
    for _ in 0..3 {
        drop(connect(&socket));
    }
    assert!(server.0.try_wait().unwrap().is_none());
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
}

#[test]
fn a_second_server_on_the_same_socket_gives_way() {
    let (dir, socket) = directory();
    let _first = start(dir.path(), &socket, &[]);
    let client = connect(&socket);
    let second = run(&["serve", text(dir.path()), "--virtiofs", text(&socket)]);
    let (status, line) = status_and_line(&second);
    assert_eq!(status, 1);
    assert!(line.contains("something already does"), "{line}");
    drop(client);
    connect(&socket);
}

#[test]
fn a_socket_left_by_a_killed_server_is_replaced() {
    let (dir, socket) = directory();
    let mut killed = start(dir.path(), &socket, &[]);
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    wait_until_refused(&socket);
    let mut server = start(dir.path(), &socket, &[]);
    connect(&socket);
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
    assert!(!socket.exists());
}

/// Two shares with a file each, on sockets in `dir`, and the words that serve
/// them.
fn two_shares(dir: &Path) -> [PathBuf; 2] {
    for name in ["a", "b"] {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("whose"), name).unwrap();
    }
    [dir.join("a.sock"), dir.join("b.sock")]
}

/// The lines in which a server says what it serves.
fn announced(command: &mut Command, count: usize) -> (Daemon, Vec<String>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = stderr.lines();
    let said = lines.by_ref().take(count).map(Result::unwrap).collect();
    (Daemon(child), said)
}

fn serves_both(command: &mut Command, dir: &Path, sockets: &[PathBuf; 2]) {
    let (mut server, said) = announced(command, 2);
    let expected = ["a", "b"].map(|name| {
        let (share, socket) = (dir.join(name), dir.join(format!("{name}.sock")));
        let (share, socket) = (share.display(), socket.display());
        format!("sluice: serving {share} as virtio-fs tag {name} on {socket}")
    });
    assert_eq!(said, expected);
    let clients = sockets.each_ref().map(|socket| connect(socket));
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
    assert!(sockets.iter().all(|socket| !socket.exists()));
    drop(clients);
}

#[test]
fn one_process_serves_several_directories() {
    let dir = tempfile::tempdir().unwrap();
    let sockets = two_shares(dir.path());
    let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
    let first = [
        "serve",
        text(&a),
        "--virtiofs",
        text(&sockets[0]),
        "--tag",
        "a",
    ];
    let second = [
        "--and",
        "--tag",
        "b",
        "--virtiofs",
        text(&sockets[1]),
        text(&b),
    ];
    let arguments = [first, second].concat();
    serves_both(&mut sluice(&arguments), dir.path(), &sockets);

    let config = dir.path().join("sluice.toml");
    let table = |name: &str, socket: &Path| {
        let share = dir.path().join(name);
        let (share, socket) = (text(&share), text(socket));
        format!("[[share]]\ndir = '{share}'\nvirtiofs = '{socket}'\ntag = '{name}'\n")
    };
    fs::write(&config, table("a", &sockets[0]) + &table("b", &sockets[1])).unwrap();
    serves_both(
        &mut sluice(&["serve", "--config", text(&config)]),
        dir.path(),
        &sockets,
    );
}

#[test]
fn all_shares_are_served_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let sockets = two_shares(dir.path());
    let [a, missing] = ["a", "missing"].map(|name| dir.path().join(name));
    let first = ["serve", text(&a), "--virtiofs", text(&sockets[0])];
    for second in [
        ["--and", text(&missing), "--virtiofs", text(&sockets[1])],
        ["--and", text(&a), "--virtiofs", "no/such/dir/socket"],
    ] {
        let (status, line) = status_and_line(&run(&[first, second].concat()));
        assert_eq!(status, 1, "{line}");
        assert!(line.contains("No such file"), "{line}");
        assert!(!sockets[0].exists());
    }
}

#[test]
fn systemd_is_told_when_it_is_ready() {
    let (dir, socket) = directory();
    let notify = dir.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let arguments = ["serve", text(dir.path()), "--virtiofs", text(&socket)];
    let mut command = sluice(&arguments);
    command.env("NOTIFY_SOCKET", &notify);
    let mut server = started(command, dir.path(), &socket);
    let mut message = [0; 64];
    let len = manager.recv(&mut message).unwrap();
    assert_eq!(&message[..len], b"READY=1\n");
    server.signal(Signal::TERM);
    let len = manager.recv(&mut message).unwrap();
    assert_eq!(&message[..len], b"STOPPING=1\n");
    assert_eq!(server.status(), 0);
}

#[test]
fn nobody_has_to_read_what_it_says() {
    let (dir, socket) = directory();
    let notify = dir.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let arguments = ["serve", text(dir.path()), "--virtiofs", text(&socket)];
    let mut command = sluice(&arguments);
    command.env("NOTIFY_SOCKET", &notify).stderr(writer);
    let mut server = Daemon(command.spawn().unwrap());
    let mut message = [0; 64];
    manager.recv(&mut message).unwrap();
    drop(connect(&socket));
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
}

#[test]
fn rust_log_makes_it_talk() {
    let (dir, socket) = directory();
    let mut command = sluice(&["serve", text(dir.path()), "--virtiofs", text(&socket)]);
    command.env("RUST_LOG", "info");
    let mut server = started(command, dir.path(), &socket);
    drop(connect(&socket));
    // Accepted only after the first one is done with.
    drop(connect(&socket));
    server.signal(Signal::TERM);
    assert_eq!(server.status(), 0);
    let log = server.stderr();
    assert!(
        log.contains("connected") && log.contains("virtiofs:sluice"),
        "{log}"
    );
}

#[test]
fn an_unreadable_directory_is_one_line_and_status_1() {
    if !rustix::process::geteuid().is_root() {
        return skip("becoming another user needs root");
    }
    let (dir, socket) = directory();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let mode = fs::Permissions::from_mode;
    fs::set_permissions(&closed, mode(0o700)).unwrap();
    fs::set_permissions(dir.path(), mode(0o755)).unwrap();
    let binary = dir.path().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &binary).unwrap();
    fs::set_permissions(&binary, mode(0o755)).unwrap();
    let output = Command::new(&binary)
        .uid(65534)
        .args(["serve", text(&closed), "--virtiofs", text(&socket)])
        .output()
        .unwrap();
    let (status, line) = status_and_line(&output);
    assert_eq!(status, 1);
    assert!(line.contains("Permission denied"), "{line}");
    assert!(
        line.contains("give a directory that you can read"),
        "{line}"
    );
}
