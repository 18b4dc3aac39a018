//! `sluice mount --export` under the real kernel.

mod common;

use common::mount::{Mount, cannot_mount, unmount};
use common::{Daemon, run, skip, sluice, text};
use rustix::fs::{FlockOperation, XattrFlags};
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

fn is_mounted(target: &Path) -> bool {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    table
        .lines()
        .any(|line| line.contains(text(target)) && line.contains(" - fuse.sluice "))
}

#[test]
fn both_sides_see_each_others_files() {
    let Some(mut mount) = Mount::new("") else {
        return;
    };
    assert!(is_mounted(&mount.target));
    fs::write(mount.target.join("guest"), "from the mount").unwrap();
    assert_eq!(
        fs::read(mount.export.join("guest")).unwrap(),
        b"from the mount"
    );
    fs::write(mount.export.join("host"), "from below").unwrap();
    assert_eq!(fs::read(mount.target.join("host")).unwrap(), b"from below");

    fs::create_dir(mount.target.join("dir")).unwrap();
    symlink("../guest", mount.target.join("dir/link")).unwrap();
    assert_eq!(
        fs::read_link(mount.export.join("dir/link")).unwrap(),
        Path::new("../guest")
    );
    assert_eq!(
        fs::read(mount.target.join("dir/link")).unwrap(),
        b"from the mount"
    );
    fs::rename(mount.target.join("guest"), mount.target.join("dir/moved")).unwrap();
    assert!(mount.export.join("dir/moved").exists());
    assert!(!mount.target.join("guest").exists());

    let moved = mount.target.join("dir/moved");
    fs::set_permissions(&moved, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(
        fs::metadata(mount.export.join("dir/moved")).unwrap().mode() & 0o7777,
        0o640
    );
    rustix::fs::setxattr(&moved, "user.sluice", b"value", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    let below = mount.export.join("dir/moved");
    let len = rustix::fs::getxattr(&below, "user.sluice", &mut value[..]).unwrap();
    assert_eq!(&value[..len], b"value");

    let error = fs::remove_dir(mount.target.join("dir")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(mount.target.join("dir")).unwrap();
    assert!(!mount.export.join("dir").exists());

    mount.unmount();
    assert_eq!(mount.daemon.status(), 0);
    assert_eq!(mount.daemon.stderr(), "");
}

#[test]
fn megabytes_arrive_as_they_were_sent() {
    let Some(mount) = Mount::new("") else {
        return;
    };
    // Longer than a message, and not a multiple of anything.
    let data: Vec<u8> = (0..5_000_003u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let path = mount.target.join("big");
    fs::write(&path, &data).unwrap();
    assert!(fs::read(mount.export.join("big")).unwrap() == data);
    assert!(fs::read(&path).unwrap() == data);

    // What the host changes is read after the next open.
    let mut changed = data.clone();
    changed[1_234_567..1_234_667].fill(0xee);
    fs::write(mount.export.join("big"), &changed).unwrap();
    assert!(fs::read(&path).unwrap() == changed);

    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(b"patch", 4_194_300).unwrap();
    file.set_len(4_194_303).unwrap();
    file.seek(SeekFrom::Start(4_194_290)).unwrap();
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).unwrap();
    assert_eq!(&tail[10..], b"pat");
    assert_eq!(
        fs::metadata(mount.export.join("big")).unwrap().len(),
        4_194_303
    );

    // Unlinked, but open.
    fs::remove_file(&path).unwrap();
    file.write_all_at(b"still here", 0).unwrap();
    let mut start = [0; 10];
    file.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(&start, b"still here");
}

#[test]
fn a_listing_is_complete() {
    let Some(mount) = Mount::new("") else {
        return;
    };
    let mut names: Vec<_> = (0..2500)
        .map(|i| format!("entry-with-a-name-{i:06}"))
        .collect();
    for name in &names {
        fs::write(mount.export.join(name), "").unwrap();
    }
    let mut listed: Vec<_> = fs::read_dir(&mount.target)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    listed.sort();
    names.sort();
    assert_eq!(listed, names);
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let Some(mount) = Mount::new("ro") else {
        return;
    };
    fs::write(mount.export.join("file"), "kept").unwrap();
    assert_eq!(fs::read(mount.target.join("file")).unwrap(), b"kept");
    for outcome in [
        fs::write(mount.target.join("file"), "lost"),
        fs::write(mount.target.join("new"), ""),
        fs::create_dir(mount.target.join("dir")),
        fs::remove_file(mount.target.join("file")),
    ] {
        assert_eq!(
            outcome.unwrap_err().kind(),
            std::io::ErrorKind::ReadOnlyFilesystem
        );
    }
    assert_eq!(fs::read(mount.export.join("file")).unwrap(), b"kept");
}

#[test]
fn every_cache_mode_reads_and_writes() {
    for options in [
        "cache=never",
        "cache=metadata",
        "cache=auto,negtimeout=5000",
        "cache=always,negtimeout=-1",
        "cache=always,writeback",
        "allow_other,default_permissions,posixacl,noatime",
    ] {
        let Some(mut mount) = Mount::new(options) else {
            return;
        };
        let path = mount.target.join("file");
        assert!(!path.exists());
        let mut file = File::create(&path).unwrap();
        for part in 0..100 {
            writeln!(file, "line {part}").unwrap();
        }
        drop(file);
        let expected: String = (0..100).map(|part| format!("line {part}\n")).collect();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected, "{options}");
        mount.unmount();
        assert_eq!(mount.daemon.status(), 0, "{options}");
        let below = fs::read_to_string(mount.export.join("file")).unwrap();
        assert_eq!(below, expected, "{options}");
    }
}

#[test]
fn sigterm_unmounts() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let Some(mut mount) = Mount::new("") else {
            return;
        };
        mount.daemon.signal(signal);
        assert_eq!(mount.daemon.status(), 0);
        assert!(!is_mounted(&mount.target));
        assert_eq!(mount.daemon.stderr(), "");
    }
}

