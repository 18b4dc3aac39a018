//! What container engines do in a guest: an overlay whose upper and work directories are on a
//! share.

mod common;

use common::{lab_cache, skip};
use rustix::fs::FileType;
use sluicefs::sandbox::{Guest, MachineChoice, MachineKind};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Attributes that only the superuser sees, as Docker and containerd have it.
#[test]
fn an_overlay_has_its_upper_directory_on_a_share() {
    let share = overlay_works("redirect_dir=on,metacopy=on");
    let Some(upper) = share.as_ref().map(|share| share.path().join("upper")) else {
        return;
    };
    assert_eq!(
        attribute(&upper.join("full"), "trusted.overlay.opaque"),
        b"y"
    );
    let redirect = attribute(&upper.join("elsewhere"), "trusted.overlay.redirect");
    assert_eq!(redirect, b"directory");
}

/// Attributes of ordinary users, as rootless engines have it.
#[test]
fn an_overlay_makes_do_with_user_attributes() {
    let share = overlay_works("userxattr");
    let Some(upper) = share.as_ref().map(|share| share.path().join("upper")) else {
        return;
    };
    assert_eq!(attribute(&upper.join("full"), "user.overlay.opaque"), b"y");
}

/// Returns the share, with what the overlay left on it; `None` if there is no guest.
fn overlay_works(options: &str) -> Option<TempDir> {
    if !lab_cache().join("root/usr/bin/bash").exists() {
        skip("lab/prepare has made no root for guests");
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skip("attributes of the superuser need root");
        return None;
    }
    let share = tempfile::tempdir().unwrap();
    let mut guest = Guest::new(["bash", "-euxc", SCRIPT])
        .root(lab_cache().join("root"))
        .share(share.path(), "/share");
    guest.environment = vec![("OPTIONS".into(), options.into())];
    guest.machine = MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    // Far more than it takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(300));
    if let Err(missing) = guest.machine.probe() {
        skip(&missing.to_string());
        return None;
    }
    let output = guest.output("").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status, 0, "{said}");
    // What the upper file system lacks, the kernel says.
    let complaints = String::from_utf8_lossy(&output.stdout);
    assert_eq!(complaints, "", "{said}");
    is_as_it_should_be(share.path());
    Some(share)
}

const SCRIPT: &str = r#"
    cd /share
    mkdir -p lower/directory/inner lower/full upper work
    echo lower | tee lower/appended lower/kept lower/removed lower/renamed lower/inside >/dev/null
    echo lower >lower/directory/inner/file
    echo lower >lower/full/file
    chmod 600 lower/kept
    mkdir /tmp/merged && cd /tmp
    overlay() {
        mount -t overlay -o "lowerdir=/share/lower,upperdir=/share/upper,workdir=/share/work,$OPTIONS" \
            overlay merged
    }
    overlay

    # Copied up: before the first write, with its attributes; a mode alone.
    echo upper >>merged/appended
    chmod 640 merged/kept
    [ "$(cat merged/appended)" = "$(printf 'lower\nupper')" ]
    [ "$(cat merged/kept)" = lower ]
    # Whited out.
    rm merged/removed
    [ ! -e merged/removed ]
    mv merged/renamed merged/directory/moved
    [ ! -e merged/renamed ] && [ "$(cat merged/directory/moved)" = lower ]
    # A directory of the lower layer moves without being copied.
    mv merged/directory merged/elsewhere
    [ "$(cat merged/elsewhere/inner/file)" = lower ] && [ ! -e merged/directory ]
    # A directory that hides the one below.
    rm -r merged/full
    mkdir merged/full
    [ -z "$(ls -A merged/full)" ]
    # Over each other, exchanged, linked, unnamed.
    echo new >merged/new && mv merged/new merged/inside
    [ "$(cat merged/inside)" = new ]
    ln merged/appended merged/linked
    [ "$(stat -c %h merged/linked)" = 2 ]
    [ "$(stat -c %h merged/appended)" = 2 ]

    # All of it outlives the mount.
    umount merged
    overlay
    [ "$(ls merged | tr '\n' ' ')" = 'appended elsewhere full inside kept linked ' ]
    [ "$(cat merged/elsewhere/inner/file)" = lower ]
    [ "$(cat merged/elsewhere/moved)" = lower ]
    [ "$(stat -c %a merged/kept)" = 640 ]
    [ -z "$(ls -A merged/full)" ]
    umount merged
    [ "$(cat /share/lower/appended)" = lower ]
    dmesg | grep 'overlayfs:' || true
"#;

/// The host finds what the kernel's documentation says there must be.
fn is_as_it_should_be(share: &Path) {
    let upper = share.join("upper");
    for name in ["removed", "renamed", "directory"] {
        let whiteout = fs::symlink_metadata(upper.join(name)).unwrap();
        let file_type = FileType::from_raw_mode(whiteout.mode());
        assert_eq!(file_type, FileType::CharacterDevice, "{name}");
        assert_eq!(whiteout.rdev(), 0, "{name}");
    }
    assert_eq!(fs::read(upper.join("appended")).unwrap(), b"lower\nupper\n");
    let lower: Vec<_> = fs::read_dir(share.join("lower"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(lower.len(), 7, "{lower:?}");
    assert!(!lower.iter().any(|name| name == OsStr::new("linked")));
}

fn attribute(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, name, &mut value).unwrap();
    value.truncate(length);
    value
}
