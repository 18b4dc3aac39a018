//! What a guest does for a measurement: system calls in loops, and programs.

use super::fixture::{self, DIRECTORIES, FILES_EACH};
use crate::bench::error::{BenchError, Context};
use crate::bench::stats::quantile;
use clap::Args;
use rustix::fs::{AtFlags, CWD, StatxFlags, lstat, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Operations of a short burst.
const BURST: u32 = 400;

/// For how long fio works, in milliseconds.
const FIO_MS: u32 = 250;

/// How a guest mounts the share, as mount(2) has it.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ShareMount {
    /// A tag, or a server's address.
    pub source: String,
    /// The file system's type.
    pub filesystem: String,
    /// All other options.
    #[arg(default_value = "")]
    pub options: String,
    /// Builds are done on a copy of the share in the guest's memory
    #[arg(long)]
    pub in_memory: bool,
}

impl ShareMount {
    /// Of a mount by `sluice mount`.
    pub(super) const SLUICE: &str = "fuse.sluice";

    fn is_by_sluice(&self) -> bool {
        self.filesystem == ShareMount::SLUICE
    }
}

/// The share as the guest sees it.
pub(super) struct Place {
    mount: ShareMount,
    root: PathBuf,
    own: PathBuf,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Measured {
    /// How many operations it was.
    pub(in crate::bench) operations: u64,
    /// Nanoseconds that one took.
    pub(in crate::bench) ns: f64,
}

/// Something to do: first what is not measured.
pub(super) struct Work {
    name: &'static str,
    pub(super) prepare: fn(&Place) -> Result<(), BenchError>,
    pub(super) run: fn(&Place) -> Result<Measured, BenchError>,
}

const fn work(
    name: &'static str,
    prepare: fn(&Place) -> Result<(), BenchError>,
    run: fn(&Place) -> Result<Measured, BenchError>,
) -> Work {
    Work { name, prepare, run }
}

/// The work called `name`; a fio job is called by its options.
pub(super) fn find(name: &str) -> Result<Work, BenchError> {
    let known = WORKS.iter().find(|work| work.name == name);
    known
        .map(|work| Work { ..*work })
        .ok_or_else(|| BenchError::new(format!("no work is called {name}")))
}

const WORKS: &[Work] = &[
    work("stat, new names", Place::remount, |place| {
        each(BURST, |index| stat(&place.tree_file(index)))
    }),
    // As Rust's and Node's libraries ask: FUSE has a request of its own for that.
    work("stat with birth time", Place::remount, |place| {
        each(BURST, |index| {
            Ok(fs::symlink_metadata(place.tree_file(index)).map(drop)?)
        })
    }),
    work("stat, missing", Place::remount, |place| {
        let missing = place.root.join(fixture::TREE).join("missing");
        each(BURST, |_| match lstat(&missing) {
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(BenchError::new("a missing file is there")),
        })
    }),
    work("open + close", Place::remount, |place| {
        let path = place.tree_file(0);
        each(BURST, |_| Ok(File::open(&path).map(drop)?))
    }),
    work("open + read + close", Place::remount, |place| {
        let mut content = [0; 4096];
        each(BURST, |index| {
            let mut file = File::open(place.tree_file(index))?;
            while file.read(&mut content)? > 0 {}
            Ok(())
        })
    }),
    work("create + close", Place::empty_own, |place| {
        each(BURST, |index| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o644);
            Ok(options.open(place.new_file(index)).map(drop)?)
        })
    }),
    work("unlink", Place::fill_own, |place| {
        each(BURST, |index| Ok(fs::remove_file(place.new_file(index))?))
    }),
    work("ls -l", Place::remount, list_long),
    work("find", Place::remount, |place| {
        let mut find = Command::new("find");
        find.arg(place.root.join(fixture::TREE));
        of_the_tree(find)
    }),
    work("git status", Place::remount, |place| {
        let mut git = Command::new("git");
        git.arg("--git-dir")
            .arg(place.root.join(fixture::REPOSITORY));
        git.arg("--work-tree").arg(place.root.join(fixture::TREE));
        git.args(["status", "--porcelain"])
            .env("GIT_OPTIONAL_LOCKS", "0");
        of_the_tree(git)
    }),
    work("tar x", Place::remount, |place| {
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(place.root.join(fixture::ARCHIVE));
        tar.arg("-C").arg(place.own.join(fixture::EXTRACTED));
        of_the_tree(tar)
    }),
    work("rm -rf", Place::remount, |place| {
        let mut rm = Command::new("rm");
        rm.arg("-rf").arg(place.own.join(fixture::DOOMED));
        of_the_tree(rm)
    }),
    work("make hostapd_cli", Place::prepare_build, |place| {
        place.build("hostapd", "hostapd_cli")
    }),
    work("make hostapd", Place::prepare_build, |place| {
        place.build("hostapd", "all")
    }),
    work("make wpa_supplicant", Place::prepare_build, |place| {
        place.build("wpa_supplicant", "all")
    }),
    fio("seqread-psync-4k", |place| {
        place.fio("read", "4k", "psync", Jobs::One)
    }),
    fio("seqread-psync-4k-4", |place| {
        place.fio("read", "4k", "psync", Jobs::Four)
    }),
    fio("seqread-psync-1m", |place| {
        place.fio("read", "1m", "psync", Jobs::One)
    }),
    fio("seqread-mmap-4k", |place| {
        place.fio("read", "4k", "mmap", Jobs::One)
    }),
    fio("seqread-libaio-1m", |place| {
        place.fio("read", "1m", "libaio", Jobs::Direct)
    }),
    fio("randread-psync-4k", |place| {
        place.fio("randread", "4k", "psync", Jobs::One)
    }),
    fio("randread-psync-4k-4", |place| {
        place.fio("randread", "4k", "psync", Jobs::Four)
    }),
    fio("randread-mmap-4k", |place| {
        place.fio("randread", "4k", "mmap", Jobs::One)
    }),
    fio("randread-libaio-4k", |place| {
        place.fio("randread", "4k", "libaio", Jobs::Direct)
    }),
    fio("seqwrite-psync-4k", |place| {
        place.fio("write", "4k", "psync", Jobs::One)
    }),
    fio("seqwrite-psync-4k-4", |place| {
        place.fio("write", "4k", "psync", Jobs::Four)
    }),
    fio("seqwrite-psync-1m", |place| {
        place.fio("write", "1m", "psync", Jobs::One)
    }),
    fio("seqwrite-mmap-4k", |place| {
        place.fio("write", "4k", "mmap", Jobs::One)
    }),
    fio("seqwrite-libaio-1m", |place| {
        place.fio("write", "1m", "libaio", Jobs::Direct)
    }),
    fio("randwrite-psync-4k", |place| {
        place.fio("randwrite", "4k", "psync", Jobs::One)
    }),
    fio("randwrite-psync-4k-4", |place| {
        place.fio("randwrite", "4k", "psync", Jobs::Four)
    }),
    fio("randwrite-mmap-4k", |place| {
        place.fio("randwrite", "4k", "mmap", Jobs::One)
    }),
    fio("randwrite-libaio-4k", |place| {
        place.fio("randwrite", "4k", "libaio", Jobs::Direct)
    }),
];

