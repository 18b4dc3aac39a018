//! System calls of a server for each operation, counted by strace.

use super::device::VirtioFs;
use super::names;
use crate::bench::contest::{Cell, Contestant, Entrant, Figure, Meter, Placement, Row, Unit};
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::Fixture;
use crate::bench::report::Table;
use crate::bench::stats::Quartiles;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long strace may take to attach to all threads.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs one burst of every cell on every entrant under strace.
pub(super) fn count<'c>(
    title: &str,
    cells: impl Iterator<Item = &'c Cell<VirtioFs>>,
    entrants: &mut [Entrant<VirtioFs>],
    fixture: &Fixture,
) -> Table {
    let rows = cells
        .map(|cell| {
            eprintln!("bench: system calls: {}", cell.name);
            let results = entrants.iter_mut().map(|entrant| {
                count_burst(cell, &mut entrant.contestant, fixture)
                    .map_err(|error| error.to_string())
            });
            Row {
                cell: cell.name,
                unit: Unit::Calls,
                results: results.collect(),
            }
        })
        .collect();
    Table {
        title: format!("{title}, system calls per operation"),
        notes: vec![
            "strace -f -c; waiting and waking count, and so does what surrounds a burst \
             (OPENDIR; FORGET after lookups)"
                .to_owned(),
        ],
        entrants: names(entrants),
        rows,
    }
}

fn count_burst(
    cell: &Cell<VirtioFs>,
    server: &mut VirtioFs,
    fixture: &Fixture,
) -> Result<Figure, BenchError> {
    server.place(Placement::Apart)?;
    let mut meter = Meter::new(server.cpu_clock());
    let trace = Trace::attach(server.pid(), fixture.beside("strace.txt"))?;
    (cell.burst)(server, &mut meter)?;
    let calls = trace.finish()?;
    let each = calls as f64 / meter.operations().max(1) as f64;
    Ok(Figure {
        // A stray wake-up among a thousand operations makes no difference.
        value: Quartiles {
            lower: each * 0.99,
            median: each,
            upper: each * 1.01,
        },
        cpu_ns: None,
        bursts: 1,
    })
}

/// A running strace. Dropping it detaches.
struct Trace {
    child: Child,
    output: PathBuf,
}

impl Trace {
    fn attach(pid: u32, output: PathBuf) -> Result<Self, BenchError> {
        let child = Command::new("strace")
            .args(["-f", "-c", "-qq", "-p", &pid.to_string(), "-o"])
            .arg(&output)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("strace")?;
        let mut trace = Trace { child, output };
        let deadline = Instant::now() + PATIENCE;
        while !is_traced(pid)? {
            if let Some(status) = trace.child.try_wait()? {
                return Err(BenchError::new(format!("strace ended with {status}")));
            }
            if Instant::now() > deadline {
                return Err(BenchError::new("strace does not attach"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(trace)
    }

    /// Detaches; gives the number of calls.
    fn finish(mut self) -> Result<u64, BenchError> {
        self.detach()?;
        let summary = fs::read_to_string(&self.output).context("strace's summary")?;
        total_calls(&summary).ok_or(BenchError::new("strace's summary has no total"))
    }

    fn detach(&mut self) -> Result<(), BenchError> {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::INT)?;
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Nothing more can be done about it here.
            let _ = self.detach();
        }
    }
}

/// Whether all threads of a process are traced.
fn is_traced(pid: u32) -> Result<bool, BenchError> {
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(entry?.path().join("status"))?;
        let tracer = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        if tracer.is_none_or(|tracer| tracer.trim() == "0") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The calls column of the line `total`.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 62.50    0.000020           6         3           read
 37.50    0.000012           4         3         1 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.000032           5         6         1 total
";
        assert_eq!(total_calls(summary), Some(6));
        assert_eq!(total_calls("nothing"), None);
    }
}
