//! What a request that takes a second does to the others on its ring.

use super::cells::small_offset;
use super::device::{Program, VirtioFs};
use super::{Poll, names};
use crate::bench::contest::{self, Cell, Entrant, Extent, Meter, Role, Unit};
use crate::bench::error::{BenchError, Context};
use crate::bench::report::Table;
use crate::faults::{FaultyService, Plan};
use sluicefs::serve::Serving;
use sluicefs::share::{self, SharePolicy};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a stalled request takes.
const STALL: Duration = Duration::from_secs(1);

/// Stalled requests at the same time.
const STALLED: usize = 2;

/// Requests of a burst.
const BURST: u32 = 1000;

const SMALL: u32 = 4096;

const CELLS: &[Cell<VirtioFs>] = &[
    Cell {
        name: "GETATTR, p99",
        unit: Unit::Operation,
        burst: |server, meter| {
            let node = server.plain;
            beside_stall(server, meter, |server, _| server.client.getattr(node))
        },
    },
    Cell {
        name: "READ 4K, p99",
        unit: Unit::Operation,
        burst: |server, meter| {
            let (node, fh) = (server.data, server.data_handle);
            beside_stall(server, meter, |server, index| {
                server.client.read(node, fh, small_offset(index), SMALL)
            })
        },
    },
];

fn beside_stall(
    server: &mut VirtioFs,
    meter: &mut Meter,
    operation: impl Fn(&mut VirtioFs, u32) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let (node, fh) = (server.data, server.data_handle);
    if server.has_stall {
        server.client.send_fsync(node, fh, STALLED)?;
    }
    meter.slowest(BURST, |index| operation(server, index))
}

/// Serves `share` on `socket` with the engine and a fault, until killed.
///
/// # Errors
/// A directory or socket that cannot be had.
pub fn serve(socket: &Path, share: &Path) -> Result<(), BenchError> {
    let policy = SharePolicy::default();
    let engine = share::open(share, &policy).context(share.display())?;
    let plan = Arc::new(Plan::default());
    plan.slow_down("fsync", STALL);
    let service = Arc::new(FaultyService::new(engine, plan));
    let tag = "stalling".parse().map_err(BenchError::new)?;
    let _serving =
        Serving::start(service, socket, &tag, policy.fuse_options()).context(socket.display())?;
    loop {
        std::thread::park();
    }
}

/// Compares a ring with stalled requests to one without.
///
/// # Errors
/// When the servers do not start.
pub(super) fn run(
    start: impl Fn(&Program, usize) -> Result<VirtioFs, BenchError>,
    extent: &Extent,
) -> Result<Table, BenchError> {
    let mut entrants = Vec::new();
    for (label, role, has_stall) in [
        ("stalled", Role::Subject, true),
        ("stalled again", Role::Control, true),
        ("nothing stalled", Role::Peer, false),
    ] {
        let mut contestant = start(&Program::Stalling, entrants.len())?;
        contestant.has_stall = has_stall;
        entrants.push(Entrant {
            label: label.to_owned(),
            role,
            contestant,
        });
    }
    entrants.push(Entrant {
        label: "null server".to_owned(),
        role: Role::Floor,
        contestant: start(&Program::Null { poll: Poll::Auto }, entrants.len())?,
    });
    let rows = contest::hold(CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: raw vhost-user, stalls: {cell}");
    });
    Ok(Table {
        title: "raw vhost-user, requests that take a second on the same ring".to_owned(),
        notes: vec![
            "sluice against itself: with requests stalled by a fault layer, and without".to_owned(),
            "the slowest of 100 requests, for each burst of 1000".to_owned(),
        ],
        entrants: names(&entrants),
        rows,
    })
}
