//! Work in real guests: user-mode Linux on one processor, the server of its
//! share on another.

mod agent;
mod cells;
mod device;
mod fixture;
mod work;

use super::contest::{self, Cell, Entrant, Extent, Role};
use super::error::{BenchError, Context};
use super::interrupt;
use super::machine::Processors;
use super::programs::Programs;
use super::report::Table;
pub use agent::obey;
pub(super) use agent::parse_done;
use device::{Program, ServedGuest, Trust};
use fixture::GuestFixture;
use std::fs;
use std::path::Path;
use std::rc::Rc;

/// A guest's memory: little, so that files that outgrow it can be small.
const MEMORY_MIB: u32 = 96;

/// A guest's memory that is enough for a compiler.
const BUILDER_MEMORY_MIB: u32 = 512;

/// Where the share is in a guest.
const MOUNTED_AT: &str = "/share";

/// Everybody who takes part, in the order of the table.
const ENTRANTS: &[(&str, Role, Program)] = &[
    ("sluice", Role::Subject, Program::Sluice),
    ("sluice again", Role::Control, Program::Sluice),
    ("virtiofsd", Role::Peer, Program::Virtiofsd),
    ("null server", Role::Floor, Program::Null),
];

/// How much to measure.
#[derive(Clone, Debug)]
pub struct GuestExtent {
    /// Bursts of single operations and of fio.
    pub short: Extent,
    /// Bursts of programs that go through the whole tree.
    pub long: Extent,
    /// Fewer cells, and none with long bursts.
    pub is_quick: bool,
}

impl GuestExtent {
    fn short_cells(&self, group: &Group) -> &'static [Cell<ServedGuest>] {
        match self.is_quick {
            true => group.quick,
            false => group.short,
        }
    }

    fn long_cells(&self, group: &Group) -> &'static [Cell<ServedGuest>] {
        match self.is_quick {
            true => &[],
            false => group.long,
        }
    }
}

/// One table.
struct Group {
    title: &'static str,
    /// What else a reader must know.
    note: Option<&'static str>,
    /// How long guests trust the server.
    trust: Trust,
    /// The guests' memory.
    memory_mib: u32,
    /// Cells with short bursts.
    short: &'static [Cell<ServedGuest>],
    /// Those of them that are measured when it shall be quick.
    quick: &'static [Cell<ServedGuest>],
    /// Cells whose bursts take seconds.
    long: &'static [Cell<ServedGuest>],
}

const GROUPS: &[Group] = &[
    Group {
        title: "names and attributes, cache=auto",
        note: Some(
            "virtiofsd refuses STATX, once and for all: the times of birth that are asked for \
             are missing then, and the guest takes the rest from what it knows",
        ),
        trust: Trust::Auto,
        memory_mib: MEMORY_MIB,
        short: cells::NAMES,
        quick: cells::NAMES,
        long: cells::PROGRAMS,
    },
    Group {
        title: "file data, cache=auto",
        note: Some(
            "a file of four times the guest's memory; with 4 jobs, a fourth of that for each",
        ),
        trust: Trust::Auto,
        memory_mib: MEMORY_MIB,
        short: cells::DATA,
        quick: cells::QUICK_DATA,
        long: &[],
    },
    Group {
        title: "names and attributes, cache=always",
        note: None,
        trust: Trust::Always,
        memory_mib: MEMORY_MIB,
        short: cells::TRUSTED_NAMES,
        quick: cells::TRUSTED_NAMES,
        long: cells::TRUSTED_PROGRAMS,
    },
    Group {
        title: "building, cache=always",
        note: Some("compiler, headers and sources are on the share"),
        trust: Trust::Always,
        memory_mib: BUILDER_MEMORY_MIB,
        short: &[],
        quick: &[],
        long: cells::BUILDS,
    },
];

/// Measures all groups, on a share below `parent`. A peer that does not start
/// is left out, and said so.
///
/// # Errors
/// When there is no user-mode Linux, or Sluice itself does not start.
pub fn run(
    programs: &Programs,
    parent: &Path,
    processors: &Processors,
    extent: &GuestExtent,
) -> Result<Vec<Table>, BenchError> {
    let builds = match extent.is_quick {
        true => false,
        false => extent.long.of(cells::BUILDS).next().is_some(),
    };
    let system = builds.then_some(programs.lab.as_path());
    let fixture = Rc::new(GuestFixture::make(parent, ENTRANTS.len(), system)?);
    fs::copy(&programs.bench, fixture.beside("tools/bench")).context("the guest's tools")?;
    let is_wanted = |group: &Group| {
        extent.short.of(extent.short_cells(group)).next().is_some()
            || extent.long.of(extent.long_cells(group)).next().is_some()
    };
    GROUPS
        .iter()
        .enumerate()
        .filter(|(_, group)| is_wanted(group))
        .map(|(index, group)| run_group(index, group, programs, &fixture, processors, extent))
        .collect()
}

fn run_group(
    index: usize,
    group: &Group,
    programs: &Programs,
    fixture: &Rc<GuestFixture>,
    processors: &Processors,
    extent: &GuestExtent,
) -> Result<Table, BenchError> {
    let mut notes = vec![
        format!(
            "user-mode Linux with {} MiB on one processor, the server on another; \
             virtiofsd --sandbox none --seccomp none; the null server holds a copy of the share \
             in memory",
            group.memory_mib
        ),
        "of floor: how much of the way from virtiofsd to the null server is done".to_owned(),
    ];
    notes.extend(group.note.map(str::to_owned));
    let mut entrants = start_all((index, group), programs, fixture, processors, &mut notes)?;
    let progress = |cell| eprintln!("bench: guest, {}: {cell}", group.title);
    let mut rows = contest::hold(
        extent.short_cells(group),
        &mut entrants,
        &extent.short,
        progress,
    );
    rows.extend(contest::hold(
        extent.long_cells(group),
        &mut entrants,
        &extent.long,
        progress,
    ));
    Ok(Table {
        title: format!("guest, {}", group.title),
        notes,
        entrants: entrants
            .into_iter()
            .map(|entrant| (entrant.label, entrant.role))
            .collect(),
        rows,
    })
}

fn start_all(
    (index, group): (usize, &Group),
    programs: &Programs,
    fixture: &Rc<GuestFixture>,
    processors: &Processors,
    notes: &mut Vec<String>,
) -> Result<Vec<Entrant<ServedGuest>>, BenchError> {
    let mut entrants = Vec::new();
    for (number, &(label, role, program)) in ENTRANTS.iter().enumerate() {
        interrupt::check()?;
        let guest = ServedGuest::start(
            (program, group.trust),
            group.memory_mib,
            programs,
            fixture,
            (index, number),
            *processors,
        );
        match guest {
            Ok(contestant) => entrants.push(Entrant {
                label: label.to_owned(),
                role,
                contestant,
            }),
            Err(error) if role != Role::Subject => {
                notes.push(format!("{label} is missing: {error}"));
            }
            Err(error) => return Err(error).context(label),
        }
    }
    Ok(entrants)
}
