//! Two guests of one process, each with a share of its own: what one of them
//! does is not felt by the other.

mod common;

use common::{Daemon, text};
use rustix::process::Signal;
use sluice_lab::raw_guest::{Guest, OpenFile, ROOT};
use sluice_proto::fuse::wire::{
    CBytes, FileLock, GetattrIn, LkFlags, LkIn, OpenIn, Operation, ReleaseIn, Reply,
};
use sluice_vfs::Errno;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// One process with two shares, `a` and `b`, and a file in each.
struct Pair {
    server: Daemon,
    dir: tempfile::TempDir,
}

impl Pair {
    fn start() -> Pair {
        Self::start_after("true")
    }

    /// In a process that a shell prepared.
    fn start_after(preparation: &str) -> Pair {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("whose"), name).unwrap();
        }
        let path = |name: &str| dir.path().join(name);
        let [a, b] = ["a", "b"].map(path);
        let [a_socket, b_socket] = ["a.sock", "b.sock"].map(path);
        let mut command = Command::new("/bin/sh");
        command
            .arg("-c")
            .arg(format!("{preparation}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_sluice"))
            .args(["serve", text(&a), "--virtiofs", text(&a_socket)])
            .args(["--and", text(&b), "--virtiofs", text(&b_socket)])
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(said.take(2).count(), 2);
        Pair {
            server: Daemon(child),
            dir,
        }
    }

    fn guest(&self, name: &str) -> Guest {
        Guest::mounted(&self.socket(name))
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.sock"))
    }

    fn end(mut self) {
        self.server.signal(Signal::TERM);
        assert_eq!(self.server.status(), 0);
    }
}

/// A day's work of a guest that is not disturbed.
fn work(guest: &mut Guest) {
    let whose = guest.lookup(ROOT, b"whose").unwrap();
    assert_eq!(guest.getattr(whose), Ok(1));
    for nth in 0..20_u8 {
        let name = [b'n', b'0' + nth];
        let file = guest.create(ROOT, &name).unwrap();
        assert_eq!(guest.write(file, 0, &[nth; 4096]), Ok(4096));
        assert_eq!(guest.read(file, 0, 4096), Ok(vec![nth; 4096]));
        lock(guest, file).unwrap();
        release(guest, file);
        let operation = Operation::Unlink {
            name: CBytes(&name),
        };
        guest.call(ROOT, &operation, &[]).unwrap();
    }
}

fn getattr() -> Operation<'static> {
    let args = GetattrIn::default();
    Operation::Getattr { args }
}

/// A flock of the whole file, for writing.
fn locking(file: OpenFile) -> LkIn {
    LkIn {
        fh: file.fh,
        owner: file.fh,
        lk: FileLock {
            start: 0,
            end: u64::MAX,
            kind: FileLock::WRITE,
            pid: 0,
        },
        lk_flags: LkFlags::FLOCK,
        ..LkIn::default()
    }
}

fn lock(guest: &mut Guest, file: OpenFile) -> Result<(), Errno> {
    let args = locking(file);
    let operation = Operation::Setlk { args };
    guest.call(file.node, &operation, &[]).map(drop)
}

fn try_open(guest: &mut Guest, node: u64) -> Result<OpenFile, Errno> {
    const O_RDWR: u32 = 2;
    let args = OpenIn {
        flags: O_RDWR,
        ..OpenIn::default()
    };
    guest.ask(node, &Operation::Open { args }, &[], |reply| match reply {
        Reply::Open { open } => OpenFile { node, fh: open.fh },
        other => panic!("{other:?}"),
    })
}

fn open(guest: &mut Guest, node: u64) -> OpenFile {
    try_open(guest, node).unwrap()
}

fn release(guest: &mut Guest, file: OpenFile) {
    let args = ReleaseIn {
        fh: file.fh,
        ..ReleaseIn::default()
    };
    let operation = Operation::Release { args };
    guest.call(file.node, &operation, &[]).unwrap();
}

