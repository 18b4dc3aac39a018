//! Where a server listens, and for whom.

use crate::common::serving::announced;
use crate::common::{run, sluice, status_and_line, text};
use crate::peer::Peer;
use crate::server::Server;
use rustix::process::Signal;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

fn share() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "hello").unwrap();
    dir
}

fn works(peer: Peer) {
    let mut peer = peer.mounted(8192);
    peer.open(1, b"file", sluice_proto::p9::wire::LopenFlags::empty())
        .unwrap();
    assert_eq!(peer.read(1, 0, 100).unwrap(), b"hello");
}

#[test]
fn a_unix_socket_in_every_sandbox() {
    for sandbox in ["namespace", "chroot", "none"] {
        if sandbox != "none" && !rustix::process::geteuid().is_root() {
            crate::common::skip("sandboxes need root");
            continue;
        }
        let server = Server::start(&["--sandbox", sandbox]);
        let (share, socket) = (server.share(), server.socket());
        let expected = format!(
            "sluice: serving {} as 9P on unix:{}",
            share.display(),
            socket.display()
        );
        assert_eq!(server.said, [expected]);
        std::fs::write(share.join("file"), "hello").unwrap();
        works(server.stranger());
        server.stop();
    }
}

#[test]
fn tcp_says_its_port_and_is_not_for_other_machines() {
    let dir = share();
    let arguments = ["serve", text(dir.path()), "--9p", "tcp:127.0.0.1:0"];
    let (mut daemon, said) = announced(&mut sluice(&arguments), 1);
    let address = said[0].rsplit_once("tcp:").unwrap().1;
    works(Peer::tcp(address));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.status(), 0);

    let arguments = ["serve", text(dir.path()), "--9p", "tcp:0.0.0.0:0"];
    let (status, line) = status_and_line(&run(&arguments));
    assert_eq!(status, 2, "{line}");
    assert!(line.contains("--allow-remote"), "{line}");
    assert!(line.contains("no encryption"), "{line}");
    let arguments = [&arguments[..], &["--allow-remote"]].concat();
    let (_daemon, said) = announced(&mut sluice(&arguments), 1);
    let port = said[0].rsplit_once(':').unwrap().1;
    works(Peer::tcp(&format!("127.0.0.1:{port}")));
}

/// A command whose descriptor 3 is this.
fn with_descriptor(arguments: &[&str], fd: &OwnedFd) -> Command {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_sluice");
    let number = fd.as_raw_fd();
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
    command
        .arg("-c")
        .arg(format!(
            "exec 3<&{number}; export LISTEN_PID=$$; exec {program} \"$@\""
        ))
        .arg("sh")
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("NOTIFY_SOCKET");
    command
}

#[test]
fn inherited_sockets_listen_or_are_connected() {
    let dir = share();
    let path = dir.path().join("socket");
    let listener = OwnedFd::from(UnixListener::bind(&path).unwrap());
    let arguments = ["serve", text(dir.path()), "--9p", "fd:3"];
    let (mut daemon, _) = announced(&mut with_descriptor(&arguments, &listener), 1);
    works(Peer::unix(&path));
    works(Peer::unix(&path));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.status(), 0);
    assert!(path.exists(), "it is not the server's");

    let (near, far) = UnixStream::pair().unwrap();
    let far = OwnedFd::from(far);
    let (mut daemon, _) = announced(&mut with_descriptor(&arguments, &far), 1);
    drop(far);
    works(Peer::over(near));
    assert_eq!(daemon.status(), 0, "nobody is left, and nobody can come");

    let file = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
    let output = with_descriptor(&arguments, &file).output().unwrap();
    let (status, line) = status_and_line(&output);
    assert_eq!(status, 1);
    assert!(line.contains("fd:3: it is no stream socket"), "{line}");
}

#[test]
fn systemd_passes_sockets() {
    let dir = share();
    let path = dir.path().join("socket");
    let listener = OwnedFd::from(UnixListener::bind(&path).unwrap());
    let arguments = ["serve", text(dir.path()), "--9p", "activation"];
    let mut command = with_descriptor(&arguments, &listener);
    let (_daemon, _) = announced(command.env("LISTEN_FDS", "1"), 1);
    works(Peer::unix(&path));

    let (status, line) = status_and_line(&run(&arguments));
    assert_eq!(status, 1);
    assert!(line.contains("passed no sockets"), "{line}");
}

#[test]
fn a_guest_may_come_by_vsock() {
    if rustix::net::socket(
        rustix::net::AddressFamily::VSOCK,
        rustix::net::SocketType::STREAM,
        None,
    )
    .is_err()
    {
        return crate::common::skip("this kernel has no vsock");
    }
    let dir = share();
    let port = 0x4000_0000 + std::process::id();
    let address = format!("vsock:{port}");
    let arguments = ["serve", text(dir.path()), "--9p", &address];
    let (mut daemon, said) = announced(&mut sluice(&arguments), 1);
    assert!(said[0].ends_with(&format!("as 9P on vsock:{port}")));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.status(), 0);
}

#[test]
fn what_makes_no_sense_is_one_line_and_status_2() {
    for (arguments, why) in [
        (&["--9p", "/run/socket"][..], "write unix:/run/socket"),
        (&["--9p", "socket"], "is no address"),
        (&["--9p", "unix:s#a"], "give it with --aname"),
        (&["--9p", "unix:s", "--9p", "unix:s"], "given twice"),
        (&["--9p", "unix:s", "--squash", "some"], "neither none"),
        (&["--9p", "unix:s", "--msize", "100"], "from 4K to 16M"),
        (&["--9p", "unix:s", "--msize", "1T"], "such as 131072 or 1M"),
        (
            &["--virtiofs", "s", "--squash=all"],
            "<--9p <ADDRESS>|--virtio-9p <SOCKET>>",
        ),
        (&["--virtio-9p", "s", "--allow-remote"], "--9p <ADDRESS>"),
        (&[], "served nowhere"),
        (&["--virtiofs", "s", "--aname", "x"], "--9p"),
        (
            &["--9p", "unix:s", "--and", "/", "--9p", "unix:s"],
            "an --aname of its own",
        ),
        (
            &[
                "--9p",
                "unix:s",
                "--aname=a",
                "--and",
                "/tmp",
                "--9p",
                "unix:s",
                "--aname=a",
            ],
            "an --aname of its own",
        ),
        (
            &[
                "--9p",
                "unix:s",
                "--and",
                "/tmp",
                "--9p",
                "unix:s",
                "--squash=all",
            ],
            "differ",
        ),
    ] {
        let arguments = [&["serve", "/"], arguments].concat();
        let (status, line) = status_and_line(&run(&arguments));
        assert_eq!(status, 2, "{line}");
        assert!(line.contains(why), "{line}");
    }
}
