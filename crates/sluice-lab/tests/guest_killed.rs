//! A guest that is killed in the middle of writes loses nothing that it was told was
//! written.
//!
//! The guest writes numbered records and prints each number only when the write (or
//! the fsync behind it) has returned. The machine is killed while it goes on; all
//! records whose numbers arrived must be in the host's file.

mod common;

use common::daemon::Daemon;
use common::guest::{Console, uml};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Bytes of a record: no multiple of a page, so that records share pages.
const RECORD_BYTES: usize = 5000;

/// Writers at once, each with a file of its own.
const WRITERS: [&str; 3] = ["a", "b", "c"];

/// How many numbers are waited for before each kill.
const KILLED_AFTER: [usize; 2] = [1, 60];

/// When a guest takes a record for written.
#[derive(Clone, Copy)]
enum Told {
    /// `write(2)` has returned.
    ByWrite,
    /// `fsync(2)` has returned.
    ByFsync,
}

#[test]
fn with_no_cache() {
    nothing_is_lost(&["--cache=never"], Told::ByWrite);
}

#[test]
fn with_the_default_cache() {
    nothing_is_lost(&[], Told::ByWrite);
}

#[test]
fn with_the_default_cache_and_fsync() {
    nothing_is_lost(&[], Told::ByFsync);
}

#[test]
fn when_the_guest_collects_writes() {
    nothing_is_lost(&["--cache=always", "--writeback"], Told::ByFsync);
}

fn nothing_is_lost(options: &[&str], told: Told) {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    fs::create_dir(&share).unwrap();
    let mut daemon = Daemon::serve(&share, &dir.path().join("socket"), options);
    for (round, count) in KILLED_AFTER.into_iter().enumerate() {
        let prefix = format!("{round}-");
        let Some(guest) = uml(&daemon, &script(&prefix, told)) else {
            return;
        };
        let mut console = Console::start(&guest);
        let mut told = Acknowledged::default();
        for _ in 0..count {
            told.note(&console.line().expect("the guest writes on"));
        }
        for line in console.kill() {
            told.note(&line);
        }
        daemon.assert_alive();
        told.assert_kept(&share, &prefix);
    }
    another_guest_finds_them(&daemon, &share);
}

/// Every writer appends for as long as the guest lives. Not in a shell's words: a shell
/// closes a descriptor behind each of them, and closing delivers what was collected.
fn script(prefix: &str, told: Told) -> String {
    let written = match told {
        Told::ByWrite => "0",
        Told::ByFsync => "system(\"sync \" file)",
    };
    let filler = RECORD_BYTES - "00000000 \n".len();
    let writers = WRITERS.join(" ");
    format!(
        "writer() {{
            awk -v name=$1 'BEGIN {{
                file = \"/share/{prefix}\" name
                filler = sprintf(\"%0{filler}d\", 0)
                for (number = 0; ; number++) {{
                    printf \"%08d %s\\n\", number, filler >file
                    fflush(file)
                    if ({written}) exit 1
                    print name, number
                    fflush()
                }}
            }}'
        }}
        for name in {writers}; do writer $name & done
        wait"
    )
}

fn record(number: usize) -> Vec<u8> {
    let filler = "0".repeat(RECORD_BYTES - "00000000 \n".len());
    format!("{number:08} {filler}\n").into_bytes()
}

/// What the guest said was written: records of each writer.
#[derive(Default)]
struct Acknowledged(BTreeMap<String, usize>);

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let (writer, number) = line.split_once(' ').expect("a writer and a number");
        let count = self.0.entry(writer.to_owned()).or_default();
        assert_eq!(number.parse(), Ok(*count), "numbers come in order");
        *count += 1;
    }

    fn assert_kept(&self, share: &Path, prefix: &str) {
        assert!(!self.0.is_empty());
        for (writer, count) in &self.0 {
            let kept = fs::read(share.join(format!("{prefix}{writer}"))).unwrap();
            for number in 0..*count {
                let at = number * RECORD_BYTES;
                let found = kept.get(at..at + RECORD_BYTES);
                assert!(
                    found == Some(&record(number)),
                    "record {number} of {count} by {prefix}{writer} is lost"
                );
            }
        }
    }
}

/// The same daemon serves the next guest, which sees what the host has.
fn another_guest_finds_them(daemon: &Daemon, share: &Path) {
    let script = "cd /share; for file in *; do echo \"$file $(wc -c <\"$file\")\"; done";
    let guest = uml(daemon, script).expect("there was one before");
    let output = guest.output("").unwrap();
    let mut expected = String::new();
    let mut names: Vec<_> = fs::read_dir(share).unwrap().map(Result::unwrap).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().into_string().unwrap();
        expected += &format!("{name} {}\n", entry.metadata().unwrap().len());
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
