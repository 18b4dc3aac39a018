//! Guests whose root lies behind a network: their initramfs brings it up, mounts
//! the root and puts it in its own place.

use crate::common::lab_cache;
use crate::scene::Scene;
use sluicefs::sandbox::GuestRoot;
use std::fs;
use std::os::unix::fs::symlink;

/// Programs start from it, also those that were just written, and what is made on
/// it is there for the next guest.
#[test]
fn a_guest_lives_on_its_root_and_leaves_it_to_the_next() {
    let Some(scene) = Scene::with_sluice(&["--access=client"]) else {
        return;
    };
    let tree = scene.tree();
    fs::create_dir(tree.join("bin")).unwrap();
    fs::copy(lab_cache().join("guests/busybox"), tree.join("bin/busybox")).unwrap();
    symlink("busybox", tree.join("bin/sh")).unwrap();
    let first = on_root(
        &scene,
        true,
        "set -e; PATH=/bin; busybox grep ' / 9p rw' /proc/mounts
        busybox mkdir -p /etc /sbin && echo made >/etc/made
        busybox cp /bin/busybox /sbin/new && busybox mv /sbin/new /sbin/busybox
        /sbin/busybox ln -s /sbin/busybox /sbin/cat && /sbin/cat /etc/made
        busybox rm /bin/busybox && echo gone",
    );
    let (mount, rest) = first.split_once('\n').unwrap();
    assert!(mount.contains("trans=tcp"), "{first}");
    assert_eq!(rest, "made\ngone\n");
    assert_eq!(fs::read(tree.join("etc/made")).unwrap(), b"made\n");
    assert!(!tree.join("bin/busybox").exists());

    fs::remove_file(tree.join("bin/sh")).unwrap();
    symlink("/sbin/busybox", tree.join("bin/sh")).unwrap();
    fs::write(tree.join("etc/host"), "by the host\n").unwrap();
    let second = on_root(&scene, true, "/sbin/cat /etc/made /etc/host");
    assert_eq!(second, "made\nby the host\n");
}

/// A root of Debian's that nobody changes: what the guest writes goes to its memory.
#[test]
fn a_guest_compiles_on_a_root_that_stays_as_it_is() {
    let options = ["--access=client", "--read-only"];
    let Some(scene) = Scene::of_tree(Some(&lab_cache().join("root")), &[&options]) else {
        return;
    };
    let said = on_root(
        &scene,
        false,
        "findmnt -no FSTYPE,OPTIONS / && cd /root
        echo 'int main(void) { return 42; }' >answer.c && cc -O0 answer.c -o answer
        ./answer; [ $? = 42 ] && cat /etc/os-release",
    );
    assert!(said.starts_with("overlay "), "{said}");
    assert!(said.contains("Debian"), "{said}");
    assert!(!scene.tree().join("root/answer.c").exists());
}

/// Runs a shell script in a guest whose root is the scene's tree; what it printed.
fn on_root(scene: &Scene, writable: bool, script: &str) -> String {
    let mut guest = scene.guest(&[], script);
    guest.command = ["sh", "-c", script].map(Into::into).into();
    guest.shares = Vec::new();
    guest.workdir = None;
    guest.root = Some(GuestRoot {
        source: scene.source(0, "version=9p2000.L,access=client,cache=mmap"),
        writable,
    });
    let output = guest.output("").unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status, 0, "{text}");
    text.into_owned()
}
