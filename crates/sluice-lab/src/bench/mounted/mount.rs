//! A FUSE mount with the server behind it.

use crate::bench::contest::{Contestant, Placement};
use crate::bench::error::{BenchError, Context};
use crate::bench::fixture::Fixture;
use crate::bench::machine::Processors;
use crate::bench::programs::Programs;
use crate::bench::server::{CpuClock, Server};
use rustix::fs::{Mode, OFlags, openat, stat};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// `sluice mount --export`, with these mount options.
    Sluice { options: &'static str },
    /// `sluice mount` of a `sluice serve` on a unix socket, with these mount
    /// options.
    SluiceOverP9 { options: &'static str },
    /// libfuse's `passthrough_ll`, with these mount options, and the kernel's
    /// permission checks that the others always have.
    PassthroughLl { options: &'static str },
    /// libfuse's `passthrough_hp --nopassthrough`, with these flags.
    PassthroughHp { flags: &'static [&'static str] },
}

impl Program {
    fn command(&self, programs: &Programs, share: &Path, target: &Path, socket: &Path) -> Command {
        match self {
            Program::SluiceOverP9 { options } => {
                let mut command = Command::new(&programs.sluice);
                command.args(["mount", "--foreground", "-o", options]);
                command
                    .arg(format!("unix:{}", socket.display()))
                    .arg(target);
                command
            }
            Program::Sluice { options } => {
                let mut command = Command::new(&programs.sluice);
                command.args(["mount", "--foreground", "-o", options, "--export"]);
                command.arg(share).arg(target);
                command
            }
            Program::PassthroughLl { options } => {
                let mut command = Command::new(programs.peer("passthrough_ll"));
                let source = format!("source={},default_permissions,{options}", share.display());
                command.args(["-f", "-o", &source]).arg(target);
                command
            }
            Program::PassthroughHp { flags } => {
                let mut command = Command::new(programs.peer("passthrough_hp"));
                command.args(["--foreground", "--nopassthrough"]);
                command.args(*flags).arg(share).arg(target);
                command
            }
        }
    }
}

/// A mounted share. Dropping it unmounts it and ends the server.
#[derive(Debug)]
pub(super) struct Mount {
    /// The root of the mount. First, so that it is closed before the unmount.
    pub(super) root: OwnedFd,
    processors: Processors,
    unmount: UnmountOnDrop,
    server: Server,
    /// The one that the mount is a client of.
    behind: Option<Server>,
}

impl Mount {
    /// Mounts the fixture's share at a place beside it, called `name`.
    pub(super) fn start(
        program: &Program,
        programs: &Programs,
        fixture: &Fixture,
        name: &str,
        processors: Processors,
    ) -> Result<Self, BenchError> {
        let target = fixture.beside(&format!("mount-{name}"));
        fs::create_dir(&target).context(target.display())?;
        let bare = stat(&target)?.st_dev;
        let socket = fixture.beside(&format!("mount-{name}.sock"));
        let behind = match program {
            Program::SluiceOverP9 { .. } => Some(serve(programs, fixture, &socket)?),
            _ => None,
        };
        let command = program.command(programs, &fixture.share(), &target, &socket);
        let mut server = Server::start(command, &fixture.beside(&format!("mount-{name}.log")))?;
        let unmount = UnmountOnDrop(target.clone());
        server.wait_until(|| {
            stat(&target)
                .is_ok_and(|attr| attr.st_dev != bare)
                .then_some(())
        })?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&target, flags, Mode::empty()).context(target.display())?;
        Ok(Mount {
            root,
            processors,
            unmount,
            server,
            behind,
        })
    }

    /// Messages to the server so far, and replies that somebody waited for.
    pub(super) fn messages(&self, programs: &Programs) -> Result<(u64, u64), BenchError> {
        let mut command = Command::new(&programs.sluice);
        command.args(["stats", "--json"]).arg(&self.unmount.0);
        let output = command.output().context("sluice stats")?;
        let stats: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| BenchError::new(String::from_utf8_lossy(&output.stderr)))?;
        let server = &stats["server"];
        let count = |figure: &serde_json::Value| figure.as_u64().unwrap_or(0);
        let sent = count(&server["sent_bytes"]["count"]);
        Ok((sent, count(&server["replies_waited"])))
    }

    /// Opens a file of the share.
    pub(super) fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, BenchError> {
        openat(&self.root, name, flags | OFlags::CLOEXEC, Mode::empty()).context(name)
    }
}

fn serve(programs: &Programs, fixture: &Fixture, socket: &Path) -> Result<Server, BenchError> {
    let mut command = Command::new(&programs.sluice);
    command.arg("serve").arg(fixture.share()).arg("--9p");
    command.arg(format!("unix:{}", socket.display()));
    let mut server = Server::start(command, &socket.with_extension("log"))?;
    server.wait_until(|| socket.exists().then_some(()))?;
    Ok(server)
}

impl Contestant for Mount {
    fn cpu_clock(&self) -> CpuClock {
        self.server.cpu_clock()
    }

    fn place(&mut self, placement: Placement) -> Result<(), BenchError> {
        if let Some(behind) = &mut self.behind {
            behind.place(&self.processors, placement)?;
        }
        self.server.place(&self.processors, placement)
    }
}

#[derive(Debug)]
struct UnmountOnDrop(PathBuf);

impl Drop for UnmountOnDrop {
    fn drop(&mut self) {
        // It fails when the server has unmounted already.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
