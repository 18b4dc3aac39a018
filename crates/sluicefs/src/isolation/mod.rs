//! What a serving process takes from itself, so that whoever takes it over has
//! a share and nothing else.
//!
//! In this order, each step needing rights that a later one takes:
//!
//! 1. [`enter`], while there is one thread and before anything of a share is
//!    open: name spaces of its own with nothing in them but the shares
//!    (`namespace`; the process outside waits, see `supervisor`), and
//!    capabilities down to what serving needs (`capabilities`);
//! 2. the caller opens the shares;
//! 3. [`Inside::lock_in`], still with one thread: a root directory (`chroot`),
//!    Landlock beneath the shares (`landlock`), and system calls down to those
//!    that serving makes (`seccomp`). Threads that are started later inherit
//!    all of it.

mod capabilities;
mod id_maps;
mod landlock;
mod namespace;
mod notify;
mod options;
mod seccomp;
mod supervisor;

use crate::failure::Failure;
use crate::signals::{EndSignals, FROM_OUTSIDE, FROM_USERS};
pub use id_maps::IdMapping;
use landlock::Ruleset;
pub use notify::Notify;
pub use options::{CapabilityChanges, IsolationOptions, Sandbox, SeccompMode};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, set_no_new_privs};
use std::io;
use std::path::{Path, PathBuf};

/// Where a share is, and what belongs to it.
#[derive(Clone, Debug)]
pub struct SharePlace {
    /// The host directory.
    pub dir: PathBuf,
    /// It is served for reading only.
    pub read_only: bool,
    /// Listening sockets whose files go when serving ends.
    pub sockets: Vec<PathBuf>,
}

/// Which process goes on after [`enter`].
#[derive(Debug)]
pub enum Entered {
    /// The one that serves.
    Inside(Inside),
    /// The one outside, after the serving one has ended with this status and
    /// said why. Nothing is left to do but to clean up.
    Outside(u8),
}

/// Takes the first steps. Nothing of a share may be open yet: descriptors of
/// directories outside would lead out, and `/proc/self` is another afterwards.
/// `notify` is told of what follows, through the process outside if there is one.
///
/// # Errors
/// What the options ask for cannot be had.
pub fn enter(
    options: &IsolationOptions,
    shares: &[SharePlace],
    notify: Notify,
) -> Result<Entered, Failure> {
    let kept = capabilities::to_keep(options, shares);
    if options.sandbox != Sandbox::Namespace {
        let held = match options.sandbox {
            Sandbox::Chroot => kept | CapabilitySet::SYS_CHROOT,
            _ => kept,
        };
        capabilities::keep_only(held)?;
        let dirs = shares.iter().map(|share| share.dir.clone()).collect();
        let sockets = shares.iter().flat_map(|share| &share.sockets);
        let sockets = sockets
            .map(|socket| directory_of(socket))
            .collect::<Result<_, _>>()?;
        return Inside::new(options, shares, dirs, sockets, notify).map(Entered::Inside);
    }
    match supervisor::start(options, notify)? {
        supervisor::Side::Outside(status) => Ok(Entered::Outside(status)),
        supervisor::Side::Inside(notify) => {
            let dirs = namespace::move_in(shares)?;
            capabilities::keep_only(match options.is_plain_user() {
                true => CapabilitySet::empty(),
                false => kept,
            })?;
            // The process outside removes the sockets.
            Inside::new(options, shares, dirs, Vec::new(), notify).map(Entered::Inside)
        }
    }
}

/// A process that has taken the first steps.
#[derive(Debug)]
pub struct Inside {
    dirs: Vec<PathBuf>,
    roots: Vec<(OwnedFd, bool)>,
    sockets: Vec<OwnedFd>,
    sandbox: Sandbox,
    seccomp: SeccompMode,
    kept: CapabilitySet,
    notify: Notify,
}

impl Inside {
    fn new(
        options: &IsolationOptions,
        shares: &[SharePlace],
        dirs: Vec<PathBuf>,
        sockets: Vec<OwnedFd>,
        notify: Notify,
    ) -> Result<Self, Failure> {
        let open = |(dir, share): (&PathBuf, &SharePlace)| {
            let root = open_dir(dir).map_err(|error| Failure::from_io("serve", dir, &error))?;
            Ok((root, share.read_only))
        };
        let roots = dirs.iter().zip(shares).map(open);
        Ok(Inside {
            roots: roots.collect::<Result<_, Failure>>()?,
            sandbox: options.sandbox,
            seccomp: options.seccomp,
            kept: capabilities::to_keep(options, shares),
            dirs,
            sockets,
            notify,
        })
    }

    /// Where the shares are for this process, in the order that they were given.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Whether a process outside waits for this one: it passes on what asks to
    /// end, and cleans up.
    pub fn has_outside(&self) -> bool {
        self.sandbox == Sandbox::Namespace
    }

    /// Those that ask this process to end. With one outside it has no use for
    /// users' own, which a service manager or a terminal sends to both: as the
    /// first of its name space it is not ended by what it does not handle
    /// (pid_namespaces(7)).
    pub(crate) fn end_signals(&self) -> io::Result<EndSignals> {
        EndSignals::register(match self.has_outside() {
            true => FROM_OUTSIDE,
            false => FROM_USERS,
        })
    }

    /// Takes the last steps. Every share is open by now.
    ///
    /// # Errors
    /// What the options ask for cannot be had.
    pub fn lock_in(self) -> Result<Notify, Failure> {
        let failed = |what: &str, error: io::Error| {
            let words = crate::failure::system_words(&error);
            Failure::new(format!("cannot isolate this process: {what}: {words}"))
        };
        if self.sandbox == Sandbox::Chroot {
            self.change_root().map_err(|error| {
                failed("chroot", error).advise("be root, or give --sandbox none")
            })?;
            capabilities::keep_only(self.kept)?;
        }
        set_no_new_privs(true).map_err(|error| failed("no_new_privs", error.into()))?;
        Ruleset::beneath(&self.roots, &self.sockets).enforce();
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|error| failed("dumpable", error.into()))?;
        seccomp::install(self.seccomp)?;
        Ok(self.notify)
    }

    fn change_root(&self) -> io::Result<()> {
        let Some((root, _)) = self.roots.first() else {
            return Ok(());
        };
        rustix::process::fchdir(root)?;
        rustix::process::chroot(".")?;
        rustix::process::chdir("/")?;
        Ok(())
    }
}

/// The directory of a file, to be found whatever this process' root is later.
fn directory_of(file: &Path) -> Result<OwnedFd, Failure> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    open_dir(dir).map_err(|error| Failure::from_io("open", dir, &error))
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}
