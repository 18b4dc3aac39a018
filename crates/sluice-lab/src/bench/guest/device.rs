//! A server, the guest that has mounted its share, and the talk with the agent
//! in there.

use super::fixture::{self, GuestFixture};
use super::program::{Process, Program, Served};
use super::{MOUNTED_AT, agent};
use crate::bench::contest::{Contestant, Meter, Placement};
use crate::bench::error::{BenchError, Context};
use crate::bench::machine::Processors;
use crate::bench::programs::Programs;
use crate::bench::server::CpuClock;
use sluice_proto::fuse::serve::CacheMode;
use sluicefs::sandbox::{
    Guest, GuestRoot, GuestShare, GuestStdio, MachineChoice, MachineKind, RunningGuest, ShareSource,
};
use sluicefs::share::SharePolicy;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::rc::Rc;

/// A running guest with a server of its own.
pub(super) struct ServedGuest {
    fixture: Rc<GuestFixture>,
    entrant: usize,
    answers: BufReader<PipeReader>,
    orders: PipeWriter,
    _running: RunningGuest,
    processors: Processors,
    server: Process,
}

impl ServedGuest {
    /// Starts both. The guest shares a processor with the calling thread.
    pub(super) fn start(
        program: Program,
        memory_mib: u32,
        programs: &Programs,
        fixture: &Rc<GuestFixture>,
        (group, entrant): (usize, usize),
        processors: Processors,
    ) -> Result<Self, BenchError> {
        let socket = fixture.beside(&format!("{group}-{entrant}.sock"));
        let log = fixture.beside(&format!("{group}-{entrant}.log"));
        processors.place_as_server()?;
        let served = program.serve(programs, &fixture.share(), &socket, &log)?;
        processors.place_driver(Placement::Apart)?;
        let (input, orders) = io::pipe()?;
        let (answers, output) = io::pipe()?;
        let stdio = GuestStdio::Streams {
            stdin: Box::new(input),
            stdout: Box::new(output),
            stderr: Box::new(io::stderr()),
        };
        let mut guest = guest(programs, fixture, entrant, &served);
        guest.memory_mib = memory_mib;
        let mut running = guest.start(stdio).map_err(said)?;
        running.wait_until_ready().map_err(said)?;
        Ok(ServedGuest {
            fixture: Rc::clone(fixture),
            entrant,
            answers: BufReader::new(answers),
            orders,
            _running: running,
            processors,
            server: served.process,
        })
    }

    /// Has the guest do something, as one burst.
    pub(super) fn run(&mut self, work: &str, meter: &mut Meter) -> Result<(), BenchError> {
        let answer = self.ask(&format!("prepare {work}"))?;
        if answer != "ready" {
            agent::parse_done(&answer)?;
        }
        meter.remote(|| {
            let measured = agent::parse_done(&self.ask(&format!("run {work}"))?)?;
            Ok((measured.operations, measured.ns))
        })
    }

    /// The same, after the directory of its own was put in order.
    pub(super) fn run_anew(&mut self, work: &str, meter: &mut Meter) -> Result<(), BenchError> {
        self.fixture.renew(self.entrant)?;
        self.run(work, meter)
    }

    fn ask(&mut self, order: &str) -> Result<String, BenchError> {
        writeln!(self.orders, "{order}").context("the guest")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("the guest")?;
        let answer = answer.strip_suffix('\n');
        Ok(answer
            .ok_or(BenchError::new("the guest is gone"))?
            .to_owned())
    }
}

impl Contestant for ServedGuest {
    fn cpu_clock(&self) -> CpuClock {
        self.server.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        self.server.place(&self.processors, placement)
    }
}

/// The lab's root with all programs, the share, and this program.
fn guest(programs: &Programs, fixture: &GuestFixture, entrant: usize, served: &Served) -> Guest {
    let cache = programs.lab.clone();
    let own = fixture::own(entrant);
    let mount = &served.mount;
    let mut command = vec![
        "/tools/bench",
        "in-guest",
        &own,
        &mount.source,
        &mount.filesystem,
        &mount.options,
    ];
    command.extend(mount.in_memory.then_some("--in-memory"));
    let mut guest = Guest::new(command);
    guest.root = Some(GuestRoot {
        source: trusted(cache.join("root")),
        writable: false,
    });
    guest.shares.push(GuestShare {
        source: served.source.clone(),
        at: MOUNTED_AT.into(),
        read_only: false,
    });
    guest.shares.push(GuestShare {
        source: trusted(fixture.beside("tools")),
        at: "/tools".into(),
        read_only: true,
    });
    guest.machine = MachineChoice {
        kind: MachineKind::Uml,
        lab_cache: Some(cache),
        ..MachineChoice::default()
    };
    guest.network = served.network.clone();
    guest.workdir = Some("/".into());
    guest
}

/// A tree that nobody changes meanwhile.
fn trusted(dir: impl Into<std::path::PathBuf>) -> ShareSource {
    ShareSource::Directory {
        dir: dir.into(),
        policy: SharePolicy {
            cache: CacheMode::Always,
            ..SharePolicy::default()
        },
    }
}

fn said(error: impl std::fmt::Display) -> BenchError {
    BenchError::new(error.to_string())
}
