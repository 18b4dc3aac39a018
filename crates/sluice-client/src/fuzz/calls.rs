//! Calls that an input asks for.

use super::server::{Ground, MADE_UP, Read, content};
use crate::{
    Client, Device, Dir, File, FileType, Lock, LockKind, LockRange, LockStyle, OpenFlags, Result,
    SetAttr, SetTime, Timestamp, XattrFlags,
};
use std::io::{BufRead, IoSlice, IoSliceMut, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where calls find or make something.
const PATHS: [&str; 16] = [
    "f",
    "d",
    "d/g",
    "l",
    "loop",
    "missing",
    "d/up/g",
    "d/up/up/up/new",
    "",
    "..",
    "d/../f",
    "new",
    "l/f",
    "missing/f",
    "d/1",
    "1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i",
];

/// Most entries of a listing that are looked at: a server can go on for ever.
const ENTRIES_MAX: usize = 2000;

/// Files that are open at a time.
const FILES: usize = 4;

/// What was done so far.
pub(super) struct Calls<'g> {
    client: Client,
    ground: &'g Arc<Ground>,
    files: [Option<File>; FILES],
    dirs: Vec<Dir>,
    /// The next file that is made up.
    next: AtomicU64,
}

impl<'g> Calls<'g> {
    pub(super) fn new(client: Client, ground: &'g Arc<Ground>) -> Self {
        Calls {
            client,
            ground,
            files: Default::default(),
            dirs: Vec::new(),
            next: AtomicU64::new(MADE_UP),
        }
    }

    /// One call of four bytes, whose outcome may be any.
    pub(super) fn make(&mut self, call: &[u8]) {
        let &[what, a, b, c] = call else {
            return;
        };
        let outcome = match what % 16 {
            0 => self.open(a, b, c),
            1 => self.create(a, b, c),
            2 => self.with_file(a, |calls, file| calls.read(file, b, c)),
            3 => self.with_file(a, |calls, file| calls.write(file, b, c)),
            4 => self.with_file(a, |calls, file| calls.stream_in(file, b, c)),
            5 => self.with_file(a, |calls, file| calls.stream_out(file, b, c)),
            6 => self.list(a),
            7 => self.look(a, b),
            8 => self.change(a, b, c),
            9 => self.xattrs(a, b, c),
            10 | 11 => self.names(a, b, c),
            12 => self.with_file(a, |_, file| lock(file, b, c)),
            13 => self.close(a, b),
            14 => self.with_file(a, |calls, file| calls.side_by_side(file, b, c)),
            _ => self.dirs(a, b),
        };
        if let Err(error) = outcome {
            let words = error.to_string();
            assert!(!words.trim().is_empty(), "nothing to tell: {error:?}");
        }
    }

    fn open(&mut self, a: u8, b: u8, c: u8) -> Result<()> {
        let file = self.client.open(path(a), flags(b))?;
        self.keep(c, file);
        Ok(())
    }

    fn create(&mut self, a: u8, b: u8, c: u8) -> Result<()> {
        let file = self.client.create(path(a), flags(b), 0o644)?;
        self.keep(c, file);
        Ok(())
    }

    fn keep(&mut self, at: u8, file: File) {
        if let Some(kept) = self.files.get_mut(usize::from(at) % FILES) {
            *kept = Some(file);
        }
    }

    fn with_file(&self, at: u8, act: impl FnOnce(&Self, &File) -> Result<()>) -> Result<()> {
        match self.files.get(usize::from(at) % FILES) {
            Some(Some(file)) => act(self, file),
            _ => Ok(()),
        }
    }

    fn made_up(&self) -> u64 {
        self.next.fetch_add(MADE_UP, Ordering::Relaxed)
    }

    fn read(&self, file: &File, b: u8, c: u8) -> Result<()> {
        let from = self.made_up();
        let mut buf = vec![0; lens(b, c).sum()];
        let mut rest = &mut buf[..];
        let mut slices = Vec::new();
        for len in lens(b, c) {
            let (now, later) = rest.split_at_mut(len);
            slices.push(IoSliceMut::new(now));
            rest = later;
        }
        let count = file.read_vectored_at(&mut slices, from)?;
        let got = buf.get(..count).expect("no more than there is room for");
        assert!(*got == self.expected(from)[..], "not what was sent");
        Ok(())
    }