#[test]
fn each_guest_sees_its_own_share() {
    let pair = Pair::start();
    let (mut a, mut b) = (pair.guest("a"), pair.guest("b"));
    for (name, guest) in [(b"a", &mut a), (b"b", &mut b)] {
        let node = guest.lookup(ROOT, b"whose").unwrap();
        let file = open(guest, node);
        assert_eq!(guest.read(file, 0, 10).unwrap(), name);
    }
    // What the other one was given names nothing here, or something of one's own.
    let theirs = b.create(ROOT, b"secret").unwrap();
    b.write(theirs, 0, b"secret").unwrap();
    let stolen = a.read(theirs, 0, 10);
    assert!(stolen.is_err() || stolen == Ok(b"a".to_vec()), "{stolen:?}");
    assert_eq!(a.lookup(ROOT, b"secret").unwrap_or(0), 0);
    work(&mut a);
    work(&mut b);
    pair.end();
}

#[test]
fn a_flood_of_requests_stays_on_its_own_ring() {
    let pair = Pair::start();
    let mut b = pair.guest("b");
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (stop, served) = (&stop, &served);
        let mut a = pair.guest("a");
        let node = a.lookup(ROOT, b"whose").unwrap();
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // As many as the ring holds, before any is looked at.
                for _ in 0..16 {
                    a.send(node, &getattr(), &[]);
                }
                for _ in 0..16 {
                    let done = a.requests.wait().unwrap();
                    assert_eq!(a.errno(&done), 0);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while served.load(Ordering::Relaxed) == 0 {
            work(&mut b);
        }
        work(&mut b);
        stop.store(true, Ordering::Relaxed);
    });
    pair.end();
}

/// Waiting locks, and replies that nobody fetches.
#[test]
fn a_guest_that_holds_everything_holds_its_own() {
    let pair = Pair::start();
    let (mut a, mut b) = (pair.guest("a"), pair.guest("b"));
    let node = a.lookup(ROOT, b"whose").unwrap();
    let file = open(&mut a, node);
    lock(&mut a, file).unwrap();
    for _ in 0..8 {
        let args = locking(open(&mut a, node));
        a.send(node, &Operation::Setlkw { args }, &[]);
    }
    for _ in 0..8 {
        a.send(node, &getattr(), &[]);
    }
    work(&mut b);
    drop(a);
    work(&mut b);
    // Another connection gets the lock that the one before held.
    let mut a = pair.guest("a");
    let node = a.lookup(ROOT, b"whose").unwrap();
    let file = open(&mut a, node);
    lock(&mut a, file).unwrap();
    work(&mut b);
    pair.end();
}

#[test]
fn a_connection_that_is_closed_or_lost_is_the_only_one() {
    let pair = Pair::start();
    let mut b = pair.guest("b");
    for _ in 0..3 {
        let mut broken = pair.guest("a");
        broken.requests.set_avail_idx(1000);
        broken.requests.kick_anyway();
        let closed = broken.driver.channel().recv();
        assert!(!matches!(closed, Ok(Some(_))), "{closed:?}");
        work(&mut b);
        drop(broken);

        let mut lost = pair.guest("a");
        lost.send(ROOT, &getattr(), &[]);
        drop(lost);
        work(&mut b);
        work(&mut pair.guest("a"));
    }
    pair.end();
}

/// Files that are held open, until there are no more to be had.
#[test]
fn a_guest_that_opens_all_it_can_leaves_enough_for_others() {
    let pair = Pair::start_after("ulimit -n 1000");
    let (mut a, mut b) = (pair.guest("a"), pair.guest("b"));
    let node = a.lookup(ROOT, b"whose").unwrap();
    let error = (0..1000).find_map(|_| try_open(&mut a, node).err());
    assert_eq!(error, Some(Errno::ENFILE));
    work(&mut b);
    drop(a);
    work(&mut pair.guest("a"));
    pair.end();
}
