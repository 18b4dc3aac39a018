//! Whether payloads that are not copied are worth it, by their size.

use super::cells::offset_of;
use super::server::{Program, Session, Transport};
use super::{Scene, table};
use crate::bench::contest::{self, Cell, Meter, Role, Unit};
use crate::bench::error::BenchError;
use crate::bench::fixture::BIG_LEN;
use crate::bench::report::Table;

/// What the program does by itself, in messages that hold a MiB.
const AUTO: Program = Program::Sluice {
    flags: &["--msize=1052672"],
};
const NEVER: Program = Program::Sluice {
    flags: &["--msize=1052672", "--zero-copy=never"],
};

const ENTRANTS: &[(&str, Role, Program)] = &[
    ("--zero-copy=auto", Role::Subject, AUTO),
    ("auto again", Role::Control, AUTO),
    ("--zero-copy=never", Role::Peer, NEVER),
];

/// Bytes of a burst, and most operations of one.
const BURST_BYTES: u32 = 32 << 20;
const BURST_MOST: u32 = 500;

const CELLS: &[Cell<Session>] = &[
    small("zero copy: read 1", read::<1>),
    small("zero copy: read 64", read::<64>),
    small("zero copy: read 512", read::<512>),
    small("zero copy: read 1K", read::<1024>),
    small("zero copy: read 4K", read::<4096>),
    large("zero copy: read 16K", read::<0x4000>, 0x4000),
    large("zero copy: read 64K", read::<0x1_0000>, 0x1_0000),
    large("zero copy: read 256K", read::<0x4_0000>, 0x4_0000),
    large("zero copy: read 1M", read::<0x10_0000>, 0x10_0000),
    small("zero copy: write 1", write::<1>),
    small("zero copy: write 64", write::<64>),
    small("zero copy: write 512", write::<512>),
    small("zero copy: write 1K", write::<1024>),
    small("zero copy: write 4K", write::<4096>),
    large("zero copy: write 16K", write::<0x4000>, 0x4000),
    large("zero copy: write 64K", write::<0x1_0000>, 0x1_0000),
    large("zero copy: write 256K", write::<0x4_0000>, 0x4_0000),
    large("zero copy: write 1M", write::<0x10_0000>, 0x10_0000),
];

type Burst = fn(&mut Session, &mut Meter) -> Result<(), BenchError>;

const fn small(name: &'static str, burst: Burst) -> Cell<Session> {
    Cell {
        name,
        unit: Unit::Operation,
        burst,
    }
}

const fn large(name: &'static str, burst: Burst, bytes: u64) -> Cell<Session> {
    Cell {
        name,
        unit: Unit::Bandwidth(bytes),
        burst,
    }
}

fn read<const LEN: u32>(session: &mut Session, meter: &mut Meter) -> Result<(), BenchError> {
    meter.each(burst_of(LEN), |index| {
        let offset = offset_of(index, LEN, BIG_LEN);
        session.client.read(Session::BIG, offset, LEN)
    })
}

fn write<const LEN: u32>(session: &mut Session, meter: &mut Meter) -> Result<(), BenchError> {
    let data = vec![0x5A; LEN as usize];
    meter.each(burst_of(LEN), |index| {
        let offset = offset_of(index, LEN, BIG_LEN);
        session.client.write(Session::BIG, offset, &data)
    })
}

fn burst_of(len: u32) -> u32 {
    (BURST_BYTES / len).min(BURST_MOST)
}

/// Compares Sluice to itself.
pub(super) fn run(scene: &Scene<'_>, transport: Transport) -> Result<Option<Table>, BenchError> {
    let extent = &scene.options.extent;
    if extent.of(CELLS).next().is_none() {
        return Ok(None);
    }
    let title = format!("9P over {}, copied or not", transport.word());
    let mut notes = vec!["sluice against itself; one request at a time".to_owned()];
    let place = ("zero-copy", transport);
    let mut entrants = scene.start_all(ENTRANTS, place, Session::begin, &mut notes)?;
    let rows = contest::hold(CELLS, &mut entrants, extent, |cell| {
        eprintln!("bench: {title}: {cell}");
    });
    Ok(Some(table(title.clone(), notes, &entrants, rows)))
}
