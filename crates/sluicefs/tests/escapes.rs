//! What code that has taken a serving process over can reach. A process of its
//! own isolates itself as one that serves, and then tries; it has one thread, so
//! this is a program without the usual harness.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use sluice_sys::FileHandle;
use sluicefs::isolation::{
    Entered, IsolationOptions, Notify, Sandbox, SeccompMode, SharePlace, enter,
};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, exit};

const SANDBOXES: [(&str, Sandbox); 3] = [
    ("namespace", Sandbox::Namespace),
    ("chroot", Sandbox::Chroot),
    ("none", Sandbox::None),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, task, sandbox, dir] = &arguments[..]
        && task.starts_with("try-")
    {
        return helper(task, sandbox, Path::new(dir));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        let why = "name spaces and another root need root";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{why}");
        return eprintln!("SKIPPED: {why}");
    }
    for (sandbox, _) in SANDBOXES {
        nothing_outside_is_reached(sandbox);
        a_call_that_serving_does_not_make_ends_the_process(sandbox);
        a_panic_does_not_end_the_process(sandbox);
        println!("{sandbox}: ok");
    }
}

/// A share, and beside it what must stay as it is.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let scene = Scene { dir };
        for name in ["share/a", "share/b", "outside"] {
            fs::create_dir_all(scene.path(name)).unwrap();
        }
        fs::write(scene.path("outside/secret"), "secret").unwrap();
        fs::write(scene.path("share/file"), "shared").unwrap();
        symlink(scene.path("outside/secret"), scene.path("share/link")).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, task: &str, sandbox: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(task).arg(sandbox).arg(self.dir.path());
        command.env("RUST_BACKTRACE", "1");
        command.output().unwrap()
    }
}

fn nothing_outside_is_reached(sandbox: &str) {
    let scene = Scene::new();
    let output = scene.run("try-files", sandbox);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sandbox}: {said}");
    assert_eq!(output.stdout, b"contained\n", "{sandbox}: {said}");
    assert_eq!(fs::read(scene.path("outside/secret")).unwrap(), b"secret");
    let names = |dir: &str| fs::read_dir(scene.path(dir)).unwrap().count();
    assert_eq!(names("outside"), 1);
    assert_eq!(fs::read(scene.path("share/b/new")).unwrap(), b"new");
}

fn a_call_that_serving_does_not_make_ends_the_process(sandbox: &str) {
    for task in ["try-socket", "try-exec", "try-mount"] {
        let output = Scene::new().run(task, sandbox);
        let said = String::from_utf8_lossy(&output.stderr);
        let how = (output.status.code(), output.status.signal());
        match sandbox {
            "namespace" => {
                assert_eq!(how, (Some(1), None), "{task}: {said}");
                assert!(
                    said.contains("a system call that it must not make"),
                    "{said}"
                );
            }
            _ => assert_eq!(how, (None, Some(libc::SIGSYS)), "{task}: {said}"),
        }
        assert!(output.stdout.is_empty(), "{task}");
    }
    let output = Scene::new().run("try-socket-logged", sandbox);
    assert_eq!(output.stdout, b"made\n", "{sandbox}");
}

/// Of a thread that was started when all was locked, with all that is printed then.
fn a_panic_does_not_end_the_process(sandbox: &str) {
    let output = Scene::new().run("try-panic", sandbox);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sandbox}: {said}");
    assert_eq!(output.stdout, b"made\n", "{sandbox}");
    assert!(said.contains("stack backtrace"), "{said}");
}

