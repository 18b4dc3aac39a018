//! The library's side: what goes in, what comes out, what is left.

use super::common::{Daemon, skip};
use super::lab::{cache, guest, small_root, uml};
use sluicefs::sandbox::{
    Guest, GuestError, GuestShare, GuestStdio, MachineKind, ShareSource, Virtio9pServer,
};
use sluicefs::share::SharePolicy;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::tempdir;

/// Bytes of every value, in no order that a line could repair.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn status(script: &str) -> Option<u8> {
    let output = uml(script)?.output("").unwrap();
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b""[..], &b""[..])
    );
    Some(output.status)
}

#[test]
fn the_status_is_the_commands() {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("exec /nothing 2>/dev/null", 127),
    ] {
        let Some(status) = status(script) else { return };
        assert_eq!(status, expected, "{script}");
    }
}

#[test]
fn the_command_gets_exactly_its_words() {
    let Some(mut guest) = uml("") else { return };
    let words = ["a b", "", "it's", "$HOME", "two\nlines", "\\", "*"].map(OsString::from);
    let bytes = OsString::from_vec(b"\xff\x01\xfe".to_vec());
    guest.command = [OsString::from("printf"), "%s\\0".into()].to_vec();
    guest.command.extend(words.clone());
    guest.command.push(bytes.clone());
    let output = guest.output("").unwrap();
    let mut expected = Vec::new();
    for word in words.iter().chain([&bytes]) {
        expected.extend_from_slice(word.as_bytes());
        expected.push(0);
    }
    assert_eq!(output.stdout, expected);
}

#[test]
fn every_byte_arrives_on_its_own_stream() {
    every_byte_arrives(MachineKind::Uml, 600_000);
}

fn every_byte_arrives(kind: MachineKind, length: usize) {
    let Some(guest) = guest(
        kind,
        "tee /dev/stderr; [ ! -t 0 ] && [ ! -t 1 ] && [ ! -t 2 ]",
    ) else {
        return;
    };
    let input = noise(length);
    let output = guest.output(input.clone()).unwrap();
    assert_eq!(output.status, 0, "no stream is a terminal");
    assert!(output.stdout == input, "{} bytes", output.stdout.len());
    assert!(output.stderr == input, "{} bytes", output.stderr.len());
}

#[test]
fn a_command_that_reads_nothing_ends_all_the_same() {
    let Some(guest) = uml("echo done") else {
        return;
    };
    let output = guest.output(noise(5_000_000)).unwrap();
    assert_eq!(
        (output.status, output.stdout.as_slice()),
        (0, &b"done\n"[..])
    );
}

#[test]
fn what_the_command_left_behind_ends_with_it() {
    let Some(guest) = uml("(trap '' TERM HUP; while :; do echo more; done) & echo first") else {
        return;
    };
    let output = guest.output("").unwrap();
    assert_eq!(output.status, 0);
    assert!(output.stdout.windows(5).any(|word| word == b"first"));
}

#[test]
fn a_writer_notices_that_its_reader_is_gone() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let Some(guest) = uml("yes; [ $? = 141 ]") else {
        return;
    };
    let stdio = GuestStdio::Streams {
        stdin: Box::new(io::empty()),
        stdout: Box::new(Gone),
        stderr: Box::new(io::stderr()),
    };
    assert_eq!(guest.start(stdio).unwrap().wait(), Ok(0));
}

#[test]
fn shares_are_read_and_written() {
    shares_work(MachineKind::Uml);
}

