//! The tree and processes of the host that work in it.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Client, Needs, World};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use sluice_vfs::{DirWant, Errno, LockKind, OpenFlags};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const HOST: Needs = Needs::HOST;

pub(super) const CASES: &[Case] = &[
    case!(what_the_host_wrote_is_read, HOST),
    case!(what_was_written_is_read_on_the_host, HOST),
    case!(the_host_sees_modes_and_times, HOST),
    case!(the_host_sees_names_come_and_go, HOST),
    case!(
        names_that_the_host_made_are_found_after_they_were_missing,
        HOST
    ),
    case!(names_that_the_host_removed_are_missing, HOST),
    case!(names_that_the_host_replaced_lead_to_the_new_file, HOST),
    case!(an_open_file_follows_the_hosts_writes, HOST),
    case!(an_open_file_follows_the_hosts_truncation, HOST),
    case!(an_open_file_outlives_the_hosts_removal, HOST),
    case!(a_known_file_follows_the_hosts_rename, HOST),
    case!(a_known_directory_follows_the_hosts_rename, HOST),
    case!(a_directory_that_the_host_removed_takes_no_names, HOST),
    case!(
        a_directory_that_the_host_swapped_for_a_symlink_stays_itself,
        HOST
    ),
    case!(links_out_of_the_tree_are_not_followed, HOST),
    case!(
        a_file_that_the_host_swapped_for_a_symlink_is_not_followed,
        HOST
    ),
    case!(a_pipe_that_the_host_made_is_not_opened, HOST),
    case!(appending_goes_behind_what_the_host_appended, HOST),
    case!(the_hosts_modes_are_seen, HOST),
    case!(listings_show_what_the_host_made, HOST),
    case!(a_lock_keeps_the_host_out, HOST.union(Needs::LOCKS)),
    case!(a_lock_of_the_host_keeps_out, HOST.union(Needs::LOCKS)),
    case!(a_flock_keeps_the_host_out, HOST.union(Needs::LOCKS)),
    case!(a_flock_of_the_host_keeps_out, HOST.union(Needs::LOCKS)),
];

fn what_the_host_wrote_is_read(w: &World) {
    let c = w.client();
    fs::write(w.host_dir().join("f"), b"of the host").unwrap();
    let found = c.lookup(ROOT, "f").unwrap();
    assert_eq!(found.attr.size, 11);
    assert_eq!(c.content(found.node), b"of the host");
}

fn what_was_written_is_read_on_the_host(w: &World) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    c.write(file, 0, b"of the guest").unwrap();
    // The reply came, so it is there: nothing was closed or synced.
    let read = fs::read(w.host_dir().join("f")).unwrap();
    assert_eq!(read, b"of the guest");
}

fn the_host_sees_modes_and_times(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.chmod(node, 0o4751).unwrap();
    let attr = c.getattr(node).unwrap();
    let seen = fs::metadata(w.host_dir().join("f")).unwrap();
    assert_eq!(seen.mode(), attr.mode.0);
    assert_eq!(seen.mtime(), attr.mtime.sec);
    assert_eq!(seen.ctime_nsec(), i64::from(attr.ctime.nsec));
    assert_eq!((seen.uid(), seen.gid()), (attr.uid, attr.gid));
}

fn the_host_sees_names_come_and_go(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.symlink(dir, "l", "../f").unwrap();
    c.file(dir, "f", b"");
    c.rename((dir, "f"), (ROOT, "f")).unwrap();
    let host = w.host_dir();
    assert_eq!(fs::read_link(host.join("d/l")).unwrap().as_os_str(), "../f");
    assert!(host.join("f").exists());
    c.unlink(dir, "l").unwrap();
    c.rmdir(ROOT, "d").unwrap();
    assert!(!host.join("d").exists());
}

fn names_that_the_host_made_are_found_after_they_were_missing(w: &World) {
    let c = w.client();
    fails(c.lookup(ROOT, "f"), Errno::ENOENT);
    fs::write(w.host_dir().join("f"), b"x").unwrap();
    assert_eq!(c.lookup(ROOT, "f").unwrap().attr.size, 1);
}

fn names_that_the_host_removed_are_missing(w: &World) {
    let c = w.client();
    c.file(ROOT, "f", b"");
    fs::remove_file(w.host_dir().join("f")).unwrap();
    fails(c.lookup(ROOT, "f"), Errno::ENOENT);
    fails(c.unlink(ROOT, "f"), Errno::ENOENT);
    assert!(c.names(ROOT).is_empty());
}

