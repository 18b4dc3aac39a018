//! The share, what lies around it, and how that is watched.

use crate::common::daemon::Daemon;
use sluice_lab::raw_guest::{Guest, ROOT};
use sluice_proto::fuse::wire::InitFlags;
use sluice_virtio::driver::{Driver, Options};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Options of every sandbox that there is.
const SANDBOXES: &[&[&str]] = &[&[]];

/// Longest that anything is waited for. What a guest held is given back first, and the
/// kernel takes its time over thousands of locks.
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
    before: BTreeMap<PathBuf, Vec<u8>>,
    _dir: TempDir,
}

impl Scene {
    /// Plays `act` in every sandbox, and looks what it did around the share.
    pub(crate) fn play(act: impl Fn(&mut Scene)) {
        for options in SANDBOXES {
            eprintln!("sandbox {options:?}");
            let mut scene = Scene::set(options);
            act(&mut scene);
            scene.assert_unharmed();
        }
    }

    fn set(options: &[&str]) -> Scene {
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
        let daemon = Daemon::serve(&share, &dir.path().join("daemon"), options);
        Scene {
            before: surroundings(&top, &share),
            share,
            top,
            daemon,
            _dir: dir,
        }
    }

    /// Where the daemon listens.
    pub(crate) fn socket(&self) -> &Path {
        self.daemon.socket()
    }

    /// A guest that has mounted the share, with all that the protocol offers.
    pub(crate) fn guest(&self) -> Guest {
        let options = Options {
            timeout: PATIENCE,
            ..Options::default()
        };
        let mut guest = Guest::over(Driver::connect(self.socket(), options).unwrap());
        guest.init_offering(InitFlags::all()).unwrap();
        guest
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
        let file = guest.create(ROOT, b"made by another guest").unwrap();
        assert_eq!(guest.write(file, 0, b"works"), Ok(5));
        assert_eq!(guest.read(file, 0, 100).unwrap(), b"works");
        fs::remove_file(self.share.join("made by another guest")).unwrap();
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
            assert!(!attr.file_type().is_fifo());
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
