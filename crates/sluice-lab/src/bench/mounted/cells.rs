//! What is measured on a mount.

use super::mount::Mount;
use crate::bench::contest::{Cell, Meter, Unit};
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::{BIG_LEN, DATA_LEN, Fixture, MANY_FILES};
use rustix::fs::{Advice, AtFlags, Mode, OFlags, RawDir, StatxFlags};
use rustix::fs::{fadvise, fsync, openat, statat, statx, unlinkat};
use rustix::io::{Errno, pread, preadv, pwrite, pwritev};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

/// Operations of a burst on one thread.
const BURST: u32 = 200;

/// Threads of the cells that have several.
const THREADS: u32 = 4;

const SMALL: usize = 4096;
const MIB: usize = 1 << 20;

/// Segments of a readv or writev.
const SEGMENTS: usize = 32;

/// All cells, in the order of the table.
pub(super) const CELLS: &[Cell<Mount>] = &[
    timed("stat", |mount, meter| {
        meter.each(BURST, |_| stat(mount, Fixture::PLAIN))
    }),
    timed("stat, missing", |mount, meter| {
        meter.each(BURST, |_| stat_missing(mount))
    }),
    timed("open + close", |mount, meter| {
        meter.each(BURST, |_| open_and_close(mount))
    }),
    timed("create + unlink", |mount, meter| {
        meter.each(BURST, |_| create_and_unlink(mount, 0))
    }),
    timed("pread 4K", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDONLY)?;
        meter.each(BURST, |index| read_small(&file, index))
    }),
    timed("pwrite 4K", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDWR)?;
        meter.each(BURST, |index| write_small(&file, index))
    }),
    sequential("read 1M, sequential", |mount, meter| {
        let file = mount.open(Fixture::BIG, OFlags::RDONLY)?;
        // What the kernel keeps of the mount; the host keeps the file itself.
        fadvise(&file, 0, None, Advice::DontNeed)?;
        meter.span(|| read_through(&file))
    }),
    sequential("write 1M, sequential", |mount, meter| {
        let file = mount.open(Fixture::BIG, OFlags::RDWR)?;
        meter.span(|| write_through(&file))
    }),
    vectored("readv 32 x 4K, O_DIRECT", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDONLY | OFlags::DIRECT)?;
        meter.each(BURST, |index| read_vectored(&file, index))
    }),
    vectored("writev 32 x 4K, O_DIRECT", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDWR | OFlags::DIRECT)?;
        meter.each(BURST, |index| write_vectored(&file, index))
    }),
    timed("readdir, per entry", |mount, meter| {
        meter.span(|| list(mount, |_, _| Ok(())))
    }),
    timed("ls -l, per entry", |mount, meter| {
        meter.span(|| list(mount, stat_entry))
    }),
    timed("stat, 4 threads", |mount, meter| {
        on_threads(meter, |_, _| stat(mount, Fixture::PLAIN))
    }),
    timed("open + close, 4 threads", |mount, meter| {
        on_threads(meter, |_, _| open_and_close(mount))
    }),
    timed("create + unlink, 4 threads", |mount, meter| {
        on_threads(meter, |thread, _| create_and_unlink(mount, thread))
    }),
    timed("pread 4K, 4 threads", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDONLY)?;
        on_threads(meter, |thread, index| {
            read_small(&file, index + thread * BURST)
        })
    }),
    timed("pwrite 4K, 4 threads", |mount, meter| {
        let file = mount.open(Fixture::DATA, OFlags::RDWR)?;
        on_threads(meter, |thread, index| {
            write_small(&file, index + thread * BURST)
        })
    }),
];

/// Payloads by their size.
pub(super) const ZERO_COPY: &[Cell<Mount>] = &[
    timed("zero copy: pread 1", read_of::<1>),
    timed("zero copy: pread 512", read_of::<512>),
    timed("zero copy: pread 1K", read_of::<1024>),
    timed("zero copy: pread 4K", read_of::<4096>),
    timed("zero copy: pread 64K", read_of::<0x1_0000>),
    timed("zero copy: pread 256K", read_of::<0x4_0000>),
    timed("zero copy: pread 1M", read_of::<0x10_0000>),
];

