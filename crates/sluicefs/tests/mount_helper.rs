//! mount(8) and its fstab call `sluice` for their types of file systems.

mod common;

use common::mount::cannot_mount;
use common::mounted_server::serve;
use common::skip;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a script of sh in mounts of its own, where mount(8) finds `sluice` as a
/// helper, in a directory that is `$PWD`. There are directories `export` and `mnt`.
fn with_helper(dir: &Path, script: &str) -> Output {
    for name in ["export", "mnt"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    fs::write(dir.join("export/file"), "content\n").unwrap();
    let set_up = r#"
        set -e
        mount -t tmpfs none /sbin
        ln -s "$0" /sbin/mount.sluice
        ln -s "$0" /sbin/mount.fuse.sluice
        mounted() { grep " $PWD/mnt " /proc/self/mountinfo | grep -c ' - fuse.sluice ' || true; }
    "#;
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{set_up}{script}"))
        .arg(env!("CARGO_BIN_EXE_sluice"))
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .env_remove("NOTIFY_SOCKET")
        .output()
        .unwrap()
}

/// What it said, if it ended well.
#[track_caller]
fn said(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn lines_of_fstab_mount() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        echo "$PWD/export $PWD/mnt sluice ro,nofail,_netdev,x-systemd.automount,cache=none 0 0" >fstab
        mount -T fstab -a && mount -T fstab -a
        mounted
        cat mnt/file
        touch mnt/new 2>/dev/null || echo refused
        mount -T fstab "$PWD/mnt" -o remount,rw
        touch mnt/old
        umount mnt
        mount -T fstab "$PWD/mnt" -o rw
        echo new >mnt/new
        umount mnt
        cat export/new
        mounted
    "#;
    let output = with_helper(dir.path(), script);
    assert_eq!(said(&output), "1\ncontent\nrefused\nnew\n0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn types_on_the_command_line_mount() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        for type in sluice fuse.sluice; do
            mount -t $type -o noatime "$PWD/export" mnt
            mounted
            cat mnt/file
            umount mnt
        done
        mount -f -t sluice "$PWD/export" mnt
        mount -s -t sluice -o quota "$PWD/export" mnt
        mounted
        umount mnt
        mount -t sluice -o quota "$PWD/export" mnt || echo $?
        mount -t sluice "$PWD/nowhere" mnt || echo $?
    "#;
    let output = with_helper(dir.path(), script);
    let expected = "1\ncontent\n".repeat(2) + "1\n2\n1\n";
    assert_eq!(said(&output), expected, "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        matches!(lines[..], [quota, nowhere]
            if quota.starts_with("sluice: unknown mount option 'quota'")
                && nowhere.contains("nowhere")),
        "{stderr}"
    );
}

#[test]
fn a_line_of_fstab_mounts_a_directory_of_a_server() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let [dir, share] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::create_dir_all(share.path().join("a/b c")).unwrap();
    fs::write(share.path().join("a/b c/inner"), "from within\n").unwrap();
    let _server = serve(share.path(), &dir.path().join("socket"));
    let script = r#"
        printf '%s\n' "unix:$PWD/socket:/a/b\\040c $PWD/mnt sluice _netdev 0 0" >fstab
        mount -T fstab -a
        ls mnt
        cat mnt/inner
        findmnt -rno SOURCE mnt | sed "s|$PWD/||"
        umount mnt
    "#;
    let output = with_helper(dir.path(), script);
    assert_eq!(
        said(&output),
        "inner\nfrom within\nunix:socket:/a/b\\x20c\n"
    );
}

#[test]
fn a_mount_is_made_read_only_and_back() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t sluice -o noexec,cache=never "$PWD/export" mnt
        mount -o remount,ro mnt
        mounted
        touch mnt/new 2>/dev/null || echo refused
        mount -o remount,rw mnt
        echo new >mnt/new
        cat export/new
        exec 3>mnt/open
        mount -o remount,ro mnt || echo $?
        exec 3>&-
        grep -c " $PWD/mnt rw,.*noexec" /proc/self/mountinfo
        ln -s mnt link
        "$0" mount -o remount,ro link
        grep -c " $PWD/mnt ro,.*noexec" /proc/self/mountinfo
        umount mnt
        mount -t sluice -o ro "$PWD/export" mnt
        touch mnt/new 2>/dev/null || echo refused
        mount -o remount,rw mnt
        echo newer >mnt/new
        cat export/new
        umount mnt
        "$0" mount -o remount,ro x mnt || echo $?
    "#;
    let output = with_helper(dir.path(), script);
    let expected = "1\nrefused\nnew\n1\n1\n1\nrefused\nnewer\n1\n";
    assert_eq!(said(&output), expected, "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr.lines().collect();
    assert!(
        matches!(lines[..], [busy, none]
            if busy.contains("open for writing") && none.contains("no mount of sluice is on")),
        "{stderr}"
    );
}

/// Nobody could say any more what was mounted.
#[test]
fn without_proc_nothing_is_mounted() {
    if let Some(why) = cannot_mount() {
        return skip(why);
    }
    let [dir, share] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let _server = serve(share.path(), &dir.path().join("socket"));
    let script = r#"
        cp "$0" ./sluice
        mount -t tmpfs none /proc
        for foreground in "" --foreground; do
            ./sluice mount $foreground unix:socket mnt || echo $?
        done
        umount /proc
        mounted
    "#;
    let output = with_helper(dir.path(), script);
    assert_eq!(said(&output), "1\n1\n0\n", "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut lines = stderr.lines();
    assert!(lines.all(|line| line.contains("mount -t proc")), "{stderr}");
}
