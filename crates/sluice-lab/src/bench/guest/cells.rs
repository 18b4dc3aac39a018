//! What is measured in guests. The work itself is in `work`, under the same
//! names.

use super::device::ServedGuest;
use crate::bench::contest::{Cell, Unit};

/// A cell that has the guest do the work of this name.
macro_rules! cell {
    ($name:literal, $unit:expr) => {
        Cell {
            name: $name,
            unit: $unit,
            burst: |guest, meter| guest.run($name, meter),
        }
    };
    ($name:literal, $unit:expr, anew) => {
        Cell {
            name: $name,
            unit: $unit,
            burst: |guest, meter| guest.run_anew($name, meter),
        }
    };
}

const SMALL: Unit = Unit::Bandwidth(4096);
const LARGE: Unit = Unit::Bandwidth(1 << 20);

/// Names and attributes, in short bursts.
pub(super) const NAMES: &[Cell<ServedGuest>] = &[
    cell!("stat, new names", Unit::Operation),
    cell!("stat with birth time", Unit::Operation),
    cell!("stat, missing", Unit::Operation),
    cell!("open + close", Unit::Operation),
    cell!("open + read + close", Unit::Operation),
    cell!("create + close", Unit::Operation),
    cell!("unlink", Unit::Operation),
    cell!("ls -l", Unit::Operation),
];

/// Programs that go through the whole tree; figures are for one of its files.
pub(super) const PROGRAMS: &[Cell<ServedGuest>] = &[
    cell!("find", Unit::Operation),
    cell!("git status", Unit::Operation),
    cell!("tar x", Unit::Operation, anew),
    cell!("rm -rf", Unit::Operation, anew),
];

/// File data, by fio.
pub(super) const DATA: &[Cell<ServedGuest>] = &[
    cell!("seqread-psync-4k", SMALL),
    cell!("seqread-psync-4k-4", SMALL),
    cell!("seqread-psync-1m", LARGE),
    cell!("seqread-mmap-4k", SMALL),
    cell!("seqread-libaio-1m", LARGE),
    cell!("randread-psync-4k", SMALL),
    cell!("randread-psync-4k-4", SMALL),
    cell!("randread-mmap-4k", SMALL),
    cell!("randread-libaio-4k", SMALL),
    cell!("seqwrite-psync-4k", SMALL),
    cell!("seqwrite-psync-4k-4", SMALL),
    cell!("seqwrite-psync-1m", LARGE),
    cell!("seqwrite-mmap-4k", SMALL),
    cell!("seqwrite-libaio-1m", LARGE),
    cell!("randwrite-psync-4k", SMALL),
    cell!("randwrite-psync-4k-4", SMALL),
    cell!("randwrite-mmap-4k", SMALL),
    cell!("randwrite-libaio-4k", SMALL),
];

/// One of each kind.
pub(super) const QUICK_DATA: &[Cell<ServedGuest>] = &[
    cell!("seqread-psync-4k", SMALL),
    cell!("seqread-psync-1m", LARGE),
    cell!("randread-psync-4k", SMALL),
    cell!("randread-libaio-4k", SMALL),
    cell!("seqread-mmap-4k", SMALL),
    cell!("seqwrite-psync-4k", SMALL),
    cell!("seqwrite-psync-1m", LARGE),
    cell!("randwrite-psync-4k-4", SMALL),
];

/// Where guests trust for ever, the interesting thing is what they do not ask.
pub(super) const TRUSTED_NAMES: &[Cell<ServedGuest>] = &[
    cell!("stat, missing", Unit::Operation),
    cell!("open + close", Unit::Operation),
    cell!("open + read + close", Unit::Operation),
    cell!("create + close", Unit::Operation),
    cell!("unlink", Unit::Operation),
];

/// A part of hostapd.
pub(super) const BUILDS: &[Cell<ServedGuest>] = &[cell!("make hostapd_cli", Unit::Operation, anew)];

/// All of hostapd and of wpa_supplicant.
pub(super) const WHOLE_BUILDS: &[Cell<ServedGuest>] = &[
    cell!("make hostapd", Unit::Operation, anew),
    cell!("make wpa_supplicant", Unit::Operation, anew),
];

/// On 9P with nothing cached: each is messages.
pub(super) const UNCACHED: &[Cell<ServedGuest>] = &[
    cell!("stat, new names", Unit::Operation),
    cell!("stat, missing", Unit::Operation),
    cell!("open + close", Unit::Operation),
    cell!("create + close", Unit::Operation),
    cell!("randread-psync-4k", Unit::Operation),
    cell!("randwrite-psync-4k", Unit::Operation),
    cell!("seqread-psync-1m", LARGE),
    cell!("seqwrite-psync-1m", LARGE),
];

/// Programs where guests trust for ever.
pub(super) const TRUSTED_PROGRAMS: &[Cell<ServedGuest>] = &[cell!("git status", Unit::Operation)];
