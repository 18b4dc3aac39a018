//! `make bench`: measures Sluice and its peers in the same run.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand, ValueEnum};
use serde_json::json;
use sluice_crew::Polling;
use sluice_lab::bench::contest::{Extent, Placement};
use sluice_lab::bench::error::{BenchError, Context};
use sluice_lab::bench::fixture::Fixture;
use sluice_lab::bench::guest::{GuestExtent, Protocol, ShareMount};
use sluice_lab::bench::machine::{self, Processors};
use sluice_lab::bench::p9::P9Options;
use sluice_lab::bench::priority::Priority;
use sluice_lab::bench::programs::Programs;
use sluice_lab::bench::raw::{Poll, RawOptions};
use sluice_lab::bench::report::Table;
use sluice_lab::bench::{guest, interrupt, mounted, null, p9, priority, qemu, raw};
use sluice_virtio::driver::WaitMode;
use sluicefs::Address;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bursts of each entrant in each cell.
const RAW_ROUNDS: u32 = 30;
const MOUNTED_ROUNDS: u32 = 16;
const GUEST_ROUNDS: u32 = 6;
const GUEST_LONG_ROUNDS: u32 = 3;
const QUICK_ROUNDS: u32 = 4;

/// Measure Sluice side by side with its peers.
///
/// Exit status: 0 whoever wins; 1 when nothing could be measured.
#[derive(Debug, Parser)]
#[command(name = "bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    what: Option<What>,

    /// Few bursts: for trying things, not for figures to write down
    #[arg(long, global = true)]
    quick: bool,

    /// Bursts of each entrant in each cell
    #[arg(long, value_name = "NUMBER", global = true, conflicts_with = "quick",
        value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// Only cells with TEXT in their name
    #[arg(long, value_name = "TEXT", global = true)]
    cell: Option<String>,

    /// Where to make the share that is served [default: /dev/shm if it is a
    /// tmpfs, else the directory for temporary files]
    #[arg(long, value_name = "DIR", global = true)]
    on: Option<PathBuf>,

    /// Also write everything to FILE, as JSON
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,

    /// The program to measure [default: `sluice` beside this program]
    #[arg(long, value_name = "PROGRAM", global = true)]
    sluice: Option<PathBuf>,

    /// The peers' programs [default: bin in $SLUICE_LAB_CACHE or lab/cache]
    #[arg(long, value_name = "DIR", global = true)]
    peers: Option<PathBuf>,

    /// Show every entrant, not only the best peer
    #[arg(long, global = true)]
    everyone: bool,

    /// Only raw measurements and 9P round trips with servers that poll, or only
    /// with servers that don't
    #[arg(long, value_enum, global = true)]
    polling: Option<Switch>,

    /// How the drivers of raw requests and of 9P wait for replies
    #[arg(long, value_enum, default_value_t = Wait::Poll, global = true)]
    wait: Wait,

    /// Tie mounts to one processor and what uses them to another, as the raw
    /// measurements always are; usually the scheduler decides
    #[arg(long, global = true)]
    apart: bool,

    /// Also count the servers' system calls with strace (raw, 9p)
    #[arg(long, global = true)]
    syscalls: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