/// The process that isolates itself.
fn helper(task: &str, sandbox: &str, dir: &Path) {
    let sandbox = SANDBOXES.iter().find(|(name, _)| *name == sandbox);
    let options = IsolationOptions {
        sandbox: sandbox.unwrap().1,
        seccomp: match task {
            "try-socket-logged" => SeccompMode::Log,
            _ => SeccompMode::Kill,
        },
        ..IsolationOptions::default()
    };
    let place = SharePlace {
        dir: dir.join("share"),
        read_only: false,
        sockets: Vec::new(),
    };
    let outside = FileHandle::of(CWD, dir.join("outside")).ok();
    let inside = match enter(&options, &[place], Notify::Nobody).unwrap() {
        Entered::Inside(inside) => inside,
        Entered::Outside(status) => exit(status.into()),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let share = rustix::fs::open(&inside.dirs()[0], flags, Mode::empty()).unwrap();
    inside.lock_in().unwrap();
    match task {
        "try-files" => {
            try_files(&share, dir);
            try_handle(&share, outside);
            what_is_shared_works(&share);
        }
        "try-panic" => {
            let thread = std::thread::spawn(|| panic!("as a bug would"));
            assert!(thread.join().is_err());
        }
        "try-exec" => drop(Command::new("/bin/true").status()),
        "try-mount" => drop(rustix::mount::unmount(
            "/",
            rustix::mount::UnmountFlags::DETACH,
        )),
        _ => drop(UnixDatagram::unbound()),
    }
    match task {
        "try-files" => println!("contained"),
        _ => println!("made"),
    }
}

fn try_files(share: &OwnedFd, dir: &Path) {
    let open = |path: &str, flags| openat(share, path, flags, Mode::from_raw_mode(0o600));
    let absolute = |name: &str| format!("{}/{name}", dir.display());
    let above = "../".repeat(20);
    let secrets = [
        "../outside/secret".to_owned(),
        "link".to_owned(),
        absolute("outside/secret"),
        format!("{above}{}", absolute("outside/secret")),
        "/proc/1/root/etc/passwd".to_owned(),
        "/proc/self/cwd/../outside/secret".to_owned(),
        "/etc/passwd".to_owned(),
    ];
    for path in &secrets {
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::TRUNC] {
            assert!(open(path, flags).is_err(), "{path} was opened");
        }
    }
    for path in [
        "../outside/new".to_owned(),
        absolute("outside/new"),
        absolute("new"),
    ] {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        assert!(open(&path, flags).is_err(), "{path} was made");
        let moved = renameat_with(share, "file", share, &path, RenameFlags::empty());
        assert!(moved.is_err(), "{path} was moved to");
    }
    for path in ["../outside/secret".to_owned(), absolute("outside/secret")] {
        let removed = unlinkat(share, &path, AtFlags::empty());
        assert!(removed.is_err(), "{path} was removed");
    }
    try_above(share);
}

/// A handle leads anywhere on the file system. One that was made before stands for
/// one that was guessed.
fn try_handle(share: &OwnedFd, outside: Option<FileHandle>) {
    let Some(handle) = outside else {
        return eprintln!("SKIPPED: the file system has no handles");
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mount = openat(share, ".", flags, Mode::empty()).unwrap();
    let opened = handle.open_path(mount.as_fd());
    assert!(opened.is_err(), "what is outside was opened by its handle");
}

/// Whatever is above the share, it can neither be listed nor is anything in it.
fn try_above(share: &OwnedFd) {
    let above = openat(
        share,
        "..",
        OFlags::RDONLY | OFlags::DIRECTORY,
        Mode::empty(),
    );
    let is_itself = |fd: &OwnedFd| {
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        inode(fd) == inode(share)
    };
    assert!(
        above.as_ref().map_or(true, is_itself),
        "what is above was opened"
    );
}

fn what_is_shared_works(share: &OwnedFd) {
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let new = openat(share, "a/new", flags, Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(rustix::io::write(&new, b"new"), Ok(3));
    renameat_with(share, "a/new", share, "b/new", RenameFlags::empty()).unwrap();
    let gone = openat(share, "a/new", OFlags::RDONLY, Mode::empty());
    assert_eq!(gone.err(), Some(Errno::NOENT));
}
