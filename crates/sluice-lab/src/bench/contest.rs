//! Who measures against whom, in which order, and what comes out.
//!
//! Every cell of a table is measured in short bursts. The entrants take turns
//! within a round, and every other round goes backwards (A B C, C B A): what
//! drifts on the machine meets all of them alike. A burst counts as the lower
//! quartile of its samples, which neighbours on the machine disturb least; an
//! entrant's figure is the median of its bursts, with their quartiles as the
//! spread.

use super::error::BenchError;
use super::interrupt;
use super::server::CpuClock;
use super::stats::{Quartiles, quantile};
use std::time::{Duration, Instant};

/// What an entrant is in the race for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that everything is compared with: Sluice.
    Subject,
    /// The same server as the subject under another name: shows how much two
    /// figures differ when nothing does.
    Control,
    /// Another server, or another setting of one.
    Peer,
    /// A server that does nothing: nothing can be faster.
    Floor,
}

/// What can be measured.
pub trait Contestant {
    /// Of the server's processor time.
    fn cpu_clock(&self) -> CpuClock;

    /// Places driver and server on processors.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn place(&mut self, placement: Placement) -> Result<(), BenchError>;
}

/// Which processors are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The driver on one, the server on another.
    Apart,
    /// Both on all of them, as the scheduler sees fit.
    Free,
}

/// A contestant with its place in the table.
#[derive(Debug)]
pub struct Entrant<C> {
    /// Name in tables.
    pub label: String,
    /// Why it is there.
    pub role: Role,
    /// What is measured.
    pub contestant: C,
}

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time of an operation.
    Operation,
    /// Bytes per second; an operation moves so many bytes.
    Bandwidth(u64),
    /// System calls of an operation.
    Calls,
    /// Bytes of memory.
    Bytes,
    /// How many times something is as much as something else.
    Times,
}

/// A line of a table.
pub struct Cell<C> {
    /// Name in tables.
    pub name: &'static str,
    /// How its figures are shown.
    pub unit: Unit,
    /// Runs one burst.
    pub burst: fn(&mut C, &mut Meter) -> Result<(), BenchError>,
}

/// One entrant's result in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Nanoseconds of an operation; or what else the unit is of.
    pub value: Quartiles,
    /// Nanoseconds of the server's processor time for an operation.
    pub cpu_ns: Option<Quartiles>,
    /// Bursts that were measured.
    pub bursts: usize,
}

/// The results of one cell.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cell's name.
    pub cell: &'static str,
    /// How its figures are shown.
    pub unit: Unit,
    /// A figure, or what went wrong, for each entrant in their order.
    pub results: Vec<Result<Figure, String>>,
}

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Bursts of each entrant in each cell.
    pub rounds: u32,
    /// Rounds before those that count: caches fill, threads start.
    pub warm_up_rounds: u32,
    /// Only cells with this in their name.
    pub only: Option<String>,
    /// On which processors.
    pub placement: Placement,
}

impl Extent {
    /// Those of `cells` that are to be measured.
    pub fn of<'c, C>(&self, cells: &'c [Cell<C>]) -> impl Iterator<Item = &'c Cell<C>> {
        let only = self.only.clone().unwrap_or_default();
        cells.iter().filter(move |cell| cell.name.contains(&only))
    }
}

