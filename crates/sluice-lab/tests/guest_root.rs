//! Guests whose root is a shared directory, nothing else: they boot from it and compile on it.

mod common;

use common::daemon::Daemon;
use common::{lab_cache, skip};
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn user_mode_linux_compiles_on_its_root() {
    compiles(MachineKind::Uml);
}

#[test]
fn qemu_compiles_on_its_root() {
    compiles(MachineKind::Qemu);
}

/// Toolchain, headers and sources are on the share, and so is what comes out.
fn compiles(kind: MachineKind) {
    let (root, sources) = (lab_cache().join("root"), lab_cache().join("hostapd"));
    if !root.join("usr/bin/make").exists() || !sources.join("hostapd/.config").exists() {
        return skip("lab/prepare has made no root with a compiler, or no sources");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("copying a root needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("root");
    fs::create_dir(&copy).unwrap();
    // A part of the whole, and not optimised: emulated processors are slow.
    let script = "set -e
        findmnt -no FSTYPE /
        cd /usr/src/hostapd/hostapd
        make EXTRA_CFLAGS='-O0 -g0' hostapd_cli
        ./hostapd_cli -v";
    let mut guest = Guest::new(["sh", "-c", script]).root(&copy);
    guest.root.as_mut().expect("just given").writable = true;
    guest.machine = MachineChoice {
        kind,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    // Far more than it takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(900));
    if let Err(missing) = guest.machine.probe() {
        return skip(&missing.to_string());
    }
    copy_tree(&root, &copy, &["./usr/src", "./usr/share/perl"]);
    fs::create_dir_all(copy.join("usr/src/hostapd")).unwrap();
    copy_tree(&sources, &copy.join("usr/src/hostapd"), &[]);
    let output = guest.output("").unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status,
        0,
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(printed.starts_with("virtiofs\n"), "{printed}");
    assert!(printed.contains("\nhostapd_cli v2."), "{printed}");
    let program = copy.join("usr/src/hostapd/hostapd/hostapd_cli");
    let compiled = fs::read(&program).unwrap();
    assert!(compiled.starts_with(b"\x7fELF"));
    assert_eq!(
        fs::metadata(&program).unwrap().permissions().mode() & 0o111,
        0o111
    );
}

/// Copies what is in `from`, but for `left_out`, with owners, modes and links.
fn copy_tree(from: &Path, to: &Path, left_out: &[&str]) {
    let mut pack = Command::new("tar");
    pack.arg("-C").arg(from);
    pack.args(left_out.iter().map(|path| format!("--exclude={path}")));
    let mut pack = pack
        .args(["-cf", "-", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let unpacked = Command::new("tar")
        .arg("-C")
        .arg(to)
        .args(["-xpf", "-"])
        .stdin(pack.stdout.take().expect("a pipe"))
        .status()
        .unwrap();
    assert!(pack.wait().unwrap().success() && unpacked.success());
}

/// No initramfs, no help: `root=TAG rootfstype=virtiofs` on the kernel's command line.
#[test]
fn a_kernel_mounts_its_root_itself() {
    let qemu = lab_cache().join("bin/qemu-system-x86_64");
    let kernel = lab_cache().join("guests/qemu/vmlinuz");
    let busybox = lab_cache().join("guests/busybox");
    if ![&qemu, &kernel, &busybox].iter().all(|file| file.exists()) {
        return skip("lab/prepare has made no guest for QEMU");
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    for name in ["bin", "dev", "proc"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    symlink("busybox", root.join("bin/sh")).unwrap();
    let init = "#!/bin/sh
        /bin/busybox mount -t proc proc /proc
        /bin/busybox grep ' / ' /proc/mounts >/mounts
        /bin/busybox umount /proc
        /bin/busybox sync
        /bin/busybox poweroff -f
        ";
    fs::write(root.join("init"), init).unwrap();
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = dir.path().join("socket");
    let daemon = Daemon::serve(&root, &socket, &[]);
    let log = dir.path().join("log");
    let words = format!(
        "root={} rootfstype=virtiofs rw init=/init console=ttyS0 panic=-1",
        Daemon::TAG
    );
    let status = Command::new("timeout")
        .arg("400")
        .arg(qemu)
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-no-reboot", "-m", "512M", "-cpu", "max", "-accel", "tcg"])
        .args(["-machine", "q35,memory-backend=memory"])
        .args([
            "-object",
            "memory-backend-memfd,id=memory,size=512M,share=on",
        ])
        .arg("-chardev")
        .arg(format!("socket,id=root,path={}", daemon.socket().display()))
        .arg("-device")
        .arg(format!(
            "vhost-user-fs-pci,chardev=root,tag={}",
            Daemon::TAG
        ))
        .arg("-serial")
        .arg(format!("file:{}", log.display()))
        .arg("-kernel")
        .arg(kernel)
        .args(["-append", &words])
        .stdin(Stdio::null())
        .status()
        .unwrap();
    let said = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    assert!(status.success(), "QEMU ended with {status}: {said}");
    let mounts = fs::read_to_string(root.join("mounts")).unwrap_or_default();
    assert!(mounts.contains(" / virtiofs rw"), "{mounts}{said}");
}
