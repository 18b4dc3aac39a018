//! The tables: who takes part, on what terms, and what is measured.

use super::cells;
use super::device::ServedGuest;
use super::program::{
    Contender, P9Program, Program, Trust,
    VirtioFsProgram::{Null, Sluice, Virtiofsd},
};
use crate::bench::contest::{Cell, Role};
use crate::bench::raw::Poll;

/// A guest's memory: little, so that files that outgrow it can be small.
pub(super) const MEMORY_MIB: u32 = 96;

/// A guest's memory that has room for long messages.
const P9_MEMORY_MIB: u32 = 256;

/// A guest's memory that is enough for a compiler.
const BUILDER_MEMORY_MIB: u32 = 512;

/// The same for one that has the compiler's files in its memory, too.
const KEEPER_MEMORY_MIB: u32 = 1536;

/// What guests mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// virtio-fs, on a device.
    VirtioFs,
    /// 9P over TCP, by Linux's v9fs.
    P9,
    /// 9P over TCP, by `sluice mount`.
    Mount,
}

impl Protocol {
    /// In titles.
    pub(super) fn word(self) -> &'static str {
        match self {
            Protocol::VirtioFs => "guest",
            Protocol::P9 => "v9fs over TCP",
            Protocol::Mount => "sluice mount over TCP",
        }
    }

    pub(super) fn groups(self) -> &'static [Group] {
        match self {
            Protocol::VirtioFs => VIRTIO_FS,
            Protocol::P9 => P9,
            Protocol::Mount => MOUNT,
        }
    }
}

/// One table.
pub(super) struct Group {
    pub(super) title: &'static str,
    /// What else a reader must know.
    pub(super) notes: &'static [&'static str],
    /// Everybody who takes part, in the order of the table.
    pub(super) contenders: &'static [Contender],
    /// The guests' memory.
    pub(super) memory_mib: u32,
    /// Cells with short bursts.
    pub(super) short: &'static [Cell<ServedGuest>],
    /// Those of them that are measured when it shall be quick.
    pub(super) quick: &'static [Cell<ServedGuest>],
    /// Cells whose bursts take seconds.
    pub(super) long: &'static [Cell<ServedGuest>],
    /// Cells whose bursts take a minute.
    pub(super) whole: &'static [Cell<ServedGuest>],
    /// There is a system in the share, to compile with.
    pub(super) has_system: bool,
}

/// Most contenders of a table: each has a directory of its own in the share.
pub(super) const CONTENDERS_MAX: usize = 6;

const fn contender(label: &'static str, role: Role, program: Program) -> Contender {
    Contender {
        label,
        role,
        program,
    }
}

const fn on_virtio_fs(trust: Trust) -> [Contender; 4] {
    [
        contender("sluice", Role::Subject, Program::VirtioFs(Sluice, trust)),
        contender(
            "sluice again",
            Role::Control,
            Program::VirtioFs(Sluice, trust),
        ),
        contender("virtiofsd", Role::Peer, Program::VirtioFs(Virtiofsd, trust)),
        contender("null server", Role::Floor, Program::VirtioFs(Null, trust)),
    ]
}

const fn on_9p(
    label: &'static str,
    role: Role,
    program: P9Program,
    options: &'static str,
) -> Contender {
    contender(label, role, Program::P9(program, options))
}

const VIRTIOFSD: &str = "virtiofsd --sandbox none --seccomp none; the null server holds a copy \
    of the share in memory; of floor: how much of the way from virtiofsd to the null server is \
    done";

const VIRTIO_FS: &[Group] = &[
    Group {
        title: "names and attributes, cache=auto",
        notes: &[
            VIRTIOFSD,
            "virtiofsd refuses STATX, once and for all: the times of birth that are asked for \
             are missing then, and the guest takes the rest from what it knows",
        ],
        contenders: &on_virtio_fs(Trust::Auto),
        memory_mib: MEMORY_MIB,
        short: cells::NAMES,
        quick: cells::NAMES,
        long: cells::PROGRAMS,
        whole: &[],
        has_system: false,
    },
    Group {
        title: "file data, cache=auto",
        notes: &[
            VIRTIOFSD,
            "a file of four times the guest's memory; with 4 jobs, a fourth of that for each",
        ],
        contenders: &on_virtio_fs(Trust::Auto),
        memory_mib: MEMORY_MIB,
        short: cells::DATA,
        quick: cells::QUICK_DATA,
        long: &[],
        whole: &[],
        has_system: false,
    },
    Group {
        title: "names and attributes, cache=always",
        notes: &[VIRTIOFSD],
        contenders: &on_virtio_fs(Trust::Always),
        memory_mib: MEMORY_MIB,
        short: cells::TRUSTED_NAMES,
        quick: cells::TRUSTED_NAMES,
        long: cells::TRUSTED_PROGRAMS,
        whole: &[],
        has_system: false,
    },
    Group {
        title: "building, cache=always",
        notes: &[VIRTIOFSD, EVERYTHING_ON_THE_SHARE],
        contenders: &on_virtio_fs(Trust::Always),
        memory_mib: BUILDER_MEMORY_MIB,
        short: &[],
        quick: &[],
        long: cells::BUILDS,
        whole: &[],
        has_system: true,
    },
];