    /// What the answers to a read of everything from an offset on brought.
    fn expected(&self, from: u64) -> Vec<u8> {
        self.ground.reads(from, |reads| {
            let mut data = Vec::new();
            for read in reads {
                let Some(part) = &read.data else {
                    break;
                };
                data.extend(part);
                if part.len() < read.count {
                    break;
                }
            }
            data
        })
    }

    fn write(&self, file: &File, b: u8, c: u8) -> Result<()> {
        let from = self.made_up();
        let total: usize = lens(b, c).sum();
        let bytes: Vec<u8> = (from..).take(total).map(content).collect();
        let mut rest = &bytes[..];
        let mut slices = Vec::new();
        for len in lens(b, c) {
            let (now, later) = rest.split_at(len);
            slices.push(IoSlice::new(now));
            rest = later;
        }
        let count = file.write_vectored_at(&slices, from)?;
        assert!(count <= total, "{count} of {total}");
        Ok(())
    }

    fn stream_in(&self, file: &File, b: u8, c: u8) -> Result<()> {
        let from = self.made_up();
        let mut reader = file.reader(from);
        let mut at = from;
        for _ in 0..b % 16 {
            let Ok(got) = reader.fill_buf() else {
                // Whoever asks again must get the same.
                continue;
            };
            let count = got.len();
            if count == 0 {
                break;
            }
            let is_it = |read: &&Read| read.offset == at && read.data.as_deref() == Some(got);
            assert!(
                self.ground.reads(from, |reads| reads.iter().any(is_it)),
                "not what was sent"
            );
            // Never a part of it, so that each is looked at as a whole.
            reader.consume(count.max(c.into()));
            at += count as u64;
        }
        Ok(())
    }

    fn stream_out(&self, file: &File, b: u8, c: u8) -> Result<()> {
        let mut writer = file.writer(self.made_up());
        let mut at = self.next.load(Ordering::Relaxed) - MADE_UP;
        for len in lens(b, c) {
            let bytes: Vec<u8> = (at..).take(len).map(content).collect();
            if writer.write_all(&bytes).is_err() {
                return Ok(());
            }
            at += len as u64;
        }
        match b & 1 {
            0 => writer.finish(),
            _ => Ok(()),
        }
    }

    fn list(&self, a: u8) -> Result<()> {
        for entry in self.client.read_dir(path(a))?.take(ENTRIES_MAX) {
            let entry = entry?;
            let name = entry.file_name().as_encoded_bytes();
            let is_one = !name.is_empty() && !name.contains(&b'/');
            assert!(is_one && name != b"." && name != b"..", "{entry:?}");
        }
        Ok(())
    }

    fn look(&self, a: u8, b: u8) -> Result<()> {
        let path = path(a);
        match b % 6 {
            0 => self.client.metadata(path).map(drop),
            1 => self.client.symlink_metadata(path).map(drop),
            2 => self.client.read_link(path).map(drop),
            3 => self.client.statfs(path).map(drop),
            4 => self.with_file(a, |_, file| file.metadata().map(drop)),
            _ => self.with_file(a, |_, file| file.sync(b & 64 != 0)),
        }
    }

    fn change(&self, a: u8, b: u8, c: u8) -> Result<()> {
        let time = |bit: u8| {
            let time = Timestamp {
                sec: i64::from(c as i8),
                nsec: c.into(),
            };
            (b & bit != 0).then_some(if c & 1 == 0 {
                SetTime::To(time)
            } else {
                SetTime::Now
            })
        };
        let number = |bit: u8| (b & bit != 0).then_some(u32::from(c));
        let changes = SetAttr {
            perm: number(1),
            uid: number(2),
            gid: number(4),
            size: (b & 8 != 0).then_some(u64::from(c) << (c % 60)),
            atime: time(16),
            mtime: time(32),
            ..SetAttr::default()
        };
        match b & 64 {
            0 => self.client.set_metadata(path(a), &changes),
            _ => self.with_file(a, |_, file| file.set_metadata(&changes)),
        }
    }

