//! The units of `dist/systemd` under a systemd, in a guest: mounts of a 9P server
//! that runs in the guest too.

mod common;

use common::{lab, lab_cache, skip};
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use std::fs;
use std::time::Duration;

/// A systemd in a process name space of its own is the first process there, which is
/// all that it asks for. What it does on a first boot and never again is left out.
const BEGIN: &str = r#"
    set -e
    mount -t cgroup2 none /sys/fs/cgroup
    mkdir -p /usr/local/bin /etc/sluice/mounts /srv/code /mnt/code
    cp /share/sluice /usr/local/bin/sluice
    ln -s /usr/local/bin/sluice /sbin/mount.sluice
    echo content >/srv/code/file
    printf '%s\n' SOURCE=unix:/run/code.sock TARGET=/mnt/code OPTIONS=cache=auto \
        >/etc/sluice/mounts/code.conf
    cd /etc/systemd/system
    cp /units/sluice-mount@.service .
    sed 's|^What=.*|What=unix:/run/code.sock|' /units/mnt-code.mount >mnt-code.mount
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    for unit in firstboot hwdb-update journal-catalog-update sysusers update-done journald \
        tmpfiles-setup; do
        ln -s /dev/null systemd-$unit.service
    done
    ln -s /dev/null ldconfig.service
    printf '%s\n' '[Service]' Type=notify 'ExecStart=/usr/local/bin/sluice serve /srv/code \
        --9p unix:/run/code.sock --sandbox=none' >server.service
    printf '%s\n' '[Service]' Type=oneshot 'ExecStart=/bin/sh /share/look' \
        StandardOutput=file:/share/said StandardError=file:/share/said >look.service
    printf '%s\n' '[Unit]' Wants=look.service >look.target
    export container=other
    exec unshare --pid --fork --mount-proc \
        /usr/lib/systemd/systemd --system --unit=look.target
"#;

/// What is done in there.
const LOOK: &str = r#"
    mounted() { grep -c ' /mnt/code .* fuse.sluice ' /proc/self/mountinfo; }
    systemctl start server
    for unit in sluice-mount@code mnt-code.mount; do
        systemctl start $unit
        systemctl is-active $unit
        cat /mnt/code/file
        mounted
        systemctl stop $unit
        systemctl is-failed $unit
        mounted
    done
    systemctl exit
"#;

#[test]
fn units_mount_and_unmount() {
    let root = lab_cache().join("root");
    if !root.join("usr/lib/systemd/systemd").exists() {
        return skip("lab/prepare has made no root with systemd");
    }
    let share = tempfile::tempdir().unwrap();
    let sluice = share.path().join("sluice");
    fs::copy(env!("CARGO_BIN_EXE_sluice-here"), sluice).unwrap();
    fs::write(share.path().join("look"), LOOK).unwrap();
    let mut guest = Guest::new(["bash", "-c", BEGIN])
        .root(root)
        .share(lab().join("../dist/systemd"), "/units")
        .share(share.path(), "/share");
    guest.machine = MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    guest.workdir = Some("/".into());
    // Far more than it takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(300));
    if let Err(missing) = guest.machine.probe() {
        return skip(&missing.to_string());
    }
    let output = guest.output("").unwrap();
    let said = fs::read_to_string(share.path().join("said")).unwrap_or_default();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said,
        "active\ncontent\n1\ninactive\n0\n".repeat(2),
        "{stderr}"
    );
}
