//! Many connections: what idle ones cost, and how busy ones share a server.

use super::client::{Client, ROOT};
use super::server::{Running, Transport};
use super::{Scene, entrants, table};
use crate::bench::contest::{self, Cell, Unit};
use crate::bench::error::{BenchError, Context};
use crate::bench::raw::Poll;
use crate::bench::report::Table;
use crate::bench::syscalls::Traced;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

/// Connections that do nothing.
const IDLE: usize = 1000;

/// Connections that always have a request under way.
const BUSY: usize = 64;

/// Requests of a burst.
const BURST: u64 = 6400;

const CELLS: &[Cell<Running>] = &[
    Cell {
        name: "crowd: memory with 1,000 idle connections",
        unit: Unit::Bytes,
        burst: |running, meter| {
            let clients = connect(running, IDLE)?;
            let bytes = resident_bytes(running.pid())?;
            drop(clients);
            meter.remote(|| Ok((1, bytes as f64)))
        },
    },
    Cell {
        name: "crowd: Tgetattr, 64 connections at once",
        unit: Unit::Operation,
        burst: |running, meter| {
            let mut clients = connect(running, BUSY)?;
            meter.span(|| keep_busy(&mut clients).map(|_| BURST))
        },
    },
    Cell {
        name: "crowd: replies to the mean connection for one to the slowest",
        unit: Unit::Times,
        burst: |running, meter| {
            let mut clients = connect(running, BUSY)?;
            let slowest = keep_busy(&mut clients)?;
            let mean = BURST as f64 / BUSY as f64;
            meter.remote(|| Ok((BURST, mean / slowest.max(1) as f64)))
        },
    },
];

fn connect(running: &Running, count: usize) -> Result<Vec<Client>, BenchError> {
    (0..count).map(|_| running.connect()).collect()
}

/// Each client asks again as soon as it has its answer; answers to the one that got
/// fewest.
fn keep_busy(clients: &mut [Client]) -> Result<u64, BenchError> {
    let mut answers = vec![0; clients.len()];
    for client in clients.iter_mut() {
        client.send_getattr(ROOT)?;
    }
    let mut left = BURST;
    while left > 0 {
        for (client, answers) in clients.iter_mut().zip(&mut answers) {
            if left > 0 && client.take_getattr()? {
                client.send_getattr(ROOT)?;
                *answers += 1;
                left -= 1;
            }
        }
    }
    Ok(answers.into_iter().min().unwrap_or(0))
}

/// What a process has in memory, in bytes.
fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the server")?;
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = field.and_then(|field| field.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.ok_or(BenchError::new("no VmRSS"))? * 1024)
}

/// Measures on unix sockets.
pub(super) fn run(scene: &Scene<'_>) -> Result<Option<Table>, BenchError> {
    let extent = &scene.options.extent;
    if extent.of(CELLS).next().is_none() {
        return Ok(None);
    }
    // Servers inherit it.
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).context("descriptors")?;
    let mut notes = vec![
        "one thread asks on all connections; each asks again when it has its answer".to_owned(),
    ];
    let place = ("crowd", Transport::Unix);
    let mut entrants = scene.start_all(&entrants(Poll::Auto), place, Ok, &mut notes)?;
    let title = "9P, many connections";
    let rows = contest::hold(CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: {title}: {cell}");
    });
    Ok(Some(table(title.to_owned(), notes, &entrants, rows)))
}
