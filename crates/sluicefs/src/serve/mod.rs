//! A service behind a virtio-fs device on a vhost-user socket.
//!
//! [`run`] is `sluice serve`; [`Serving`] is the same for any service, without
//! signals. `device` is the virtio-fs device, `exchange` carries a request
//! between a descriptor chain and the FUSE server, `parked` holds those that
//! wait for a lock.
//!
//! Lock order: a device's connection slot, then its parked chains, then one
//! chain's own. None is held while the FUSE server is called.

mod device;
mod exchange;
mod parked;
mod socket;
mod tag;

use crate::failure::Failure;
use crate::logging;
use crate::share::{self, SharePolicy};
use crate::signals::OnEndSignal;
use device::FsDevice;
use sluice_crew::Polling;
use sluice_proto::fuse::serve::ServeOptions;
use sluice_vfs::FileService;
use sluice_virtio::vhost_user::{Backend, Error, Running, Served};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
pub use tag::Tag;

/// How long nothing is accepted after a connection failed on this side, for
/// instance for want of descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// `sluice serve`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The host directory.
    pub dir: PathBuf,
    /// The socket that monitors connect to.
    pub virtiofs: PathBuf,
    /// The name under which the guest mounts it.
    pub tag: Tag,
    /// What is served, and how long guests may trust it.
    pub policy: SharePolicy,
    /// How threads look for requests before they sleep.
    pub poll: Polling,
}

/// Serves until SIGTERM, SIGINT or SIGHUP: then the request that each ring is
/// working on is finished. A second signal ends the process at once.
///
/// # Errors
/// A directory or socket that cannot be had.
pub fn run(config: &ServeConfig) -> Result<(), Failure> {
    let (ends, end) = channel();
    let on_signal = ends.clone();
    let _signals = OnEndSignal::new(move |earlier| {
        if earlier > 0 {
            std::process::exit(1);
        }
        let _ = on_signal.send(End::Asked);
    })
    .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;

    let service = share::open(&config.dir, &config.policy)?;
    let options = config.policy.fuse_options();
    let serving = Serving::start_noting_end(
        service,
        &config.virtiofs,
        &config.tag,
        options,
        config.poll,
        Some(NoteEnd(ends)),
    )?;
    logging::say(format_args!(
        "serving {} as virtio-fs tag {} on {}",
        config.dir.display(),
        config.tag,
        config.virtiofs.display()
    ));
    // Not being started by systemd is no error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);

    let why = end.recv();
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    drop(serving);
    match why {
        Ok(End::Asked) => Ok(()),
        Ok(End::Broken) | Err(_) => Err(Failure::new("serving ended by a bug in this program")),
    }
}

/// Why serving ends.
enum End {
    /// A signal.
    Asked,
    /// The serving thread is gone.
    Broken,
}

/// Tells when it is dropped.
struct NoteEnd(Sender<End>);

impl Drop for NoteEnd {
    fn drop(&mut self) {
        let _ = self.0.send(End::Broken);
    }
}

/// A service on a socket, until dropped: then the connection ends after the
/// requests that are being worked on, and the socket's file goes.
#[derive(Debug)]
pub struct Serving {
    _running: Running,
}

impl Serving {
    /// Serves `service` on `socket` to one monitor after the other.
    ///
    /// # Errors
    /// A socket that cannot be had.
    pub fn start(
        service: Arc<dyn FileService>,
        socket: &Path,
        tag: &Tag,
        options: ServeOptions,
    ) -> Result<Serving, Failure> {
        Serving::start_noting_end(service, socket, tag, options, Polling::default(), None)
    }

    fn start_noting_end(
        service: Arc<dyn FileService>,
        socket: &Path,
        tag: &Tag,
        options: ServeOptions,
        polling: Polling,
        note: Option<NoteEnd>,
    ) -> Result<Serving, Failure> {
        let device = FsDevice::new(service, tag, options, polling);
        let cannot_serve = |error| Failure::from_io("serve on", socket, &error);
        let backend = Backend::new(Arc::new(device)).map_err(cannot_serve)?;
        let listener = socket::listen_at(socket)?;
        let after_connection = move |outcome| {
            let _ = &note; // dropped with the thread
            log_end(outcome);
            ControlFlow::Continue(())
        };
        let running = backend
            .spawn(listener, after_connection)
            .map_err(cannot_serve)?;
        Ok(Serving { _running: running })
    }
}

fn log_end(outcome: Result<Served, Error>) {
    match outcome {
        Ok(end) => tracing::debug!(?end, "the connection ended"),
        Err(error @ Error::Io(..)) => {
            tracing::error!(%error, "the connection failed");
            std::thread::sleep(PAUSE_AFTER_FAILURE);
        }
        Err(error) => tracing::warn!(%error, "the connection was closed"),
    }
}