/// Measures cells for all entrants.
pub fn hold<C: Contestant>(
    cells: &[Cell<C>],
    entrants: &mut [Entrant<C>],
    extent: &Extent,
    mut progress: impl FnMut(&'static str),
) -> Vec<Row> {
    extent
        .of(cells)
        .map(|cell| {
            progress(cell.name);
            hold_cell(cell, entrants, extent)
        })
        .collect()
}

fn hold_cell<C: Contestant>(cell: &Cell<C>, entrants: &mut [Entrant<C>], extent: &Extent) -> Row {
    let warm_up = extent.warm_up_rounds;
    let mut tallies: Vec<Result<Tally, String>> = vec![Ok(Tally::default()); entrants.len()];
    for (turn, index) in turns(entrants.len(), warm_up + extent.rounds).enumerate() {
        let counts = turn >= warm_up as usize * tallies.len();
        let (Some(entrant), Some(slot)) = (entrants.get_mut(index), tallies.get_mut(index)) else {
            continue;
        };
        // Who failed once is out: half a figure would be a wrong one.
        let Ok(tally) = slot else { continue };
        match run_burst(cell, &mut entrant.contestant, extent.placement) {
            Ok(burst) if counts => tally.add(&burst),
            Ok(_) => {}
            Err(error) => *slot = Err(error.to_string()),
        }
    }
    Row {
        cell: cell.name,
        unit: cell.unit,
        results: tallies
            .into_iter()
            .map(|tally| tally.and_then(|tally| tally.figure()))
            .collect(),
    }
}

/// The order of turns: forwards and backwards in turn, and every pair of rounds
/// begins one entrant further on.
fn turns(entrants: usize, rounds: u32) -> impl Iterator<Item = usize> {
    (0..rounds as usize).flat_map(move |round| {
        (0..entrants).map(move |step| {
            let step = if round % 2 == 0 {
                step
            } else {
                entrants - 1 - step
            };
            (step + round / 2) % entrants
        })
    })
}

fn run_burst<C: Contestant>(
    cell: &Cell<C>,
    contestant: &mut C,
    placement: Placement,
) -> Result<Meter, BenchError> {
    interrupt::check()?;
    contestant.place(placement)?;
    let mut meter = Meter::new(contestant.cpu_clock());
    (cell.burst)(contestant, &mut meter)?;
    Ok(meter)
}

/// Collects the samples of one burst.
#[derive(Debug)]
pub struct Meter {
    clock: CpuClock,
    samples_ns: Vec<f64>,
    cpu: Option<Duration>,
    operations: u64,
}

impl Meter {
    pub(super) fn new(clock: CpuClock) -> Self {
        Meter {
            clock,
            samples_ns: Vec::with_capacity(1024),
            cpu: Some(Duration::ZERO),
            operations: 0,
        }
    }

    /// Runs `operation` with 0, 1, … below `count`; each run is a sample.
    ///
    /// # Errors
    /// The first of `operation`.
    pub fn each(
        &mut self,
        count: u32,
        mut operation: impl FnMut(u32) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let before = self.clock.read();
        for index in 0..count {
            let start = Instant::now();
            operation(index)?;
            self.samples_ns.push(start.elapsed().as_nanos() as f64);
        }
        self.count_cpu(before, count.into());
        Ok(())
    }

    /// Runs `work` once; it says how many operations it was, and they are one
    /// sample.
    ///
    /// # Errors
    /// That of `work`.
    pub fn span(
        &mut self,
        work: impl FnOnce() -> Result<u64, BenchError>,
    ) -> Result<(), BenchError> {
        let before = self.clock.read();
        let start = Instant::now();
        let operations = work()?;
        let elapsed_ns = start.elapsed().as_nanos() as f64;
        self.samples_ns.push(elapsed_ns / operations.max(1) as f64);
        self.count_cpu(before, operations);
        Ok(())
    }

    /// Has `work` done where this process cannot time it; it says how many
    /// operations it was and how many nanoseconds each took, and is one sample.
    ///
    /// # Errors
    /// That of `work`.
    pub fn remote(
        &mut self,
        work: impl FnOnce() -> Result<(u64, f64), BenchError>,
    ) -> Result<(), BenchError> {
        let before = self.clock.read();
        let (operations, time_ns) = work()?;
        self.samples_ns.push(time_ns);
        self.count_cpu(before, operations);
        Ok(())
    }

    /// Runs `operation` so often; the time that 99 of 100 don't exceed is one
    /// sample.
    ///
    /// # Errors
    /// The first of `operation`.
    pub fn slowest(
        &mut self,
        count: u32,
        operation: impl FnMut(u32) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let mut all = Meter::new(self.clock);
        all.each(count, operation)?;
        all.samples_ns.sort_by(f64::total_cmp);
        self.samples_ns.extend(quantile(&all.samples_ns, 0.99));
        self.cpu = self.cpu.zip(all.cpu).map(|(sum, spent)| sum + spent);
        self.operations += all.operations;
        Ok(())
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    fn count_cpu(&mut self, before: Option<Duration>, operations: u64) {
        let spent = before
            .zip(self.clock.read())
            .map(|(before, after)| after.saturating_sub(before));
        self.cpu = self.cpu.zip(spent).map(|(sum, spent)| sum + spent);
        self.operations += operations;
    }

    fn time_ns(&self) -> Option<f64> {
        let mut sorted = self.samples_ns.clone();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, 0.25)
    }

    fn cpu_ns(&self) -> Option<f64> {
        let operations = Some(self.operations).filter(|&count| count > 0)?;
        Some(self.cpu?.as_nanos() as f64 / operations as f64)
    }
}

/// The bursts of one entrant in one cell.
#[derive(Clone, Debug, Default)]
struct Tally {
    times_ns: Vec<f64>,
    cpus_ns: Vec<f64>,
}

impl Tally {
    fn add(&mut self, burst: &Meter) {
        self.times_ns.extend(burst.time_ns());
        self.cpus_ns.extend(burst.cpu_ns());
    }

    fn figure(&self) -> Result<Figure, String> {
        Ok(Figure {
            value: Quartiles::of(&self.times_ns).ok_or("no samples")?,
            cpu_ns: Quartiles::of(&self.cpus_ns),
            bursts: self.times_ns.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake {
        name: char,
        log: std::rc::Rc<std::cell::RefCell<String>>,
        fails: bool,
    }

    impl Contestant for Fake {
        fn cpu_clock(&self) -> CpuClock {
            CpuClock::own()
        }

        fn place(&mut self, _: Placement) -> Result<(), BenchError> {
            Ok(())
        }
    }

    const CELL: Cell<Fake> = Cell {
        name: "nothing",
        unit: Unit::Operation,
        burst: |fake, meter| {
            fake.log.borrow_mut().push(fake.name);
            if fake.fails {
                return Err(BenchError::new("it broke"));
            }
            meter.each(3, |_| Ok(()))
        },
    };

    fn race(names: &str, rounds: u32, failing: char) -> (String, Vec<Row>) {
        let log = std::rc::Rc::default();
        let mut entrants: Vec<_> = names
            .chars()
            .map(|name| Entrant {
                label: name.to_string(),
                role: Role::Peer,
                contestant: Fake {
                    name,
                    log: std::rc::Rc::clone(&log),
                    fails: name == failing,
                },
            })
            .collect();
        let extent = Extent {
            warm_up_rounds: 1,
            rounds,
            only: None,
            placement: Placement::Apart,
        };
        let rows = hold(&[CELL], &mut entrants, &extent, |_| {});
        (log.take(), rows)
    }

    #[test]
    fn turns_go_there_and_back_and_shift() {
        let (log, rows) = race("ABC", 3, '-');
        assert_eq!(log, "ABCCBABCAACB");
        for result in &rows[0].results {
            assert_eq!(result.as_ref().unwrap().bursts, 3);
        }
    }

    #[test]
    fn one_failure_takes_only_its_entrant_out() {
        let (log, rows) = race("AB", 2, 'B');
        assert_eq!(log, "ABAA");
        assert!(rows[0].results[0].is_ok());
        assert_eq!(rows[0].results[1], Err("it broke".to_owned()));
    }

    #[test]
    fn a_burst_counts_as_its_lower_quartile() {
        let mut meter = Meter::new(CpuClock::own());
        meter.samples_ns = vec![900.0, 10.0, 20.0, 30.0, 40.0];
        assert_eq!(meter.time_ns(), Some(20.0));
    }

    #[test]
    fn what_was_timed_elsewhere_is_taken_as_it_is() {
        let mut meter = Meter::new(CpuClock::own());
        meter.remote(|| Ok((3, 250.0))).unwrap();
        assert_eq!((meter.operations, meter.time_ns()), (3, Some(250.0)));
    }

    #[test]
    fn a_span_is_divided_by_its_operations() {
        let mut meter = Meter::new(CpuClock::own());
        meter.span(|| Ok(1_000_000_000)).unwrap();
        assert_eq!(meter.operations, 1_000_000_000);
        assert!(meter.time_ns().unwrap() < 1.0);
    }
}
