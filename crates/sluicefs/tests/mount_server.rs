//! `sluice mount` of a 9P server, under the real kernel.

mod common;

use common::mount::{cannot_mount, mount_words, unmount};
use common::mounted_server::{Scene, serve};
use common::serving::announced;
use common::{Daemon, PATIENCE, run, skip, sluice, status_and_line, text};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::Signal;
use sluice_crew::CrewConfig;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

/// Bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn both_sides_see_each_others_files() {
    let Some(mut scene) = Scene::new("cache=never", &[]) else {
        return;
    };
    let (share, target) = (&scene.share, &scene.target);
    let data = pattern(3_000_001);
    fs::write(target.join("long"), &data).unwrap();
    assert!(fs::read(share.join("long")).unwrap() == data);
    assert!(fs::read(target.join("long")).unwrap() == data);
    fs::create_dir(target.join("dir")).unwrap();
    fs::rename(target.join("long"), target.join("dir/moved")).unwrap();
    fs::write(share.join("dir/host"), "from below").unwrap();
    assert_eq!(fs::read(target.join("dir/host")).unwrap(), b"from below");
    let mut names: Vec<_> = fs::read_dir(target.join("dir"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["host", "moved"]);

    let here = rustix::fs::statvfs(target).unwrap();
    let below = rustix::fs::statvfs(share).unwrap();
    assert_eq!(
        (here.f_blocks, here.f_bsize),
        (below.f_blocks, below.f_bsize)
    );

    unmount(target);
    assert_eq!(scene.mount.status(), 0);
    assert_eq!(scene.mount.stderr(), "");
}

#[test]
fn what_takes_one_message_takes_one() {
    // What was told is kept, and content is not.
    let Some(scene) = Scene::new("cache=metadata", &[]) else {
        return;
    };
    fs::write(scene.share.join("file"), pattern(1 << 20)).unwrap();
    let path = scene.target.join("file");
    // Not statx(2), which asks for times of birth, and again for these.
    let stat = |_: &Path| assert_eq!(rustix::fs::stat(&path).unwrap().st_size, 1 << 20);
    rustix::fs::stat(&scene.target).unwrap();
    assert_eq!(scene.messages(stat), (1, 1));
    assert_eq!(scene.messages(stat), (0, 0));
    let mut file = None;
    assert_eq!(scene.messages(|_| file = File::open(&path).ok()), (1, 1));
    let file = file.unwrap();
    // The longest request of the kernel: 256 pages.
    let mut memory = vec![0; (1 << 20) + 4096];
    let to_page = memory.as_ptr().align_offset(4096);
    let all = &mut memory[to_page..][..1 << 20];
    let read = |_: &Path| file.read_exact_at(all, 0).unwrap();
    assert_eq!(scene.messages(read), (1, 1));
    assert!(memory[to_page..][..1 << 20] == pattern(1 << 20));
    let copied = &scene.stats()["server"]["copied_bytes"];
    assert_eq!(copied.as_u64(), Some(0));
    // Closing sends a message, sooner or later, and nobody waits.
    let (_, waited) = scene.messages(|_| drop(file));
    assert_eq!(waited, 0);
}

