//! What a guest writes is on the host at once; what the host changes, a real guest sees
//! when its cache has timed out, or at once if it has none.

mod common;

use common::daemon::Daemon;
use common::guest::GuestShell;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

struct Scene {
    _dir: tempfile::TempDir,
    share: PathBuf,
    daemon: Daemon,
}

fn scene(options: &[&str]) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    fs::create_dir(&share).unwrap();
    let daemon = Daemon::serve(&share, &dir.path().join("socket"), options);
    Scene {
        _dir: dir,
        share,
        daemon,
    }
}

/// When a guest sees what the host has done.
#[derive(Clone, Copy)]
enum Seen {
    /// The next time it looks.
    AtOnce,
    /// When what it knows has timed out: it looks again and again.
    InTime,
}

#[test]
fn edits_by_the_host_are_seen_when_the_cache_times_out() {
    edits_are_seen(&[], Seen::InTime);
}

#[test]
fn edits_by_the_host_are_seen_at_once_without_a_cache() {
    edits_are_seen(&["--cache=never"], Seen::AtOnce);
}

/// Something that the host changes.
struct Edit {
    what: &'static str,
    prepare: fn(&Path),
    /// Makes the guest know what there is before; succeeds then.
    known: &'static str,
    edit: fn(&Path),
    /// Succeeds once the guest sees the change.
    seen: &'static str,
}

const EDITS: &[Edit] = &[
    Edit {
        what: "content",
        prepare: |dir| fs::write(dir.join("content"), "before\n").unwrap(),
        known: "[ \"$(cat content)\" = before ]",
        edit: |dir| fs::write(dir.join("content"), "behind\n").unwrap(),
        seen: "[ \"$(cat content)\" = behind ]",
    },
    Edit {
        what: "a file put in another's place, as editors do",
        prepare: |dir| fs::write(dir.join("edited"), "before\n").unwrap(),
        known: "[ \"$(cat edited)\" = before ]",
        edit: |dir| {
            fs::write(dir.join("edited.new"), "afterwards\n").unwrap();
            fs::rename(dir.join("edited.new"), dir.join("edited")).unwrap();
        },
        seen: "[ \"$(cat edited)\" = afterwards ]",
    },
    Edit {
        what: "a file that grows",
        prepare: |dir| fs::write(dir.join("grows"), "one\n").unwrap(),
        known: "exec 3<grows && read -r line <&3 && [ $line = one ] && ! read -r line <&3",
        edit: |dir| append(&dir.join("grows"), "two\n"),
        seen: "read -r line <&3 && [ $line = two ] && exec 3<&-",
    },
    Edit {
        what: "a file that shrinks",
        prepare: |dir| fs::write(dir.join("shrinks"), [b'x'; 10_000]).unwrap(),
        known: "[ $(wc -c <shrinks) = 10000 ]",
        edit: |dir| truncate(&dir.join("shrinks"), 5),
        seen: "[ $(stat -c %s shrinks) = 5 ] && [ \"$(cat shrinks)\" = xxxxx ]",
    },
    Edit {
        what: "a mode",
        prepare: |dir| fs::write(dir.join("mode"), "").unwrap(),
        known: "[ ! -x mode ]",
        edit: |dir| fs::set_permissions(dir.join("mode"), Permissions::from_mode(0o755)).unwrap(),
        seen: "[ $(stat -c %a mode) = 755 ]",
    },
    Edit {
        what: "a new name",
        prepare: |_| (),
        known: "[ ! -e new ]",
        edit: |dir| fs::write(dir.join("new"), "").unwrap(),
        seen: "[ -e new ]",
    },
    Edit {
        what: "a name that goes",
        prepare: |dir| fs::write(dir.join("gone"), "").unwrap(),
        known: "[ -e gone ]",
        edit: |dir| fs::remove_file(dir.join("gone")).unwrap(),
        seen: "[ ! -e gone ]",
    },
    Edit {
        what: "a directory that moves with what is in it",
        prepare: |dir| {
            fs::create_dir_all(dir.join("old/deep")).unwrap();
            fs::write(dir.join("old/deep/file"), "").unwrap();
        },
        known: "[ -e old/deep/file ] && [ ! -e moved ]",
        edit: |dir| fs::rename(dir.join("old"), dir.join("moved")).unwrap(),
        seen: "[ -e moved/deep/file ] && [ ! -e old ]",
    },
    Edit {
        what: "a symbolic link that is laid anew",
        prepare: |dir| symlink("here", dir.join("link")).unwrap(),
        known: "[ $(readlink link) = here ]",
        edit: |dir| {
            symlink("elsewhere", dir.join("link.new")).unwrap();
            fs::rename(dir.join("link.new"), dir.join("link")).unwrap();
        },
        seen: "[ $(readlink link) = elsewhere ]",
    },
    Edit {
        what: "a directory's entries",
        prepare: |dir| {
            fs::create_dir(dir.join("listed")).unwrap();
            fs::write(dir.join("listed/one"), "").unwrap();
        },
        known: "[ \"$(ls listed)\" = one ]",
        edit: |dir| fs::rename(dir.join("listed/one"), dir.join("listed/two")).unwrap(),
        seen: "[ \"$(ls listed)\" = two ]",
    },
];

fn edits_are_seen(options: &[&str], when: Seen) {
    let scene = scene(options);
    for edit in EDITS {
        (edit.prepare)(&scene.share);
    }
    let Some(mut guest) = GuestShell::start(&scene.daemon) else {
        return;
    };
    for Edit {
        what,
        known,
        edit,
        seen,
        ..
    } in EDITS
    {
        eprintln!("{what}");
        guest.run(known);
        edit(&scene.share);
        match when {
            Seen::AtOnce => guest.run(seen),
            Seen::InTime => guest.run(&format!("until {seen}; do usleep 20000; done")),
        };
    }
}

#[test]
fn what_a_guest_does_is_on_the_host_at_once() {
    changes_arrive(&[], "");
    changes_arrive(&["--cache=never"], "");
    changes_arrive(&["--cache=always"], "");
}

/// A file's end is in its closing, if not before.
#[test]
fn what_a_guest_collects_is_on_the_host_when_it_closes_the_file() {
    changes_arrive(&["--cache=always", "--writeback"], " && exec 4>&-");
}

fn changes_arrive(options: &[&str], close: &str) {
    let scene = scene(options);
    let Some(mut guest) = GuestShell::start(&scene.daemon) else {
        return;
    };
    let at = |name: &str| scene.share.join(name);
    let content = |name: &str| fs::read_to_string(at(name)).unwrap();

    guest.run(&format!("exec 4>file && echo one >&4{close}"));
    assert_eq!(content("file"), "one\n");
    guest.run(&format!("exec 4>>file && echo two >&4{close}"));
    assert_eq!(content("file"), "one\ntwo\n");
    guest.run("exec 4>&-; truncate -s 3 file");
    assert_eq!(content("file"), "one");
    guest.run("chmod 751 file && mkdir dir && ln -s file link && ln file dir/hard");
    let mode = |name| fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("file"), 0o751);
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("file"));
    assert_eq!(content("dir/hard"), "one");
    guest.run("mv file dir/renamed");
    assert!(!at("file").exists());
    assert_eq!(content("dir/renamed"), "one");
    guest.run("rm -r dir link");
    assert_eq!(fs::read_dir(&scene.share).unwrap().count(), 0);
}

fn append(file: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(file).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn truncate(file: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(bytes).unwrap();
}