/// In a mount namespace of its own, so that the share can be unmounted afterwards.
const BUILD: &str = r#"
    mount --bind "$SOURCES" "$SYSTEM/$SOURCES_AT"
    mount --bind /dev "$SYSTEM/dev"
    exec chroot "$SYSTEM" make -C "/$SOURCES_AT/$FOLDER" "$TARGET"
"#;

/// Where a guest keeps in its memory what it builds with, and what it builds.
const MEMORY: &str = "/mnt/memory";

/// How fio works.
#[derive(Clone, Copy)]
enum Jobs {
    One,
    /// Each with a file of its own: the guest's lock of one file is not the matter.
    Four,
    /// One that keeps 16 requests going, past the guest's cache.
    Direct,
}

impl Jobs {
    fn options(self) -> Vec<String> {
        let one = format!("--filename={}", fixture::DATA);
        match self {
            Jobs::One => vec![one],
            Jobs::Four => vec![
                format!("--filename_format={}$jobnum", fixture::DATA_OF_JOB),
                format!("--numjobs={}", fixture::JOBS),
            ],
            Jobs::Direct => vec![one, "--direct=1".to_owned(), "--iodepth=16".to_owned()],
        }
    }
}

const fn fio(name: &'static str, run: fn(&Place) -> Result<Measured, BenchError>) -> Work {
    // What the last job left in the guest's cache would be read at no cost.
    work(name, Place::remount, run)
}

