//! A guest and what it is given.

use super::busybox;
use super::error::GuestError;
use super::initramfs::{self, Orders};
use super::line;
use super::machine::{Machine, MachineChoice, MachineKind, Places, Speech, Wiring};
use super::network::GuestNetwork;
use super::running::{Launch, RunningGuest};
use super::share::{self, GuestRoot, GuestShare, ShareSource, Shares};
use crate::failure::{Failure, system_words};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// A throw-away Linux guest that runs one command.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The command and its arguments, looked up in the guest.
    pub command: Vec<OsString>,
    /// What it runs on.
    pub machine: MachineChoice,
    /// The guest's memory, in MiB.
    pub memory_mib: u32,
    /// What the guest mounts, in this order.
    pub shares: Vec<GuestShare>,
    /// The guest's root; without one it has a busybox and nothing else.
    pub root: Option<GuestRoot>,
    /// Where the command starts: unless given, where the first share is, or `/`.
    pub workdir: Option<PathBuf>,
    /// Set for the command, beside `PATH` and `HOME`.
    pub environment: Vec<(String, OsString)>,
    /// Its Ethernet; without one it has no network.
    pub network: Option<GuestNetwork>,
    /// Further words for the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// From the start until everything is mounted.
    pub boot_timeout: Duration,
    /// For the command, once the guest is ready; `None` is for ever.
    pub time_limit: Option<Duration>,
    /// A file that gets what the guest's kernel says.
    pub console_log: Option<PathBuf>,
}

/// What the command's standard streams are on the host.
pub enum GuestStdio {
    /// A terminal in the guest, of which this is the other end.
    Terminal {
        /// Keystrokes.
        keys: Box<dyn Read + Send>,
        /// What is to be shown.
        screen: Box<dyn Write + Send>,
        /// Rows and columns.
        window: Option<(u16, u16)>,
    },
    /// Three pipes in the guest. Every byte arrives as it was written.
    Streams {
        /// What the command reads, until its end.
        stdin: Box<dyn Read + Send>,
        /// What it prints. If this fails, the command finds its output closed.
        stdout: Box<dyn Write + Send>,
        /// What it complains about; as above.
        stderr: Box<dyn Write + Send>,
    },
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestOutput {
    /// Its exit status; 128 and the signal's number if a signal ended it.
    pub status: u8,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

impl Guest {
    /// A guest with a busybox and no shares.
    pub fn new<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Self {
        Guest {
            command: command.into_iter().map(Into::into).collect(),
            machine: MachineChoice::default(),
            memory_mib: 1024,
            shares: Vec::new(),
            root: None,
            workdir: None,
            environment: Vec::new(),
            network: None,
            kernel_arguments: Vec::new(),
            boot_timeout: Duration::from_secs(120),
            time_limit: None,
            console_log: None,
        }
    }

    /// The same with a host directory that the guest may change.
    #[must_use]
    pub fn share(mut self, dir: impl Into<PathBuf>, at: impl Into<PathBuf>) -> Self {
        self.shares.push(GuestShare {
            source: ShareSource::directory(dir),
            at: at.into(),
            read_only: false,
        });
        self
    }

    /// The same with a host directory as its root, which it cannot change.
    #[must_use]
    pub fn root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.root = Some(GuestRoot {
            source: ShareSource::directory(dir),
            writable: false,
        });
        self
    }

    /// Starts it, and returns without waiting for it to boot.
    ///
    /// # Errors
    /// No machine on this host, a directory that cannot be served, and so on.
    pub fn start(&self, stdio: GuestStdio) -> Result<RunningGuest, Failure> {
        let (machine, busybox) = find(&self.choice())?;
        if self.sources().any(ShareSource::needs_qemu) && !machine.serves_itself() {
            let advice = "choose --machine=qemu";
            return Err(Failure::new("user-mode Linux has no 9P server").advise(advice));
        }
        if self.network.is_some() && !machine.has_ethernet() {
            let advice = "choose --machine=uml";
            return Err(Failure::new("no network for guests under QEMU").advise(advice));
        }
        let dir = private_dir()?;
        let shares = share::serve(&self.shares, self.root.as_ref(), dir.path())?;
        let nonce = nonce().map_err(|error| cannot_start(&error))?;
        let initramfs = self.initramfs(&machine, &busybox, &shares, &nonce, &stdio)?;
        let log = self.console_log.as_deref().map(create).transpose()?;
        let (command, launch) = self
            .wire(&machine, dir, shares, initramfs, &stdio)
            .map_err(|error| cannot_start(&error))?;
        launch.go(command, nonce, stdio, log).map_err(|error| {
            let machine = machine.describe();
            Failure::new(format!("cannot start {machine}: {}", system_words(&error)))
        })
    }

    /// Runs it to the end with `input`, and returns what it printed.
    ///
    /// # Errors
    /// Whatever kept it from giving an exit status.
    pub fn output(&self, input: impl Into<Vec<u8>>) -> Result<GuestOutput, GuestError> {
        let (stdout, stderr) = (Kept::default(), Kept::default());
        let stdio = GuestStdio::Streams {
            stdin: Box::new(io::Cursor::new(input.into())),
            stdout: Box::new(stdout.clone()),
            stderr: Box::new(stderr.clone()),
        };
        let status = self.start(stdio)?.wait()?;
        Ok(GuestOutput {
            status,
            stdout: stdout.take(),
            stderr: stderr.take(),
        })
    }

    fn sources(&self) -> impl Iterator<Item = &ShareSource> {
        let root = self.root.iter().map(|root| &root.source);
        root.chain(self.shares.iter().map(|share| &share.source))
    }

    /// Any machine will do, but for what only one has a driver for.
    fn choice(&self) -> MachineChoice {
        let is_open = self.machine.kind == MachineKind::Auto && self.machine.kernel.is_none();
        let wants_qemu = is_open && self.sources().any(ShareSource::wants_qemu);
        MachineChoice {
            kind: match wants_qemu {
                true => MachineKind::Qemu,
                false => self.machine.kind,
            },
            ..self.machine.clone()
        }
    }

    fn initramfs(
        &self,
        machine: &Machine,
        busybox: &[u8],
        shares: &Shares,
        nonce: &str,
        stdio: &GuestStdio,
    ) -> Result<File, Failure> {
        let window = match stdio {
            GuestStdio::Terminal { window, .. } => *window,
            GuestStdio::Streams { .. } => None,
        };
        let has_overlay = self.root.as_ref().is_some_and(|root| !root.writable);
        let kinds = shares.mounts.iter().flat_map(|mount| mount.kind.modules());
        let overlay = has_overlay.then_some("overlay");
        let modules = machine.modules(&kinds.copied().chain(overlay).collect::<Vec<_>>())?;
        let orders = Orders {
            nonce,
            lines: machine.lines(stdio.is_terminal()),
            window,
            environment: &self.environment,
            workdir: self.workdir(),
            command: &self.command,
            mounts: &shares.mounts,
            network: self.network.as_ref(),
        };
        let write = || {
            let file = File::from(memfd_create("initramfs", MemfdFlags::CLOEXEC)?);
            initramfs::write(BufWriter::new(&file), busybox, &modules, &orders)?;
            io::Result::Ok(file)
        };
        write().map_err(|error| cannot_start(&error))
    }

    fn workdir(&self) -> &Path {
        let first = self.shares.first().map(|share| share.at.as_path());
        self.workdir.as_deref().or(first).unwrap_or(Path::new("/"))
    }

    /// The machine's command line and our ends of its lines.
    fn wire(
        &self,
        machine: &Machine,
        dir: TempDir,
        shares: Shares,
        initramfs: File,
        stdio: &GuestStdio,
    ) -> io::Result<(std::process::Command, Launch)> {
        let (console, their_console) = line::pair()?;
        let (control, their_control) = line::pair()?;
        let (speech, their_speech) = stdio.lines()?;
        let network = match &self.network {
            Some(network) => Some((network.socket.try_clone()?, network.mtu)),
            None => None,
        };
        let mut command = machine.command(&Wiring {
            dir: dir.path(),
            memory_mib: self.memory_mib,
            initramfs: initramfs.as_raw_fd(),
            console: their_console.as_raw_fd(),
            control: their_control.as_raw_fd(),
            speech: their_speech.as_ref().map(|line| line.as_raw_fd()),
            shares: &shares.attachments,
            network: network.as_ref().map(|(fd, mtu)| (fd.as_raw_fd(), *mtu)),
            kernel_arguments: &self.kernel_arguments,
        });
        command
            .stdin(Stdio::null())
            .stdout(their_console.try_clone()?)
            .stderr(their_console.try_clone()?);
        let mut inherited = vec![initramfs.into(), their_console, their_control];
        inherited.extend(their_speech.into_parts());
        inherited.extend(network.map(|(fd, _)| fd));
        let launch = Launch {
            machine: machine.describe(),
            boot_timeout: self.boot_timeout,
            time_limit: self.time_limit,
            inherited,
            console,
            control,
            speech,
            shares,
            dir,
        };
        Ok((command, launch))
    }
}

impl GuestStdio {
    fn is_terminal(&self) -> bool {
        matches!(self, GuestStdio::Terminal { .. })
    }

