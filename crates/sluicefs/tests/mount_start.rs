//! `sluice mount` from its first step to a usable mount, or to none.

mod common;

use common::mount::{cannot_mount, mount_words, unmount};
use common::mounted_server::serve;
use common::serving::announced;
use common::{Daemon, PATIENCE, skip, sluice, status_and_line, text};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use tempfile::TempDir;

/// Directories to share and to mount on.
struct Place {
    dir: TempDir,
    target: PathBuf,
}

impl Place {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Place> {
        if let Some(why) = cannot_mount() {
            skip(why);
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("mnt");
        fs::create_dir(&target).unwrap();
        Some(Place { dir, target })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Mounts what is not to be had; the line that says so. `input` is descriptor 0.
    #[track_caller]
    fn refused(&self, source: &str, more: &[&str], input: Option<OwnedFd>) -> String {
        let words = [&["mount", source, text(&self.target)], more].concat();
        let mut command = sluice(&words);
        if let Some(input) = input {
            command.stdin(input);
        }
        let (status, line) = status_and_line(&output_in_time(&mut command));
        assert_eq!(status, 1, "{line}");
        assert_eq!(mount_words(&self.target), None, "{line}");
        line
    }
}

/// What becomes of it within [`PATIENCE`].
#[track_caller]
fn output_in_time(command: &mut Command) -> Output {
    let mut child = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
    child.wait_for_end();
    let stderr = child.stderr().into_bytes();
    let status = child.0.wait().unwrap();
    Output {
        status,
        stdout: Vec::new(),
        stderr,
    }
}

impl Drop for Place {
    /// A test that failed leaves no mount behind.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.target, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Serves a directory on `unix:socket`, in that directory.
fn serve_within(dir: &Path) -> Daemon {
    let arguments = ["serve", ".", "--9p", "unix:socket", "--sandbox=none"];
    announced(sluice(&arguments).current_dir(dir), 1).0
}

#[test]
fn a_server_with_a_relative_path_is_found_again_from_the_background() {
    let Some(place) = Place::new() else {
        return;
    };
    // Too long for the address of a socket.
    let deep = place.dir.path().join("deep".repeat(30));
    fs::create_dir(&deep).unwrap();
    let server = serve_within(&deep);
    fs::write(deep.join("file"), "content").unwrap();
    let options = "cache=never,soft,timeo=100";
    let mut mount = sluice(&["mount", "unix:socket", text(&place.target), "-o", options]);
    let output = mount.current_dir(&deep).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let read = || fs::read(place.target.join("file"));
    assert_eq!(read().unwrap(), b"content");
    drop(server);
    let _server = serve_within(&deep);
    assert_eq!(read().unwrap(), b"content");
    unmount(&place.target);
}

/// Ends it by a signal while it mounts; the mount does not come later.
#[track_caller]
fn interrupt(place: &Place, mut mount: Daemon, signal: Signal) {
    mount.signal(signal);
    mount.wait_for_end();
    let status = mount.0.wait().unwrap();
    assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
    assert_eq!(mount_words(&place.target), None);
}

#[test]
fn a_mount_that_is_interrupted_before_it_connects_does_not_come_later() {
    let Some(place) = Place::new() else {
        return;
    };
    let socket = place.path("socket");
    let silent = UnixListener::bind(&socket).unwrap();
    let source = format!("unix:{}", text(&socket));
    let words = ["mount", &source, text(&place.target)];
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        for more in [&[][..], &["--foreground"]] {
            let mut command = sluice(&[&words, more].concat());
            let mount = Daemon(command.spawn().unwrap());
            let (mut peer, _) = silent.accept().unwrap();
            interrupt(&place, mount, signal);
            // Until nobody is there who could go on.
            peer.set_read_timeout(Some(PATIENCE)).unwrap();
            peer.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn a_mount_that_is_interrupted_before_it_is_usable_goes() {
    let Some(place) = Place::new() else {
        return;
    };
    let (share, behind) = (place.path("share"), place.path("behind"));
    fs::create_dir(&share).unwrap();
    let _server = serve(&share, &behind);
    let metrics = place.path("metrics");
    let listen = format!("unix:{}", text(&metrics));
    for (nth, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        for more in [&[][..], &["--foreground"]] {
            let front = place.path(&format!("front{nth}{}", more.len()));
            let (keep, _kept) = mpsc::channel();
            lead_half_way(&front, &behind, move |peer| drop(keep.send(peer))).unwrap();
            let source = format!("unix:{}", text(&front));
            let words = ["mount", &source, text(&place.target), "--metrics", &listen];
            let mut command = sluice(&[&words, more].concat());
            let mut mount = Daemon(command.spawn().unwrap());
            while mount_words(&place.target).is_none() {
                assert!(mount.0.try_wait().unwrap().is_none());
                std::thread::yield_now();
            }
            interrupt(&place, mount, signal);
            assert!(!metrics.exists());
        }
    }
}

#[test]
fn a_descriptor_that_leads_to_no_server_is_not_mounted() {
    let Some(place) = Place::new() else {
        return;
    };
    let line = place.refused("fd:99", &[], None);
    assert!(line.contains("cannot connect to fd:99: Bad file"), "{line}");
    let foreground = ["--foreground"];
    let file = File::open("/dev/null").unwrap().into();
    let line = place.refused("fd:0", &foreground, Some(file));
    assert!(line.contains("non-socket"), "{line}");
    let (socket, _) = UnixStream::pair().unwrap();
    let line = place.refused("fd:0", &foreground, Some(socket.into()));
    assert!(line.contains("cannot attach to 'fd:0'"), "{line}");
}

/// What a server on the other end of a descriptor has is mounted from the background.
#[test]
fn a_connected_socket_is_mounted_also_if_it_is_standard_input() {
    let Some(place) = Place::new() else {
        return;
    };
    let (share, socket) = (place.path("share"), place.path("socket"));
    fs::create_dir(&share).unwrap();
    fs::write(share.join("file"), "content").unwrap();
    let _server = serve(&share, &socket);
    for (number, redirect) in [(0, ""), (3, "3<&0"), (7, "7<&0")] {
        let script = format!("exec \"$0\" mount fd:{number} \"$1\" {redirect}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_sluice")]);
        command.arg(&place.target).env_remove("RUST_LOG");
        command.stdin(OwnedFd::from(UnixStream::connect(&socket).unwrap()));
        let output = output_in_time(&mut command);
        assert!(output.status.success(), "{output:?}");
        let read = fs::read(place.target.join("file"));
        assert_eq!(read.unwrap(), b"content");
        unmount(&place.target);
    }
}

#[test]
fn what_is_missing_from_a_source_is_told() {
    let Some(place) = Place::new() else {
        return;
    };
    let (share, socket) = (place.path("share"), place.path("socket"));
    fs::create_dir(&share).unwrap();
    let _server = serve(&share, &socket);
    let address = format!("unix:{}", text(&socket));
    let line = place.refused(text(&socket), &[], None);
    assert!(line.ends_with(&format!("write {address}")), "{line}");
    let line = place.refused(&address, &["-o", "aname=none"], None);
    assert!(line.contains(&format!("'{address}#none'")), "{line}");
}

/// The background process of the mount on `target`.
fn background(target: &Path) -> PathBuf {
    let mut processes = fs::read_dir("/proc").unwrap();
    let is_it = |process: &Path| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        words.any(|word| word == target.as_os_str().as_bytes())
    };
    let found = processes.find_map(|process| {
        let process = process.unwrap().path();
        is_it(&process).then_some(process)
    });
    found.expect("a process that serves the mount")
}

#[test]
fn a_mount_in_the_background_has_its_name_and_holds_nothing_of_its_starters() {
    let Some(place) = Place::new() else {
        return;
    };
    let export = place.path("export");
    fs::create_dir(&export).unwrap();
    let script = "exec \"$0\" mount \"$1\" \"$2\" 9>&1";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_sluice")]);
    command.arg(&export).arg(&place.target);
    command.env_remove("RUST_LOG").stdout(Stdio::piped());
    let mut child = Daemon(command.spawn().unwrap());
    assert_eq!(child.status(), 0);
    let name = fs::read_to_string(background(&place.target).join("comm"));
    assert_eq!(name.unwrap(), "sluice\n");
    let stdout = child.0.stdout.take().unwrap();
    let mut ended = [PollFd::new(&stdout, PollFlags::IN)];
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let count = rustix::event::poll(&mut ended, Some(&patience)).unwrap();
    assert_eq!(count, 1, "the mount holds a descriptor");
    unmount(&place.target);
}

/// Leads to a server on `behind`, but from its second connection takes only the version
/// and the attachment, and then does `after` with it.
fn lead_half_way(
    front: &Path,
    behind: &Path,
    after: impl Fn(UnixStream) + Send + 'static,
) -> io::Result<()> {
    let listener = UnixListener::bind(front)?;
    let behind = behind.to_owned();
    std::thread::spawn(move || {
        for (nth, peer) in listener.incoming().enumerate() {
            let (peer, server) = (peer?, UnixStream::connect(&behind)?);
            let (mut from, mut to) = (peer.try_clone()?, server.try_clone()?);
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let count = if nth == 0 { usize::MAX } else { 2 };
            pass_replies(&server, &peer, count)?;
            after(peer);
        }
        io::Result::Ok(())
    });
    Ok(())
}

/// Until so many have passed, or there are no more.
fn pass_replies(mut from: &UnixStream, mut to: &UnixStream, count: usize) -> io::Result<()> {
    for _ in 0..count {
        let mut size = [0; 4];
        if from.read(&mut size[..1])? == 0 {
            break;
        }
        from.read_exact(&mut size[1..])?;
        let mut reply = size.to_vec();
        reply.resize(u32::from_le_bytes(size) as usize, 0);
        from.read_exact(&mut reply[4..])?;
        to.write_all(&reply)?;
    }
    Ok(())
}

#[test]
fn a_server_that_goes_away_before_the_mount_is_usable_leaves_none() {
    let Some(place) = Place::new() else {
        return;
    };
    let (share, front, behind) = (place.path("share"), place.path("s"), place.path("behind"));
    fs::create_dir(&share).unwrap();
    let _server = serve(&share, &behind);
    let end = |peer: UnixStream| peer.shutdown(Shutdown::Both).unwrap();
    lead_half_way(&front, &behind, end).unwrap();
    let source = format!("unix:{}", text(&front));
    for more in [&[][..], &["--foreground"]] {
        let line = place.refused(&source, more, None);
        assert!(line.contains("did the server just go away?"), "{line}");
    }
}

#[test]
fn a_socket_for_metrics_takes_a_dead_ones_place_and_goes_with_the_mount() {
    let Some(place) = Place::new() else {
        return;
    };
    let (export, socket) = (place.path("export"), place.path("metrics"));
    fs::create_dir(&export).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let listen = format!("unix:{}", text(&socket));
    let line = place.refused(text(&export), &["--metrics", &listen], None);
    assert!(line.contains("something already does"), "{line}");
    drop(listener);
    assert!(socket.exists());

    let words = ["mount", text(&export), text(&place.target), "--metrics"];
    let mut command = sluice(&[&words[..], &["unix:metrics"]].concat());
    command.current_dir(place.dir.path());
    // With a log wanted, the background process keeps stderr: its end shows there.
    command.env("RUST_LOG", "error").stderr(Stdio::piped());
    let mut child = Daemon(command.spawn().unwrap());
    assert_eq!(child.status(), 0);
    UnixStream::connect(&socket).unwrap();
    unmount(&place.target);
    assert_eq!(child.stderr(), "");
    assert!(!socket.exists());
}