fn shares_work(kind: MachineKind) {
    let Some(mut guest) = guest(
        kind,
        "pwd; cat from-host; echo guest >from-guest
         cat '/second  dir\\#/name' && echo changed >'/second  dir\\#/name'
         cat /deep/er/fixed && ! echo changed 2>/dev/null >/deep/er/fixed && ! rm /deep/er/fixed",
    ) else {
        return;
    };
    let [first, second, third] = [(); 3].map(|()| tempdir().unwrap());
    std::fs::write(first.path().join("from-host"), "one\n").unwrap();
    std::fs::write(second.path().join("name"), "two\n").unwrap();
    std::fs::write(third.path().join("fixed"), "three\n").unwrap();
    guest = guest
        .share(first.path(), "/work")
        .share(second.path(), "/second  dir\\#");
    guest.shares.push(GuestShare {
        source: ShareSource::directory(third.path()),
        at: "/deep/er".into(),
        read_only: true,
    });
    let output = guest.output("").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "/work\none\ntwo\nthree\n"
    );
    assert_eq!(
        output.status,
        0,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |dir: &tempfile::TempDir, name| std::fs::read_to_string(dir.path().join(name));
    assert_eq!(read(&first, "from-guest").unwrap(), "guest\n");
    assert_eq!(read(&second, "name").unwrap(), "changed\n");
    assert_eq!(read(&third, "fixed").unwrap(), "three\n");
}

