//! The command: signals, the background, and what is said.

use super::source::Opened;
use super::stats::{self, Figures, MetricsAddress, StatsServer};
use super::{MountOptions, Mounted, Source, Unmounter, daemon, kernel, mount_table};
use crate::failure::Failure;
use crate::logging;
use crate::signals::OnEndSignal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
    if is_daemon {
        daemon::report(&started);
    }
    let (mounted, _stats, _signals) = match started {
        Ok(started) => started,
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
    // Not being started by systemd is no error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    mounted.wait();
    Ok(())
}

fn start(config: &MountConfig) -> Result<(Mounted, StatsServer, OnEndSignal), Failure> {
    // Before mounting, so that no signal leaves a mount behind without a server.
    let mount = Arc::new(OnceLock::<Unmounter>::new());
    let to_unmount = Arc::clone(&mount);
    let signals = OnEndSignal::new(move |nth| end_by_signal(to_unmount.get(), nth))
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;

    let metrics = config.metrics.as_ref().map(stats::listen).transpose()?;
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
    let mounted = Mounted::start(service, &source, &target, &config.options)?;
    if export.is_some_and(|dir| mounted.kernel.is_beneath(&dir)) {
        return Err(within_itself(config)); // and unmounts
    }
    let figures = Figures {
        source,
        target: target.display().to_string(),
        requests: Arc::clone(&mounted.requests),
        meter,
    };
    let stats = StatsServer::start(figures, mounted.kernel.device(), metrics)?;
    let _ = mount.set(mounted.unmounter());
    Ok((mounted, stats, signals))
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

fn end_by_signal(mount: Option<&Unmounter>, nth: usize) {
    match mount {
        Some(mount) if nth == 0 => {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
            if let Err(failure) = mount.unmount() {
                tracing::error!("{failure}");
            }
        }
        _ => std::process::exit(1),
    }
}
