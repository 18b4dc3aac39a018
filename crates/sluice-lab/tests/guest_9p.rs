//! A guest whose root and share are 9P on virtio: Linux's v9fs, from this process.

mod common;

use common::{POSIX, lab_cache, skip};
use sluicefs::sandbox::{
    Guest, GuestRoot, GuestShare, MachineChoice, MachineKind, ShareSource, Virtio9pServer,
};
use sluicefs::share::SharePolicy;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What v9fs has no message for.
const UNKNOWN_TO_V9FS: [&str; 2] = [
    "lock::posix_and_flock_locks_are_apart", // flock(2) is a POSIX lock there
    "lock::open_file_locks_tell_who_is_in_the_way",
];

/// It compiles on its root, and passes cases about what depends on the server most.
#[test]
fn a_guest_on_9p_compiles_and_passes_posix_cases() {
    let root = lab_cache().join("root");
    if !root.join("usr/bin/cc").exists() {
        return skip("lab/prepare has made no root with a compiler");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("giving files away needs root");
    }
    let [dir, tools] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::copy(POSIX, tools.path().join("posix")).unwrap();
    fs::write(
        dir.path().join("answer.c"),
        "int main(void) { return 42; }\n",
    )
    .unwrap();
    let known = UNKNOWN_TO_V9FS
        .map(|name| format!("--known {name}"))
        .join(" ");
    let script = format!(
        "findmnt -no FSTYPE,OPTIONS /mnt
         cc -O0 answer.c -o answer && ./answer; [ $? = 42 ] || exit 3
         mkdir cases && for cases in orphan:: lock::; do
             /tools/posix cases --filter $cases {known} || exit 4
         done
         rmdir cases && echo from the guest >guest && exit 7"
    );
    let mut guest = Guest::new(["bash", "-c", &script]);
    guest.root = Some(GuestRoot {
        source: over_9p(&root, "cache=loose"), // nobody changes it
        writable: false,
    });
    guest.shares.push(GuestShare {
        source: over_9p(dir.path(), "cache=none"),
        at: "/mnt".into(),
        read_only: false,
    });
    guest.shares.push(GuestShare {
        source: over_9p(tools.path(), "cache=loose"),
        at: "/tools".into(),
        read_only: true,
    });
    guest.machine = MachineChoice {
        kind: MachineKind::Auto,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    // Many times what it takes; a guest that hangs fails the test then.
    guest.boot_timeout = Duration::from_secs(120);
    guest.time_limit = Some(Duration::from_secs(240));
    if let Err(missing) = guest.machine.probe() {
        return skip(&missing.to_string());
    }
    let output = guest.output("").unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status, 7, "{text}");
    assert!(text.starts_with("9p "), "{text}");
    assert!(text.contains("trans=virtio"), "{text}");
    assert_eq!(text.matches(" passed, 0 failed,").count(), 2, "{text}");
    let from_guest = fs::read_to_string(dir.path().join("guest")).unwrap();
    assert_eq!(from_guest, "from the guest\n");
    assert!(
        fs::read(dir.path().join("answer"))
            .unwrap()
            .starts_with(b"\x7fELF")
    );
}

fn over_9p(dir: &Path, options: &str) -> ShareSource {
    ShareSource::Virtio9p {
        server: Virtio9pServer::Directory {
            dir: dir.to_owned(),
            policy: SharePolicy::default(),
        },
        options: options.to_owned(),
    }
}
