//! Work in real guests: user-mode Linux on one processor, the server of its
//! share, over virtio-fs or 9P, on another.

mod agent;
mod cells;
mod device;
mod fixture;
mod groups;
mod program;
mod work;

use super::contest::{self, Cell, Entrant, Extent, Role};
use super::error::{BenchError, Context};
use super::interrupt;
use super::machine::Processors;
use super::programs::Programs;
use super::report::Table;
pub use agent::obey;
pub(super) use agent::parse_done;
use device::ServedGuest;
use fixture::GuestFixture;
pub use groups::Protocol;
use groups::{CONTENDERS_MAX, Group, MEMORY_MIB};
use std::fs;
use std::path::Path;
use std::rc::Rc;
pub use work::ShareMount;

/// Where the share is in a guest.
const MOUNTED_AT: &str = "/share";

/// How much to measure.
#[derive(Clone, Debug)]
pub struct GuestExtent {
    /// Bursts of single operations and of fio.
    pub short: Extent,
    /// Bursts of programs that go through the whole tree.
    pub long: Extent,
    /// Bursts of programs that work for a minute.
    pub whole: Extent,
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

    fn whole_cells(&self, group: &Group) -> &'static [Cell<ServedGuest>] {
        match self.is_quick {
            true => &[],
            false => group.whole,
        }
    }

    /// What is to be measured for a group, and how much.
    fn parts(&self, group: &Group) -> [(&'static [Cell<ServedGuest>], &Extent); 3] {
        [
            (self.short_cells(group), &self.short),
            (self.long_cells(group), &self.long),
            (self.whole_cells(group), &self.whole),
        ]
    }

    fn wants(&self, group: &Group) -> bool {
        let mut parts = self.parts(group).into_iter();
        parts.any(|(cells, extent)| extent.of(cells).next().is_some())
    }

    /// Whether a group's guests compile something.
    fn builds(&self, group: &Group) -> bool {
        group.has_system && self.wants(group)
    }
}

/// Measures all groups on mounts of `protocol`, on a share below `parent`. A peer
/// that does not start is left out, and said so.
///
/// # Errors
/// When there is no user-mode Linux, or Sluice itself does not start.
pub fn run(
    protocol: Protocol,
    programs: &Programs,
    parent: &Path,
    processors: &Processors,
    extent: &GuestExtent,
) -> Result<Vec<Table>, BenchError> {
    let groups = protocol.groups();
    let builds = groups.iter().any(|group| extent.builds(group));
    let system = builds.then_some(programs.lab.as_path());
    let fixture = Rc::new(GuestFixture::make(parent, CONTENDERS_MAX, system)?);
    for (program, tool) in [(&programs.bench, "bench"), (&programs.sluice, "sluice")] {
        let tool = fixture.beside("tools").join(tool);
        fs::copy(program, tool).context("the guest's tools")?;
    }
    groups
        .iter()
        .enumerate()
        .filter(|(_, group)| extent.wants(group))
        .map(|(index, group)| {
            let table = run_group(index, group, programs, &fixture, processors, extent)?;
            Ok(Table {
                title: format!("{}, {}", protocol.word(), table.title),
                ..table
            })
        })
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
    let mut notes = vec![format!(
        "user-mode Linux with {} MiB on one processor, the server on another",
        group.memory_mib
    )];
    notes.extend(group.notes.iter().map(|&note| note.to_owned()));
    let mut entrants = start_all((index, group), programs, fixture, processors, &mut notes)?;
    let progress = |cell| eprintln!("bench: guest, {}: {cell}", group.title);
    let mut rows = Vec::new();
    for (cells, extent) in extent.parts(group) {
        rows.extend(contest::hold(cells, &mut entrants, extent, progress));
    }
    Ok(Table {
        title: group.title.to_owned(),
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
    for (number, contender) in group.contenders.iter().enumerate() {
        interrupt::check()?;
        let guest = ServedGuest::start(
            contender.program,
            group.memory_mib,
            programs,
            fixture,
            (index, number),
            *processors,
        );
        match guest {
            Ok(contestant) => entrants.push(Entrant {
                label: contender.label.to_owned(),
                role: contender.role,
                contestant,
            }),
            Err(error) if contender.role != Role::Subject => {
                notes.push(format!("{} is missing: {error}", contender.label));
            }
            Err(error) => return Err(error).context(contender.label),
        }
    }
    Ok(entrants)
}