enum What {
    /// Requests over a vhost-user ring: sluice serve and virtiofsd
    Raw,
    /// Messages over sockets: sluice serve --9p, diod and a server that answers from
    /// memory; the client library's (cells that begin with "client")
    #[command(name = "9p")]
    P9,
    /// System calls on /dev/fuse mounts: sluice mount and libfuse's examples
    Fuse,
    /// Mounts of 9P servers: system calls on sluice mount over a unix socket beside
    /// libfuse's passthrough_hp; work in guests over TCP beside v9fs
    Mount,
    /// Work in user-mode Linux guests: sluice serve, virtiofsd and a server
    /// that answers from memory
    Guest,
    /// Work in user-mode Linux guests on 9P mounts over TCP: sluice serve --9p,
    /// diod and a server that answers from memory
    #[command(name = "v9fs")]
    V9fs,
    /// Work in a guest under QEMU on 9P mounts over virtio: sluice serve, QEMU's
    /// own server and a server that answers from memory
    Qemu,
    /// Be the server that answers from memory
    #[command(hide = true)]
    NullServer {
        socket: PathBuf,
        #[arg(long)]
        share: Option<PathBuf>,
        #[arg(long, default_value = "")]
        tag: String,
        /// The guest asks once and never again
        #[arg(long)]
        trusted: bool,
        #[arg(long, default_value = "auto")]
        poll: Polling,
    },
    /// Be the 9P server that answers from memory
    #[command(hide = true)]
    NullServer9p { address: Address, share: PathBuf },
    /// Be the same as a virtio device
    #[command(hide = true)]
    NullDevice9p {
        socket: PathBuf,
        share: PathBuf,
        tag: String,
    },
    /// Be Sluice on a disk that stalls
    #[command(hide = true)]
    StallingServer { socket: PathBuf, share: PathBuf },
    /// Be the part that runs in a guest
    #[command(hide = true)]
    InGuest {
        own: String,
        #[command(flatten)]
        mount: ShareMount,
    },
    /// Be the part that runs in a guest under QEMU
    #[command(hide = true)]
    InQemu,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Wait {
    /// Look for them all the time
    Poll,
    /// Sleep until signalled, as a guest does
    Event,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    Off,
    Auto,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), BenchError> {
    match &cli.what {
        Some(What::NullServer {
            socket,
            share,
            tag,
            trusted,
            poll,
        }) => {
            return match share {
                Some(share) => null::serve(socket, share, tag, *trusted),
                None => raw::serve_nothing(socket, *poll),
            };
        }
        Some(What::NullServer9p { address, share }) => {
            return null::p9::serve(address, share);
        }
        Some(What::NullDevice9p { socket, share, tag }) => {
            return null::p9::serve_ring(socket, share, tag);
        }
        Some(What::StallingServer { socket, share }) => {
            return raw::serve_stalling(socket, share);
        }
        Some(What::InGuest { own, mount }) => return guest::obey(mount, own),
        Some(What::InQemu) => return qemu::obey(),
        _ => {}
    }
    interrupt::watch()?;
    let priority = priority::raise();
    let programs = Programs::find(cli.sluice.clone(), cli.peers.clone())?;
    let processors = Processors::divide()?;
    let place = cli.on.clone().unwrap_or_else(default_place);
    let environment = environment(&programs, &processors, &priority, &place);
    for line in &environment {
        println!("{line}");
    }
    let mut tables = Vec::new();
    let mut take = |measured: Vec<Table>| {
        interrupt::check()?;
        print(&measured, cli.everyone);
        tables.extend(measured);
        Ok::<_, BenchError>(())
    };
    if cli.wants(&What::Raw) {
        let fixture = Fixture::make(&place)?;
        let options = cli.raw_options();
        take(raw::run(&programs, &fixture, &processors, &options)?)?;
    }
    if cli.wants(&What::P9) {
        let fixture = Fixture::make(&place)?;
        let options = cli.p9_options();
        take(p9::run(&programs, &fixture, &processors, &options)?)?;
    }
    for (what, run) in [
        (What::Fuse, mounted::run as MountedRun),
        (What::Mount, mounted::run_over_9p),
    ] {
        if cli.wants(&what) {
            let fixture = Fixture::make(&place)?;
            let extent = cli.mounted_extent();
            take(run(&programs, &fixture, &processors, &extent)?)?;
        }
    }
    for (what, protocol) in [
        (What::Guest, Protocol::VirtioFs),
        (What::V9fs, Protocol::P9),
        (What::Mount, Protocol::Mount),
    ] {
        if cli.wants(&what) {
            let extent = cli.guest_extent();
            take(guest::run(
                protocol,
                &programs,
                &place,
                &processors,
                &extent,
            )?)?;
        }
    }
    if cli.wants(&What::Qemu) {
        let extent = cli.extent(GUEST_ROUNDS, Placement::Free);
        take(Vec::from_iter(qemu::run(&programs, &place, &extent)?))?;
    }
    match &cli.json {
        Some(path) => write_json(path, &environment, &tables),
        None => Ok(()),
    }
}

/// Measures on mounts.
type MountedRun = fn(&Programs, &Fixture, &Processors, &Extent) -> Result<Vec<Table>, BenchError>;

impl Cli {
    fn wants(&self, what: &What) -> bool {
        self.what.as_ref().is_none_or(|wanted| wanted == what)
    }