#[test]
fn a_busy_mount_leaves_the_tree_at_once_and_ends_after_its_last_user() {
    let Some(mut mount) = Mount::new("") else {
        return;
    };
    let mut file = File::create_new(mount.target.join("file")).unwrap();
    mount.daemon.signal(Signal::TERM);
    // Opened before, so still good; gone from the tree as soon as the signal is handled.
    while is_mounted(&mount.target) {
        std::thread::yield_now();
    }
    file.write_all(b"late").unwrap();
    assert!(mount.daemon.0.try_wait().unwrap().is_none());
    drop(file);
    assert_eq!(mount.daemon.status(), 0);
    assert_eq!(fs::read(mount.export.join("file")).unwrap(), b"late");
}

#[test]
fn a_second_signal_ends_it_although_it_is_busy() {
    let Some(mut mount) = Mount::new("") else {
        return;
    };
    let file = File::create_new(mount.target.join("file")).unwrap();
    mount.daemon.signal(Signal::TERM);
    while is_mounted(&mount.target) {
        std::thread::yield_now();
    }
    mount.daemon.signal(Signal::TERM);
    assert_eq!(mount.daemon.status(), 1);
    assert!(file.metadata().is_err() || file.sync_all().is_err());
}

#[test]
fn mount_returns_when_the_mount_is_usable_and_lives_on_in_the_background() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    sluice_lab::own_mounts().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (export, target) = (dir.path().join("export"), dir.path().join("mnt"));
    fs::create_dir(&export).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(export.join("file"), "content").unwrap();
    let arguments = ["mount", "--export", "export", "mnt", "-o", "fsname=a b\\c"];
    // With a log wanted, the background process keeps stderr: its end shows there.
    let mut command = sluice(&arguments);
    command.current_dir(dir.path()).env("RUST_LOG", "error");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(target.join("file")).unwrap(), b"content");
    assert!(is_mounted(&target));

    unmount(&target);
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(log, "");
}

#[test]
fn a_lock_of_the_host_holds_in_the_mount_and_waiting_for_it_can_be_given_up() {
    let Some(mount) = Mount::new("") else {
        return;
    };
    let on_host = File::create(mount.export.join("lock")).unwrap();
    let path = mount.target.join("lock");
    let in_mount = File::open(&path).unwrap();
    let try_lock = || rustix::fs::flock(&in_mount, FlockOperation::NonBlockingLockExclusive);

    on_host.lock().unwrap();
    assert_eq!(try_lock(), Err(rustix::io::Errno::AGAIN));
    let waiting = Command::new("flock").args([text(&path), "true"]).spawn();
    let mut killed = Daemon(waiting.unwrap());
    let waiting = Command::new("flock").args([text(&path), "true"]).spawn();
    let mut granted = Daemon(waiting.unwrap());
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    assert!(
        granted.0.try_wait().unwrap().is_none(),
        "it is held by the host"
    );
    on_host.unlock().unwrap();
    assert_eq!(granted.status(), 0);

    // Neither the dead waiter nor the one that is done holds it, as soon as the
    // kernel's RELEASE arrives, which closing does not wait for.
    rustix::fs::flock(&in_mount, FlockOperation::LockExclusive).unwrap();
    assert!(
        on_host.try_lock().is_err(),
        "the host sees the mount's lock"
    );
}

