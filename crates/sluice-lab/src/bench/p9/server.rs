//! A 9P server, and the session with it.

use super::client::{Client, ROOT};
use crate::bench::contest::{Contestant, Placement};
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::Fixture;
use crate::bench::machine::Processors;
use crate::bench::programs::Programs;
use crate::bench::server::{CpuClock, Server};
use crate::bench::syscalls::Traced;
use sluice_proto::p9::wire::LopenFlags;
use sluice_virtio::driver::WaitMode;
use sluicefs::Address;
use std::net::TcpListener;
use std::process::Command;

/// A server with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// `sluice serve`, with these flags.
    Sluice { flags: &'static [&'static str] },
    /// diod, which takes everybody's word.
    Diod,
    /// This program as a server that answers from memory.
    Null,
}

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Unix,
    Tcp,
}

impl Transport {
    /// In titles.
    pub(super) fn word(self) -> &'static str {
        match self {
            Transport::Unix => "a unix socket",
            Transport::Tcp => "TCP",
        }
    }

    /// A place to listen, beside the fixture's share or on a port that is free.
    fn address(self, fixture: &Fixture, name: &str) -> Result<Address, BenchError> {
        match self {
            Transport::Unix => Ok(Address::Unix(fixture.beside(&format!("{name}.sock")))),
            Transport::Tcp => {
                let probe = TcpListener::bind(("127.0.0.1", 0)).context("a free port")?;
                Ok(Address::Tcp {
                    host: "127.0.0.1".to_owned(),
                    port: probe.local_addr()?.port(),
                })
            }
        }
    }
}

impl Program {
    fn command(&self, programs: &Programs, fixture: &Fixture, address: &Address) -> Command {
        match self {
            Program::Sluice { flags } => {
                let mut command = Command::new(&programs.sluice);
                command.arg("serve").arg(fixture.share());
                command.arg("--9p").arg(address.to_string()).args(*flags);
                command
            }
            Program::Diod => {
                let mut command = Command::new(programs.peer("diod"));
                command.args(["--foreground", "--no-auth", "--no-userdb"]);
                command.args(["--logdest", "stderr", "--export"]);
                command.arg(fixture.share()).arg("--listen");
                match address {
                    Address::Unix(path) => command.arg(path),
                    Address::Tcp { host, port } => command.arg(format!("{host}:{port}")),
                    other => command.arg(other.to_string()),
                };
                command
            }
            Program::Null => {
                let mut command = Command::new(&programs.bench);
                command.arg("null-server9p").arg(address.to_string());
                command.arg(fixture.share());
                command
            }
        }
    }
}

/// A running server of the fixture's share.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) address: Address,
    aname: String,
    wait_mode: WaitMode,
    processors: Processors,
    server: Server,
}

impl Running {
    pub(super) fn start(
        program: &Program,
        programs: &Programs,
        fixture: &Fixture,
        (transport, name): (Transport, &str),
        wait_mode: WaitMode,
        processors: Processors,
    ) -> Result<Self, BenchError> {
        let address = transport.address(fixture, name)?;
        let command = program.command(programs, fixture, &address);
        let server = Server::start(command, &fixture.beside(&format!("{name}.log")))?;
        let aname = match program {
            Program::Diod => fixture.share().display().to_string(),
            Program::Sluice { .. } | Program::Null => String::new(),
        };
        let mut running = Running {
            address,
            aname,
            wait_mode,
            processors,
            server,
        };
        running.await_first()?;
        Ok(running)
    }

    fn await_first(&mut self) -> Result<(), BenchError> {
        let (address, aname) = (&self.address, &self.aname);
        let attempt = || match Client::connect(address, aname, self.wait_mode) {
            Err(error) if is_early(&error) => None,
            outcome => Some(outcome),
        };
        self.server.wait_until(attempt)?.map(drop)
    }

    /// Another session.
    pub(super) fn connect(&self) -> Result<Client, BenchError> {
        Client::connect(&self.address, &self.aname, self.wait_mode)
    }
}

/// Before the server listens.
fn is_early(error: &BenchError) -> bool {
    let text = error.to_string();
    text.contains("Connection refused") || text.contains("No such file")
}

impl Contestant for Running {
    fn cpu_clock(&self) -> CpuClock {
        self.server.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        self.server.place(&self.processors, placement)
    }
}

impl Traced for Running {
    fn pid(&self) -> u32 {
        self.server.pid()
    }
}

/// A session with fids to measure on.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) running: Running,
}

impl Session {
    /// Fid of [`Fixture::PLAIN`].
    pub(super) const PLAIN: u32 = 1;
    /// Fid of [`Fixture::DATA`], open for reading and writing.
    pub(super) const DATA: u32 = 2;
    /// Fid of [`Fixture::BIG`], open for reading and writing.
    pub(super) const BIG: u32 = 3;
    /// Fid of [`Fixture::MANY`].
    pub(super) const MANY: u32 = 4;
    /// From here on, fids are free.
    pub(super) const FREE: u32 = 10;

    pub(super) fn begin(running: Running) -> Result<Self, BenchError> {
        let mut client = running.connect()?;
        for (fid, name) in [
            (Self::PLAIN, Fixture::PLAIN),
            (Self::DATA, Fixture::DATA),
            (Self::BIG, Fixture::BIG),
            (Self::MANY, Fixture::MANY),
        ] {
            client.walk(ROOT, fid, &[name])?;
        }
        client.open(Self::DATA, LopenFlags::RDWR)?;
        client.open(Self::BIG, LopenFlags::RDWR)?;
        Ok(Session { client, running })
    }
}

impl Contestant for Session {
    fn cpu_clock(&self) -> CpuClock {
        self.running.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        self.running.place(placement)
    }
}

impl Traced for Session {
    fn pid(&self) -> u32 {
        self.running.pid()
    }
}
