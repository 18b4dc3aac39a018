//! The share, what lies around it, and how that is watched.

use crate::common::daemon::Daemon;
use crate::common::skip;
use sluice_lab::raw_guest::{Guest, ROOT, body};
use sluice_proto::fuse::wire::{InitFlags, Opcode};
use sluice_virtio::driver::{Driver, Options};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Every sandbox that there is.
const SANDBOXES: &[&str] = &["namespace", "chroot", "none"];

/// Longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the files beside the share hold; no reply may.
pub(crate) const SECRET: &[u8] = b"what no guest may see";

/// A daemon whose share is in a directory with other things.
///
/// ```text
/// top/canary, top/private/canary   files that are none of the guest's business
/// top/share/file, dir/inner        what is shared
/// top/share/out, up, root          links to canary, `..` and `/`
/// top/share/fifo, socket           what must not be opened
/// ```
pub(crate) struct Scene {
    pub(crate) share: PathBuf,
    pub(crate) top: PathBuf,
    daemon: Daemon,
    /// Of the neighbour where one process serves one share.
    _another: Option<Daemon>,
    neighbours_socket: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
    is_read_only: bool,
    _dir: TempDir,
}

impl Scene {
    /// Plays `act` in every sandbox, while a guest works in another share, of the same
    /// daemon if it can have two, and looks what it did around the share.
    pub(crate) fn play(act: impl Fn(&mut Scene)) {
        Scene::play_with(&[], act);
    }

    /// The same with more options for the share.
    pub(crate) fn play_with(more: &[&str], act: impl Fn(&mut Scene)) {
        for sandbox in SANDBOXES {
            if *sandbox == "chroot" && !rustix::process::geteuid().is_root() {
                skip("another root directory needs root");
                continue;
            }
            eprintln!("sandbox {sandbox} with {more:?}");
            let mut scene = Scene::set(sandbox, more);
            scene.is_read_only = more.contains(&"--read-only");
            let neighbour = Neighbour::move_in(&scene);
            act(&mut scene);
            neighbour.assert_undisturbed();
            scene.assert_unharmed();
        }
    }

    fn set(sandbox: &str, more: &[&str]) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        let share = top.join("share");
        for made in ["top", "top/private", "top/share", "top/share/dir"] {
            fs::create_dir(dir.path().join(made)).unwrap();
        }
        for canary in ["canary", "private/canary"] {
            fs::write(top.join(canary), SECRET).unwrap();
        }
        for file in ["file", "dir/inner"] {
            fs::write(share.join(file), b"content").unwrap();
        }
        for (target, link) in [("../canary", "out"), ("..", "up"), ("/", "root")] {
            symlink(target, share.join(link)).unwrap();
        }
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, share.join("fifo"), fifo, mode, 0).unwrap();
        std::os::unix::net::UnixListener::bind(share.join("socket")).unwrap();
        let neighbour = dir.path().join("neighbour");
        let neighbours_socket = dir.path().join("neighbour.socket");
        fs::create_dir(&neighbour).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (beside, at) = (text(&neighbour), text(&neighbours_socket));
        let second_share = ["--and", &beside, "--virtiofs", &at, "--tag", "neighbour"];
        let (second_share, another) = match sandbox {
            "chroot" => (
                &[][..],
                Some(Daemon::serve(&neighbour, &neighbours_socket, &[])),
            ),
            _ => (&second_share[..], None),
        };
        let options = [&["--sandbox", sandbox], more, second_share].concat();
        let daemon = Daemon::serve(&share, &dir.path().join("daemon"), &options);
        Scene {
            before: surroundings(&top, &share),
            share,
            top,
            daemon,
            _another: another,
            neighbours_socket,
            is_read_only: false,
            _dir: dir,
        }
    }

    /// Where the daemon listens.
    pub(crate) fn socket(&self) -> &Path {
        self.daemon.socket()
    }

    /// A guest that has mounted the share, with all that the protocol offers.
    pub(crate) fn guest(&self) -> Guest {
        mounted(self.socket())
    }

    /// Takes what lies around the share now for what has to stay.
    pub(crate) fn look_again(&mut self) {
        self.before = surroundings(&self.top, &self.share);
    }

    /// The daemon lives, another guest works, and around the share all is as it was.
    #[track_caller]
    pub(crate) fn assert_unharmed(&mut self) {
        self.daemon.assert_alive();
        let mut guest = self.guest();
        if self.is_read_only {
            assert!(guest.lookup(ROOT, b"file").is_ok_and(|node| node != 0));
        } else {
            let file = guest.create(ROOT, b"made by another guest").unwrap();
            assert_eq!(guest.write(file, 0, b"works"), Ok(5));
            assert_eq!(guest.read(file, 0, 100).unwrap(), b"works");
            fs::remove_file(self.share.join("made by another guest")).unwrap();
        }
        let now = surroundings(&self.top, &self.share);
        for (path, before) in &self.before {
            assert_eq!(
                now.get(path),
                Some(before),
                "{} has changed",
                path.display()
            );
        }
        for path in now.keys() {
            assert!(self.before.contains_key(path), "{} is new", path.display());
        }
    }
}

