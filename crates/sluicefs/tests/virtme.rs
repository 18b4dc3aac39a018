//! virtme-ng from PyPI, unmodified, with this program as its `virtiofsd`: it
//! boots a kernel on the host's own root directory, under QEMU's emulation.

mod common;

use common::{PATIENCE, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `lab/prepare` filled.
fn lab_cache() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/cache");
    let cache = std::env::var_os("SLUICE_LAB_CACHE").map_or(own, PathBuf::from);
    std::path::absolute(cache).unwrap()
}

/// Far more than it takes.
const LIMIT_S: u64 = 10 * PATIENCE.as_secs();

#[test]
fn virtme_ng_boots_on_the_hosts_root() {
    let cache = lab_cache();
    let (vng, kernel) = (
        cache.join("virtme/bin/vng"),
        cache.join("guests/qemu/vmlinuz"),
    );
    for needed in [&vng, &kernel] {
        if !needed.exists() {
            return skip(&format!("lab/prepare has not made {}", needed.display()));
        }
    }
    // In the host's tree, where the guest sees it at the same path.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [programs, home, work] = ["programs", "home", "work"].map(|name| dir.path().join(name));
    for made in [&programs, &home, &work] {
        fs::create_dir(made).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_sluice"), programs.join("virtiofsd")).unwrap();
    fs::write(dir.path().join("on-host"), "written on the host\n").unwrap();

    let own_path = std::env::var("PATH").unwrap_or_default();
    let path = [programs, cache.join("virtme/bin"), cache.join("bin")];
    let path = path.map(|dir| dir.display().to_string()).join(":") + ":" + &own_path;
    // vng gives it to a shell. Changes of the root stay in the guest.
    let script = "{ cat ../on-host; grep -c '^ROOTFS / virtiofs ro' /proc/mounts; } >said; \
        touch ../in-guest; mkdir made && cp said made/copy";
    let output = Command::new("timeout")
        .arg(LIMIT_S.to_string())
        .arg(vng)
        .args([
            "--disable-kvm",
            "--cpus",
            "1",
            "--memory",
            "512M",
            "--verbose",
        ])
        .arg("--run")
        .arg(kernel)
        .arg(format!("--rwdir={}", work.display()))
        .args(["--", script])
        .current_dir(&work)
        .env("PATH", path)
        .env("HOME", &home)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = fs::read_to_string(work.join("made/copy")).unwrap_or_else(|_| {
        let console = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{}\n{errors}\n{console}", output.status)
    });
    assert_eq!(said, "written on the host\n1\n");
    assert!(!dir.path().join("in-guest").exists());
}