const EVERYTHING_ON_THE_SHARE: &str = "compiler, headers and sources are on the share";

/// On 9P, with nothing cached.
const fn uncached(poll: Poll) -> [Contender; 4] {
    const NONE: &str = "cache=none";
    [
        on_9p("sluice", Role::Subject, P9Program::Sluice(poll), NONE),
        on_9p("sluice again", Role::Control, P9Program::Sluice(poll), NONE),
        on_9p("diod", Role::Peer, P9Program::Diod, NONE),
        on_9p("null server", Role::Floor, P9Program::Null, NONE),
    ]
}

const UNCACHED_NOTE: &str = "messages of up to 1 MiB (diod: 64 KiB); sluice serve --9p, isolated; \
    diod --no-auth --no-userdb; the null server holds a copy of the share in memory; diod and \
    the null server always sleep; of floor: how much of the way from diod to the null server is \
    done";

const P9: &[Group] = &[
    Group {
        title: "cache=none",
        notes: &[UNCACHED_NOTE],
        contenders: &uncached(Poll::Auto),
        memory_mib: P9_MEMORY_MIB,
        short: cells::UNCACHED,
        quick: cells::UNCACHED,
        long: &[],
        whole: &[],
        has_system: false,
    },
    Group {
        title: "cache=none, --poll=off",
        notes: &[UNCACHED_NOTE],
        contenders: &uncached(Poll::Off),
        memory_mib: P9_MEMORY_MIB,
        short: cells::UNCACHED,
        quick: &[],
        long: &[],
        whole: &[],
        has_system: false,
    },
    Group {
        title: "building, cache=loose",
        notes: &[
            EVERYTHING_ON_THE_SHARE,
            "diod's qid.version is 0, which makes the guest keep no data unless it is mounted \
             with ignoreqv",
            "memory: everything is on the guest's own tmpfs, and nobody is asked; of floor: how \
             much of the way from the best peer to that is done",
        ],
        contenders: &[
            on_9p(
                "sluice",
                Role::Subject,
                P9Program::Sluice(Poll::Auto),
                "cache=loose",
            ),
            on_9p(
                "sluice again",
                Role::Control,
                P9Program::Sluice(Poll::Auto),
                "cache=loose",
            ),
            on_9p(
                "diod, ignoreqv",
                Role::Peer,
                P9Program::Diod,
                "cache=loose,ignoreqv",
            ),
            on_9p("diod", Role::Peer, P9Program::Diod, "cache=loose"),
            contender("memory", Role::Floor, Program::Memory),
            on_9p("null server", Role::Floor, P9Program::Null, "cache=loose"),
        ],
        memory_mib: KEEPER_MEMORY_MIB,
        short: &[],
        quick: &[],
        long: cells::BUILDS,
        whole: cells::WHOLE_BUILDS,
        has_system: true,
    },
];

const fn by_sluice(label: &'static str, role: Role) -> Contender {
    contender(label, role, Program::SluiceMount("cache=none"))
}

const MOUNT: &[Group] = &[Group {
    title: "cache=none",
    notes: &[
        "both clients in a guest, of the same sluice serve --9p; sluice mount is a process of \
         the guest's, to which each request of its kernel goes through /dev/fuse: what a pread \
         of 4K takes longer is that hop",
    ],
    contenders: &[
        by_sluice("sluice mount", Role::Subject),
        by_sluice("sluice mount again", Role::Control),
        on_9p(
            "v9fs",
            Role::Peer,
            P9Program::Sluice(Poll::Off),
            "cache=none",
        ),
    ],
    memory_mib: P9_MEMORY_MIB,
    short: cells::UNCACHED,
    quick: cells::UNCACHED,
    long: &[],
    whole: &[],
    has_system: false,
}];