/// A guest that works in another share.
struct Neighbour {
    is_over: Arc<AtomicBool>,
    works: JoinHandle<()>,
}

impl Neighbour {
    fn move_in(scene: &Scene) -> Neighbour {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut guest = mounted(&scene.neighbours_socket);
        let ends = Arc::clone(&is_over);
        let work = move || {
            for round in 0_u64.. {
                let content = round.to_ne_bytes();
                let file = guest.create(ROOT, b"work").unwrap();
                assert_eq!(guest.write(file, 0, &content), Ok(8));
                assert_eq!(guest.read(file, 0, 8).unwrap(), content);
                let release = body(&file.fh, &[0; 16]);
                guest
                    .ask_raw(Opcode::Release as u32, file.node, &release)
                    .unwrap();
                guest
                    .ask_raw(Opcode::Unlink as u32, ROOT, b"work\0")
                    .unwrap();
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                // Leaves the processors to the one that means harm.
                std::thread::park_timeout(Duration::from_millis(5));
            }
        };
        Neighbour {
            is_over,
            works: std::thread::spawn(work),
        }
    }

    /// All that it asked for was done, up to now.
    #[track_caller]
    fn assert_undisturbed(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.works.thread().unpark();
        assert!(self.works.join().is_ok(), "the neighbour was disturbed");
    }
}

fn mounted(socket: &Path) -> Guest {
    let options = Options {
        timeout: PATIENCE,
        ..Options::default()
    };
    let mut guest = Guest::over(Driver::connect(socket, options).unwrap());
    guest.init_offering(InitFlags::all()).unwrap();
    guest
}

/// Says so and returns true where this test needs more rights than there are.
pub(crate) fn skip_without_root(what: &str) -> bool {
    let is_skipped = !rustix::process::geteuid().is_root();
    if is_skipped {
        crate::common::skip(&format!("{what} need root"));
    }
    is_skipped
}

/// Everything in a tree, as [`Scene::assert_unharmed`] looks at what lies around one.
pub(crate) fn contents(tree: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    surroundings(tree, Path::new(""))
}

/// Fails if a reply brings what lies outside.
#[track_caller]
pub(crate) fn assert_no_secret(reply: &[u8]) {
    let has_secret = reply.windows(SECRET.len()).any(|part| part == SECRET);
    assert!(!has_secret, "a reply has what lies beside the share");
}

/// Everything in `top`, but for what is shared: what stat(2) says (when it was read
/// aside) and what it holds.
fn surroundings(top: &Path, share: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![top.to_owned()];
    while let Some(path) = pending.pop() {
        let attr = fs::symlink_metadata(&path).unwrap();
        if attr.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            let entries = entries.map(|entry| entry.unwrap().path());
            pending.extend(entries.filter(|path| path != share));
        }
        let content = if attr.is_file() {
            let mut content = Vec::new();
            File::open(&path)
                .unwrap()
                .read_to_end(&mut content)
                .unwrap();
            content
        } else {
            Vec::new()
        };
        let fields = [
            i64::from(attr.mode()),
            i64::from(attr.uid()),
            i64::from(attr.gid()),
            attr.ino().cast_signed(),
            attr.nlink().cast_signed(),
            attr.mtime(),
            attr.mtime_nsec(),
            attr.ctime(),
            attr.ctime_nsec(),
        ];
        let described = format!("{fields:?} {}", content.escape_ascii());
        found.insert(path, described.into_bytes());
    }
    found
}