fn names_that_the_host_replaced_lead_to_the_new_file(w: &World) {
    let c = w.client();
    let old = c.file(ROOT, "f", b"old");
    let host = w.host_dir();
    fs::write(host.join("f.tmp"), b"the new one").unwrap();
    fs::rename(host.join("f.tmp"), host.join("f")).unwrap();
    let found = c.lookup(ROOT, "f").unwrap();
    assert_eq!(c.content(found.node), b"the new one");
    assert_ne!(found.attr.ino, c.getattr(old).unwrap().ino);
    assert_eq!(c.content(old), b"old");
}

fn an_open_file_follows_the_hosts_writes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"old");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fs::write(w.host_dir().join("f"), b"written over").unwrap();
    assert_eq!(c.read(file, 0, 20).unwrap(), b"written over");
    assert_eq!(c.fgetattr(file).unwrap().size, 12);
}

fn an_open_file_follows_the_hosts_truncation(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", &[7; 10_000]);
    let file = c.open(node, OpenFlags::READ).unwrap();
    let host = fs::File::options().write(true).open(w.host_dir().join("f"));
    host.unwrap().set_len(5).unwrap();
    assert_eq!(c.read(file, 0, 10_000).unwrap(), [7; 5]);
    assert_eq!(c.read(file, 5_000, 10).unwrap(), b"");
}

fn an_open_file_outlives_the_hosts_removal(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let file = c.open(node, OpenFlags::READ).unwrap();
    fs::remove_file(w.host_dir().join("f")).unwrap();
    assert_eq!(c.read(file, 0, 10).unwrap(), b"content");
    assert_eq!(c.fgetattr(file).unwrap().nlink, 0);
}

fn a_known_file_follows_the_hosts_rename(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    let host = w.host_dir();
    fs::create_dir(host.join("d")).unwrap();
    fs::rename(host.join("f"), host.join("d/g")).unwrap();
    assert_eq!(c.content(node), b"content");
    let dir = c.lookup(ROOT, "d").unwrap().node;
    let found = c.lookup(dir, "g").unwrap();
    assert_eq!(found.attr.ino, c.getattr(node).unwrap().ino);
}

fn a_known_directory_follows_the_hosts_rename(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let host = w.host_dir();
    fs::create_dir(host.join("e")).unwrap();
    fs::rename(host.join("d"), host.join("e/d")).unwrap();
    c.file(dir, "f", b"content");
    assert_eq!(fs::read(host.join("e/d/f")).unwrap(), b"content");
    assert_eq!(c.names(dir), ["f"]);
}

fn a_directory_that_the_host_removed_takes_no_names(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    fs::remove_dir(w.host_dir().join("d")).unwrap();
    fs::create_dir(w.host_dir().join("d")).unwrap();
    // The latter where nothing has held on to it.
    let is_gone = |error| matches!(error, Errno::ENOENT | Errno::ESTALE);
    assert!(c.create(dir, "f", 0o644).is_err_and(is_gone));
    assert!(c.mkdir(dir, "e", 0o755).is_err_and(is_gone));
    let new = c.lookup(ROOT, "d").unwrap().node;
    c.file(new, "f", b"");
}

fn a_directory_that_the_host_swapped_for_a_symlink_stays_itself(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.file(dir, "f", b"inside");
    let outside = tempfile::tempdir().unwrap();
    let host = w.host_dir();
    fs::rename(host.join("d"), host.join("moved")).unwrap();
    symlink(outside.path(), host.join("d")).unwrap();
    c.file(dir, "g", b"");
    c.mkdir(dir, "e", 0o755).unwrap();
    let found = c.lookup(dir, "f").unwrap().node;
    assert_eq!(c.content(found), b"inside");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    let link = c.lookup(ROOT, "d").unwrap();
    assert!(link.attr.mode.is_symlink());
    fails(c.create(link.node, "x", 0o644), Errno::ENOTDIR);
    fails(c.lookup(link.node, "x"), Errno::ENOTDIR);
}

fn links_out_of_the_tree_are_not_followed(w: &World) {
    let c = w.client();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    let host = w.host_dir();
    symlink(outside.path().join("secret"), host.join("file")).unwrap();
    symlink(outside.path(), host.join("dir")).unwrap();
    let file = c.lookup(ROOT, "file").unwrap().node;
    let dir = c.lookup(ROOT, "dir").unwrap().node;
    fails(c.open(file, OpenFlags::READ), Errno::ELOOP);
    fails(c.truncate(file, 0), Errno::EINVAL);
    fails(c.lookup(dir, "secret"), Errno::ENOTDIR);
    fails(c.opendir(dir), Errno::ELOOP);
    let left = fs::read(outside.path().join("secret")).unwrap();
    assert_eq!(left, b"secret");
}

fn a_file_that_the_host_swapped_for_a_symlink_is_not_followed(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"inside");
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, b"secret").unwrap();
    let host = w.host_dir();
    fs::remove_file(host.join("f")).unwrap();
    symlink(&secret, host.join("f")).unwrap();
    assert_eq!(c.content(node), b"inside");
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::TRUNCATE;
    let new = sluice_vfs::NewNode::with_perm(0o644);
    fails(c.create_with(ROOT, "f", flags, &new), Errno::ELOOP);
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
}

