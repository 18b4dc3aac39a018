//! `make install`'s script: what it puts where, and that it takes it all away.

mod common;

use common::{status_and_line, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAME: &str = "usr/libexec/virtiofsd";
const DESCRIPTION: &str = "usr/share/qemu/vhost-user/50-sluice-virtiofsd.json";

/// The script, beneath `root`.
fn install(root: &Path, argument: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/install");
    let mut command = Command::new(script);
    command.arg(argument);
    for (name, value) in [
        ("DESTDIR", text(root)),
        ("PREFIX", "/opt/sluice"),
        ("LIBEXECDIR", "/usr/libexec"),
        ("SBINDIR", "/sbin"),
        ("MONITORSDIR", "/usr/share/qemu/vhost-user"),
    ] {
        command.env(name, value);
    }
    command.output().unwrap()
}

/// All that is no directory, from `root` on.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => dirs.push(entry.path()),
                false => found.push(entry.path().strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn everything_is_where_it_is_looked_for_and_goes_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for _ in 0..2 {
        let output = install(root, env!("CARGO_BIN_EXE_sluice"));
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
    }
    let usr = root.join("opt/sluice");
    let mode = fs::metadata(usr.join("bin/sluice"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    // No path of the staging area is in what goes elsewhere.
    assert_eq!(
        fs::read_link(root.join(NAME)).unwrap(),
        Path::new("/opt/sluice/bin/sluice")
    );
    for helper in ["sbin/mount.sluice", "sbin/mount.fuse.sluice"] {
        let program = fs::read_link(root.join(helper)).unwrap();
        assert_eq!(program, Path::new("/opt/sluice/bin/sluice"));
    }
    let unit = usr.join("lib/systemd/system/sluice-mount@.service");
    let unit = fs::read_to_string(unit).unwrap();
    assert!(
        unit.contains("\nExecStart=/opt/sluice/bin/sluice mount "),
        "{unit}"
    );
    let description = fs::read_to_string(root.join(DESCRIPTION)).unwrap();
    assert!(
        description.contains("\"binary\": \"/usr/libexec/virtiofsd\""),
        "{description}"
    );

    for file in [
        "share/bash-completion/completions/sluice",
        "share/zsh/site-functions/_sluice",
        "share/fish/vendor_completions.d/sluice.fish",
    ] {
        let script = fs::read_to_string(usr.join(file)).unwrap();
        assert!(script.contains("negative-timeout"), "{file}");
    }
    for page in [
        "sluice",
        "sluice-serve",
        "sluice-mount",
        "sluice-stats",
        "sluice-run",
        "sluice-virtiofsd",
    ] {
        assert!(
            usr.join(format!("share/man/man1/{page}.1")).exists(),
            "{page}"
        );
    }

    assert!(install(root, "--remove").status.success());
    assert_eq!(files(root), Vec::<PathBuf>::new());
    assert!(
        install(root, "--remove").status.success(),
        "nothing is left to remove"
    );
}

#[test]
fn a_virtiofsd_from_elsewhere_stays_and_monitors_keep_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("usr/libexec")).unwrap();
    fs::write(root.join(NAME), "theirs").unwrap();
    let (_, line) = status_and_line(&install(root, env!("CARGO_BIN_EXE_sluice")));
    assert!(
        line.contains("is not ours and stays; LIBEXECDIR="),
        "{line}"
    );
    assert!(root.join("opt/sluice/bin/sluice").exists());
    assert!(!root.join(DESCRIPTION).exists());
    assert!(install(root, "--remove").status.success());
    assert_eq!(fs::read(root.join(NAME)).unwrap(), b"theirs");
}
