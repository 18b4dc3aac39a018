//! Services behind virtio-fs and virtio-9p devices on vhost-user sockets, and
//! over 9P on sockets of all kinds.
//!
//! [`run`] is `sluice serve` and `virtiofsd`, for any number of shares that share
//! nothing but the process; [`Serving`] is one device for any service, without
//! signals. `socket` and `pid_file` are what others find, `virtio` are the
//! devices, `p9` is 9P on sockets, `listening` what a process listens on.

mod copied;
mod listening;
mod p9;
mod pid_file;
mod socket;
mod virtio;

use crate::failure::{Failure, system_words};
use crate::isolation::{self, Entered, IsolationOptions, Notify, SharePlace};
use crate::logging;
use crate::share::{self, SharePolicy};
use crate::signals::{EndSignal, EndSignals, OnEndSignal};
pub use copied::copied_bytes;
use listening::{Service, Sockets};
pub use p9::{Access, HubLimits, P9Options, P9Share, Serving as P9Serving, ZeroCopy, held_bytes};
use pid_file::PidFile;
use sluice_crew::Polling;
use sluice_proto::fuse;
use sluice_proto::p9::serve::ServeOptions as P9ServeOptions;
use sluice_vfs::FileService;
use sluice_virtio::vhost_user::{Backend, Device, Error, Running, Served};
pub use socket::Endpoint;
use socket::Listening;
pub(crate) use socket::listen_at;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use virtio::{FsFrontend, P9Frontend};
pub use virtio::{P9DeviceOptions, Tag};

/// How long nothing is accepted after a connection failed on this side, for
/// instance for want of descriptors.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What a daemon serves.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The shares; each has its own socket, connection and threads.
    pub shares: Vec<ServedShare>,
    /// When serving is over.
    pub lifetime: Lifetime,
    /// What the process takes from itself before it serves.
    pub isolation: IsolationOptions,
}

/// A host directory and where it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedShare {
    /// The host directory.
    pub dir: PathBuf,
    /// Where monitors connect, to one kind of device each.
    pub devices: Vec<ServedDevice>,
    /// Where peers connect over 9P.
    pub p9: Option<P9Share>,
    /// How 9P is served, there and on a device.
    pub p9_options: P9Options,
    /// The name under which the guest mounts it.
    pub tag: Tag,
    /// What is served, and how long guests may trust it.
    pub policy: SharePolicy,
    /// How threads look for requests before they sleep.
    pub poll: Polling,
}

/// A virtio device on a vhost-user socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDevice {
    /// What it speaks.
    pub kind: DeviceKind,
    /// Where monitors connect.
    pub endpoint: Endpoint,
}

/// What a virtio device speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// FUSE (virtio-fs).
    Fs,
    /// 9P (virtio-9p).
    P9,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Fs => "virtio-fs",
            DeviceKind::P9 => "virtio-9p",
        })
    }
}

/// Refuses two devices in one place, and shares in one place that cannot be told
/// apart.
pub fn check_endpoints(shares: &[ServedShare]) -> Result<(), String> {
    let mut seen: Vec<&Endpoint> = Vec::new();
    for device in shares.iter().flat_map(|share| &share.devices) {
        if seen.contains(&&device.endpoint) {
            return Err(format!("two devices on '{}'", device.endpoint));
        }
        seen.push(&device.endpoint);
    }
    p9::check_addresses(shares)
}

/// When serving is over, signals aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Never: one monitor after the other is served.
    UntilAsked,
    /// With the first connection's end, as virtiofsd's.
    OneConnection,
}

impl Lifetime {
    /// Whoever starts a program for one connection is no service manager, but may have
    /// one of its own, which this process would speak to in its name.
    fn notify(self) -> Notify {
        match self {
            Lifetime::UntilAsked => Notify::to_service_manager(),
            Lifetime::OneConnection => Notify::Nobody,
        }
    }
}

/// Why serving was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A signal asked for it.
    Asked,
    /// The one client that was to be served is gone.
    ClientGone,
}

/// Serves until SIGTERM, SIGINT or SIGHUP: then the request that each ring is
/// working on is finished. A second signal ends the process at once.
///
/// To be called with no other thread running. It may go on in another process,
/// while this one waits for it and exits with its status.
///
/// # Errors
/// A directory, socket or isolation that cannot be had; then nothing is served
/// at all.
pub fn run(config: &ServeConfig) -> Result<Ended, Failure> {
    let shares = &config.shares;
    let mut sockets = Sockets::open(shares)?;
    let users = p9::UserBook::load();
    let places: Vec<SharePlace> = shares.iter().map(ServedShare::place).collect();
    let inside = match isolation::enter(&config.isolation, &places, config.lifetime.notify())? {
        Entered::Inside(inside) => inside,
        Entered::Outside(status) => {
            drop(sockets);
            std::process::exit(status.into());
        }
    };
    if inside.has_outside() {
        sockets.leave_files();
    }
    // They wait until all is locked: a thread that was started before is not.
    let signals = inside
        .end_signals()
        .map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))?;
    let services = open_all(shares, inside.dirs())?;
    let mut notify = inside.lock_in()?;

    let (ends, end) = channel();
    let _signals = end_on(signals, ends.clone())?;
    let said = sockets.announcements(shares);
    let serving = sockets.serve(&services, &users, config.lifetime, &ends)?;
    announce(config.lifetime, &said, &mut notify);
    let why = end.recv();
    notify.stopping();
    serving.stop();
    match why {
        Ok(End::Asked) => Ok(Ended::Asked),
        Ok(End::Client(Ok(_)) | End::Nobody) => Ok(Ended::ClientGone),
        Ok(End::Client(Err(error))) if error.is_hangup() => Ok(Ended::ClientGone),
        Ok(End::Client(Err(error))) => Err(Failure::new(format!("the connection failed: {error}"))),
        Ok(End::Broken) | Err(_) => Err(Failure::new("serving ended by a bug in this program")),
    }
}

