//! Round trips over sockets, with a driver of our own: 9P2000.L messages to
//! `sluice serve --9p`, diod and a server that answers from memory.

mod cells;
mod client;
mod crowd;
mod library;
mod server;
mod zero_copy;

use super::contest::{self, Contestant, Entrant, Extent, Role};
use super::error::{BenchError, Context};
use super::fixture::Fixture;
use super::machine::Processors;
use super::programs::Programs;
use super::raw::Poll;
use super::report::Table;
use super::syscalls;
use server::{Program, Running, Session, Transport};
use sluice_virtio::driver::WaitMode;

/// How to measure.
#[derive(Clone, Debug)]
pub struct P9Options {
    /// With which of these round trips are measured; a table for each.
    pub polls: Vec<Poll>,
    /// How much.
    pub extent: Extent,
    /// How the driver waits for replies.
    pub wait_mode: WaitMode,
    /// Whether to count system calls, with strace.
    pub count_syscalls: bool,
}

/// What is needed to start a server.
struct Scene<'a> {
    programs: &'a Programs,
    fixture: &'a Fixture,
    processors: &'a Processors,
    options: &'a P9Options,
}

/// Everybody who takes part, in the order of the table.
const fn entrants(poll: Poll) -> [(&'static str, Role, Program); 4] {
    let sluice = Program::Sluice {
        flags: match poll {
            Poll::Off => &["--poll=off"],
            Poll::Auto => &["--poll=auto"],
        },
    };
    [
        ("sluice", Role::Subject, sluice),
        ("sluice again", Role::Control, sluice),
        ("diod", Role::Peer, Program::Diod),
        ("null server", Role::Floor, Program::Null),
    ]
}

/// Measures everything. A peer that does not start is left out, and said so.
///
/// # Errors
/// When Sluice itself does not start.
pub fn run(
    programs: &Programs,
    fixture: &Fixture,
    processors: &Processors,
    options: &P9Options,
) -> Result<Vec<Table>, BenchError> {
    let scene = Scene {
        programs,
        fixture,
        processors,
        options,
    };
    let mut tables = Vec::new();
    for transport in [Transport::Unix, Transport::Tcp] {
        for &poll in &options.polls {
            tables.extend(round_trips(&scene, transport, poll)?);
        }
    }
    for transport in [Transport::Unix, Transport::Tcp] {
        tables.extend(zero_copy::run(&scene, transport)?);
        tables.extend(library::run(&scene, transport)?);
    }
    tables.extend(crowd::run(&scene)?);
    Ok(tables)
}

fn round_trips(
    scene: &Scene<'_>,
    transport: Transport,
    poll: Poll,
) -> Result<Vec<Table>, BenchError> {
    let extent = &scene.options.extent;
    if extent.of(cells::CELLS).next().is_none() {
        return Ok(Vec::new());
    }
    let title = format!("9P over {}, --poll={}", transport.word(), poll.word());
    let mut notes = vec![
        "one request at a time, messages of up to 1 MiB (diod: 64 KiB); open + close is Twalk, \
         Tlopen and Tclunk"
            .to_owned(),
        match scene.options.wait_mode {
            WaitMode::Spin => "the driver looks for replies all the time".to_owned(),
            WaitMode::Event => "the driver sleeps until a reply comes".to_owned(),
        },
        "sluice serve --9p, isolated; diod --no-auth --no-userdb; diod and the null \
         server always sleep"
            .to_owned(),
    ];
    let place = (poll.word(), transport);
    let mut entrants = scene.start_all(&entrants(poll), place, Session::begin, &mut notes)?;
    let rows = contest::hold(cells::CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: {title}: {cell}");
    });
    let mut tables = vec![table(title.clone(), notes, &entrants, rows)];
    // strace makes everything so slow that polling never pays.
    if scene.options.count_syscalls && poll == Poll::Off {
        for (what, is_meant) in COUNTS {
            let cells = extent.of(cells::CELLS);
            let rows = syscalls::count(cells, &mut entrants, scene.fixture, is_meant);
            let notes = vec![syscalls::NOTE.to_owned()];
            tables.push(table(format!("{title}, {what}"), notes, &entrants, rows));
        }
    }
    Ok(tables)
}

/// Whether a call of this name counts.
type IsMeant = fn(&str) -> bool;

/// Which calls are counted.
const COUNTS: [(&str, IsMeant); 2] = [
    ("system calls per operation", |_| true),
    (
        "system calls per operation without the transport's",
        |name| !is_transports(name),
    ),
];

/// Calls that take messages in, send them, wait and wake. No server here uses `read`
/// and `write` for files, and who splices moves a reply.
fn is_transports(name: &str) -> bool {
    const FAMILIES: [&str; 6] = ["epoll_", "recv", "send", "futex", "sched_", "clock_"];
    const CALLS: [&str; 8] = [
        "read",
        "write",
        "readv",
        "writev",
        "poll",
        "ppoll",
        "ioctl",
        "getsockopt",
    ];
    FAMILIES.iter().any(|family| name.starts_with(family)) || CALLS.contains(&name)
}

impl Scene<'_> {
    /// Starts `entrants`; `group` is in the names of their sockets.
    fn start_all<C: Contestant>(
        &self,
        entrants: &[(&str, Role, Program)],
        (group, transport): (&str, Transport),
        begin: impl Fn(Running) -> Result<C, BenchError>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Entrant<C>>, BenchError> {
        let mut started = Vec::new();
        for (number, &(label, role, program)) in entrants.iter().enumerate() {
            let name = format!("{group}-{transport:?}-{number}");
            let running = Running::start(
                &program,
                self.programs,
                self.fixture,
                (transport, &name),
                self.options.wait_mode,
                *self.processors,
            );
            match running.and_then(&begin) {
                Ok(contestant) => started.push(Entrant {
                    label: label.to_owned(),
                    role,
                    contestant,
                }),
                Err(error) if role == Role::Peer => {
                    notes.push(format!("{label} is missing: {error}"));
                }
                Err(error) => return Err(error).context(label),
            }
        }
        Ok(started)
    }
}

fn table<C>(
    title: String,
    notes: Vec<String>,
    entrants: &[Entrant<C>],
    rows: Vec<contest::Row>,
) -> Table {
    let names = entrants
        .iter()
        .map(|entrant| (entrant.label.clone(), entrant.role));
    Table {
        title,
        notes,
        entrants: names.collect(),
        rows,
    }
}