impl Place {
    pub(super) fn new(mount: &ShareMount, root: &Path, own: &str) -> Self {
        Place {
            mount: mount.clone(),
            root: root.to_owned(),
            own: root.join(own),
        }
    }

    /// So that the guest knows nothing about the share.
    fn remount(&self) -> Result<(), BenchError> {
        unmount(&self.root, UnmountFlags::empty()).context("unmounting the share")?;
        if self.mount.is_by_sluice() {
            return self.mount_by_sluice();
        }
        let ShareMount {
            source,
            filesystem,
            options,
            ..
        } = &self.mount;
        let options = CString::new(options.as_str()).context("mount options")?;
        let flags = MountFlags::empty();
        mount(source, &self.root, filesystem, flags, options.as_c_str())
            .context("mounting the share")
    }

    /// Sources as they were before, which nobody has seen yet. In memory, the system is
    /// copied once.
    fn prepare_build(&self) -> Result<(), BenchError> {
        self.remount()?;
        if !self.mount.in_memory {
            return Ok(());
        }
        let memory = Path::new(MEMORY);
        if !memory.exists() {
            fs::create_dir(memory).context(MEMORY)?;
            let options = Some(c"size=100%");
            mount(MEMORY, memory, "tmpfs", MountFlags::empty(), options).context(MEMORY)?;
            copy(&self.root.join(fixture::SYSTEM), memory)?;
        }
        let sources = memory.join(fixture::SOURCES);
        if sources.exists() {
            fs::remove_dir_all(&sources)?;
        }
        copy(&self.own.join(fixture::SOURCES), memory)
    }

    fn build(&self, folder: &str, target: &str) -> Result<Measured, BenchError> {
        let memory = PathBuf::from(MEMORY);
        let (root, own) = match self.mount.in_memory {
            true => (&memory, &memory),
            false => (&self.root, &self.own),
        };
        let mut build = Command::new("unshare");
        build.args(["--mount", "sh", "-ec", BUILD]);
        build.env("SYSTEM", root.join(fixture::SYSTEM));
        build.env("SOURCES", own.join(fixture::SOURCES));
        build.env("SOURCES_AT", fixture::SOURCES_AT);
        build.env("FOLDER", folder).env("TARGET", target);
        timed(build, 1)
    }

    /// The guest's init has mounted the share with a file system of the kernel's.
    pub(super) fn take_over(&self) -> Result<(), BenchError> {
        match self.mount.is_by_sluice() {
            true => self.remount(),
            false => Ok(()),
        }
    }

    fn mount_by_sluice(&self) -> Result<(), BenchError> {
        let mut command = Command::new(std::env::current_exe()?.with_file_name("sluice"));
        command.args(["mount", &self.mount.source]).arg(&self.root);
        fixture::succeed(command.args(["-o", &self.mount.options]))
    }

    fn empty_own(&self) -> Result<(), BenchError> {
        self.remount()?;
        let dir = self.new_dir();
        if dir.exists() {
            fs::remove_dir_all(&dir).context(dir.display())?;
        }
        fs::create_dir(&dir).context(dir.display())
    }

    fn fill_own(&self) -> Result<(), BenchError> {
        self.empty_own()?;
        for index in 0..BURST {
            File::create(self.new_file(index))?;
        }
        Ok(())
    }

    fn new_dir(&self) -> PathBuf {
        self.own.join("new")
    }

    fn new_file(&self, index: u32) -> PathBuf {
        self.new_dir().join(format!("new-{index}"))
    }

    fn tree_file(&self, index: u32) -> PathBuf {
        self.root
            .join(fixture::TREE)
            .join(fixture::tree_file(index))
    }