impl ServedShare {
    /// The files of its sockets that are made for it.
    fn sockets(&self) -> impl Iterator<Item = &Path> {
        let devices = self.devices.iter();
        let files = devices.filter_map(|device| device.endpoint.path());
        files.chain(self.p9.iter().flat_map(P9Share::files))
    }

    fn place(&self) -> SharePlace {
        SharePlace {
            dir: self.dir.clone(),
            read_only: self.policy.read_only,
            sockets: self.sockets().map(Path::to_owned).collect(),
        }
    }
}

/// The services of the shares, which this process sees at `dirs`.
fn open_all<'a>(shares: &'a [ServedShare], dirs: &[PathBuf]) -> Result<Vec<Service<'a>>, Failure> {
    let open =
        |(share, dir): (&'a ServedShare, &PathBuf)| Ok((share, share::open(dir, &share.policy)?));
    shares.iter().zip(dirs).map(open).collect()
}

fn end_on(signals: EndSignals, ends: Sender<End>) -> Result<OnEndSignal, Failure> {
    let act = move |signal: EndSignal| {
        if signal.earlier > 0 {
            std::process::exit(1);
        }
        let _ = ends.send(End::Asked);
    };
    signals
        .act(act)
        .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))
}

fn announce(lifetime: Lifetime, said: &[String], notify: &mut Notify) {
    match lifetime {
        Lifetime::UntilAsked => said.iter().for_each(logging::say),
        // What monitors and scripts wait for.
        Lifetime::OneConnection => tracing::info!("Waiting for vhost-user socket connection..."),
    }
    notify.ready();
}

/// Why serving ends.
enum End {
    /// A signal.
    Asked,
    /// The only connection is over.
    Client(Result<Served, Error>),
    /// Nobody is left who was connected, and nobody can connect.
    Nobody,
    /// A serving thread is gone.
    Broken,
}

/// Tells when it is dropped.
struct NoteEnd(Sender<End>);

impl Drop for NoteEnd {
    fn drop(&mut self) {
        let _ = self.0.send(End::Broken);
    }
}

/// What to do when a connection has ended.
fn after_connection(
    lifetime: Lifetime,
    ends: Sender<End>,
) -> impl FnMut(Result<Served, Error>) -> ControlFlow<()> + Send + 'static {
    let note = NoteEnd(ends); // dropped with the thread
    move |outcome| match lifetime {
        Lifetime::UntilAsked => log_end(outcome),
        Lifetime::OneConnection => {
            let _ = note.0.send(End::Client(outcome));
            ControlFlow::Break(())
        }
    }
}

/// What a device offers its guest.
pub enum DeviceOptions {
    /// Over FUSE.
    Fs(fuse::serve::ServeOptions),
    /// Over 9P.
    P9(P9DeviceOptions),
}

impl From<fuse::serve::ServeOptions> for DeviceOptions {
    fn from(options: fuse::serve::ServeOptions) -> Self {
        DeviceOptions::Fs(options)
    }
}

impl From<P9ServeOptions> for DeviceOptions {
    fn from(options: P9ServeOptions) -> Self {
        DeviceOptions::P9(options.into())
    }
}

impl DeviceOptions {
    fn device(self, service: Arc<dyn FileService>, tag: &Tag, poll: Polling) -> Arc<dyn Device> {
        match self {
            DeviceOptions::Fs(options) => {
                let frontend = FsFrontend::new(service, tag, options, poll);
                Arc::new(virtio::Device::new(frontend))
            }
            DeviceOptions::P9(options) => {
                let frontend = P9Frontend::new(service, tag, options, poll);
                Arc::new(virtio::Device::new(frontend))
            }
        }
    }
}

/// A device on a socket, until dropped: then the connection ends after the
/// requests that are being worked on, and the socket's file goes.
#[derive(Debug)]
pub struct Serving {
    running: Running,
    _pid_file: Option<PidFile>,
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
        options: impl Into<DeviceOptions>,
    ) -> Result<Serving, Failure> {
        let device = options.into().device(service, tag, Polling::default());
        let listening = Endpoint::Path(socket.to_owned()).listen()?;
        Serving::start_device(device, listening, log_end)
    }

    fn start_device(
        device: Arc<dyn Device>,
        listening: Listening,
        after_connection: impl FnMut(Result<Served, Error>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Serving, Failure> {
        let running = Backend::new(device)
            .and_then(|backend| backend.spawn(listening.listener, after_connection))
            .map_err(|error| Failure::new(format!("cannot serve: {}", system_words(&error))))?;
        Ok(Serving {
            running,
            _pid_file: listening.pid_file,
        })
    }
}

fn log_end(outcome: Result<Served, Error>) -> ControlFlow<()> {
    match outcome {
        Ok(end) => tracing::debug!(?end, "the connection ended"),
        Err(error @ Error::Io(..)) => {
            tracing::error!(%error, "the connection failed");
            std::thread::sleep(PAUSE_AFTER_FAILURE);
        }
        Err(error) => tracing::warn!(%error, "the connection was closed"),
    }
    ControlFlow::Continue(())
}