#[test]
fn the_host_edits_what_a_running_guest_sees() {
    let dir = tempdir().unwrap();
    let Some(guest) = uml("while read -r name; do cat \"/share/$name\"; done") else {
        return;
    };
    let (input, mut keys) = io::pipe().unwrap();
    let (screen, output) = io::pipe().unwrap();
    let stdio = GuestStdio::Streams {
        stdin: Box::new(input),
        stdout: Box::new(output),
        stderr: Box::new(io::stderr()),
    };
    let mut running = guest.share(dir.path(), "/share").start(stdio).unwrap();
    running.wait_until_ready().unwrap();
    let mut lines = BufReader::new(screen).lines();
    for content in ["first", "second, longer", "third"] {
        // A new name each time: nothing that a cache could know.
        std::fs::write(dir.path().join(content), format!("{content}\n")).unwrap();
        writeln!(keys, "{content}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), content);
    }
    drop(keys);
    assert_eq!(running.wait(), Ok(0));
}

#[test]
fn a_root_on_the_host_stays_as_it_is() {
    root_stays(MachineKind::Uml);
}

fn root_stays(kind: MachineKind) {
    let Some(mut guest) = guest(
        kind,
        "cat /etc/hostname; echo guest >/etc/hostname; echo new >/new; cat /etc/hostname /new
         cat from-host; echo guest >from-guest",
    ) else {
        return;
    };
    let [root, share] = [(); 2].map(|()| tempdir().unwrap());
    small_root(root.path());
    // A link that means something else outside the guest.
    std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
    std::fs::write(share.path().join("from-host"), "shared\n").unwrap();
    guest = guest.root(root.path()).share(share.path(), "/link/place");
    let output = guest.output("").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "host\nguest\nnew\nshared\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let hostname = std::fs::read_to_string(root.path().join("etc/hostname")).unwrap();
    assert_eq!(hostname, "host\n");
    assert!(!root.path().join("new").exists());
    assert!(!root.path().join("etc/place").exists());
    assert!(share.path().join("from-guest").exists());
}

#[test]
fn the_hosts_own_root_is_a_root() {
    // It has mounts below it, and none of them is in the way.
    let name = format!("sluice-test-{}", std::process::id());
    let Some(guest) = uml(&format!(
        "echo new >/etc/{name} && cat /etc/{name} /proc/1/comm"
    )) else {
        return;
    };
    let output = guest.root("/").output("").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "new\ninit\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!std::path::Path::new("/etc").join(name).exists());
}

#[test]
fn a_writable_root_takes_changes() {
    let Some(guest) = uml("echo guest >/etc/hostname; mount") else {
        return;
    };
    let root = tempdir().unwrap();
    small_root(root.path());
    let mut guest = guest.root(root.path());
    guest.root.as_mut().unwrap().writable = true;
    let output = guest.output("").unwrap();
    let mounts = String::from_utf8(output.stdout).unwrap();
    assert!(mounts.contains("on / type virtiofs (rw"), "{mounts}");
    let hostname = std::fs::read_to_string(root.path().join("etc/hostname")).unwrap();
    assert_eq!(hostname, "guest\n");
}

#[test]
fn a_foreign_server_is_attached_by_its_socket() {
    let Some(mut guest) = uml("cat /share/file; echo guest >/share/other") else {
        return;
    };
    let virtiofsd = cache().join("bin/virtiofsd");
    if !virtiofsd.exists() {
        return skip("no virtiofsd in the lab");
    }
    let dir = tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "foreign\n").unwrap();
    // A name that no command line of a machine could hold.
    let socket = dir.path().join("a,b:c d");
    let server = Command::new(virtiofsd)
        .arg(format!("--shared-dir={}", dir.path().display()))
        .arg(format!("--socket-path={}", socket.display()))
        .args(["--tag=foreign", "--sandbox=none"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Daemon(server);
    let said = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let mut said = said.map_while(Result::ok);
    assert!(said.any(|line| line.contains("Waiting for vhost-user socket connection")));
    guest.shares.push(GuestShare {
        source: ShareSource::Socket {
            socket,
            tag: "foreign".parse().unwrap(),
        },
        at: "/share".into(),
        read_only: false,
    });
    let output = guest.output("").unwrap();
    assert_eq!(output.stdout, b"foreign\n");
    assert_eq!(std::fs::read(dir.path().join("other")).unwrap(), b"guest\n");
    // It ends with its only client.
    assert_eq!(server.status(), 0);
}

#[test]
fn a_guest_that_dies_says_what_its_kernel_said() {
    let Some(guest) = uml("echo c >/proc/sysrq-trigger; read never") else {
        return;
    };
    let error = guest.output("").unwrap_err();
    let GuestError::Died { console, .. } = &error else {
        panic!("{error}")
    };
    assert!(!console.is_empty());
    assert!(error.to_string().starts_with("the guest died: "), "{error}");
}

#[test]
fn a_guest_that_cannot_mount_says_so() {
    let Some(guest) = uml("exit 0") else { return };
    let dir = tempdir().unwrap();
    let error = guest
        .share(dir.path(), "/init/below-a-file")
        .output("")
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the guest cannot make the mount point /init/below-a-file"),
        "{text}"
    );
}

#[test]
fn time_is_bounded() {
    let Some(mut guest) = uml("while :; do :; done") else {
        return;
    };
    guest.time_limit = Some(Duration::from_millis(1));
    let error = guest.output("").unwrap_err();
    assert!(matches!(error, GuestError::TimeLimit { .. }), "{error}");
    guest.boot_timeout = Duration::from_millis(1);
    let error = guest.output("").unwrap_err();
    assert!(matches!(error, GuestError::NotReady { .. }), "{error}");
}

#[test]
fn another_thread_ends_a_guest() {
    let Some(guest) = uml("echo started; while :; do :; done") else {
        return;
    };
    let (screen, output) = io::pipe().unwrap();
    let running = start_printing(&guest, output);
    let stopper = running.stopper();
    let mut line = String::new();
    let stop = std::thread::spawn(move || {
        BufReader::new(screen).read_line(&mut line).unwrap();
        stopper.stop();
        line
    });
    assert_eq!(running.wait(), Err(GuestError::Stopped));
    assert_eq!(stop.join().unwrap(), "started\n");
}

fn start_printing(guest: &Guest, output: io::PipeWriter) -> sluicefs::sandbox::RunningGuest {
    guest
        .start(GuestStdio::Streams {
            stdin: Box::new(io::empty()),
            stdout: Box::new(output),
            stderr: Box::new(io::stderr()),
        })
        .unwrap()
}

#[test]
fn user_mode_linux_refuses_9p_on_virtio_in_one_line() {
    let Some(guest) = uml("exit 0") else { return };
    let dir = tempdir().unwrap();
    let dir = dir.path().to_owned();
    let policy = SharePolicy::default();
    for (server, words) in [
        (
            Virtio9pServer::Directory {
                dir: dir.clone(),
                policy,
            },
            "has no module 9pnet_virtio",
        ),
        (Virtio9pServer::Qemu { dir }, "choose --machine=qemu"),
    ] {
        let mut guest = guest.clone();
        guest.shares.push(GuestShare {
            source: ShareSource::Virtio9p {
                server,
                options: "cache=none".to_owned(),
            },
            at: "/share".into(),
            read_only: false,
        });
        let error = guest.output("").unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn qemu_does_the_same() {
    every_byte_arrives(MachineKind::Qemu, 300_000);
    shares_work(MachineKind::Qemu);
    root_stays(MachineKind::Qemu);
}