    /// A line for each of them: our ends, and the machine's.
    fn lines(&self) -> io::Result<(Speech<UnixStream>, Speech<OwnedFd>)> {
        if self.is_terminal() {
            let (ours, theirs) = line::pair()?;
            return Ok((Speech::Terminal(ours), Speech::Terminal(theirs)));
        }
        let (stdin, their_stdin) = line::pair()?;
        let (stdout, their_stdout) = line::pair()?;
        let (stderr, their_stderr) = line::pair()?;
        Ok((
            Speech::Streams {
                stdin,
                stdout,
                stderr,
            },
            Speech::Streams {
                stdin: their_stdin,
                stdout: their_stdout,
                stderr: their_stderr,
            },
        ))
    }
}

/// Output that is kept in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Kept {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MachineChoice {
    /// What a guest would run on here, in words.
    ///
    /// # Errors
    /// What is missing.
    pub fn probe(&self) -> Result<String, Failure> {
        find(self).map(|(machine, _)| machine.describe())
    }
}

/// The machine, and the content of a busybox.
fn find(choice: &MachineChoice) -> Result<(Machine, Vec<u8>), Failure> {
    let places = Places::of(choice);
    Ok((choice.find(&places)?, busybox::load(&places)?))
}

/// For sockets and the machine's own files, for our eyes only. Its path is
/// short and has nothing that a command line would have to quote.
fn private_dir() -> Result<TempDir, Failure> {
    let preferred = std::env::temp_dir();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let name = preferred.as_os_str().as_bytes();
    let parent = if preferred.is_absolute() && name.len() <= 60 && name.iter().all(is_plain) {
        preferred.as_path()
    } else {
        Path::new("/tmp")
    };
    tempfile::Builder::new()
        .prefix("sluice-run-")
        .tempdir_in(parent)
        .map_err(|error| Failure::from_io("make a directory in", parent, &error))
}

/// A word that nobody in the guest can guess.
fn nonce() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::from_io("write", path, &error))
}

fn cannot_start(error: &io::Error) -> Failure {
    Failure::new(format!("cannot start a guest: {}", system_words(error)))
}
