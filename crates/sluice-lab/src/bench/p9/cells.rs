//! What is measured on a connection.

use super::client::ROOT;
use super::server::Session;
use crate::bench::contest::{Cell, Meter, Unit};
use crate::bench::error::BenchError;
use crate::bench::fixture::{BIG_LEN, DATA_LEN, Fixture, MANY_FILES};
use sluice_proto::p9::wire::{IO_HEADER_LEN, LopenFlags};

/// Operations of a burst.
const BURST: u32 = 1000;

/// Requests in flight where there are several.
const IN_FLIGHT: u32 = 8;

/// Bytes of small reads and writes.
const SMALL: u32 = 4096;

/// Bytes of large ones: what a message of a MiB carries. It takes several where the
/// server has smaller ones.
const LARGE: u32 = (1 << 20) - IO_HEADER_LEN;

/// Large ones of a burst.
const LARGE_BURST: u32 = 48;

/// Room for a reply to Treaddir in bytes.
const LISTING: u32 = 32 * 1024;

/// All cells, in the order of the table.
pub(super) const CELLS: &[Cell<Session>] = &[
    cell("Tgetattr", |session, meter| {
        meter.each(BURST, |_| session.client.getattr(Session::PLAIN))
    }),
    cell("Tgetattr, 8 in flight", |session, meter| {
        meter.span(|| {
            session
                .client
                .getattr_pipelined(Session::PLAIN, BURST, IN_FLIGHT)
                .map(|()| u64::from(BURST))
        })
    }),
    cell("Twalk + Tgetattr", |session, meter| {
        meter.each(BURST, |index| {
            let fid = Session::FREE + index;
            session.client.walk(ROOT, fid, &[Fixture::PLAIN])?;
            session.client.getattr(fid)
        })?;
        (0..BURST).try_for_each(|index| session.client.clunk(Session::FREE + index))
    }),
    cell("Twalk, missing", |session, meter| {
        meter.each(BURST, |_| {
            session.client.walk_missing(ROOT, Fixture::MISSING)
        })
    }),
    cell("open + close", |session, meter| {
        meter.each(BURST / 2, |_| {
            let fid = Session::FREE;
            session.client.walk(Session::PLAIN, fid, &[])?;
            session.client.open(fid, LopenFlags::empty())?;
            session.client.clunk(fid)
        })
    }),
    cell("Tread 4K", |session, meter| {
        meter.each(BURST, |index| {
            let offset = offset_of(index, SMALL, DATA_LEN);
            session.client.read(Session::DATA, offset, SMALL)
        })
    }),
    cell("Twrite 4K", |session, meter| {
        let data = [0x5A; SMALL as usize];
        meter.each(BURST, |index| {
            let offset = offset_of(index, SMALL, DATA_LEN);
            session.client.write(Session::DATA, offset, &data)
        })
    }),
    Cell {
        unit: Unit::Bandwidth(LARGE as u64),
        ..cell("read 1M", |session, meter| {
            meter.each(LARGE_BURST, |index| read_large(session, index))
        })
    },
    Cell {
        unit: Unit::Bandwidth(LARGE as u64),
        ..cell("write 1M", |session, meter| {
            let data = vec![0x5A; LARGE as usize];
            meter.each(LARGE_BURST, |index| write_large(session, index, &data))
        })
    },
    cell("Treaddir, per entry", readdir),
];

const fn cell(
    name: &'static str,
    burst: fn(&mut Session, &mut Meter) -> Result<(), BenchError>,
) -> Cell<Session> {
    Cell {
        name,
        unit: Unit::Operation,
        burst,
    }
}

/// Places all over a file of `file_len` bytes.
pub(super) fn offset_of(index: u32, len: u32, file_len: u64) -> u64 {
    let blocks = file_len / u64::from(len);
    (u64::from(index) * 389 % blocks) * u64::from(len)
}

fn read_large(session: &mut Session, index: u32) -> Result<(), BenchError> {
    let (start, most) = (large_offset(index), session.client.payload_max());
    for at in (0..LARGE).step_by(most as usize) {
        let count = most.min(LARGE - at);
        session
            .client
            .read(Session::BIG, start + u64::from(at), count)?;
    }
    Ok(())
}

fn write_large(session: &mut Session, index: u32, data: &[u8]) -> Result<(), BenchError> {
    let mut at = large_offset(index);
    for piece in data.chunks(session.client.payload_max() as usize) {
        session.client.write(Session::BIG, at, piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// One after the other, a MiB apart, and around.
fn large_offset(index: u32) -> u64 {
    (u64::from(index) << 20) % BIG_LEN
}

fn readdir(session: &mut Session, meter: &mut Meter) -> Result<(), BenchError> {
    let (client, fid) = (&mut session.client, Session::FREE);
    client.walk(Session::MANY, fid, &[])?;
    client.open(fid, LopenFlags::DIRECTORY)?;
    let count = LISTING.min(client.payload_max());
    let mut found = 0;
    let mut offset = Some(0);
    while let Some(at) = offset {
        // The last one, which finds nothing, is an outlier that quartiles ignore.
        meter.span(|| {
            let chunk = client.readdir(fid, at, count)?;
            let entries = chunk.map_or(0, |(entries, _)| entries);
            offset = chunk.map(|(_, next)| next);
            found += entries;
            Ok(entries)
        })?;
    }
    client.clunk(fid)?;
    match found >= MANY_FILES.into() {
        true => Ok(()),
        false => Err(BenchError::new(format!("{found} entries listed"))),
    }
}
