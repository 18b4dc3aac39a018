//! The guests that these tests boot.

use super::common::skip;
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What `lab/prepare` filled.
pub(crate) fn cache() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/cache");
    std::env::var_os("SLUICE_LAB_CACHE").map_or(own, PathBuf::from)
}

/// A guest of this kind with a shell command, or why there is none.
pub(crate) fn guest(kind: MachineKind, script: &str) -> Option<Guest> {
    let mut guest = Guest::new(["sh", "-c", script]);
    guest.machine = MachineChoice {
        kind,
        lab_cache: Some(cache()),
        ..MachineChoice::default()
    };
    // Far more than any of them takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(400));
    match guest.machine.probe() {
        Ok(_) => Some(guest),
        Err(missing) => {
            skip(&missing.to_string());
            None
        }
    }
}

/// User-mode Linux boots in a second.
pub(crate) fn uml(script: &str) -> Option<Guest> {
    guest(MachineKind::Uml, script)
}

/// A root for a guest: a busybox, and places for what the kernel shows.
pub(crate) fn small_root(dir: &Path) {
    for name in ["bin", "dev", "proc", "sys", "tmp", "etc"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let busybox = cache().join("guests/busybox");
    let busybox = if busybox.exists() {
        busybox
    } else {
        "/bin/busybox".into()
    };
    std::fs::copy(busybox, dir.join("bin/busybox")).unwrap();
    for applet in ["sh", "cat", "ls", "mount"] {
        std::os::unix::fs::symlink("busybox", dir.join("bin").join(applet)).unwrap();
    }
    std::fs::write(dir.join("etc/hostname"), "host\n").unwrap();
}
