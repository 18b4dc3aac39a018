//! What is measured over a ring.

use super::client::{Client, ROOT};
use super::device::VirtioFs;
use crate::bench::contest::{Cell, Meter, Unit};
use crate::bench::error::BenchError;
use crate::bench::fixture::{DATA_LEN, Fixture, MANY_FILES, file_name};

/// Operations of a burst.
const BURST: u32 = 1000;

/// Requests in flight where there are several.
const IN_FLIGHT: u32 = 8;

/// Lookups before their nodes are forgotten.
const LOOKUPS: u32 = 200;

/// Bytes of small reads and writes.
const SMALL: u32 = 4096;

/// Room for a READDIRPLUS reply in bytes: the buffer of libc's readdir(3), which
/// Linux 6.16 and later pass on.
const LISTING: u32 = 32 * 1024;

/// All cells, in the order of the table.
pub(super) const CELLS: &[Cell<VirtioFs>] = &[
    cell("GETATTR", |server, meter| {
        let node = server.plain;
        meter.each(BURST, |_| server.client.getattr(node))
    }),
    cell("GETATTR, 8 in flight", |server, meter| {
        let node = server.plain;
        meter.span(|| {
            server
                .client
                .getattr_pipelined(node, BURST, IN_FLIGHT)
                .map(|()| u64::from(BURST))
        })
    }),
    cell("LOOKUP, known node", |server, meter| {
        let mut nodes = Vec::with_capacity(BURST as usize);
        meter.each(BURST, |_| {
            nodes.push(server.client.lookup(ROOT, Fixture::PLAIN)?);
            Ok(())
        })?;
        server.client.forget(&nodes)
    }),
    cell("LOOKUP, new node", lookup_new),
    cell("LOOKUP, missing", |server, meter| {
        meter.each(BURST, |_| {
            server.client.lookup_missing(ROOT, Fixture::MISSING)
        })
    }),
    cell("READ 4K", |server, meter| {
        let (node, fh) = (server.data, server.data_handle);
        meter.each(BURST, |index| {
            server.client.read(node, fh, small_offset(index), SMALL)
        })
    }),
    cell("WRITE 4K", |server, meter| {
        let (node, fh) = (server.data, server.data_handle);
        let data = [0x5A; SMALL as usize];
        meter.each(BURST, |index| {
            server.client.write(node, fh, small_offset(index), &data)
        })
    }),
    cell("OPEN + close", |server, meter| {
        let node = server.plain;
        meter.each(BURST / 2, |_| {
            let open = server.client.open(node, libc_flags::O_RDONLY)?;
            server.client.close(node, &open)
        })
    }),
    cell("READDIRPLUS, per entry", readdirplus),
];

const fn cell(
    name: &'static str,
    burst: fn(&mut VirtioFs, &mut Meter) -> Result<(), BenchError>,
) -> Cell<VirtioFs> {
    Cell {
        name,
        unit: Unit::Operation,
        burst,
    }
}

/// Open flags of Linux on most machines.
pub(super) mod libc_flags {
    pub(in crate::bench::raw) const O_RDONLY: u32 = 0;
    pub(in crate::bench::raw) const O_RDWR: u32 = 2;
}

/// Names that the server has no node for yet; giving them back is not timed.
fn lookup_new(server: &mut VirtioFs, meter: &mut Meter) -> Result<(), BenchError> {
    let many = server.many;
    let client: &mut Client = &mut server.client;
    for round in 0..BURST / LOOKUPS {
        let mut nodes = Vec::with_capacity(LOOKUPS as usize);
        meter.each(LOOKUPS, |index| {
            let name = &server.names[(round * LOOKUPS + index) as usize % server.names.len()];
            nodes.push(client.lookup(many, name)?);
            Ok(())
        })?;
        client.forget(&nodes)?;
    }
    Ok(())
}

fn readdirplus(server: &mut VirtioFs, meter: &mut Meter) -> Result<(), BenchError> {
    let many = server.many;
    let client = &mut server.client;
    let mut nodes = Vec::with_capacity(MANY_FILES as usize);
    let fh = client.opendir(many)?;
    let mut offset = Some(0);
    while let Some(at) = offset {
        let before = nodes.len();
        // The last one, which finds nothing, is an outlier that quartiles ignore.
        meter.span(|| {
            offset = client.readdirplus(many, fh, at, LISTING, &mut nodes)?;
            Ok((nodes.len() - before) as u64)
        })?;
    }
    client.releasedir(many, fh)?;
    // Some servers give nodes for `.` and `..`, some do not.
    if nodes.len() < MANY_FILES as usize {
        return Err(BenchError::new(format!("{} entries listed", nodes.len())));
    }
    client.forget(&nodes)
}

pub(super) fn small_offset(index: u32) -> u64 {
    let blocks = DATA_LEN / u64::from(SMALL);
    (u64::from(index) * 389 % blocks) * u64::from(SMALL)
}

/// The names of [`Fixture::MANY`].
pub(super) fn many_names() -> Vec<String> {
    (0..MANY_FILES).map(file_name).collect()
}
