//! A server behind a vhost-user socket, and the session with it.

use super::Poll;
use super::cells::{libc_flags, many_names};
use super::client::{Client, ROOT};
use crate::bench::contest::{Contestant, Placement};
use crate::bench::error::BenchError;
use crate::bench::fixture::Fixture;
use crate::bench::machine::Processors;
use crate::bench::programs::Programs;
use crate::bench::server::{CpuClock, Server};
use crate::bench::syscalls::Traced;
use sluice_virtio::driver::WaitMode;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;

/// A server with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// `sluice serve`, with these flags and `--poll`.
    Sluice {
        flags: &'static [&'static str],
        poll: Poll,
    },
    /// virtiofsd, with these flags.
    Virtiofsd { flags: &'static [&'static str] },
    /// This program as Sluice with a disk on which FSYNC takes a second.
    Stalling,
    /// This program as a server that does nothing.
    Null { poll: Poll },
}

impl Program {
    fn command(&self, programs: &Programs, share: &Path, socket: &Path) -> Command {
        match self {
            Program::Sluice { flags, poll } => {
                let mut command = Command::new(&programs.sluice);
                command.arg("serve").arg(share);
                command.arg("--virtiofs").arg(socket).args(*flags);
                command.args(["--poll", poll.word()]);
                command
            }
            Program::Virtiofsd { flags } => {
                let mut command = Command::new(programs.peer("virtiofsd"));
                command.arg("--shared-dir").arg(share);
                command.arg("--socket-path").arg(socket);
                command
                    .args(["--sandbox", "none", "--seccomp", "none"])
                    .args(*flags);
                command
            }
            Program::Stalling => {
                let mut command = Command::new(&programs.bench);
                command.arg("stalling-server").arg(socket).arg(share);
                command
            }
            Program::Null { poll } => {
                let mut command = Command::new(&programs.bench);
                command.arg("null-server").arg(socket);
                command.args(["--poll", poll.word()]);
                command
            }
        }
    }
}

/// A running virtio-fs device with nodes and handles to measure on.
#[derive(Debug)]
pub(super) struct VirtioFs {
    pub(super) client: Client,
    /// Node of [`Fixture::PLAIN`].
    pub(super) plain: u64,
    /// Node of [`Fixture::DATA`].
    pub(super) data: u64,
    /// Handle of [`Fixture::DATA`], for reading and writing.
    pub(super) data_handle: u64,
    /// Node of [`Fixture::MANY`].
    pub(super) many: u64,
    /// Names in [`Fixture::MANY`].
    pub(super) names: Vec<String>,
    /// Whether a request is to be stalled while others are measured.
    pub(super) has_stall: bool,
    processors: Processors,
    server: Server,
}

impl VirtioFs {
    /// Starts a server for the fixture's share; its socket lies beside, called
    /// `name`.
    pub(super) fn start(
        program: &Program,
        programs: &Programs,
        fixture: &Fixture,
        name: &str,
        wait_mode: WaitMode,
        processors: Processors,
    ) -> Result<Self, BenchError> {
        let socket = fixture.beside(&format!("{name}.sock"));
        let command = program.command(programs, &fixture.share(), &socket);
        let mut server = Server::start(command, &fixture.beside(&format!("{name}.log")))?;
        server.wait_until(|| is_socket(&socket).then_some(()))?;
        let mut client = server.wait_until(|| listening(&socket, wait_mode))??;
        let plain = client.lookup(ROOT, Fixture::PLAIN)?;
        let data = client.lookup(ROOT, Fixture::DATA)?;
        let many = client.lookup(ROOT, Fixture::MANY)?;
        let data_handle = client.open(data, libc_flags::O_RDWR)?.fh;
        Ok(VirtioFs {
            client,
            plain,
            data,
            data_handle,
            many,
            names: many_names(),
            has_stall: false,
            processors,
            server,
        })
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|attr| attr.file_type().is_socket())
}

/// Between bind and listen connections are refused. Any other failure is final:
/// virtiofsd serves only one connection.
fn listening(socket: &Path, wait_mode: WaitMode) -> Option<Result<Client, BenchError>> {
    match Client::connect(socket, wait_mode) {
        Err(error) if error.to_string().contains("Connection refused") => None,
        outcome => Some(outcome),
    }
}

impl Contestant for VirtioFs {
    fn cpu_clock(&self) -> CpuClock {
        self.server.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        self.server.place(&self.processors, placement)
    }
}

impl Traced for VirtioFs {
    fn pid(&self) -> u32 {
        self.server.pid()
    }
}
