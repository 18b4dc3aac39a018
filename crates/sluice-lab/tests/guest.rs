//! The POSIX cases in real guests, on a share over virtio-fs.

mod common;

use common::{POSIX, WITHOUT_OPEN, assert_tap, lab_cache, skip};
use sluice_proto::fuse::serve::{CacheMode, Offer};
use sluicefs::sandbox::{Guest, GuestShare, MachineChoice, MachineKind, ShareSource};
use sluicefs::share::SharePolicy;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Users of the cases can do all that the guest's kernel can; it lacks little.
const MAX_SKIPS: usize = 6;

#[test]
fn user_mode_linux_passes_with_cache_never() {
    guest_passes(MachineKind::Uml, CacheMode::Never);
}

#[test]
fn user_mode_linux_passes_with_cache_auto() {
    guest_passes(MachineKind::Uml, CacheMode::Auto);
}

#[test]
fn user_mode_linux_passes_with_cache_always() {
    guest_passes(MachineKind::Uml, CacheMode::Always);
}

#[test]
fn qemu_passes() {
    guest_passes(MachineKind::Qemu, CacheMode::Auto);
}

fn guest_passes(kind: MachineKind, cache: CacheMode) {
    let root = lab_cache().join("root");
    if !root.join("usr/bin/bash").exists() {
        return skip("lab/prepare has made no root for guests");
    }
    if !rustix::process::geteuid().is_root() {
        return skip("giving files away needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let tools = dir.path().join("tools");
    let tree = dir.path().join("tree");
    fs::create_dir(&tools).unwrap();
    fs::create_dir(&tree).unwrap();
    fs::copy(POSIX, tools.join("posix")).unwrap();
    let mut command = vec!["/mnt/tools/posix", "/mnt/tree"];
    if cache == CacheMode::Always {
        command.extend(WITHOUT_OPEN);
    }
    let mut guest = Guest::new(command).root(root).share(&tools, "/mnt/tools");
    guest.shares.push(shared(&tree, cache));
    guest.machine = MachineChoice {
        kind,
        lab_cache: Some(lab_cache()),
        ..MachineChoice::default()
    };
    guest.workdir = Some("/".into());
    // Far more than any of them takes.
    guest.boot_timeout = Duration::from_secs(300);
    guest.time_limit = Some(Duration::from_secs(400));
    if let Err(missing) = guest.machine.probe() {
        return skip(&missing.to_string());
    }
    let output = guest.output("").unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_tap(&text, output.status == 0, MAX_SKIPS);
    let left: Vec<_> = fs::read_dir(&tree).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn shared(tree: &Path, cache: CacheMode) -> GuestShare {
    let policy = SharePolicy {
        cache,
        posix_acl: Offer::Auto,
        ..SharePolicy::default()
    };
    GuestShare {
        source: ShareSource::Directory {
            dir: tree.to_owned(),
            policy,
        },
        at: "/mnt/tree".into(),
        read_only: false,
    }
}
