//! System calls of a server for each operation, counted by strace.

use super::contest::{Cell, Contestant, Entrant, Figure, Meter, Placement, Row, Unit};
use super::error::{BenchError, Context};
use super::fixture::Fixture;
use super::stats::Quartiles;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long strace may take to attach to all threads.
const PATIENCE: Duration = Duration::from_secs(10);

/// What strace can be attached to.
pub trait Traced: Contestant {
    /// Process id of the server.
    fn pid(&self) -> u32;
}

/// What a reader of the rows must know.
pub const NOTE: &str = "strace -f -c; waiting and waking count, and so does what surrounds a \
    burst (opening a directory; giving nodes back)";

/// Runs one burst of every cell on every entrant under strace; counts the calls whose
/// names `is_meant`.
pub fn count<'c, C: Traced + 'c>(
    cells: impl Iterator<Item = &'c Cell<C>>,
    entrants: &mut [Entrant<C>],
    fixture: &Fixture,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<Row> {
    cells
        .map(|cell| {
            eprintln!("bench: system calls: {}", cell.name);
            let results = entrants.iter_mut().map(|entrant| {
                count_burst(cell, &mut entrant.contestant, fixture, &is_meant)
                    .map_err(|error| error.to_string())
            });
            Row {
                cell: cell.name,
                unit: Unit::Calls,
                results: results.collect(),
            }
        })
        .collect()
}

fn count_burst<C: Traced>(
    cell: &Cell<C>,
    server: &mut C,
    fixture: &Fixture,
    is_meant: &impl Fn(&str) -> bool,
) -> Result<Figure, BenchError> {
    server.place(Placement::Apart)?;
    let mut meter = Meter::new(server.cpu_clock());
    let trace = Trace::attach(server.pid(), fixture.beside("strace.txt"))?;
    (cell.burst)(server, &mut meter)?;
    let summary = trace.finish()?;
    let calls: u64 = calls(&summary)
        .filter(|(name, _)| is_meant(name))
        .map(|(_, count)| count)
        .sum();
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

    /// Detaches; gives what strace says.
    fn finish(mut self) -> Result<String, BenchError> {
        self.detach()?;
        fs::read_to_string(&self.output).context("strace's summary")
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

/// Names and numbers of calls, out of a summary: a line for each has share, seconds,
/// microseconds, calls, perhaps errors, and the name.
fn calls(summary: &str) -> impl Iterator<Item = (&str, u64)> {
    summary.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let count = fields.nth(3)?.parse().ok()?;
        let name = fields.next_back()?;
        (name != "total").then_some((name, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 62.50    0.000020           6         3           read
 37.50    0.000012           4         3         1 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.000032           5         6         1 total
";
        let found: Vec<_> = calls(summary).collect();
        assert_eq!(found, [("read", 3), ("futex", 3)]);
        assert_eq!(calls("nothing").count(), 0);
    }
}