    fn fio(
        &self,
        pattern: &str,
        block: &str,
        engine: &str,
        jobs: Jobs,
    ) -> Result<Measured, BenchError> {
        let mut fio = Command::new("fio");
        fio.args(["--name=bench", "--output-format=json", "--time_based"])
            .args(["--thread", "--group_reporting", "--disk_util=0"])
            .args([
                "--fallocate=none",
                "--overwrite=1",
                "--random_generator=tausworthe64",
            ])
            .arg(format!("--runtime={FIO_MS}ms"))
            .arg(format!("--rw={pattern}"))
            .arg(format!("--bs={block}"))
            .arg(format!("--ioengine={engine}"))
            .arg(format!("--directory={}", self.root.display()))
            .args(jobs.options());
        let output = fio.stdin(Stdio::null()).output().context("fio")?;
        // What is dirty still would be written in another guest's time.
        rustix::fs::syncfs(File::open(&self.root)?)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::new(format!("fio: {}", said.trim())));
        }
        parse_fio(&output.stdout, pattern.ends_with("write"))
    }
}

fn parse_fio(report: &[u8], is_write: bool) -> Result<Measured, BenchError> {
    let report: serde_json::Value = serde_json::from_slice(report).context("fio's report")?;
    let side = &report["jobs"][0][if is_write { "write" } else { "read" }];
    let number = |name: &str| side[name].as_f64().filter(|&number| number > 0.0);
    let missing = || BenchError::new("fio has done nothing");
    let operations = number("total_ios").ok_or_else(missing)?;
    let per_second = number("iops").ok_or_else(missing)?;
    Ok(Measured {
        operations: operations as u64,
        ns: 1e9 / per_second,
    })
}

/// Runs `operation` with 0, 1, … below `count`. The lower quartile counts:
/// other load disturbs it least.
fn each(
    count: u32,
    mut operation: impl FnMut(u32) -> Result<(), BenchError>,
) -> Result<Measured, BenchError> {
    let mut samples = Vec::with_capacity(count as usize);
    for index in 0..count {
        let start = Instant::now();
        operation(index)?;
        samples.push(start.elapsed().as_nanos() as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(Measured {
        operations: count.into(),
        ns: quantile(&samples, 0.25).unwrap_or_default(),
    })
}

/// As C programs ask.
fn stat(path: &Path) -> Result<(), BenchError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(statx(CWD, path, flags, StatxFlags::BASIC_STATS).map(drop)?)
}

/// Some directories, each file's attributes.
fn list_long(place: &Place) -> Result<Measured, BenchError> {
    let tree = place.root.join(fixture::TREE);
    let start = Instant::now();
    let mut count = 0;
    for directory in 0..20 {
        let listing = fs::read_dir(tree.join(fixture::directory(directory)))?;
        for entry in listing {
            stat(&entry?.path())?;
            count += 1;
        }
    }
    if count != 20 * u64::from(FILES_EACH) {
        return Err(BenchError::new(format!("{count} entries listed")));
    }
    Ok(per_operation(start, count))
}

fn copy(from: &Path, to: &Path) -> Result<(), BenchError> {
    let mut cp = Command::new("cp");
    cp.arg("-a").arg(from).arg(to);
    timed(cp, 1).map(drop)
}

/// A program that goes through all of the tree: the time of a file.
fn of_the_tree(program: Command) -> Result<Measured, BenchError> {
    timed(program, u64::from(DIRECTORIES * FILES_EACH))
}

fn timed(mut program: Command, operations: u64) -> Result<Measured, BenchError> {
    program
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/tmp");
    program.stdin(Stdio::null()).stdout(Stdio::null());
    let name = program.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let output = program.stderr(Stdio::piped()).output().context(&name)?;
    let measured = per_operation(start, operations);
    if output.status.success() {
        return Ok(measured);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("nothing said");
    Err(BenchError::new(format!("{name}: {said}")))
}

fn per_operation(start: Instant, operations: u64) -> Measured {
    Measured {
        operations,
        ns: start.elapsed().as_nanos() as f64 / operations as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_reports_are_read() {
        let report = br#"{"jobs": [{"read": {"total_ios": 50, "iops": 2000.0},
                                    "write": {"total_ios": 0, "iops": 0.0}}]}"#;
        let measured = parse_fio(report, false).unwrap();
        assert_eq!((measured.operations, measured.ns), (50, 500_000.0));
        assert!(parse_fio(report, true).is_err());
        assert!(parse_fio(b"{}", false).is_err());
    }

    #[test]
    fn names_of_works_differ() {
        let mut names: Vec<_> = WORKS.iter().map(|work| work.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WORKS.len());
    }
}
