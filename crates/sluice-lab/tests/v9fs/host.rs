//! A guest and host processes on the same files.

use crate::common::guest::GuestShell;
use crate::scene::Scene;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::os::unix::fs::symlink;

/// A write lock of all of a file, waited for: says when it asks and when it has it.
const LOCKER: &str = r#"
use Fcntl;
open(my $file, "+<", $ARGV[0]) or die "open: $!";
$| = 1;
print "asks\n";
my $lock = pack("s s x4 l! l! i x4", F_WRLCK, 0, 0, 0, 0);
fcntl($file, F_SETLKW, $lock) or die "lock: $!";
print "has it\n";
"#;

#[test]
fn locks_are_the_hosts() {
    let Some(scene) = Scene::with_sluice(&[]) else {
        return;
    };
    let path = scene.tree().join("file");
    fs::write(&path, "content").unwrap();
    fs::write(scene.tree().join("locker"), LOCKER).unwrap();
    let guest = scene.guest(&["version=9p2000.L,cache=none"], GuestShell::SCRIPT);
    let mut shell = GuestShell::of(&guest);
    let ours = File::options().read(true).write(true).open(&path).unwrap();
    // POSIX locks of this process: the server is another.
    fcntl_lock(&ours, FlockOperation::LockExclusive).unwrap();

    // v9fs hears of deadly signals only while it waits for a reply.
    let killed = "perl locker file >said & until [ -s said ]; do sleep 0.1; done
        until grep -q '^State:.[SD]' /proc/$!/status; do sleep 0.1; done
        kill -KILL $!; wait $!; [ $? = 137 ] && cat said && rm said";
    assert_eq!(shell.run(&killed.replace('\n', " ; ")), "asks");

    let granted = "perl locker file";
    shell.begin(granted);
    assert_eq!(shell.line(), "asks");
    fcntl_lock(&ours, FlockOperation::Unlock).unwrap();
    assert_eq!(shell.finish(granted), "has it");

    // Neither the one that was killed nor the one that ended left anything behind.
    fcntl_lock(&ours, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn edits_by_the_host_are_seen_at_once_without_a_cache() {
    let Some(scene) = Scene::with_sluice(&[]) else {
        return;
    };
    let tree = scene.tree();
    let guest = scene.guest(&["version=9p2000.L,cache=none"], GuestShell::SCRIPT);
    let mut shell = GuestShell::of(&guest);

    fs::write(tree.join("file"), "one").unwrap();
    assert_eq!(shell.run("cat file && exec 3<file"), "one");
    fs::write(tree.join("file"), "longer").unwrap();
    assert_eq!(shell.run("cat file && stat -c %s file"), "longer6");
    // Names stay known while the file is open.
    assert_eq!(shell.run("cat <&3 && exec 3<&-"), "longer");

    fs::write(tree.join("new"), "another").unwrap();
    fs::rename(tree.join("new"), tree.join("file")).unwrap();
    assert_eq!(shell.run("cat file"), "another");

    shell.run("! [ -e missing ]");
    symlink("file", tree.join("missing")).unwrap();
    assert_eq!(
        shell.run("readlink missing && cat missing"),
        "file\nanother"
    );
    fs::remove_file(tree.join("missing")).unwrap();
    shell.run("! [ -L missing ]");

    fs::create_dir(tree.join("dir")).unwrap();
    shell.run("cd dir && echo inside >made");
    fs::rename(tree.join("dir"), tree.join("moved")).unwrap();
    assert_eq!(
        fs::read_to_string(tree.join("moved/made")).unwrap(),
        "inside\n"
    );
    assert_eq!(shell.run("cd .. && ls"), "file\nmoved");
}
