//! The programs that can be a machine: user-mode Linux, or QEMU with a kernel.

mod qemu;
mod search;
mod uml;

use super::modules::{Module, ModuleDir};
use crate::failure::Failure;
use crate::serve::DeviceKind;
use clap::ValueEnum;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use search::MachineChoice;
pub(super) use search::Places;

/// What kind of machine a guest is to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MachineKind {
    /// User-mode Linux where there is one, else QEMU
    #[default]
    Auto,
    /// User-mode Linux: boots in a second and needs no KVM
    Uml,
    /// QEMU: with KVM if it works, else emulated
    Qemu,
}

/// A machine that was found on this host.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    engine: Engine,
    /// The kernel: a program for user-mode Linux, an image for QEMU.
    kernel: PathBuf,
    modules: Option<ModuleDir>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Engine {
    Uml,
    Qemu { program: PathBuf },
}

/// Everything that a machine's command line names.
pub(super) struct Wiring<'a> {
    /// For the machine's own files.
    pub(super) dir: &'a Path,
    pub(super) memory_mib: u32,
    pub(super) initramfs: RawFd,
    /// What the kernel says.
    pub(super) console: RawFd,
    pub(super) control: RawFd,
    pub(super) speech: Speech<RawFd>,
    pub(super) shares: &'a [Attachment],
    /// A packet socket that is its Ethernet, and the largest packet.
    pub(super) network: Option<(RawFd, u16)>,
    /// Further words for the kernel's command line.
    pub(super) kernel_arguments: &'a [String],
}

/// What the command's standard streams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech<T> {
    /// One terminal.
    Terminal(T),
    /// Three separate lines.
    Streams { stdin: T, stdout: T, stderr: T },
}

/// A device with a share behind it.
#[derive(Clone, Debug)]
pub(super) struct Attachment {
    pub(super) server: AttachedServer,
    pub(super) tag: String,
}

/// Who serves a device.
#[derive(Clone, Debug)]
pub(super) enum AttachedServer {
    /// A process of its own.
    VhostUser {
        kind: DeviceKind,
        /// Only characters that need no quoting.
        socket: PathBuf,
    },
    /// The machine itself, over 9P.
    Machine {
        /// Only characters that need no quoting.
        dir: PathBuf,
    },
}

/// The device's number (Virtual I/O Device 1.3, section 5).
fn virtio_id(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Fs => 26,
        DeviceKind::P9 => 9,
    }
}

/// The guest's device nodes for the lines of [`Wiring`].
pub(super) struct Lines {
    pub(super) control: &'static str,
    pub(super) speech: Speech<&'static str>,
}

impl Machine {
    /// The command that runs the machine until it is switched off.
    pub(super) fn command(&self, wiring: &Wiring<'_>) -> Command {
        match &self.engine {
            Engine::Uml => uml::command(&self.kernel, wiring),
            Engine::Qemu { program } => qemu::command(program, &self.kernel, wiring),
        }
    }

    /// Whether it has a 9P server of its own.
    pub(super) fn serves_itself(&self) -> bool {
        self.engine != Engine::Uml
    }

    /// Whether it can have a [`GuestNetwork`](super::GuestNetwork).
    pub(super) fn has_ethernet(&self) -> bool {
        self.engine == Engine::Uml
    }

    pub(super) fn lines(&self, on_terminal: bool) -> Lines {
        match self.engine {
            Engine::Uml => uml::lines(on_terminal),
            Engine::Qemu { .. } => qemu::lines(on_terminal),
        }
    }

    /// The modules that the guest must load: for the machine's own devices,
    /// and `more`.
    pub(super) fn modules(&self, more: &[&'static str]) -> Result<Vec<Module>, Failure> {
        // Without an index everything must be built in; the guest will say if it is not.
        let Some(modules) = &self.modules else {
            return Ok(Vec::new());
        };
        let own = match self.engine {
            Engine::Uml => uml::MODULES,
            Engine::Qemu { .. } => qemu::MODULES,
        };
        modules.load(&[own, more].concat())
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        match &self.engine {
            Engine::Uml => format!("user-mode Linux '{}'", self.kernel.display()),
            Engine::Qemu { .. } => format!("QEMU with the kernel '{}'", self.kernel.display()),
        }
    }
}

impl<T> Speech<T> {
    /// The same with every part replaced.
    pub(super) fn map<U>(self, mut change: impl FnMut(T) -> U) -> Speech<U> {
        match self {
            Speech::Terminal(line) => Speech::Terminal(change(line)),
            Speech::Streams {
                stdin,
                stdout,
                stderr,
            } => Speech::Streams {
                stdin: change(stdin),
                stdout: change(stdout),
                stderr: change(stderr),
            },
        }
    }

    pub(super) fn as_ref(&self) -> Speech<&T> {
        match self {
            Speech::Terminal(line) => Speech::Terminal(line),
            Speech::Streams {
                stdin,
                stdout,
                stderr,
            } => Speech::Streams {
                stdin,
                stdout,
                stderr,
            },
        }
    }

    /// The part that brings input.
    pub(super) fn input(&self) -> &T {
        match self {
            Speech::Terminal(line) | Speech::Streams { stdin: line, .. } => line,
        }
    }

    pub(super) fn into_parts(self) -> Vec<T> {
        match self {
            Speech::Terminal(line) => vec![line],
            Speech::Streams {
                stdin,
                stdout,
                stderr,
            } => vec![stdin, stdout, stderr],
        }
    }
}