    fn xattrs(&self, a: u8, b: u8, c: u8) -> Result<()> {
        let (path, name) = (
            path(a),
            if c & 1 == 0 {
                &b"user.a"[..]
            } else {
                b"user.b"
            },
        );
        let client = &self.client;
        match b % 4 {
            0 => client.xattr(path, name).map(drop),
            1 => client.xattr_names(path).map(drop),
            2 => {
                let value = vec![c; usize::from(c) * usize::from(b)];
                let flags = XattrFlags::from_bits_truncate(u32::from(b >> 6) % 3);
                client.set_xattr(path, name, &value, flags)
            }
            _ => client.remove_xattr(path, name),
        }
    }

    fn names(&self, a: u8, b: u8, c: u8) -> Result<()> {
        let (from, to, client) = (path(a), path(b), &self.client);
        match c % 8 {
            0 => client.rename(from, to),
            1 => client.hard_link(from, to),
            2 => client.symlink(from, to),
            3 => client.create_dir(to, 0o755),
            4 => client.make_node(to, FileType::Fifo, Device::default(), 0o600),
            5 => client.remove_file(from),
            6 => client.remove_dir(from),
            _ => client.parent(from).map(drop),
        }
    }

    fn close(&mut self, a: u8, b: u8) -> Result<()> {
        let file = self.files.get_mut(usize::from(a) % FILES);
        match file.and_then(Option::take) {
            Some(file) if b & 1 == 0 => file.close(),
            _ => Ok(()),
        }
    }

    /// Reads by several threads at a time.
    fn side_by_side(&self, file: &File, b: u8, c: u8) -> Result<()> {
        std::thread::scope(|scope| {
            let reads: Vec<_> = (0..2 + b % 3)
                .map(|nth| scope.spawn(move || self.read(file, b >> 4, c.wrapping_add(nth))))
                .collect();
            let mut outcome = Ok(());
            for read in reads {
                outcome = read.join().expect("it does not panic");
            }
            outcome
        })
    }

    fn dirs(&mut self, a: u8, b: u8) -> Result<()> {
        let (dir, name) = self.client.parent(path(a))?;
        match b % 4 {
            0 => self.dirs.push(dir.dir(&name)?),
            1 => dir.remove_file(&name)?,
            2 => dir.remove_dir(&name)?,
            _ => {
                for entry in dir.entries()?.take(ENTRIES_MAX) {
                    entry?;
                }
            }
        }
        if b & 64 != 0 {
            self.dirs.clear();
        }
        Ok(())
    }
}

fn path(number: u8) -> &'static str {
    PATHS[usize::from(number) % PATHS.len()]
}

fn flags(bits: u8) -> OpenFlags {
    let bits = u32::from(bits);
    match OpenFlags::from_bits_truncate(bits & 0x3f) {
        flags if flags.is_empty() => OpenFlags::READ | OpenFlags::WRITE,
        flags => flags,
    }
}

/// Lengths of buffers, some of them of none.
fn lens(b: u8, c: u8) -> impl Iterator<Item = usize> {
    let many = if b & 0x40 == 0 { 1 } else { 89 };
    (1..=usize::from(b & 0x3f) * 2)
        .map(move |nth| (nth * usize::from(c) % 61) * if nth % 5 == 0 { many } else { 1 })
}

/// Never without an end: a server that does not answer would be waited for.
fn lock(file: &File, b: u8, c: u8) -> Result<()> {
    let lock = Lock {
        style: LockStyle::Posix,
        kind: match b % 3 {
            0 => LockKind::Read,
            1 => LockKind::Write,
            _ => LockKind::Unlock,
        },
        range: LockRange {
            start: c.into(),
            end: u64::from(c) + u64::from(b),
        },
        pid: 7,
    };
    let owner = [b'a' + c % 2];
    match b >> 2 & 3 {
        0 => file.try_lock(&owner, &lock),
        1 => file.lock_within(&owner, &lock, Duration::ZERO),
        2 => file.lock_within(&owner, &lock, Duration::from_millis(1)),
        _ => file.lock_in_the_way(&owner, &lock).map(drop),
    }
}