    fn extent(&self, usual_rounds: u32, placement: Placement) -> Extent {
        Extent {
            rounds: match self.quick {
                true => QUICK_ROUNDS,
                false => self.rounds.unwrap_or(usual_rounds),
            },
            warm_up_rounds: 1,
            only: self.cell.clone(),
            placement,
        }
    }

    fn mounted_extent(&self) -> Extent {
        let placement = match self.apart {
            true => Placement::Apart,
            false => Placement::Free,
        };
        self.extent(MOUNTED_ROUNDS, placement)
    }

    fn guest_extent(&self) -> GuestExtent {
        GuestExtent {
            short: self.extent(GUEST_ROUNDS, Placement::Apart),
            long: self.extent(GUEST_LONG_ROUNDS, Placement::Apart),
            whole: Extent {
                // Each begins with everything forgotten, and takes a minute.
                warm_up_rounds: 0,
                ..self.extent(GUEST_LONG_ROUNDS, Placement::Apart)
            },
            is_quick: self.quick,
        }
    }

    fn wait_mode(&self) -> WaitMode {
        match self.wait {
            Wait::Poll => WaitMode::Spin,
            Wait::Event => WaitMode::Event,
        }
    }

    fn polls(&self) -> Vec<Poll> {
        match self.polling {
            None => vec![Poll::Off, Poll::Auto],
            Some(Switch::Off) => vec![Poll::Off],
            Some(Switch::Auto) => vec![Poll::Auto],
        }
    }

    fn p9_options(&self) -> P9Options {
        P9Options {
            polls: self.polls(),
            extent: self.extent(RAW_ROUNDS, Placement::Apart),
            wait_mode: self.wait_mode(),
            count_syscalls: self.syscalls,
        }
    }

    fn raw_options(&self) -> RawOptions {
        RawOptions {
            polls: self.polls(),
            extent: self.extent(RAW_ROUNDS, Placement::Apart),
            wait_mode: self.wait_mode(),
            count_syscalls: self.syscalls,
        }
    }
}

/// Memory: a disk would be measured instead of servers.
fn default_place() -> PathBuf {
    let shm = Path::new("/dev/shm");
    if machine::filesystem_of(shm) == "tmpfs" {
        shm.to_owned()
    } else {
        std::env::temp_dir()
    }
}

fn environment(
    programs: &Programs,
    processors: &Processors,
    priority: &Priority,
    place: &Path,
) -> Vec<String> {
    vec![
        machine::describe(),
        format!("{}, {}", processors.describe(), priority.describe()),
        format!("share on {}", machine::filesystem_of(place)),
        machine::version_of(&programs.sluice),
        machine::version_of(&programs.peer("virtiofsd")),
        machine::version_of(&programs.peer("passthrough_ll")),
        "figures: median of bursts, each the lower quartile of its operations; spread: half the \
         distance between the quartiles of the bursts; A/A: the same server under two names; \
         equal: those quartile ranges overlap, Sluice's with that of both names"
            .to_owned(),
    ]
}

fn print(tables: &[Table], everyone: bool) {
    for table in tables {
        println!("\n{}", table.render(everyone));
    }
}

fn write_json(path: &Path, environment: &[String], tables: &[Table]) -> Result<(), BenchError> {
    let tables: Vec<_> = tables.iter().map(Table::to_json).collect();
    let all = json!({ "environment": environment, "tables": tables });
    std::fs::write(path, format!("{all:#}\n")).context(path.display())
}
