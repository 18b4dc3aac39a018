//! Runs cases and says how each ended, in TAP.

use super::need::{Missing, Need};
use super::place::Place;
use crate::conformance::caught;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a case may run before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// A named check.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group::what_is_so`.
    pub name: &'static str,
    /// What it takes.
    pub needs: &'static [Need],
    /// Panics where the file system is wrong.
    pub run: fn(&Place),
}

/// How a run ended, in numbers of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Those that passed.
    pub passed: usize,
    /// Those that did not.
    pub failed: usize,
    /// Those that need what cannot be had here.
    pub skipped: usize,
    /// Those that failed and were known to.
    pub deviating: usize,
}

/// Runs the cases whose name contains `filter`, each in a directory of its own
/// below `dir`, and prints a line for each. What they leave behind is removed.
/// The cases named in `known` may fail; TAP calls that `TODO`.
///
/// # Errors
/// A directory that nothing can be made in, or an output that is gone.
pub fn run(
    dir: &Path,
    cases: &[Case],
    filter: &str,
    known: &[String],
    mut out: impl Write,
) -> io::Result<Outcome> {
    let started = Instant::now();
    let cases: Vec<Case> = cases
        .iter()
        .filter(|case| case.name.contains(filter))
        .copied()
        .collect();
    let work = WorkDir::make(dir)?;
    let missing = Missing::find(|name| work.place(name))?;
    let mut outcome = Outcome::default();
    writeln!(out, "TAP version 13\n1..{}", cases.len())?;
    for (nth, case) in cases.iter().enumerate() {
        let (nth, name) = (nth + 1, case.name);
        if let Some(why) = missing.reason(case.needs) {
            outcome.skipped += 1;
            writeln!(out, "ok {nth} - {name} # SKIP {why}")?;
            continue;
        }
        match work
            .place(name)
            .map_err(|errno| errno.to_string())
            .and_then(|place| run_case(place, *case))
        {
            Ok(()) => {
                outcome.passed += 1;
                writeln!(out, "ok {nth} - {name}")?;
            }
            Err(why) => {
                let is_known = known.iter().any(|known| known == name);
                let (count, mark) = match is_known {
                    true => (&mut outcome.deviating, " # TODO a known deviation"),
                    false => (&mut outcome.failed, ""),
                };
                *count += 1;
                writeln!(out, "not ok {nth} - {name}{mark}")?;
                for line in why.lines() {
                    writeln!(out, "# {line}")?;
                }
            }
        }
    }
    let Outcome {
        passed,
        failed,
        skipped,
        deviating,
    } = outcome;
    let seconds = started.elapsed().as_secs_f64();
    writeln!(
        out,
        "# {passed} passed, {failed} failed, {skipped} skipped, {deviating} deviating in {seconds:.1} s"
    )?;
    Ok(outcome)
}

/// Runs one case on a thread of its own: for its own umask, and so that one
/// that hangs is found out.
fn run_case(place: Place, case: Case) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    let act = move || {
        let outcome = caught(|| {
            sluice_sys::unshare_thread_fs().expect("a umask of its own");
            rustix::process::umask(Mode::from_raw_mode(0o022));
            (case.run)(&place);
        });
        // The receiver gives up on cases that hang.
        let _ = sender.send(outcome);
    };
    let thread = thread::Builder::new().name(case.name.to_owned());
    thread
        .spawn(act)
        .map_err(|error| format!("no thread: {error}"))?;
    let hung = |_| format!("still running after {} s", PATIENCE.as_secs());
    receiver.recv_timeout(PATIENCE).map_err(hung)?
}

/// A directory for one run.
struct WorkDir {
    path: std::path::PathBuf,
    dir: OwnedFd,
}

impl WorkDir {
    fn make(parent: &Path) -> io::Result<WorkDir> {
        let path = parent.join(format!("posix.{}", std::process::id()));
        fs::create_dir(&path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &path, flags, Mode::empty())?;
        Ok(WorkDir { path, dir })
    }

    fn place(&self, name: &str) -> rustix::io::Result<Place> {
        let name = name.replace("::", ".");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        mkdirat(&self.dir, &name, Mode::from_raw_mode(0o755))?;
        openat(&self.dir, &name, flags, Mode::empty()).map(Place::new)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // What cases that failed left behind may resist.
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("posix: cannot remove {}: {error}", self.path.display());
        }
    }
}