/// What shows how many messages an operation takes, each `count` times.
pub(super) const COUNTED: &[(&str, Counted)] = &[
    ("stat", |mount, count| {
        (0..count).try_for_each(|_| stat(mount, Fixture::PLAIN))
    }),
    ("open + close", |mount, count| {
        (0..count).try_for_each(|_| open_and_close(mount))
    }),
    ("pread 4K", |mount, count| {
        let file = mount.open(Fixture::DATA, OFlags::RDONLY)?;
        (0..count).try_for_each(|index| read_small(&file, index))
    }),
    ("readv 32 x 4K", |mount, count| {
        let file = mount.open(Fixture::DATA, OFlags::RDONLY | OFlags::DIRECT)?;
        (0..count).try_for_each(|index| read_vectored(&file, index))
    }),
    ("read 1M", |mount, _| {
        let file = mount.open(Fixture::BIG, OFlags::RDONLY)?;
        read_through(&file).map(drop)
    }),
];

/// Does something so many times.
pub(super) type Counted = fn(&Mount, u32) -> Result<(), BenchError>;

type Burst = fn(&mut Mount, &mut Meter) -> Result<(), BenchError>;

const fn timed(name: &'static str, burst: Burst) -> Cell<Mount> {
    cell(name, Unit::Operation, burst)
}

const fn sequential(name: &'static str, burst: Burst) -> Cell<Mount> {
    cell(name, Unit::Bandwidth(MIB as u64), burst)
}

const fn vectored(name: &'static str, burst: Burst) -> Cell<Mount> {
    cell(name, Unit::Bandwidth((SEGMENTS * SMALL) as u64), burst)
}

const fn cell(name: &'static str, unit: Unit, burst: Burst) -> Cell<Mount> {
    Cell { name, unit, burst }
}

/// Runs `operation(thread, index)` a burst's times on each thread, as one span.
fn on_threads(
    meter: &mut Meter,
    operation: impl Fn(u32, u32) -> Result<(), BenchError> + Sync,
) -> Result<(), BenchError> {
    let operation = &operation;
    meter.span(|| {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || (0..BURST).try_for_each(|index| operation(thread, index)))
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| BenchError::new("a panic"))?)
        })?;
        Ok(u64::from(THREADS * BURST))
    })
}

fn stat(mount: &Mount, name: &str) -> Result<(), BenchError> {
    statat(&mount.root, name, AtFlags::empty())
        .map(drop)
        .context(name)
}

fn stat_missing(mount: &Mount) -> Result<(), BenchError> {
    match statat(&mount.root, Fixture::MISSING, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error).context(Fixture::MISSING),
        Ok(_) => Err(BenchError::new("a missing file is there")),
    }
}

fn open_and_close(mount: &Mount) -> Result<(), BenchError> {
    mount.open(Fixture::PLAIN, OFlags::RDONLY).map(drop)
}

fn create_and_unlink(mount: &Mount, thread: u32) -> Result<(), BenchError> {
    let name = format!("{}/new-{thread}", Fixture::SCRATCH);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    drop(openat(&mount.root, &name, flags, Mode::RUSR | Mode::WUSR).context(&name)?);
    unlinkat(&mount.root, &name, AtFlags::empty()).context(name)
}

/// Spreads indices over the file, so that neighbours in time are not neighbours
/// in place.
fn small_offset(index: u32) -> u64 {
    let blocks = DATA_LEN / SMALL as u64;
    (u64::from(index) * 389 % blocks) * SMALL as u64
}

fn read_small(file: &OwnedFd, index: u32) -> Result<(), BenchError> {
    let mut buffer = [0_u8; SMALL];
    expect_len(pread(file, &mut buffer, small_offset(index))?, SMALL)
}

