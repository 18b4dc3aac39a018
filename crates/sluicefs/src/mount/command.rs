//! The command: signals, the background, and what is said.

use super::device::Device;
use super::source::Opened;
use super::stats::{self, Figures, Listener, MetricsAddress, StatsServer};
use super::{MountOptions, Mounted, Source, Unmounter, daemon, kernel, mount_table};
use crate::failure::Failure;
use crate::logging;
use crate::signals::{EndSignal, OnEndSignal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `sluice mount`.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// What is mounted.
    pub source: Source,
    /// Where to mount it.
    pub target: PathBuf,
    /// How.
    pub options: MountOptions,
    /// Where metrics are to be had.
    pub metrics: Option<MetricsAddress>,
}

/// Mounts, serves, and returns after unmounting. The first SIGTERM, SIGINT or
/// SIGHUP unmounts; a second one ends the process where the first has to wait
/// for users of the mount.
///
/// As the background process (`is_daemon`) it reports to the waiting parent how
/// mounting went.
///
/// # Errors
/// A directory or mount point that cannot be had.
pub fn run(config: &MountConfig, is_daemon: bool) -> Result<(), Failure> {
    if is_daemon {
        daemon::detach();
    }
    let started = start(config);
    let is_told = !is_daemon || daemon::report(&started);
    let running = match started {
        Ok(running) => running,
        // The parent says it, and its status counts.
        Err(_) if is_daemon => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if !is_daemon {
        logging::say(format_args!(
            "mounted {} on {}",
            config.source,
            config.target.display()
        ));
    }
    if is_told {
        // Not being started by systemd is no error.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    } else {
        // Who asked for it was killed.
        running.mounted.unmounter().unmount()?;
    }
    running.wait();
    Ok(())
}

/// What has to be undone in the end, also by the thread that takes signals: the others may
/// wait for a server.
#[derive(Default)]
struct Progress {
    metrics: Option<Listener>,
    mount: Option<Unmounter>,
    stats: Option<StatsServer>,
    is_usable: bool,
}

struct Running {
    mounted: Mounted,
    progress: Arc<Mutex<Progress>>,
    _signals: OnEndSignal,
}

impl Running {
    /// Until somebody has unmounted it.
    fn wait(self) {
        self.mounted.wait();
        let stats = lock(&self.progress).stats.take();
        drop(stats);
    }
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(config: &MountConfig) -> Result<Running, Failure> {
    // Before mounting, so that no signal leaves a mount behind without a server.
    let progress = Arc::new(Mutex::new(Progress::default()));
    let seen = Arc::clone(&progress);
    let signals = OnEndSignal::new(move |signal| lock(&seen).end_by(signal))
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;

    if let Some(address) = &config.metrics {
        let mut progress = lock(&progress);
        progress.metrics = Some(stats::listen(address)?);
    }
    let Opened { service, meter } = config.source.open(&config.options)?;
    let target = kernel::mount_point(&config.target)?;
    let export = config.source.local_path().map(canonical).transpose()?;
    if export
        .as_ref()
        .is_some_and(|dir| mount_table::is_within(&target, dir))
    {
        return Err(within_itself(config));
    }
    let source = match &config.options.fsname {
        Some(name) => name.clone(),
        None => config.source.to_string(),
    };
    let (mounted, device) = lock(&progress).mount(&source, &target, &config.options)?;
    let mounted = mounted.with(service, device, &config.options)?;
    if export.is_some_and(|dir| mounted.kernel.is_beneath(&dir)) {
        return Err(within_itself(config)); // and unmounts
    }
    let figures = Figures {
        source,
        target: target.display().to_string(),
        options: config.options.words.join(","),
        requests: Arc::clone(&mounted.requests),
        meter,
    };
    lock(&progress).use_with(figures, mounted.kernel.device())?;
    Ok(Running {
        mounted,
        progress,
        _signals: signals,
    })
}

impl Progress {
    /// A signal comes before that or sees what to unmount.
    fn mount(
        &mut self,
        source: &str,
        target: &Path,
        options: &MountOptions,
    ) -> Result<(Mounted, Device), Failure> {
        let (mounted, device) = Mounted::in_tree(source, target, options)?;
        self.mount = Some(mounted.unmounter());
        Ok((mounted, device))
    }

    fn use_with(&mut self, figures: Figures, device: &str) -> Result<(), Failure> {
        let metrics = self.metrics.take();
        self.stats = Some(StatsServer::start(figures, device, metrics)?);
        self.is_usable = true;
        Ok(())
    }

    fn end_by(&mut self, signal: EndSignal) {
        let is_first = signal.earlier == 0;
        if self.is_usable && is_first {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        }
        if let Some(mount) = &self.mount
            && is_first
            && let Err(failure) = mount.unmount()
        {
            tracing::error!("{failure}");
        }
        if self.is_usable && is_first {
            return;
        }
        // Files of sockets go with them.
        self.metrics = None;
        self.stats = None;
        match self.is_usable {
            true => std::process::exit(1),
            false => signal.end_process(),
        }
    }
}

fn canonical(dir: &Path) -> Result<PathBuf, Failure> {
    let found = dir.canonicalize();
    found.map_err(|error| Failure::from_io("serve", dir, &error))
}

/// To serve what is beneath the mount, the server would ask itself, and wait.
fn within_itself(config: &MountConfig) -> Failure {
    let (target, export) = (config.target.display(), &config.source);
    let what = format!("cannot mount on '{target}': it is part of what is mounted, '{export}'");
    Failure::new(what).advise("mount it outside of that, or on it")
}
