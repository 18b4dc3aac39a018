//! Who serves, over which protocol, and how a guest gets at it.

use super::work::ShareMount;
use crate::bench::contest::{Placement, Role};
use crate::bench::error::{BenchError, Context};
use crate::bench::machine::Processors;
use crate::bench::programs::Programs;
use crate::bench::raw::Poll;
use crate::bench::server::{CpuClock, Server};
use crate::diod::Diod;
use crate::wire::Wire;
use sluicefs::sandbox::{GuestNetwork, ShareSource};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;

/// Of every virtio-fs server's device.
const TAG: &str = "bench";

/// What every 9P mount is made with, beside the entrant's own.
const P9_OPTIONS: &str = "version=9p2000.L,msize=1048576,uname=root";

/// Somebody who takes part.
pub(super) struct Contender {
    pub(super) label: &'static str,
    pub(super) role: Role,
    pub(super) program: Program,
}

/// A server with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// Over virtio-fs.
    VirtioFs(VirtioFsProgram, Trust),
    /// Over 9P on TCP, mounted with these options.
    P9(P9Program, &'static str),
    /// By itself: what is built is copied first.
    Memory,
    /// `sluice serve` over 9P on TCP, mounted by `sluice mount` with these options.
    SluiceMount(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum VirtioFsProgram {
    Sluice,
    Virtiofsd,
    Null,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum P9Program {
    /// `sluice serve`, with such a `--poll`.
    Sluice(Poll),
    Diod,
    Null,
}

/// How long a guest may trust what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// For a second.
    Auto,
    /// For ever.
    Always,
}

impl Trust {
    fn mode(self) -> &'static str {
        match self {
            Trust::Auto => "auto",
            Trust::Always => "always",
        }
    }
}

/// A server that runs, and what a guest must know of it.
pub(super) struct Served {
    pub(super) process: Process,
    pub(super) source: ShareSource,
    pub(super) network: Option<GuestNetwork>,
    pub(super) mount: ShareMount,
}

/// What runs; ends when dropped.
pub(super) enum Process {
    One(Server),
    /// One for each connection.
    Diod {
        _diod: Diod,
    },
}

impl Process {
    pub(super) fn cpu_clock(&self) -> CpuClock {
        match self {
            Process::One(server) => server.cpu_clock(),
            Process::Diod { .. } => CpuClock::none(),
        }
    }

    pub(super) fn place(
        &self,
        processors: &Processors,
        placement: Placement,
    ) -> Result<(), BenchError> {
        match self {
            Process::One(server) => processors.place_server(server.pid(), placement),
            // They have inherited their place.
            Process::Diod { .. } => Ok(()),
        }
    }
}

impl Program {
    /// Serves `share`; `socket` and `log` are free paths.
    pub(super) fn serve(
        self,
        programs: &Programs,
        share: &Path,
        socket: &Path,
        log: &Path,
    ) -> Result<Served, BenchError> {
        match self {
            Program::VirtioFs(program, trust) => {
                let command = program.command(programs, share, socket, trust);
                serve_virtio_fs(command, socket, log)
            }
            Program::P9(program, options) => serve_9p(program, options, programs, share, log),
            Program::Memory => {
                let program = P9Program::Sluice(Poll::Auto);
                let mut served = serve_9p(program, "cache=loose", programs, share, log)?;
                served.mount.in_memory = true;
                Ok(served)
            }
            Program::SluiceMount(options) => serve_sluice_mount(options, programs, share, log),
        }
    }
}

fn serve_virtio_fs(command: Command, socket: &Path, log: &Path) -> Result<Served, BenchError> {
    let mut server = Server::start(command, log)?;
    let is_socket =
        || std::fs::metadata(socket).is_ok_and(|metadata| metadata.file_type().is_socket());
    server.wait_until(|| is_socket().then_some(()))?;
    Ok(Served {
        process: Process::One(server),
        source: ShareSource::Socket {
            socket: socket.to_owned(),
            tag: TAG.parse().map_err(BenchError::new)?,
        },
        network: None,
        mount: ShareMount {
            source: TAG.to_owned(),
            filesystem: "virtiofs".to_owned(),
            options: String::new(),
            in_memory: false,
        },
    })
}

/// On a wire of its own, which has a socket that listens already: nobody waits.
fn serve_9p(
    program: P9Program,
    options: &str,
    programs: &Programs,
    share: &Path,
    log: &Path,
) -> Result<Served, BenchError> {
    let wire = Wire::lay(1).context("a wire to the guest")?;
    let [listener] = &wire.listeners[..] else {
        return Err(BenchError::new("the wire has no socket"));
    };
    let process = match program.command(programs, share) {
        Some(command) => {
            let input = OwnedFd::from(listener.try_clone()?).into();
            Process::One(Server::start_on(input, command, log)?)
        }
        None => Process::Diod {
            _diod: serve_diod(&programs.peer("diod"), share, listener)?,
        },
    };
    let server = Wire::address(listener)?;
    let options = format!("{P9_OPTIONS},aname={},{options}", share.display());
    Ok(Served {
        process,
        mount: ShareMount {
            source: server.ip().to_string(),
            filesystem: "9p".to_owned(),
            options: format!("trans=tcp,port={},{options}", server.port()),
            in_memory: false,
        },
        source: ShareSource::P9 { server, options },
        network: Some(wire.network),
    })
}

/// The kernel's own client mounts it first, so that the guest can start; the mount
/// that takes its place has what `sluice mount` takes by itself.
fn serve_sluice_mount(
    options: &str,
    programs: &Programs,
    share: &Path,
    log: &Path,
) -> Result<Served, BenchError> {
    let served = serve_9p(P9Program::Sluice(Poll::Off), options, programs, share, log)?;
    let ShareSource::P9 { server, .. } = &served.source else {
        return Err(BenchError::new("a 9P server that is something else"));
    };
    Ok(Served {
        mount: ShareMount {
            source: format!("tcp:{server}"),
            filesystem: ShareMount::SLUICE.to_owned(),
            options: options.to_owned(),
            in_memory: false,
        },
        ..served
    })
}

fn serve_diod(program: &Path, share: &Path, listener: &TcpListener) -> Result<Diod, BenchError> {
    if !program.is_file() {
        return Err(BenchError::new(format!("no program {}", program.display())));
    }
    Diod::serve(program, share, listener).context("diod")
}

impl VirtioFsProgram {
    fn command(self, programs: &Programs, share: &Path, socket: &Path, trust: Trust) -> Command {
        let mut command;
        match self {
            VirtioFsProgram::Sluice => {
                command = Command::new(&programs.sluice);
                command.arg("serve").arg(share);
                command.arg("--virtiofs").arg(socket).args(["--tag", TAG]);
                command.args(["--cache", trust.mode()]);
            }
            VirtioFsProgram::Virtiofsd => {
                command = Command::new(programs.peer("virtiofsd"));
                command.arg("--shared-dir").arg(share);
                command.arg("--socket-path").arg(socket);
                command.args(["--tag", TAG, "--cache", trust.mode()]);
                command.args(["--sandbox", "none", "--seccomp", "none"]);
            }
            VirtioFsProgram::Null => {
                command = Command::new(&programs.bench);
                command.arg("null-server").arg(socket);
                command.arg("--share").arg(share).args(["--tag", TAG]);
                command.args((trust == Trust::Always).then_some("--trusted"));
            }
        }
        command
    }
}

impl P9Program {
    /// A process that serves on its standard input, if one does.
    fn command(self, programs: &Programs, share: &Path) -> Option<Command> {
        let mut command;
        match self {
            P9Program::Sluice(poll) => {
                command = Command::new(&programs.sluice);
                command.arg("serve").arg(share).args(["--9p", "fd:0"]);
                command.args(["--poll", poll.word()]);
            }
            P9Program::Null => {
                command = Command::new(&programs.bench);
                command.args(["null-server9p", "fd:0"]).arg(share);
            }
            P9Program::Diod => return None,
        }
        Some(command)
    }
}