fn write_small(file: &OwnedFd, index: u32) -> Result<(), BenchError> {
    expect_len(pwrite(file, &[0x5A; SMALL], small_offset(index))?, SMALL)
}

fn read_of<const LEN: usize>(mount: &mut Mount, meter: &mut Meter) -> Result<(), BenchError> {
    let file = mount.open(Fixture::DATA, OFlags::RDONLY)?;
    let mut buffer = vec![0_u8; LEN];
    let blocks = DATA_LEN / LEN as u64;
    meter.each(BURST, |index| {
        let offset = u64::from(index) * 389 % blocks * LEN as u64;
        expect_len(pread(&file, &mut buffer[..], offset)?, LEN)
    })
}

/// Segments on pages of their own, none next to another.
fn segments(memory: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let to_page = memory.as_ptr().align_offset(SMALL);
    let pages = memory
        .get_mut(to_page..)
        .unwrap_or_default()
        .chunks_exact_mut(SMALL);
    pages.step_by(2).take(SEGMENTS)
}

const SEGMENTS_ROOM: usize = (2 * SEGMENTS + 1) * SMALL;

fn vectored_offset(index: u32) -> u64 {
    let count = DATA_LEN / (SEGMENTS * SMALL) as u64;
    u64::from(index) % count * (SEGMENTS * SMALL) as u64
}

fn read_vectored(file: &OwnedFd, index: u32) -> Result<(), BenchError> {
    let mut memory = vec![0_u8; SEGMENTS_ROOM];
    let mut slices: Vec<_> = segments(&mut memory).map(IoSliceMut::new).collect();
    let len = preadv(file, &mut slices, vectored_offset(index))?;
    expect_len(len, SEGMENTS * SMALL)
}

fn write_vectored(file: &OwnedFd, index: u32) -> Result<(), BenchError> {
    let mut memory = vec![0x3C_u8; SEGMENTS_ROOM];
    let slices: Vec<_> = segments(&mut memory).map(|it| IoSlice::new(it)).collect();
    let len = pwritev(file, &slices, vectored_offset(index))?;
    expect_len(len, SEGMENTS * SMALL)
}

fn read_through(file: &OwnedFd) -> Result<u64, BenchError> {
    let mut buffer = vec![0_u8; MIB];
    each_mib(|offset| expect_len(pread(file, &mut buffer[..], offset)?, MIB))
}

fn write_through(file: &OwnedFd) -> Result<u64, BenchError> {
    let buffer = vec![0xA5_u8; MIB];
    let count = each_mib(|offset| expect_len(pwrite(file, &buffer, offset)?, MIB))?;
    // What the kernel kept back belongs to the cost.
    fsync(file)?;
    Ok(count)
}

fn each_mib(mut work: impl FnMut(u64) -> Result<(), BenchError>) -> Result<u64, BenchError> {
    let count = BIG_LEN / MIB as u64;
    for index in 0..count {
        work(index * MIB as u64)?;
    }
    Ok(count)
}

fn expect_len(len: usize, expected: usize) -> Result<(), BenchError> {
    if len == expected {
        Ok(())
    } else {
        Err(BenchError::new(format!(
            "{len} bytes instead of {expected}"
        )))
    }
}

/// Lists the big directory and gives its files to `visit`; says how many.
fn list(
    mount: &Mount,
    mut visit: impl FnMut(&OwnedFd, &std::ffi::CStr) -> Result<(), BenchError>,
) -> Result<u64, BenchError> {
    let directory = mount.open(Fixture::MANY, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if entry.file_name().to_bytes().starts_with(b"file-") {
            visit(&directory, entry.file_name())?;
            count += 1;
        }
    }
    if count == u64::from(MANY_FILES) {
        Ok(count)
    } else {
        Err(BenchError::new(format!("{count} entries listed")))
    }
}

/// What ls -l asks for.
fn stat_entry(directory: &OwnedFd, name: &std::ffi::CStr) -> Result<(), BenchError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    statx(directory, name, flags, StatxFlags::BASIC_STATS)?;
    Ok(())
}