#[test]
fn an_ordinary_user_mounts_through_the_helper() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    for tool in ["fusermount3", "unshare", "setpriv"] {
        let found = Command::new(tool).arg("--version").output();
        if found.is_err() {
            return skip(&format!("there is no {tool}"));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let everybody = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), everybody.clone()).unwrap();
    let binary = dir.path().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice"), &binary).unwrap();
    fs::set_permissions(&binary, everybody).unwrap();
    // A mount namespace with a device that everybody may open, as distributions have it.
    let script = r#"
        set -e
        cd "$0"
        mkdir dev export mnt other
        mount -t tmpfs none dev
        mknod -m 666 dev/fuse c 10 229
        mount --bind dev/fuse /dev/fuse
        chown 65534 export mnt other
        as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
        as_user ./sluice mount --export export mnt -o 'fsname=a\b'
        as_user sh -c 'echo hello > mnt/file; cat mnt/file; stat -c %u mnt/file'
        grep " $PWD/mnt " /proc/self/mountinfo | grep -c ' - fuse.sluice '
        as_user ./sluice mount --export export other -o allow_other && exit 9 || true
        as_user fusermount3 -u mnt
        cat export/file
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(dir.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "hello\n65534\n1\nhello\n"
    );
    assert!(
        stderr.starts_with("sluice: fusermount3 will not mount"),
        "{stderr}"
    );
    assert!(stderr.contains("user_allow_other"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_mount_without_its_server_is_told_apart_from_a_missing_directory() {
    let Some(mut mount) = Mount::new("") else {
        return;
    };
    mount.daemon.0.kill().unwrap();
    mount.daemon.0.wait().unwrap();
    let output = run(&[
        "mount",
        "--export",
        text(&mount.export),
        text(&mount.target),
    ]);
    let (status, line) = common::status_and_line(&output);
    assert_eq!(status, 1);
    assert!(line.contains("lost its server: unmount it first"), "{line}");
}

/// The server would wait for itself, for ever, and with it whoever looks there.
#[test]
fn a_mount_within_its_own_export_is_refused_also_by_another_name() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let dir = tempfile::tempdir().unwrap();
    let (export, other) = (dir.path().join("export"), dir.path().join("other"));
    fs::create_dir_all(export.join("within/deep")).unwrap();
    fs::create_dir(&other).unwrap();
    symlink("export/within", dir.path().join("link")).unwrap();
    // Two views of one directory: a mount in one of them is one in both.
    let script = r#"
        mount --bind . . && mount --make-shared . && cd "$PWD"
        mount --bind export other
        for at in export/within export/within/deep link other/within; do
            "$0" mount --export export "$at"
            echo "$? $(grep -c " $PWD/.* - fuse.sluice " /proc/self/mountinfo)"
        done
        "$0" mount --export export export && ls export && umount export
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_sluice"))
        .current_dir(dir.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout, format!("{}within\n", "1 0\n".repeat(4)), "{stderr}");
    assert_eq!(stderr.lines().count(), 4, "{stderr}");
    for line in stderr.lines() {
        assert!(
            line.contains("it is part of what is mounted, 'export'"),
            "{line}"
        );
    }
}

#[test]
fn a_second_mount_on_one_point_is_refused() {
    let Some(mount) = Mount::new("") else {
        return;
    };
    for more in [&[][..], &["--foreground"]] {
        let arguments = [
            "mount",
            "--export",
            text(&mount.export),
            text(&mount.target),
        ];
        let (status, line) = common::status_and_line(&run(&[&arguments[..], more].concat()));
        assert_eq!(status, 1);
        assert!(
            line.contains("is there already; unmount it first"),
            "{line}"
        );
    }
}
