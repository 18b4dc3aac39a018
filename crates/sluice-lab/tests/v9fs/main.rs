//! 9P clients in guests on user-mode Linux, over TCP: the kernel's own, and the mount
//! of our own client.

#[path = "../common/mod.rs"]
mod common;

mod host;
mod root;
mod scene;
mod users;
mod versions;

use common::{OVER_9P, V9FS, assert_tap};
use scene::Scene;
use std::fs;
use std::process::Command;

/// As a share over virtio-fs: the guest's kernel checks what its users may do.
const CHECKED_BY_CLIENT: [&str; 2] = ["--access=client", "--posix-acl=always"];

/// Tells a broken wire, or a broken lab, from a broken Sluice.
#[test]
fn a_guest_mounts_the_server_of_others() {
    let Some(scene) = Scene::with_diod() else {
        return;
    };
    fs::write(scene.tree().join("short"), "from the host\n").unwrap();
    let said = scene.run(
        &["version=9p2000.L,cache=none"],
        "cat short && head -c 20000000 /dev/urandom >long && sha256sum <long",
    );
    let (short, sum) = said.split_once('\n').unwrap();
    assert_eq!(short, "from the host");
    let host = Command::new("sha256sum")
        .stdin(fs::File::open(scene.tree().join("long")).unwrap())
        .output()
        .unwrap();
    assert_eq!(sum.as_bytes(), host.stdout);
}

/// v9fs keeps no attributes longer than a page, and Sluice lets no one set
/// `trusted.` ones under isolation.
const MAX_SKIPS: usize = 15;

#[test]
fn posix_cases_pass_but_for_what_the_client_does_otherwise() {
    let Some(scene) = Scene::with_sluice(&CHECKED_BY_CLIENT) else {
        return;
    };
    let known: String = V9FS.iter().map(|case| format!(" --known {case}")).collect();
    let said = scene.run(
        &["version=9p2000.L,access=client,posixacl,cache=none"],
        &format!("/mnt/tools/posix /mnt/tree{known}"),
    );
    assert_tap(&said, true, MAX_SKIPS);
    assert_eq!(fs::read_dir(scene.tree()).unwrap().count(), 0);
}

/// Where `sluice mount` does, over `/dev/fuse` of the guest's kernel.
#[test]
fn posix_cases_pass_on_a_mount_of_our_own_client() {
    let Some(scene) = Scene::with_sluice(&CHECKED_BY_CLIENT) else {
        return;
    };
    let known: String = OVER_9P
        .iter()
        .map(|case| format!(" --known {case}"))
        .collect();
    let said = scene.run(
        &[],
        &format!(
            "cd /tmp && mkdir tree &&
             {} tree -o cache=never,allow_other,posixacl &&
             /mnt/tools/posix tree{known} && umount tree",
            scene.mount_command()
        ),
    );
    assert_tap(&said, true, MAX_SKIPS);
    assert_eq!(fs::read_dir(scene.tree()).unwrap().count(), 0);
}

/// Several shares of one directory, mounted with different options.
#[test]
fn mounts_keep_their_promises() {
    let Some(scene) = Scene::with_sluice(&["--aname=stable"]) else {
        return;
    };
    let said = scene.run(
        &[
            "version=9p2000.L,cache=none",
            "version=9p2000.L,cache=loose",
            "version=9p2000.L,cache=mmap",
            "version=9p2000.u,cache=none",
            "version=9p2000,cache=none,noextend",
        ],
        include_str!("promises.sh"),
    );
    let failed: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("ok "))
        .collect();
    assert!(failed.is_empty(), "{said}");
    assert_eq!(said.lines().count(), 21, "{said}");
}

/// `lab/programs` does more of this, and takes minutes here.
#[test]
fn programs_work() {
    let Some(scene) = Scene::with_sluice(&CHECKED_BY_CLIENT) else {
        return;
    };
    let said = scene.run(
        &["version=9p2000.L,access=client,cache=mmap"],
        include_str!("programs.sh"),
    );
    assert_eq!(said, "ok git\nok sqlite\nok tar\nok make\n");
}
