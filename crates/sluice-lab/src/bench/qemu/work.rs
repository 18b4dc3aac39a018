//! What the guest does, on one of its mounts.
//!
//! An order is a line, `MOUNT WORK`; answers are those of the other guests' agent.

use crate::bench::error::{BenchError, Context};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Files in a directory, and operations of a burst on them.
const FILES: u32 = 200;
/// A file, and large operations of a burst on it.
const DATA_MIB: u32 = 16;

const MIB: usize = 1 << 20;

/// Makes what there is to work on; each of so many entrants writes to a file of its own.
pub(super) fn fill(share: &Path, entrants: usize) -> io::Result<()> {
    fs::create_dir_all(share.join("files"))?;
    for index in 0..FILES {
        fs::write(share.join(format!("files/{index}")), [7; 4096])?;
    }
    let data: Vec<u8> = (0..DATA_MIB as usize * MIB).map(|i| i as u8).collect();
    fs::write(share.join("data"), &data)?;
    for entrant in 0..entrants {
        fs::write(share.join(format!("out-{entrant}")), &data)?;
    }
    Ok(())
}

/// Obeys orders until there are no more.
///
/// # Errors
/// When nobody listens any more.
pub fn obey() -> Result<(), BenchError> {
    for order in io::stdin().lock().lines() {
        let order = order?;
        let (mount, name) = order.split_once(' ').unwrap_or((&order, ""));
        let answer = match run(Path::new(mount), name) {
            Ok((operations, ns)) => format!("done {operations} {ns:.1}"),
            Err(error) => format!("failed {}", error.to_string().replace('\n', " / ")),
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{answer}").context("standard output")?;
    }
    Ok(())
}

/// How many operations, and how long each took in nanoseconds.
fn run(mount: &Path, name: &str) -> Result<(u64, f64), BenchError> {
    let own = mount.file_name().unwrap_or_default().to_string_lossy();
    let out = mount.join(format!("out-{own}"));
    let new = |index: u32| mount.join(format!("new-{own}-{index}"));
    match name {
        "stat" => each(FILES, |index| stat(&mount.join(format!("files/{index}")))),
        "stat, missing" => {
            let missing = mount.join("files/missing");
            each(FILES, |_| match stat(&missing) {
                Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error),
                Ok(()) => Err(Errno::EXIST),
            })
        }
        "open + close" => {
            let path = mount.join("files/0");
            each(FILES, |_| File::open(&path).map(drop))
        }
        "create + close" => {
            let made = each(FILES, |index| File::create_new(new(index)).map(drop));
            for index in 0..FILES {
                fs::remove_file(new(index))?;
            }
            made
        }
        "pread 4K" => {
            let (file, mut buf) = (File::open(mount.join("data"))?, [0; 4096]);
            each(FILES, |index| {
                file.read_exact_at(&mut buf, scattered(index))
            })
        }
        "pwrite 4K" => {
            let file = File::options().write(true).open(out)?;
            each(FILES, |index| {
                file.write_all_at(&[9; 4096], scattered(index))
            })
        }
        "read 1M" => {
            let (file, mut buf) = (File::open(mount.join("data"))?, vec![0; MIB]);
            each(DATA_MIB, |index| {
                file.read_exact_at(&mut buf, u64::from(index) << 20)
            })
        }
        "write 1M" => {
            let (file, buf) = (File::options().write(true).open(out)?, vec![9; MIB]);
            each(DATA_MIB, |index| {
                file.write_all_at(&buf, u64::from(index) << 20)
            })
        }
        _ => Err(BenchError::new(format!("no such work: {name}"))),
    }
}

fn stat(path: &Path) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    statx(CWD, path, flags, StatxFlags::BASIC_STATS).map(drop)
}

/// Pages of the data in no order.
fn scattered(index: u32) -> u64 {
    u64::from(index * 997 % (DATA_MIB * 256)) * 4096
}

fn each<E: Into<io::Error>>(
    count: u32,
    mut operation: impl FnMut(u32) -> Result<(), E>,
) -> Result<(u64, f64), BenchError> {
    let start = Instant::now();
    for index in 0..count {
        operation(index).map_err(Into::into)?;
    }
    let elapsed_ns = start.elapsed().as_nanos() as f64;
    Ok((count.into(), elapsed_ns / f64::from(count)))
}