#[test]
fn prometheus_gets_what_stats_tells() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = dir.path().join("metrics");
    let address = format!("unix:{}", text(&metrics));
    let Some(scene) = Scene::new("cache=never", &["--metrics", &address]) else {
        return;
    };
    fs::write(scene.target.join("file"), "content").unwrap();
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(&metrics).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let source = format!("source=\"unix:{}\"", text(&scene.socket));
    for name in [
        "sluice_mount_requests_total",
        "sluice_mount_waited_seconds_total",
        "sluice_mount_replies_waited_total",
        "sluice_mount_sent_bytes_bucket",
        "sluice_mount_received_bytes_sum",
        "sluice_mount_reply_wait_seconds_count",
    ] {
        let line = answer.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {answer}"));
        assert!(line.contains(&source), "{line}");
    }
    assert!(ask("GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // One that says nothing holds up nobody for long.
    let _silent = UnixStream::connect(&metrics).unwrap();
    assert!(ask("GET /metrics HTTP/1.0\r\n\r\n").ends_with("# EOF\n"));

    let text_form = run(&["stats", text(&scene.target)]);
    let text_form = String::from_utf8(text_form.stdout).unwrap();
    assert!(text_form.contains("waited for the server"), "{text_form}");
    let stats = scene.stats();
    let server = &stats["server"];
    let seconds = |name: &str| server[name].as_f64().unwrap();
    assert!(seconds("waited_seconds") > 0.0);
    assert!(seconds("waited_seconds") <= seconds("uptime_seconds"));
}

#[test]
fn where_nothing_is_mounted_there_are_no_stats() {
    let dir = tempfile::tempdir().unwrap();
    let (status, line) = status_and_line(&run(&["stats", text(dir.path())]));
    assert_eq!(status, 1);
    assert!(line.contains("no mount of sluice is on"), "{line}");
}

#[test]
fn metrics_are_not_for_other_machines_unless_told() {
    let dir = tempfile::tempdir().unwrap();
    let mount = ["mount", text(dir.path()), text(dir.path())];
    for (address, words) in [
        ("tcp:0.0.0.0:0", "--allow-remote says that"),
        ("vsock:1", "unix:PATH or tcp:HOST:PORT"),
        ("localhost:99", "write tcp:localhost:99"),
    ] {
        let arguments = [&mount[..], &["--metrics", address]].concat();
        let (status, line) = status_and_line(&run(&arguments));
        assert_eq!(status, 2, "{line}");
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn what_cannot_be_mounted_is_told_on_one_line() {
    let Some(scene) = Scene::new("ro", &[]) else {
        return;
    };
    let other = scene.dir.path().join("other");
    fs::write(scene.share.join("file"), "").unwrap();
    fs::create_dir(&other).unwrap();
    let source = format!("unix:{}", text(&scene.socket));
    let nowhere = format!("unix:{}", text(&scene.dir.path().join("nowhere")));
    for more in [&[][..], &["--foreground"]] {
        for (source, aname, expected) in [
            (&*nowhere, "", "is the server running?"),
            (
                &*source,
                "missing",
                "does the server have an export of that name?",
            ),
            (
                &*source,
                ":/missing",
                "is there such a directory in the export?",
            ),
            (&*source, ":file", "Not a directory"),
        ] {
            let hash = if aname.starts_with(':') { "" } else { "#" };
            let source = format!("{source}{hash}{aname}");
            let arguments = [&["mount", source.trim_end_matches('#'), text(&other)], more];
            let (status, line) = status_and_line(&run(&arguments.concat()));
            assert_eq!(status, 1, "{line}");
            assert!(line.contains(expected), "{line}");
        }
    }
    let refused = fs::write(scene.target.join("new"), "").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn a_server_that_is_killed_and_started_again_is_waited_for() {
    let Some(mut scene) = Scene::new("cache=never,hard", &[]) else {
        return;
    };
    let path = scene.target.join("file");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(b"before, ").unwrap();
    for round in 0..3 {
        // Killed, not asked.
        drop(scene.server.take());
        fs::remove_file(&scene.socket).unwrap();
        let (share, socket) = (scene.share.clone(), scene.socket.clone());
        let restart = std::thread::spawn(move || serve(&share, &socket));
        // Waits for as long as nobody is there.
        let mut start = [0; 6];
        file.read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"before");
        write!(file, "{round}").unwrap();
        fs::metadata(&path).unwrap();
        scene.server = Some(restart.join().unwrap());
    }
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(scene.share.join("file")).unwrap(), b"before, 012");
    unmount(&scene.target);
    assert_eq!(scene.mount.status(), 0);
}

#[test]
fn a_server_that_stays_away_is_an_error_where_that_was_wanted() {
    let Some(mut scene) = Scene::new("cache=never,soft,timeo=20", &[]) else {
        return;
    };
    let file = File::create_new(scene.target.join("file")).unwrap();
    drop(scene.server.take());
    let error = file.write_all_at(b"lost", 0).unwrap_err();
    let expected = rustix::io::Errno::IO.raw_os_error();
    assert_eq!(error.raw_os_error(), Some(expected), "{error}");
    drop(file);
    scene.mount.signal(Signal::TERM);
    assert_eq!(scene.mount.status(), 0);
}

/// Runs a script of sh, in mounts of its own, where an ordinary user (`as_user`) may mount
/// what a server on `socket` has in `share`: on `mnt`. `None` where that is not to be had.
fn as_ordinary_user(script: &str) -> Option<Output> {
    if let Some(why) = cannot_mount() {
        skip(why);
        return None;
    }
    for tool in ["fusermount3", "unshare", "setpriv"] {
        if Command::new(tool).arg("--version").output().is_err() {
            skip(&format!("there is no {tool}"));
            return None;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let [share, socket, binary] = ["share", "socket", "sluice"].map(|it| dir.path().join(it));
    fs::create_dir(&share).unwrap();
    let _server = serve(&share, &socket);
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &binary).unwrap();
    let open_to_all = [
        (dir.path(), 0o755),
        (&share, 0o777),
        (&socket, 0o666),
        (&binary, 0o755),
    ];
    for (path, mode) in open_to_all {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // A device that everybody may open, as distributions have it.
    let set_up = r#"
        set -e
        cd "$0"
        mkdir dev mnt run
        mount -t tmpfs none dev
        mknod -m 666 dev/fuse c 10 229
        mount --bind dev/fuse /dev/fuse
        chown 65534 mnt run
        export XDG_RUNTIME_DIR="$PWD/run"
        as_number() { number=$1; shift
            setpriv --reuid "$number" --regid "$number" --clear-groups -- "$@"; }
        as_user() { as_number 65534 "$@"; }
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{set_up}{script}"))
        .arg(dir.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    Some(output)
}

#[test]
fn an_ordinary_user_mounts_a_server_through_the_helper() {
    let script = r#"
        as_user ./sluice mount "unix:$PWD/socket" mnt
        as_user sh -c 'echo hello >mnt/file && cat mnt/file && stat -c %u mnt/file'
        as_user sh -c 'mkdir mnt/dir && mv mnt/file mnt/dir && ls mnt/dir'
        grep " $PWD/mnt " /proc/self/mountinfo | grep -c ' - fuse.sluice '
        as_user ./sluice stats mnt | grep -c 'waited for the server'
        ! ls mnt 2>/dev/null
        as_user fusermount3 -u mnt
        stat -c %u share/dir/file
    "#;
    let Some(output) = as_ordinary_user(script) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "hello\n65534\nfile\n1\n1\n65534\n"
    );
    assert!(output.status.success());
}

#[test]
fn allow_root_lets_root_in_and_nobody_else() {
    let script = r#"
        echo user_allow_other >conf
        mount --bind conf /etc/fuse.conf
        as_user ./sluice mount "unix:$PWD/socket" mnt -o allow_root
        as_user sh -c 'mkdir -m 777 mnt/dir && echo hello >mnt/dir/file && cat mnt/dir/file'
        # What the two may see is known when the third one comes.
        ls mnt/dir && stat -c %n mnt/dir/file && cat mnt/dir/file && df mnt | wc -l
        exec 3<mnt/dir/file
        for act in '[ -r mnt/dir/file ]' 'ls mnt' 'ls mnt/dir' 'stat mnt/dir/file' \
            'cat mnt/dir/file' 'touch mnt/dir/new' 'rm mnt/dir/file' 'df mnt'; do
            as_number 65533 sh -c "$act" >/dev/null 2>&1 && echo "may: $act"
        done
        # Content that somebody handed over.
        as_number 65533 sh -c 'read -r line && echo "$line"' <&3
        exec 3<&-
        as_user fusermount3 -u mnt
        ls share/dir
    "#;
    let Some(output) = as_ordinary_user(script) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let seen_by_root = "file\nmnt/dir/file\nhello\n2\n";
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("hello\n{seen_by_root}hello\nfile\n")
    );
    assert!(output.status.success());
}

#[test]
fn readiness_is_told_when_the_mount_is_usable() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    sluice_lab::own_mounts().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let [share, target, notify] = ["share", "mnt", "notify"].map(|it| dir.path().join(it));
    fs::create_dir(&share).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(share.join("file"), "content").unwrap();
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = sluice(&["mount", "--foreground", text(&share), text(&target)]);
    command.env("NOTIFY_SOCKET", &notify);
    let (mut mount, _) = announced(&mut command, 1);
    let mut message = [0; 256];
    let begin = Instant::now();
    loop {
        let len = manager.recv(&mut message).unwrap();
        if message[..len].starts_with(b"READY=1") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
    }
    assert_eq!(fs::read(target.join("file")).unwrap(), b"content");
    mount.signal(Signal::TERM);
    assert_eq!(mount.status(), 0);
    let len = manager.recv(&mut message).unwrap();
    assert!(message[..len].starts_with(b"STOPPING=1"));
}

#[test]
fn a_directory_of_an_export_is_mounted_alone_and_found_again() {
    let Some(mut scene) = Scene::of(":/a/b", "cache=never", &[]) else {
        return;
    };
    let (share, target) = (scene.share.clone(), scene.target.clone());
    fs::write(share.join("outside"), "").unwrap();
    fs::write(target.join("file"), "content").unwrap();
    assert_eq!(fs::read(share.join("a/b/file")).unwrap(), b"content");
    let listed = fs::read_dir(&target).unwrap();
    let names: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    // The way to it is gone again when the server is back.
    drop(scene.server.take());
    fs::remove_file(&scene.socket).unwrap();
    scene.server = Some(serve(&share, &scene.socket));
    assert_eq!(fs::read(target.join("file")).unwrap(), b"content");
    // Another directory in its place is not taken for it.
    drop(scene.server.take());
    fs::rename(share.join("a"), share.join("moved")).unwrap();
    fs::create_dir_all(share.join("a/b")).unwrap();
    fs::remove_file(&scene.socket).unwrap();
    scene.server = Some(serve(&share, &scene.socket));
    let stale = fs::read(target.join("file")).unwrap_err();
    let expected = rustix::io::Errno::STALE.raw_os_error();
    assert_eq!(stale.raw_os_error(), Some(expected), "{stale}");
}

#[test]
fn a_mount_whose_process_was_killed_is_told_of_and_goes() {
    for is_unmounted in [false, true] {
        let Some(mut scene) = Scene::new("cache=never", &[]) else {
            return;
        };
        let number = rustix::fs::stat(&scene.target).unwrap().st_dev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let socket = PathBuf::from(format!("/run/sluice/mount-{major}-{minor}.sock"));
        assert!(socket.exists());
        scene.mount.0.kill().unwrap();
        scene.mount.0.wait().unwrap();
        let error = fs::metadata(&scene.target).unwrap_err();
        let expected = rustix::io::Errno::NOTCONN.raw_os_error();
        assert_eq!(error.raw_os_error(), Some(expected), "{error}");
        if is_unmounted {
            unmount(&scene.target);
        }
        let (status, line) = status_and_line(&run(&["stats", text(&scene.target)]));
        assert_eq!(status, 1);
        let why = match is_unmounted {
            false => "does its process still run?",
            true => "no mount of sluice is on",
        };
        assert!(line.contains(why), "{line}");
        assert!(!socket.exists(), "it answers nobody any more");
        if !is_unmounted {
            unmount(&scene.target);
        }
        fs::read_dir(&scene.target).unwrap();
    }
}

/// Has so many threads read what nobody answers for, and waits until the mount knows:
/// no more than it has threads for.
fn blocked_readers(scene: &Scene, count: u64) -> Vec<JoinHandle<std::io::Error>> {
    const THREADS: u64 = CrewConfig::THREADS_MAX as u64;
    let before = scene.requests();
    let readers = (0..count).map(|nth| {
        let path = scene.target.join(format!("file{nth}"));
        std::thread::spawn(move || fs::read(path).unwrap_err())
    });
    let readers: Vec<_> = readers.collect();
    while scene.requests() < before + count.min(THREADS) {
        std::thread::yield_now();
    }
    readers
}

/// umount -f ends what waits for a server that is away, and with it the process, also
/// where all of its threads wait.
#[test]
fn a_mount_of_a_dead_server_is_forced_to_end() {
    for count in [1, 40] {
        let Some(mut scene) = Scene::new("cache=never,hard", &[]) else {
            return;
        };
        drop(scene.server.take());
        let readers = blocked_readers(&scene, count);
        let force = rustix::mount::UnmountFlags::FORCE;
        // Busy, for somebody still waits; who is told so by this.
        let _ = rustix::mount::unmount(&scene.target, force);
        for reader in readers {
            let error = reader.join().unwrap();
            let gone = [rustix::io::Errno::CONNABORTED, rustix::io::Errno::NOTCONN];
            let gone = gone.map(|errno| Some(errno.raw_os_error()));
            assert!(gone.contains(&error.raw_os_error()), "{error}");
        }
        unmount(&scene.target);
        assert_eq!(scene.mount.status(), 0);
    }
}

/// A mount that waits for its server keeps nobody alive, and after umount -l its process
/// ends with the last of those.
#[test]
fn who_is_killed_does_not_wait_for_a_dead_server() {
    if let Some(path) = std::env::var_os(LOCKED) {
        return hold_a_lock(Path::new(&path));
    }
    for start in [start_reader, start_lock_holder] {
        let Some(mut scene) = Scene::new("cache=never,hard", &[]) else {
            return;
        };
        let program = start(&mut scene);
        // Should this fail, the mount goes before somebody waits for the program.
        let (mut program, mut scene) = (program, scene);
        let lazily = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(&scene.target, lazily).unwrap();
        program.0.kill().unwrap();
        program.wait_for_end();
        assert_eq!(scene.mount.status(), 0);
    }
}

/// A program that waits for a server that is away.
fn start_reader(scene: &mut Scene) -> Daemon {
    drop(scene.server.take());
    let before = scene.requests();
    let mut program = Command::new("cat");
    let program = program.arg(scene.target.join("file")).spawn().unwrap();
    while scene.requests() == before {
        std::thread::yield_now();
    }
    Daemon(program)
}

/// Tells the test's own program which file to lock.
const LOCKED: &str = "SLUICE_TEST_LOCKED";

/// A program that asks for nothing, until it ends and gives its lock up.
fn start_lock_holder(scene: &mut Scene) -> Daemon {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", "who_is_killed_does_not_wait_for_a_dead_server"])
        .env(LOCKED, scene.target.join("file"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = Daemon(program.spawn().unwrap());
    let mut said = [0; 6];
    let stderr = program.0.stderr.as_mut().unwrap();
    stderr.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"locked");
    drop(scene.server.take());
    program
}

/// Until the other end of its input is closed.
fn hold_a_lock(path: &Path) {
    let file = File::create(path).unwrap();
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
    std::io::stderr().write_all(b"locked").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A dot behind a mount point would look into the mount.
#[test]
fn what_does_not_ask_the_server_works_without_it_also_behind_a_dot() {
    let Some(mut scene) = Scene::new("cache=never,hard", &[]) else {
        return;
    };
    drop(scene.server.take());
    let inside = scene.target.join(".").into_os_string();
    for words in [&["stats"][..], &["mount", "-o", "remount,ro"]] {
        let mut command = sluice(words);
        let mut program = Daemon(command.arg(&inside).stdout(Stdio::null()).spawn().unwrap());
        assert_eq!(program.status(), 0, "{words:?}");
    }
    let words = mount_words(&scene.target).unwrap();
    assert!(words.starts_with("ro,"), "{words}");
}

/// umount -l takes the mount away at once. Its users hear of the server what they would
/// have heard, and after the last of them the process ends.
#[test]
fn a_mount_of_a_dead_server_goes_and_its_process_ends_in_time() {
    for is_hung in [false, true] {
        let Some(mut scene) = Scene::new("cache=never,soft,timeo=20", &[]) else {
            return;
        };
        let open = File::create_new(scene.target.join("open")).unwrap();
        match is_hung {
            true => scene.server.as_ref().unwrap().signal(Signal::STOP),
            false => drop(scene.server.take()),
        }
        let readers = blocked_readers(&scene, 40);
        let lazily = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(&scene.target, lazily).unwrap();
        assert_eq!(mount_words(&scene.target), None);
        fs::read_dir(&scene.target).unwrap();
        for reader in readers {
            let error = reader.join().unwrap();
            let expected = rustix::io::Errno::IO.raw_os_error();
            assert_eq!(error.raw_os_error(), Some(expected), "{error}");
        }
        drop(open);
        assert_eq!(scene.mount.status(), 0);
    }
}