fn a_pipe_that_the_host_made_is_not_opened(w: &World) {
    let c = w.client();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let path = w.host_dir().join("p");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let pipe = c.lookup(ROOT, "p").unwrap().node;
    for flags in [OpenFlags::READ, OpenFlags::WRITE] {
        fails(c.open(pipe, flags), Errno::EOPNOTSUPP);
    }
    let new = sluice_vfs::NewNode::with_perm(0o644);
    let made = c.create_with(ROOT, "p", OpenFlags::WRITE, &new);
    fails(made, Errno::EOPNOTSUPP);
}

fn appending_goes_behind_what_the_host_appended(w: &World) {
    use std::io::Write;
    let c = w.client();
    let node = c.file(ROOT, "f", b"1");
    let file = c.open(node, OpenFlags::WRITE | OpenFlags::APPEND).unwrap();
    let mut host = fs::File::options()
        .append(true)
        .open(w.host_dir().join("f"))
        .unwrap();
    c.write(file, 0, b"2").unwrap();
    host.write_all(b"3").unwrap();
    c.write(file, 0, b"4").unwrap();
    assert_eq!(c.content(node), b"1234");
}

fn the_hosts_modes_are_seen(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let path = w.host_dir().join("f");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(c.getattr(node).unwrap().mode.perm(), 0o600);
    fs::hard_link(&path, w.host_dir().join("g")).unwrap();
    assert_eq!(c.getattr(node).unwrap().nlink, 2);
}

fn listings_show_what_the_host_made(w: &World) {
    let c = w.client();
    let dir = c.opendir(ROOT).unwrap();
    assert_eq!(listed(&c, dir), 0);
    for index in 0..300 {
        fs::write(w.host_dir().join(format!("f{index}")), b"").unwrap();
    }
    assert_eq!(listed(&c, dir), 300);
    for index in 0..150 {
        fs::remove_file(w.host_dir().join(format!("f{index}"))).unwrap();
    }
    assert_eq!(listed(&c, dir), 150);
}

/// Names but the dots, listed from the start.
fn listed(c: &Client, dir: crate::conformance::File) -> usize {
    let listed = c.list(dir, DirWant::Names).unwrap();
    let is_dot = |name: &[u8]| name == b"." || name == b"..";
    listed.iter().filter(|entry| !is_dot(&entry.name)).count()
}

const ALL: std::ops::Range<u64> = 0..u64::MAX;

/// A file that is open in the session and on the host.
fn open_on_both(w: &World) -> (Client, crate::conformance::File, fs::File) {
    let c = w.client();
    let file = c.create(ROOT, "f", 0o644).unwrap();
    let mut options = fs::File::options();
    let host = options.read(true).write(true).open(w.host_dir().join("f"));
    (c, file, host.unwrap())
}

fn a_lock_keeps_the_host_out(w: &World) {
    let (c, file, host) = open_on_both(w);
    c.lock(file, LockKind::Write, 5..10).unwrap();
    let attempt = || fcntl_lock(&host, FlockOperation::NonBlockingLockShared);
    assert_eq!(attempt(), Err(rustix::io::Errno::AGAIN));
    c.lock(file, LockKind::Unlock, ALL).unwrap();
    assert_eq!(attempt(), Ok(()));
}

fn a_lock_of_the_host_keeps_out(w: &World) {
    let (c, file, host) = open_on_both(w);
    fcntl_lock(&host, FlockOperation::NonBlockingLockExclusive).unwrap();
    fails(c.lock(file, LockKind::Read, 5..10), Errno::EAGAIN);
    assert!(c.getlk(file, LockKind::Read, ALL).unwrap().is_some());
    fcntl_lock(&host, FlockOperation::Unlock).unwrap();
    c.lock(file, LockKind::Read, 5..10).unwrap();
}

fn a_flock_keeps_the_host_out(w: &World) {
    let (c, file, host) = open_on_both(w);
    c.flock(file, LockKind::Write).unwrap();
    let attempt = || flock(&host, FlockOperation::NonBlockingLockShared);
    assert_eq!(attempt(), Err(rustix::io::Errno::AGAIN));
    c.flock(file, LockKind::Unlock).unwrap();
    assert_eq!(attempt(), Ok(()));
}

fn a_flock_of_the_host_keeps_out(w: &World) {
    let (c, file, host) = open_on_both(w);
    flock(&host, FlockOperation::NonBlockingLockExclusive).unwrap();
    fails(c.flock(file, LockKind::Write), Errno::EAGAIN);
    flock(&host, FlockOperation::Unlock).unwrap();
    c.flock(file, LockKind::Write).unwrap();
}
