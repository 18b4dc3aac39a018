//! The machine: which processors run what, and how to describe it all.

use super::contest::Placement;
use super::error::{BenchError, Context};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The processors of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    all: CpuSet,
    driver: CpuSet,
    server: CpuSet,
    numbers: (usize, usize),
}

impl Processors {
    /// Divides what this process may use: the first processor drives, the last
    /// one serves.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn divide() -> Result<Self, BenchError> {
        let all = sched_getaffinity(None).context("this process's processors")?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
        let first = usable
            .next()
            .ok_or(BenchError::new("no processor to run on"))?;
        let last = usable.next_back().unwrap_or(first);
        Ok(Processors {
            all,
            driver: only(first),
            server: only(last),
            numbers: (first, last),
        })
    }

    /// Puts the calling thread where the driver belongs. Threads it starts
    /// later inherit the place.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn place_driver(&self, placement: Placement) -> Result<(), BenchError> {
        let set = match placement {
            Placement::Apart => &self.driver,
            Placement::Free => &self.all,
        };
        sched_setaffinity(None, set).context("placing the driver")
    }

    /// Puts the calling thread where servers belong when they are apart. Threads and
    /// processes that it starts later inherit the place.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn place_as_server(&self) -> Result<(), BenchError> {
        sched_setaffinity(None, &self.server).context("placing a server")
    }

    /// Puts all threads of a server where they belong.
    ///
    /// # Errors
    /// When the process is gone, or the kernel refuses.
    pub fn place_server(&self, pid: u32, placement: Placement) -> Result<(), BenchError> {
        let set = match placement {
            Placement::Apart => &self.server,
            Placement::Free => &self.all,
        };
        for thread in threads(pid).context("the server's threads")? {
            match sched_setaffinity(Some(thread), set) {
                // The thread ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error).context("placing the server"),
            }
        }
        Ok(())
    }

    /// In words.
    pub fn describe(&self) -> String {
        let (driver, server) = self.numbers;
        if driver == server {
            format!("driver and server share CPU {driver}: figures hold both")
        } else {
            format!("apart: driver on CPU {driver}, server on CPU {server}")
        }
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// The threads of a process.
pub(super) fn threads(pid: u32) -> std::io::Result<Vec<Pid>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        threads.extend(
            name.to_str()
                .and_then(|name| name.parse().ok())
                .and_then(Pid::from_raw),
        );
    }
    Ok(threads)
}

/// The process that this one's main thread has started, if it is one.
pub(super) fn only_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.trim().parse().ok()
}

/// Kernel, processor and load, in one line.
pub fn describe() -> String {
    let kernel = rustix::system::uname();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?").to_owned();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Linux {}, {cpus} × {model}, load {load} at the start",
        kernel.release().to_string_lossy()
    )
}

/// What `program --version` says: the library's line from libfuse, the first one
/// from others.
pub fn version_of(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = match output {
        Ok(output) if output.stdout.is_empty() => output.stderr,
        Ok(output) => output.stdout,
        Err(error) => return format!("{}: {error}", program.display()),
    };
    let text = String::from_utf8_lossy(&text);
    let of_library = text.lines().find(|line| line.starts_with("FUSE library"));
    let line = of_library.or(text.lines().next());
    line.unwrap_or("no version").to_owned()
}

/// The type of the file system that holds `path`, as statfs(2) knows it.
pub fn filesystem_of(path: &Path) -> String {
    const TMPFS: i64 = 0x0102_1994;
    const EXT: i64 = 0xEF53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683E;
    const OVERLAY: i64 = 0x794C_7630;
    match rustix::fs::statfs(path).map(|figures| figures.f_type) {
        Ok(TMPFS) => "tmpfs".into(),
        Ok(EXT) => "ext4".into(),
        Ok(XFS) => "xfs".into(),
        Ok(BTRFS) => "btrfs".into(),
        Ok(OVERLAY) => "overlayfs".into(),
        Ok(other) => format!("file system {other:#x}"),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_threads_are_found() {
        let own = std::process::id();
        let threads = threads(own).unwrap();
        assert!(threads.contains(&Pid::from_raw(own.cast_signed()).unwrap()));
    }

    #[test]
    fn placing_the_driver_is_undone_by_freeing_it() {
        std::thread::spawn(|| {
            let before = sched_getaffinity(None).unwrap();
            let processors = Processors::divide().unwrap();
            processors.place_driver(Placement::Apart).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            processors.place_driver(Placement::Free).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
