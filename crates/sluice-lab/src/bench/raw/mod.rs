//! Round trips over a ring, with a driver of our own and no guest: FUSE requests
//! on virtio-fs devices.

mod cells;
mod client;
mod device;
mod isolation;
mod null_server;
mod stall;

use super::contest::{self, Entrant, Extent, Role};
use super::error::BenchError;
use super::fixture::Fixture;
use super::machine::Processors;
use super::programs::Programs;
use super::report::Table;
use super::syscalls;
use device::{Program, VirtioFs};
pub use null_server::serve as serve_nothing;
use sluice_virtio::driver::WaitMode;
pub use stall::serve as serve_stalling;

/// virtiofsd's settings that could be the fastest. What a cache mode changes is
/// mostly what the guest does not ask any more.
const VIRTIOFSD_SETTINGS: &[(&str, &[&str])] = &[
    ("virtiofsd auto", &["--cache", "auto"]),
    ("virtiofsd never", &["--cache", "never"]),
    ("virtiofsd always", &["--cache", "always"]),
    (
        "virtiofsd O_PATH",
        &["--cache", "auto", "--inode-file-handles=never"],
    ),
    (
        "virtiofsd pool 1",
        &["--cache", "auto", "--thread-pool-size", "1"],
    ),
    (
        "virtiofsd pool 64",
        &["--cache", "auto", "--thread-pool-size", "64"],
    ),
];

/// Whether Sluice and the null server look for requests before they sleep, where
/// that pays. Peers always sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// They don't.
    Off,
    /// They do, as by default.
    Auto,
}

impl Poll {
    /// The value of `--poll`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Poll::Off => "off",
            Poll::Auto => "auto",
        }
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct RawOptions {
    /// With which of these; a table for each.
    pub polls: Vec<Poll>,
    /// How much.
    pub extent: Extent,
    /// How the driver waits for completions.
    pub wait_mode: WaitMode,
    /// Whether to count system calls, with strace.
    pub count_syscalls: bool,
}

/// Measures all servers. A peer that does not start is left out, and said so.
///
/// # Errors
/// When Sluice itself does not start.
pub fn run(
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    options: &RawOptions,
) -> Result<Vec<Table>, BenchError> {
    let mut tables = Vec::new();
    for &poll in &options.polls {
        tables.extend(run_with(poll, programs, fixture, processors, options)?);
    }
    let start = |group: &'static str| {
        move |program: &Program, number: usize| {
            let name = format!("{group}-{number}");
            let (mode, processors) = (options.wait_mode, *processors);
            VirtioFs::start(program, programs, fixture, &name, mode, processors)
        }
    };
    tables.push(stall::run(start("stall"), &options.extent)?);
    tables.push(isolation::run(start("isolation"), &options.extent)?);
    Ok(tables)
}

fn run_with(
    poll: Poll,
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    options: &RawOptions,
) -> Result<Vec<Table>, BenchError> {
    let title = format!("raw vhost-user, --poll={}", poll.word());
    let mut notes = vec![
        "one request at a time; READDIRPLUS in replies of 32 KiB; close is FLUSH (unless the \
         server wants none) and RELEASE"
            .to_owned(),
        match options.wait_mode {
            WaitMode::Spin => "the driver polls the ring and asks for no signals".to_owned(),
            WaitMode::Event => "the driver sleeps until it is signalled".to_owned(),
        },
        "sluice serve --cache=auto, isolated; virtiofsd --sandbox none --seccomp none, and as \
         its column says (O_PATH: --inode-file-handles=never)"
            .to_owned(),
    ];
    let mut entrants = start_all(poll, programs, fixture, processors, options, &mut notes)?;
    let rows = contest::hold(cells::CELLS, &mut entrants, &options.extent, |cell| {
        eprintln!("bench: {title}: {cell}");
    });
    let mut tables = vec![Table {
        title: title.clone(),
        notes,
        entrants: names(&entrants),
        rows,
    }];
    // strace makes everything so slow that polling never pays.
    if options.count_syscalls && poll == Poll::Off {
        let cells = options.extent.of(cells::CELLS);
        tables.push(Table {
            title: format!("{title}, system calls per operation"),
            notes: vec![syscalls::NOTE.to_owned()],
            rows: syscalls::count(cells, &mut entrants, fixture, |_| true),
            entrants: names(&entrants),
        });
    }
    Ok(tables)
}

fn start_all(
    poll: Poll,
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    options: &RawOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<Entrant<VirtioFs>>, BenchError> {
    let start = |program: &Program, number: usize| {
        let name = format!("fs-{}-{number}", poll.word());
        let (mode, processors) = (options.wait_mode, *processors);
        VirtioFs::start(program, programs, fixture, &name, mode, processors)
    };
    let mut entrants = Vec::new();
    let sluice = Program::Sluice {
        flags: &["--cache=auto"],
        poll,
    };
    for (label, role) in [("sluice", Role::Subject), ("sluice again", Role::Control)] {
        let contestant = start(&sluice, entrants.len())?;
        entrants.push(Entrant {
            label: label.to_owned(),
            role,
            contestant,
        });
    }
    for &(label, flags) in VIRTIOFSD_SETTINGS {
        match start(&Program::Virtiofsd { flags }, entrants.len()) {
            Ok(contestant) => entrants.push(Entrant {
                label: label.to_owned(),
                role: Role::Peer,
                contestant,
            }),
            Err(error) => notes.push(format!("{label} is missing: {error}")),
        }
    }
    entrants.push(Entrant {
        label: "null server".to_owned(),
        role: Role::Floor,
        contestant: start(&Program::Null { poll }, entrants.len())?,
    });
    Ok(entrants)
}

fn names(entrants: &[Entrant<VirtioFs>]) -> Vec<(String, Role)> {
    entrants
        .iter()
        .map(|entrant| (entrant.label.clone(), entrant.role))
        .collect()
}
