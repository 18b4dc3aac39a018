//! The engine under the real kernel: programs' system calls on FUSE mounts.

mod cells;
mod mount;

use super::contest::{self, Cell, Entrant, Extent, Placement, Role};
use super::error::BenchError;
use super::fixture::Fixture;
use super::machine::Processors;
use super::programs::Programs;
use super::report::Table;
use mount::{Mount, Program};

/// Servers with the same caching on all sides.
struct Group {
    title: &'static str,
    cells: &'static [Cell<Mount>],
    note: &'static str,
    peers: &'static [(&'static str, Program)],
    sluice: Program,
}

/// With a cache, `passthrough_hp` always asks for the kernel's writeback cache:
/// it has no counterpart in the second group.
const GROUPS: &[Group] = &[
    Group {
        title: "nothing cached",
        cells: cells::CELLS,
        note: "no timeouts, direct I/O: sluice cache=never; passthrough_ll cache=never; \
            passthrough_hp --nocache --direct-io",
        sluice: Program::Sluice {
            options: "cache=never",
        },
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
        cells: cells::CELLS,
        note: "cache=always on both sides; what the kernel answers from its cache should be equal",
        sluice: Program::Sluice {
            options: "cache=always",
        },
        peers: &[(
            "passthrough_ll",
            Program::PassthroughLl {
                options: "cache=always",
            },
        )],
    },
    Group {
        title: "cached, writes collected",
        cells: cells::CELLS,
        note: "sluice cache=always,writeback; passthrough_ll cache=always,writeback; \
            passthrough_hp (its default)",
        sluice: Program::Sluice {
            options: "cache=always,writeback",
        },
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

/// A client of a server beside a server that has no second hop, and beside itself.
const OVER_P9: &[Group] = &[
    Group {
        title: "sluice mount of sluice serve, on a unix socket",
        cells: cells::CELLS,
        note: "sluice cache=never, over 9P to sluice serve; passthrough_hp --nopassthrough \
        --nocache --direct-io, which has one hop where sluice has two; processor time is the \
        mount's, without the server's",
        sluice: Program::SluiceOverP9 {
            options: "cache=never",
        },
        peers: &[(
            "passthrough_hp",
            Program::PassthroughHp {
                flags: &["--nocache", "--direct-io"],
            },
        )],
    },
    Group {
        title: "sluice mount of sluice serve, payloads copied or not",
        cells: cells::ZERO_COPY,
        note: "the same with zerocopy=auto and zerocopy=never; direct I/O",
        sluice: Program::SluiceOverP9 {
            options: "cache=never",
        },
        peers: &[(
            "zerocopy=never",
            Program::SluiceOverP9 {
                options: "cache=never,zerocopy=never",
            },
        )],
    },
];

/// Measures mounts of a server. See [`run`].
///
/// # Errors
/// When Sluice itself does not start.
pub fn run_over_9p(
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    extent: &Extent,
) -> Result<Vec<Table>, BenchError> {
    run_groups(OVER_P9, "9p", programs, fixture, processors, extent)
}

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
    run_groups(GROUPS, "fuse", programs, fixture, processors, extent)
}

fn run_groups(
    groups: &[Group],
    name: &str,
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    extent: &Extent,
) -> Result<Vec<Table>, BenchError> {
    let run = |(index, group)| {
        let name = format!("{name}-{index}");
        run_group(group, &name, programs, fixture, processors, extent)
    };
    let is_wanted = |group: &Group| extent.of(group.cells).next().is_some();
    let groups = groups.iter().enumerate();
    groups
        .filter(|(_, group)| is_wanted(group))
        .map(run)
        .collect()
}

fn run_group(
    group: &Group,
    name: &str,
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
    for (label, role) in [("sluice", Role::Subject), ("sluice again", Role::Control)] {
        let name = format!("{name}-{}", entrants.len());
        entrants.push(Entrant {
            label: label.to_owned(),
            role,
            contestant: Mount::start(&group.sluice, programs, fixture, &name, *processors)?,
        });
    }
    for (label, program) in group.peers {
        let name = format!("{name}-{}", entrants.len());
        match Mount::start(program, programs, fixture, &name, *processors) {
            Ok(contestant) => entrants.push(Entrant {
                label: (*label).to_owned(),
                role: Role::Peer,
                contestant,
            }),
            Err(error) => notes.push(format!("{label} is missing: {error}")),
        }
    }
    let rows = contest::hold(group.cells, &mut entrants, extent, |cell| {
        eprintln!("bench: /dev/fuse, {}: {cell}", group.title);
    });
    if let (Program::SluiceOverP9 { .. }, Some(sluice)) = (group.sluice, entrants.first()) {
        notes.push(messages(&sluice.contestant, programs)?);
    }
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

/// How many messages operations take.
fn messages(mount: &Mount, programs: &Programs) -> Result<String, BenchError> {
    const COUNT: u32 = 64;
    let each = cells::COUNTED.iter().map(|(name, operation)| {
        let (sent, waited) = mount.messages(programs)?;
        operation(mount, COUNT)?;
        let (sent_after, waited_after) = mount.messages(programs)?;
        let per_operation = |count: u64| count as f64 / f64::from(COUNT);
        Ok(format!(
            "{name} {:.2} ({:.2})",
            per_operation(sent_after - sent),
            per_operation(waited_after - waited)
        ))
    });
    let each: Vec<_> = each.collect::<Result<_, BenchError>>()?;
    let each = each.join(", ");
    Ok(format!(
        "messages per operation (and those waited for): {each}"
    ))
}
