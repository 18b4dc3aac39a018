//! The kernel's own 9P client, over TCP from guests on user-mode Linux.

#[path = "../common/mod.rs"]
mod common;

mod scene;

use scene::Scene;
use std::fs;

/// Tells a broken wire, or a broken lab, from a broken Sluice.
#[test]
fn a_guest_mounts_the_server_of_others() {
    let Some(scene) = Scene::with_diod() else {
        return;
    };
    fs::write(scene.tree().join("short"), "from the host\n").unwrap();
    let said = scene.run(
        "cache=none",
        "cd /mnt/tree && cat short && head -c 20000000 /dev/urandom >long && sha256sum <long",
    );
    let (short, sum) = said.split_once('\n').unwrap();
    assert_eq!(short, "from the host");
    let host = std::process::Command::new("sha256sum")
        .stdin(fs::File::open(scene.tree().join("long")).unwrap())
        .output()
        .unwrap();
    assert_eq!(sum.as_bytes(), host.stdout);
}
