//! Our own client as a library: what payloads that are not copied are worth, by their
//! size, and messages that carry many segments; and how many messages things take.

use super::cells::offset_of;
use super::server::{Program, Running, Transport};
use super::{Scene, table};
use crate::bench::contest::{self, Cell, Contestant, Entrant, Meter, Placement, Role, Unit};
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::{BIG_LEN, Fixture};
use crate::bench::report::Table;
use crate::bench::server::CpuClock;
use sluice_client::{Client, ConnectOptions, File, Meter as Messages, OpenFlags};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// How a client is used.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// `None`: as it is by itself.
    zero_copy_from: Option<usize>,
    /// A request for each segment.
    splits: bool,
}

const AUTO: Use = Use {
    zero_copy_from: None,
    splits: false,
};
const NEVER: Use = Use {
    zero_copy_from: Some(usize::MAX),
    ..AUTO
};
const SPLIT: Use = Use {
    splits: true,
    ..AUTO
};

/// A table.
struct Contest {
    title: &'static str,
    note: &'static str,
    entrants: &'static [(&'static str, Role, Use)],
    cells: &'static [Cell<Library>],
}

const CONTESTS: &[Contest] = &[
    Contest {
        title: "payloads copied or not",
        note: "sluice_client against itself; one request at a time",
        entrants: &[
            ("auto", Role::Subject, AUTO),
            ("auto again", Role::Control, AUTO),
            ("never", Role::Peer, NEVER),
        ],
        cells: &[
            small("client: read 1", read::<1>),
            small("client: read 64", read::<64>),
            small("client: read 512", read::<512>),
            small("client: read 1K", read::<1024>),
            small("client: read 4K", read::<4096>),
            large("client: read 16K", read::<0x4000>, 0x4000),
            large("client: read 64K", read::<0x1_0000>, 0x1_0000),
            large("client: read 256K", read::<0x4_0000>, 0x4_0000),
            large("client: read 1M", read::<0x10_0000>, 0x10_0000),
        ],
    },
    Contest {
        title: "segments",
        note: "sluice_client: 32 segments of 4 KiB, none next to another, in one call and in \
            one each",
        entrants: &[
            ("one message", Role::Subject, AUTO),
            ("again", Role::Control, AUTO),
            ("a request each", Role::Peer, SPLIT),
        ],
        cells: &[
            large("client: readv 32 x 4K", read_segments, SEGMENTS_LEN as u64),
            large(
                "client: writev 32 x 4K",
                write_segments,
                SEGMENTS_LEN as u64,
            ),
        ],
    },
];

const SEGMENT: usize = 4096;
const SEGMENTS: usize = 32;
const SEGMENTS_LEN: usize = SEGMENTS * SEGMENT;

/// Bytes of a burst, and most operations of one.
const BURST_BYTES: u32 = 32 << 20;
const BURST_MOST: u32 = 500;

type Burst = fn(&mut Library, &mut Meter) -> Result<(), BenchError>;

const fn small(name: &'static str, burst: Burst) -> Cell<Library> {
    let unit = Unit::Operation;
    Cell { name, unit, burst }
}

const fn large(name: &'static str, burst: Burst, bytes: u64) -> Cell<Library> {
    let unit = Unit::Bandwidth(bytes);
    Cell { name, unit, burst }
}

/// A server, and a client of it.
struct Library {
    running: Running,
    client: Client,
    file: File,
    messages: Arc<Messages>,
    used: Use,
}

impl Library {
    fn begin(running: Running, used: Use) -> Result<Self, BenchError> {
        let mut options = ConnectOptions {
            // Room for a MiB of data.
            msize: (1 << 20) + 4096,
            ..ConnectOptions::default()
        };
        if let Some(zero_copy_from) = used.zero_copy_from {
            options.zero_copy_from = zero_copy_from;
        }
        let client = Client::connect(&running.address, &options).context("the client")?;
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        let file = client.open(Fixture::BIG, flags).context(Fixture::BIG)?;
        Ok(Library {
            running,
            client,
            file,
            messages: options.meter,
            used,
        })
    }

    /// Messages that were sent so far, and replies that were waited for.
    fn counts(&self) -> (u64, u64) {
        let reading = self.messages.read();
        (reading.sent.count(), reading.replies_waited)
    }

