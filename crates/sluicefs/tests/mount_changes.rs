//! What programs on a mount meet when the host changes names that the kernel knows.

mod common;

use common::PATIENCE;
use common::mount::Mount;
use common::mounted_server::Scene;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

/// What the host does to a file called `name`, which has the content "old".
type Change = fn(dir: &Path, name: &str);

/// What the host does, and what is under the name then.
const CHANGES: [(&str, Change, Option<&str>); 5] = [
    ("renamed", |dir, name| rename(dir, name), None),
    ("removed", |dir, name| remove(dir, name), None),
    (
        "renamed, and another made",
        |dir, name| {
            rename(dir, name);
            make(dir, name, "new");
        },
        Some("new"),
    ),
    (
        "removed, and another made",
        |dir, name| {
            remove(dir, name);
            make(dir, name, "new");
        },
        Some("new"),
    ),
    (
        "replaced",
        |dir, name| {
            make(dir, "another", "new");
            fs::rename(dir.join("another"), dir.join(name)).unwrap();
        },
        Some("new"),
    ),
];

fn make(dir: &Path, name: &str, content: &str) {
    fs::write(dir.join(name), content).unwrap();
}

/// Until nothing made from now on can be taken for it: an engine keeps what is younger
/// open.
fn let_it_age(path: &Path) {
    let born = |path: &Path| fs::metadata(path).unwrap().created().unwrap();
    let probe = path.with_extension("probe");
    loop {
        File::create(&probe).unwrap();
        let is_younger = born(&probe) > born(path);
        fs::remove_file(&probe).unwrap();
        if is_younger {
            return;
        }
    }
}

fn rename(dir: &Path, name: &str) {
    fs::rename(dir.join(name), dir.join(format!("{name}-moved"))).unwrap();
}

fn remove(dir: &Path, name: &str) {
    fs::remove_file(dir.join(name)).unwrap();
}

/// What a program that lists a directory, and then opens a file there whose name the
/// host has changed meanwhile, comes to with each of the changes.
fn opened_after_each(below: &Path, above: &Path) -> impl Iterator<Item = (&'static str, Opened)> {
    let each = CHANGES.iter().enumerate();
    each.map(move |(nth, (what, change, now))| {
        let [below, above] = [below, above].map(|root| root.join(nth.to_string()));
        fs::create_dir(&below).unwrap();
        make(&below, "file", "old");
        let_it_age(&below.join("file"));
        // With attributes: the kernel knows what is behind the name.
        assert_eq!(fs::read_dir(&above).unwrap().count(), 1);
        change(&below, "file");
        let path = above.join("file");
        let opened = Opened {
            file: File::open(&path),
            path,
            now: *now,
        };
        (*what, opened)
    })
}

struct Opened {
    path: std::path::PathBuf,
    file: io::Result<File>,
    /// What is under the name.
    now: Option<&'static str>,
}

impl Opened {
    fn content(self) -> (io::Result<String>, Option<&'static str>) {
        let mut content = String::new();
        let read = self
            .file
            .and_then(|mut file| file.read_to_string(&mut content));
        (read.map(|_| content), self.now)
    }
}

/// The server is asked to open what the kernel knows, says that it is not there any more,
/// and Linux looks the name up once more.
#[test]
fn a_name_of_a_servers_listing_opens_what_it_leads_to_now() {
    for options in [
        "cache=auto",
        "cache=always",
        "cache=metadata",
        "cache=never",
    ] {
        let Some(scene) = Scene::new(options, &[]) else {
            return;
        };
        for (what, opened) in opened_after_each(&scene.share, &scene.target) {
            match opened.content() {
                (Ok(content), now) => assert_eq!(Some(&content[..]), now, "{options}: {what}"),
                (Err(error), now) => {
                    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{options}: {what}");
                    assert_eq!(now, None, "{options}: {what}");
                }
            }
        }
    }
}

/// A directory's files are found wherever they are now, for as long as names may be kept.
#[test]
fn a_name_of_a_directorys_listing_opens_what_it_leads_to_or_led_to() {
    for options in ["cache=auto", "cache=metadata", "cache=never"] {
        let Some(mount) = Mount::new(options) else {
            return;
        };
        for (what, opened) in opened_after_each(&mount.export, &mount.target) {
            let (outcome, now) = opened.content();
            check(outcome, now, &format!("{options}: {what}"));
        }
    }
}

/// Where the kernel opens without telling, reading is what finds a file gone. The kernel
/// hears of that, and does not go on so.
#[test]
fn a_file_that_is_gone_is_looked_up_again_where_opening_is_not_told() {
    let Some(mount) = Mount::new("cache=always") else {
        return;
    };
    // The first one is told, and answered that none has to be.
    make(&mount.export, "first", "old");
    fs::read(mount.target.join("first")).unwrap();
    for (what, opened) in opened_after_each(&mount.export, &mount.target) {
        let path = opened.path.clone();
        let begin = Instant::now();
        let (mut outcome, now) = opened.content();
        while is_stale(&outcome) {
            assert!(begin.elapsed() < PATIENCE, "{what}: it stays stale");
            outcome = fs::read_to_string(&path);
        }
        check(outcome, now, what);
    }
}

#[track_caller]
fn check(outcome: io::Result<String>, now: Option<&str>, what: &str) {
    match outcome {
        Ok(content) => assert!(
            content == "old" || Some(&content[..]) == now,
            "{what}: {content}"
        ),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{what}");
            assert_eq!(now, None, "{what}");
        }
    }
}

fn is_stale(outcome: &io::Result<String>) -> bool {
    let error = outcome.as_ref().err().and_then(io::Error::raw_os_error);
    error == Some(Errno::STALE.raw_os_error())
}
