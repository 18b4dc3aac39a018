//! Other people's 9P servers behind Sluice's commands and beneath its mounts.

mod common;

use common::{lab_cache, skip};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr, statvfs};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sluice_lab::diod::Diod;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice-here");

/// A tree that others serve.
struct Peer {
    dir: TempDir,
    /// The export, as commands name it.
    place: String,
    _server: Server,
}

enum Server {
    Diod { _diod: Diod },
    Go { _server: Ended },
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    fn diod() -> Option<Peer> {
        let program = existing(Diod::program(&lab_cache()))?;
        let (dir, tree) = tree();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let diod = Diod::serve(&program, &tree, &listener).unwrap();
        Some(Peer {
            place: format!("tcp:{address}#{}", tree.display()),
            dir,
            _server: Server::Diod { _diod: diod },
        })
    }

    /// hugelgupf/p9. Its directories can't remove, know no figures of their file
    /// system, and set nothing but sizes; Tlcreate is for new files, and files can't
    /// be appended to.
    fn go() -> Option<Peer> {
        let program = existing(lab_cache().join("bin/p9peers"))?;
        let (dir, tree) = tree();
        let socket = dir.path().join("socket");
        let mut command = Command::new(program);
        command.arg("serve").args([&socket, &tree]);
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let mut ready = String::new();
        let server = Ended(server);
        said.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Some(Peer {
            place: format!("unix:{}", socket.display()),
            dir,
            _server: Server::Go { _server: server },
        })
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Runs a command for files, whose words that begin with a slash are places.
    fn sluice(&self, words: &[&str]) -> Output {
        let place = |word: &str| match word.starts_with('/') {
            true => format!("{}:{word}", self.place),
            false => word.to_owned(),
        };
        let mut command = Command::new(SLUICE);
        command.args(words.iter().map(|word| place(word)));
        command.current_dir(self.dir.path()).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What it prints, when all goes well.
    #[track_caller]
    fn out(&self, words: &[&str]) -> String {
        let output = self.sluice(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        assert_eq!(said, "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn tree() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    (dir, tree)
}

fn existing(program: PathBuf) -> Option<PathBuf> {
    if program.exists() {
        return Some(program);
    }
    skip(&format!("lab/prepare has made no {}", program.display()));
    None
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn commands_work_with_diod() {
    let Some(peer) = Peer::diod() else { return };
    files_are_put_listed_and_read(&peer);
    let (status, line) = status_and_line(&peer.sluice(&["rm", "/long"]));
    assert_eq!(status, 1);
    assert!(line.contains("-r takes directories"), "{line}");
    peer.out(&["rm", "-r", "/long", "/made"]);
    peer.out(&["rm", "/file", "/link"]);
    assert_eq!(fs::read_dir(peer.tree()).unwrap().count(), 0);
}

#[test]
fn commands_work_with_go() {
    let Some(peer) = Peer::go() else { return };
    files_are_put_listed_and_read(&peer);
    for words in [&["rm", "/file"][..], &["rm", "-r", "/made"]] {
        let (status, line) = status_and_line(&peer.sluice(words));
        assert_eq!(status, 1);
        assert!(line.ends_with(": Function not implemented"), "{line}");
    }
}

fn files_are_put_listed_and_read(peer: &Peer) {
    let tree = peer.tree();
    let local = |name: &str| peer.dir.path().join(name);
    peer.out(&["mkdir", "/made"]);
    peer.out(&["mkdir", "-p", "/made/one/two", "/made"]);
    fs::write(local("source"), pattern(3_000_001)).unwrap();
    peer.out(&["put", "source", "/file"]);
    assert!(fs::read(tree.join("file")).unwrap() == pattern(3_000_001));
    // Over what is there, and into a directory.
    fs::write(local("source"), "short\n").unwrap();
    peer.out(&["put", "source", "/file"]);
    peer.out(&["put", "source", "/made/one/two"]);
    assert_eq!(
        fs::read(tree.join("made/one/two/source")).unwrap(),
        b"short\n"
    );
    symlink("file", tree.join("link")).unwrap();
    for path in ["/file", "/link", "/made/one/two/source"] {
        assert_eq!(peer.out(&["cat", path]), "short\n", "{path}");
    }

    fs::create_dir_all(local("copied/below")).unwrap();
    fs::write(local("copied/below/f"), "x").unwrap();
    symlink("below/f", local("copied/to")).unwrap();
    peer.out(&["put", "-r", "copied", "/made"]);
    assert_eq!(fs::read(tree.join("made/copied/to")).unwrap(), b"x");

    assert_eq!(peer.out(&["ls", "/"]), "file\nlink\nmade\n");
    assert_eq!(peer.out(&["ls", "/made/one"]), "two\n");
    let listed = peer.out(&["ls", "-l", "/"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("-rw-"), "{listed}");
    assert!(lines[1].ends_with(" link -> file"), "{listed}");
    assert!(lines[2].starts_with("drwx"), "{listed}");
    let told = peer.out(&["stat", "/made/one/two/source"]);
    assert!(told.contains("\nSize: 6\n"), "{told}");
    let (status, line) = status_and_line(&peer.sluice(&["stat", "/made/missing/file"]));
    assert_eq!(status, 1);
    assert!(line.contains("No such file"), "{line}");

    // More than some messages hold.
    fs::create_dir(tree.join("long")).unwrap();
    let names: Vec<String> = (0..1000).map(|number| format!("{number:0>20}")).collect();
    for name in &names {
        fs::write(tree.join("long").join(name), "").unwrap();
    }
    let listed = peer.out(&["ls", "/long"]);
    assert!(listed.lines().eq(names.iter()), "{listed}");
}

fn status_and_line(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    (output.status.code().unwrap(), said.trim_end().to_owned())
}

/// A mount in the foreground.
struct Mount {
    target: PathBuf,
    process: Ended,
}

impl Mount {
    /// `None` where nothing can be mounted.
    fn of(peer: &Peer) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            skip("mounting needs root here");
            return None;
        }
        sluice_lab::own_mounts().unwrap();
        let target = peer.dir.path().join("mnt");
        fs::create_dir(&target).unwrap();
        let mut command = Command::new(SLUICE);
        command.args(["mount", "--foreground", &peer.place]);
        command.arg(&target).args(["-o", "cache=never"]);
        command.env_remove("RUST_LOG").stderr(Stdio::piped());
        let mut process = Ended(command.spawn().unwrap());
        let mut said = BufReader::new(process.0.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        process.0.stderr = Some(said.into_inner());
        assert!(line.starts_with("sluice: mounted "), "{line}");
        Some(Mount { target, process })
    }

    /// Unmounts it, and sees that the process has nothing to complain of.
    fn end(mut self) {
        unmount(&self.target, UnmountFlags::DETACH).unwrap();
        assert!(self.process.0.wait().unwrap().success());
        let mut stderr = self.process.0.stderr.take().unwrap();
        assert_eq!(io::read_to_string(&mut stderr).unwrap(), "");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(&self.target, UnmountFlags::DETACH);
    }
}

#[test]
fn a_mount_works_on_diod() {
    let Some(peer) = Peer::diod() else { return };
    let Some(mount) = Mount::of(&peer) else {
        return;
    };
    let (tree, target) = (peer.tree(), mount.target.clone());
    files_are_made_moved_and_read(&tree, &target);
    let file = target.join("attributes");
    fs::write(&file, "one, ").unwrap();
    let mut appended = File::options().append(true).open(&file).unwrap();
    appended.write_all(b"two").unwrap();
    assert_eq!(fs::read(tree.join("attributes")).unwrap(), b"one, two");
    fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    appended
        .set_times(FileTimes::new().set_modified(then))
        .unwrap();
    drop(appended);
    let about = fs::metadata(tree.join("attributes")).unwrap();
    assert_eq!(
        (about.mode() & 0o777, about.mtime()),
        (0o604, 1_000_000_000)
    );
    attributes_are_kept(&target);
    let [here, below] = [&target, &tree].map(|dir| statvfs(dir).unwrap());
    assert_eq!(
        here.f_blocks * here.f_frsize,
        below.f_blocks * below.f_frsize
    );

    let refused = fs::remove_dir(target.join("moved")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::DirectoryNotEmpty);
    for entry in fs::read_dir(&target).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 0);
    mount.end();
}

#[test]
fn a_mount_works_on_go() {
    let Some(peer) = Peer::go() else { return };
    let Some(mount) = Mount::of(&peer) else {
        return;
    };
    let (tree, target) = (peer.tree(), mount.target.clone());
    files_are_made_moved_and_read(&tree, &target);
    attributes_are_kept(&target);
    // A file system without figures is no error.
    assert_eq!(statvfs(&target).unwrap().f_blocks, 0);
    // What the server cannot do is.
    for refused in [
        fs::remove_file(target.join("moved/file")),
        fs::remove_dir(target.join("moved")),
        fs::set_permissions(target.join("moved"), Permissions::from_mode(0o700)),
    ] {
        let number = refused.unwrap_err().raw_os_error();
        assert_eq!(number, Some(Errno::OPNOTSUPP.raw_os_error()));
    }
    mount.end();
}

/// In the mount `target` of `tree`; leaves a directory `moved` with a `file` behind.
fn files_are_made_moved_and_read(tree: &Path, target: &Path) {
    fs::create_dir_all(target.join("dir/below")).unwrap();
    let data = pattern(3_000_001);
    fs::write(target.join("dir/below/file"), &data).unwrap();
    assert!(fs::read(tree.join("dir/below/file")).unwrap() == data);
    assert!(fs::read(target.join("dir/below/file")).unwrap() == data);
    fs::write(target.join("dir/below/file"), "short").unwrap();
    fs::write(tree.join("dir/host"), "by the host").unwrap();
    assert_eq!(fs::read(target.join("dir/host")).unwrap(), b"by the host");
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&target.join("dir")), ["below", "host"]);
    assert_eq!(names(&target.join("dir/below")), ["file"]);

    // Under its new name, elsewhere, and when something above it has moved.
    fs::rename(target.join("dir/below/file"), target.join("dir/below/new")).unwrap();
    assert_eq!(fs::read(target.join("dir/below/new")).unwrap(), b"short");
    fs::rename(target.join("dir/below/new"), target.join("dir/file")).unwrap();
    assert_eq!(fs::read(target.join("dir/file")).unwrap(), b"short");
    fs::rename(target.join("dir"), target.join("moved")).unwrap();
    assert_eq!(names(&target.join("moved")), ["below", "file", "host"]);
    assert_eq!(fs::read(target.join("moved/file")).unwrap(), b"short");
    fs::write(target.join("moved/below/more"), "more").unwrap();
    assert_eq!(fs::read(tree.join("moved/below/more")).unwrap(), b"more");
    assert!(!target.join("dir").exists());

    symlink("moved/file", target.join("link")).unwrap();
    assert_eq!(
        fs::read_link(target.join("link")).unwrap(),
        Path::new("moved/file")
    );
    assert_eq!(fs::read(target.join("link")).unwrap(), b"short");
    fs::hard_link(target.join("moved/file"), target.join("other")).unwrap();
    let [one, other] = ["moved/file", "other"].map(|it| fs::metadata(target.join(it)).unwrap());
    assert_eq!((one.nlink(), one.ino()), (2, other.ino()));
    let file = File::options()
        .write(true)
        .open(target.join("other"))
        .unwrap();
    file.set_len(2).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(target.join("moved/file")).unwrap(), b"sh");
}

/// Extended attributes, of a file `attributed`.
fn attributes_are_kept(target: &Path) {
    let file = target.join("attributed");
    fs::write(&file, "").unwrap();
    let mut value = [0; 100];
    let missing = getxattr(&file, "user.one", &mut value);
    assert_eq!(missing, Err(Errno::NODATA));
    assert_eq!(listxattr(&file, &mut value[..]), Ok(0));
    setxattr(&file, "user.one", b"first", XattrFlags::empty()).unwrap();
    setxattr(&file, "user.two", b"second", XattrFlags::CREATE).unwrap();
    let len = getxattr(&file, "user.one", &mut value).unwrap();
    assert_eq!(&value[..len], b"first");
    removexattr(&file, "user.two").unwrap();
    assert_eq!(getxattr(&file, "user.two", &mut value), Err(Errno::NODATA));
    let len = listxattr(&file, &mut value[..]).unwrap();
    assert_eq!(&value[..len], b"user.one\0");
}
