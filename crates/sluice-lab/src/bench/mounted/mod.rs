//! The engine under the real kernel: programs' system calls on FUSE mounts.

mod cells;
mod mount;

use super::contest::{self, Entrant, Extent, Placement, Role};
use super::error::BenchError;
use super::fixture::Fixture;
use super::machine::Processors;
use super::programs::Programs;
use super::report::Table;
use mount::{Mount, Program};

/// Servers with the same caching on all sides.
struct Group {
    title: &'static str,
    note: &'static str,
    peers: &'static [(&'static str, Program)],
    sluice_options: &'static str,
}

/// With a cache, `passthrough_hp` always asks for the kernel's writeback cache:
/// it has no counterpart in the second group.
const GROUPS: &[Group] = &[
    Group {
        title: "nothing cached",
        note: "no timeouts, direct I/O: sluice cache=never; passthrough_ll cache=never; \
            passthrough_hp --nocache --direct-io",
        sluice_options: "cache=never",
        peers: &[
            (
                "passthrough_ll",
                Program::PassthroughLl {
                    options: "cache=never",
                },
            ),
            (
                "passthrough_hp",
                Program::PassthroughHp {
                    flags: &["--nocache", "--direct-io"],
                },
            ),
        ],
    },
    Group {
        title: "cached, written through",
        note: "cache=always on both sides; what the kernel answers from its cache should be equal",
        sluice_options: "cache=always",
        peers: &[(
            "passthrough_ll",
            Program::PassthroughLl {
                options: "cache=always",
            },
        )],
    },
    Group {
        title: "cached, writes collected",
        note: "sluice cache=always,writeback; passthrough_ll cache=always,writeback; \
            passthrough_hp (its default)",
        sluice_options: "cache=always,writeback",
        peers: &[
            (
                "passthrough_ll",
                Program::PassthroughLl {
                    options: "cache=always,writeback",
                },
            ),
            ("passthrough_hp", Program::PassthroughHp { flags: &[] }),
        ],
    },
];

/// Measures all groups. A server that does not start is left out, and said so.
///
/// # Errors
/// When Sluice itself does not start.
pub fn run(
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    extent: &Extent,
) -> Result<Vec<Table>, BenchError> {
    GROUPS
        .iter()
        .enumerate()
        .map(|(index, group)| run_group(group, index, programs, fixture, processors, extent))
        .collect()
}

fn run_group(
    group: &Group,
    index: usize,
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    extent: &Extent,
) -> Result<Table, BenchError> {
    let mut notes = vec![
        group.note.to_owned(),
        "default_permissions everywhere: only passthrough_ll could do without".to_owned(),
        match extent.placement {
            Placement::Free => "processors are left to the scheduler, as on a user's machine",
            Placement::Apart => "programs on one processor, the server on another",
        }
        .to_owned(),
    ];
    let mut entrants = Vec::new();
    let sluice = Program::Sluice {
        options: group.sluice_options,
    };
    for (label, role) in [("sluice", Role::Subject), ("sluice again", Role::Control)] {
        let name = format!("{index}-{}", entrants.len());
        entrants.push(Entrant {
            label: label.to_owned(),
            role,
            contestant: Mount::start(&sluice, programs, fixture, &name, *processors)?,
        });
    }
    for (label, program) in group.peers {
        let name = format!("{index}-{}", entrants.len());
        match Mount::start(program, programs, fixture, &name, *processors) {
            Ok(contestant) => entrants.push(Entrant {
                label: (*label).to_owned(),
                role: Role::Peer,
                contestant,
            }),
            Err(error) => notes.push(format!("{label} is missing: {error}")),
        }
    }
    let rows = contest::hold(cells::CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: /dev/fuse, {}: {cell}", group.title);
    });
    Ok(Table {
        title: format!("/dev/fuse, {}", group.title),
        notes,
        entrants: entrants
            .into_iter()
            .map(|entrant| (entrant.label, entrant.role))
            .collect(),
        rows,
    })
}