    /// How many messages things take.
    fn messages(&self) -> Result<String, BenchError> {
        let metadata = || self.client.metadata(Fixture::PLAIN).map(drop);
        let open = || self.client.open(Fixture::PLAIN, OpenFlags::READ);
        let told = |what: &str, before: (u64, u64)| {
            let after = self.counts();
            let (sent, waited) = (after.0 - before.0, after.1 - before.1);
            format!("{what} {sent} ({waited})")
        };
        let mut all = Vec::new();
        let before = self.counts();
        metadata().context("metadata")?;
        all.push(told("stat", before));
        let before = self.counts();
        let file = open().context("open")?;
        all.push(told("open", before));
        let before = self.counts();
        file.close().context("close")?;
        all.push(told("close of a clean file", before));
        let before = self.counts();
        let mut buf = vec![0; 1 << 20];
        self.file.read_at(&mut buf, 0).context("read")?;
        all.push(told("read of 1 MiB", before));
        Ok(format!(
            "messages (and replies that are waited for): {}",
            all.join(", ")
        ))
    }
}

impl Contestant for Library {
    fn cpu_clock(&self) -> CpuClock {
        self.running.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        self.running.place(placement)
    }
}

fn read<const LEN: u32>(library: &mut Library, meter: &mut Meter) -> Result<(), BenchError> {
    let mut buf = vec![0; LEN as usize];
    meter.each((BURST_BYTES / LEN).min(BURST_MOST), |index| {
        let read = library
            .file
            .read_at(&mut buf, offset_of(index, LEN, BIG_LEN));
        expect(read, LEN as usize)
    })
}

/// Where a burst's reads or writes of so many segments begin.
fn segments_at(index: u32) -> u64 {
    offset_of(index, SEGMENTS_LEN as u32, BIG_LEN)
}

fn read_segments(library: &mut Library, meter: &mut Meter) -> Result<(), BenchError> {
    let mut memory = vec![0; 2 * SEGMENTS_LEN];
    let (file, splits) = (&library.file, library.used.splits);
    meter.each(BURST_BYTES / SEGMENTS_LEN as u32, |index| {
        let at = segments_at(index);
        let pages = memory.chunks_exact_mut(SEGMENT).step_by(2);
        if splits {
            return pages.zip(0_u64..).try_for_each(|(page, nth)| {
                expect(file.read_at(page, at + nth * SEGMENT as u64), SEGMENT)
            });
        }
        let mut slices: Vec<_> = pages.map(IoSliceMut::new).collect();
        expect(file.read_vectored_at(&mut slices, at), SEGMENTS_LEN)
    })
}

fn write_segments(library: &mut Library, meter: &mut Meter) -> Result<(), BenchError> {
    let memory = vec![0x3C; 2 * SEGMENTS_LEN];
    let (file, splits) = (&library.file, library.used.splits);
    meter.each(BURST_BYTES / SEGMENTS_LEN as u32, |index| {
        let at = segments_at(index);
        let pages = memory.chunks_exact(SEGMENT).step_by(2);
        if splits {
            return pages.zip(0_u64..).try_for_each(|(page, nth)| {
                expect(file.write_at(page, at + nth * SEGMENT as u64), SEGMENT)
            });
        }
        let slices: Vec<_> = pages.map(IoSlice::new).collect();
        expect(file.write_vectored_at(&slices, at), SEGMENTS_LEN)
    })
}

fn expect(done: sluice_client::Result<usize>, len: usize) -> Result<(), BenchError> {
    match done.context("the client")? {
        done if done == len => Ok(()),
        done => Err(BenchError::new(format!("{done} bytes instead of {len}"))),
    }
}

/// Measures over `transport`; a table for each question.
pub(super) fn run(scene: &Scene<'_>, transport: Transport) -> Result<Vec<Table>, BenchError> {
    let extent = &scene.options.extent;
    let wanted = CONTESTS
        .iter()
        .filter(|contest| extent.of(contest.cells).next().is_some());
    wanted
        .map(|contest| hold(contest, scene, transport))
        .collect()
}

fn hold(contest: &Contest, scene: &Scene<'_>, transport: Transport) -> Result<Table, BenchError> {
    let title = format!("client over {}, {}", transport.word(), contest.title);
    let mut notes = vec![contest.note.to_owned()];
    let mut entrants: Vec<Entrant<Library>> = Vec::new();
    for &(label, role, used) in contest.entrants {
        let group = format!("{}-{}", contest.title.replace(' ', "-"), entrants.len());
        let program = Program::Sluice { flags: &[] };
        let begin = |running| Library::begin(running, used);
        let one = [(label, role, program)];
        entrants.extend(scene.start_all(&one, (&group, transport), begin, &mut notes)?);
    }
    if let Some(first) = entrants.first() {
        notes.push(first.contestant.messages()?);
    }
    let rows = contest::hold(
        contest.cells,
        &mut entrants,
        &scene.options.extent,
        |cell| {
            eprintln!("bench: {title}: {cell}");
        },
    );
    Ok(table(title.clone(), notes, &entrants, rows))
}
