//! A service under this machine's kernel, through `/dev/fuse`.
//!
//! [`run`] is `sluice mount` (`command`), with what its `options` say of its
//! `source`; [`Mounted`] is the same for any service, without signals and in this
//! process. `kernel` mounts and unmounts (or `fusermount`, for ordinary users), a
//! crew of threads takes `requests` from `device` into `buffer`s and serves them,
//! `exchange` carries the replies, `notifier` sends invalidations from a thread of
//! its own, `caller` knows who need not wait, `stats` tells what was done, `remount`
//! changes what can be changed later, and `daemon` is going to the background.

mod buffer;
mod caller;
mod command;
pub(crate) mod daemon;
mod device;
mod exchange;
mod fusermount;
mod kernel;
mod mount_table;
mod notifier;
mod options;
mod remount;
mod requests;
mod source;
mod stats;

pub use command::{MountConfig, run};
pub use options::{MountOptions, ServerOptions, Trans};
pub use remount::remount;
pub use source::Source;
pub use stats::MetricsAddress;
pub(crate) use stats::fetch as fetch_stats;

use crate::failure::Failure;
use crate::layers::entrants::Entrants;
use device::Device;
use kernel::KernelMount;
use requests::Requests;
use sluice_crew::{Crew, CrewConfig, Next, Polling, Queue};
use sluice_proto::fuse::serve::{Server, ServerConfig, TransportLimits};
use sluice_vfs::{AccessChecks, FileService, Peer, SessionLimits};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

/// Largest payload of one request in either direction, in bytes: the most that
/// Linux puts into a FUSE message (256 pages).
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// A mounted service. Dropping it unmounts and waits.
#[derive(Debug)]
pub struct Mounted {
    kernel: Arc<KernelMount>,
    crew: Option<Crew<Requests>>,
    notifying: Option<JoinHandle<()>>,
    /// How many requests the kernel made.
    requests: Arc<AtomicU64>,
}

/// Unmounts, from any thread.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<KernelMount>);

impl Mounted {
    /// Mounts `service` on `target`, with `source` as what the mount table
    /// shows. Returns once the kernel and the service have agreed on how to
    /// work together.
    ///
    /// # Errors
    /// A mount point that cannot be had, a kernel without FUSE, too few rights.
    pub fn start(
        service: Arc<dyn FileService>,
        source: &str,
        target: &Path,
        options: &MountOptions,
    ) -> Result<Mounted, Failure> {
        let (mounted, device) = Mounted::in_tree(source, target, options)?;
        mounted.with(service, device, options)
    }

    /// Puts it into the tree, where whoever looks in waits for it to be served.
    fn in_tree(
        source: &str,
        target: &Path,
        options: &MountOptions,
    ) -> Result<(Mounted, Device), Failure> {
        let (kernel, device) = kernel::mount(source, target, options)?;
        let mounted = Mounted {
            kernel: Arc::new(kernel),
            crew: None,
            notifying: None,
            requests: Arc::default(),
        };
        Ok((mounted, Device::new(device)))
    }

    /// Serves it.
    fn with(
        mut self,
        service: Arc<dyn FileService>,
        device: Device,
        options: &MountOptions,
    ) -> Result<Mounted, Failure> {
        let service = match options.allow_root {
            true => Arc::new(Entrants::new(service, rustix::process::geteuid().as_raw())),
            false => service,
        };
        let (notifier, notifications) = notifier::queue();
        let config = ServerConfig {
            peer: Peer {
                label: format!("mount:{}", self.kernel.target().display()),
                checks: AccessChecks::Peer, // it is mounted with default_permissions
            },
            export: Vec::new(),
            limits: SessionLimits::default(),
            options: options.policy.fuse_options(),
            transport: TransportLimits {
                max_payload: MAX_MESSAGE_BYTES as u32,
                allows_reinit: false,
            },
            notifier: Some(Arc::new(notifier)),
        };
        let server = Arc::new(Server::new(service, config));
        self.serve(Arc::new(device), server, notifications, options.poll)?;
        self.kernel.raise_read_ahead();
        Ok(self)
    }

    /// What unmounts it, from any thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(Arc::clone(&self.kernel))
    }

    /// Waits until somebody has unmounted it.
    pub fn wait(mut self) {
        self.join();
    }

    /// Answers INIT here and everything after it on threads.
    fn serve(
        &mut self,
        device: Arc<Device>,
        server: Arc<Server>,
        notifications: notifier::Queue,
        polling: Polling,
    ) -> Result<(), Failure> {
        let target = self.kernel.target();
        let count = Arc::clone(&self.requests);
        let requests = Requests::new(Arc::clone(&device), Arc::clone(&server), count);
        let mut buffers = requests.hand();
        while !server.is_live() {
            if let Some(errno) = server.refusal() {
                let error = io::Error::from(errno);
                return Err(Failure::from_io("mount on", target, &error)
                    .advise("did the server just go away?"));
            }
            match requests.wait(&mut buffers) {
                Next::Job(request) => requests.run(&mut buffers, request),
                Next::Nothing => {}
                Next::Ended => {
                    let target = target.display();
                    return Err(Failure::new(format!(
                        "the kernel gave up the mount on '{target}'"
                    )));
                }
            }
        }
        drop(buffers);
        let cannot_start = |error| Failure::from_io("start threads for", target, &error);
        let config = CrewConfig {
            polling,
            ..CrewConfig::new("fuse")
        };
        let crew = Crew::start(Arc::new(requests), config).map_err(cannot_start)?;
        self.crew = Some(crew);
        let notifying = std::thread::Builder::new()
            .name("fuse-notify".into())
            .spawn(move || notifications.send_all(&device))
            .map_err(cannot_start)?;
        self.notifying = Some(notifying);
        Ok(())
    }

    /// The crew ends when the kernel has no more requests, and with it the
    /// server and its notifier.
    fn join(&mut self) {
        let served = self.crew.take().is_none_or(Crew::join);
        let notified = self.notifying.take().map(JoinHandle::join);
        if !served || notified.is_some_and(|outcome| outcome.is_err()) {
            tracing::error!("a thread that serves the mount panicked");
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(failure) = self.unmounter().unmount() {
            tracing::error!("{failure}");
        }
        self.join();
    }
}

impl Unmounter {
    /// Unmounts; if somebody still uses the mount, takes it out of the tree,
    /// and it ends after its last user.
    ///
    /// # Errors
    /// What umount(2) or fusermount3 said.
    pub fn unmount(&self) -> Result<(), Failure> {
        let Unmounter(kernel) = self;
        kernel
            .unmount()
            .map_err(|error| Failure::from_io("unmount", kernel.target(), &error))
    }
}
