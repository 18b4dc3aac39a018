//! Services behind FUSE bytes, where one call fails: to the service, or to the file
//! system that it stands on.

use super::export::export_abilities;
use super::fuse::{not_in_fuse, options};
use super::host::HostAbilities;
use crate::conformance::{Fresh, Needs, Path};
use crate::faults::{FaultyService, Plan};
use crate::fuse_client::{
    Connector, Done, FuseService, FuseTransport, InProcessConnector, Message,
};
use crate::model::ModelService;
use sluice_export::{Export, ExportOptions};
use sluice_proto::fuse::serve::{CacheMode, Offer};
use sluice_proto::fuse::wire::OutHeader;
use sluice_vfs::{AttachOptions, Errno, FileService, Result};
use sluicefs::mount::{MountOptions, Mounted};
use sluicefs::share::SharePolicy;
use std::path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;
use zerocopy::FromBytes;

/// Where a call fails, and what stands above it.
pub trait Faulty: Send + Sync {
    /// Short name for reports.
    fn name(&self) -> String;

    /// What it offers.
    fn has(&self) -> Needs;

    /// A fresh tree whose calls go wrong as `plan` has it.
    fn fresh(&self, needs: Needs, plan: &Arc<Plan>) -> Fresh;
}

/// Calls to the service of a path.
pub struct AtTheNeck<P>(pub P);

impl<P: Path> Faulty for AtTheNeck<P> {
    fn name(&self) -> String {
        self.0.name().to_owned()
    }

    fn has(&self) -> Needs {
        self.0.has()
    }

    fn fresh(&self, needs: Needs, plan: &Arc<Plan>) -> Fresh {
        let fresh = self.0.fresh(needs);
        Fresh {
            service: Arc::new(FaultyService::new(fresh.service, Arc::clone(plan))),
            ..fresh
        }
    }
}

/// System calls of the export engine: it stands on a model that is mounted through
/// `/dev/fuse`.
pub struct OnTheDisk {
    has: Needs,
}

impl OnTheDisk {
    /// What it can do is tried out.
    ///
    /// # Errors
    /// When nothing can be mounted.
    pub fn new() -> std::result::Result<Self, String> {
        let mounted = mount(Arc::new(ModelService::default()))?;
        let abilities = HostAbilities::of(&mounted.target()).map_err(|error| error.to_string())?;
        Ok(OnTheDisk {
            has: export_abilities() | abilities.needs(),
        })
    }
}

impl Faulty for OnTheDisk {
    fn name(&self) -> String {
        "the export engine on a mounted model".to_owned()
    }

    fn has(&self) -> Needs {
        self.has
    }

    fn fresh(&self, needs: Needs, plan: &Arc<Plan>) -> Fresh {
        let model = Arc::new(ModelService::default());
        let disk = mount(Arc::new(FaultyService::new(model, Arc::clone(plan))));
        let disk = disk.expect("it was mounted before");
        let options = ExportOptions {
            read_only: needs.contains(Needs::READ_ONLY_TREE),
            ..ExportOptions::default()
        };
        let service = Export::open(&disk.target(), options).expect("it can be exported");
        Fresh {
            service: Arc::new(service),
            host_dir: Some(disk.target()),
            keep: Box::new(disk),
        }
    }
}

/// A service mounted on a directory of its own.
struct Disk {
    // Unmounted before the directory is removed: fields are dropped in this order.
    _mounted: Mounted,
    dir: TempDir,
}

impl Disk {
    fn target(&self) -> path::PathBuf {
        self.dir.path().to_owned()
    }
}

fn mount(service: Arc<dyn FileService>) -> std::result::Result<Disk, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let options = MountOptions {
        allow_other: true,
        policy: SharePolicy {
            cache: CacheMode::Never,
            posix_acl: Offer::Auto,
            ..SharePolicy::default()
        },
        ..MountOptions::default()
    };
    let mounted = Mounted::start(service, "model", dir.path(), &options);
    Ok(Disk {
        _mounted: mounted.map_err(|failure| failure.to_string())?,
        dir,
    })
}

/// A path one of whose calls fails, whatever it asks for. Good for one case.
pub struct FailingPath {
    faulty: Arc<dyn Faulty>,
    name: String,
    errno: Errno,
    spared: u64,
    plan: Arc<Plan>,
    replies: Arc<Replies>,
}

/// What became of the call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What it asked for.
    pub operation: &'static str,
    /// The peer got a reply with the error.
    pub was_told: bool,
}

impl FailingPath {
    /// Of the calls that `faulty` gets once its tree is made, `spared` go well, then one
    /// fails with `errno`.
    pub fn new(faulty: Arc<dyn Faulty>, spared: u64, errno: Errno) -> Self {
        FailingPath {
            name: format!("FUSE bytes over {}", faulty.name()),
            faulty,
            errno,
            spared,
            plan: Arc::default(),
            replies: Arc::default(),
        }
    }

    /// What failed; `None` if the case had no more calls than were spared.
    pub fn failed(&self) -> Option<Failed> {
        let operation = self.plan.failed_one()?;
        let was_told = self.replies.lock().contains(&self.errno);
        Some(Failed {
            operation,
            was_told,
        })
    }

    /// How many calls were spared.
    pub fn spared(&self) -> u64 {
        self.spared - self.plan.still_spared()
    }

    /// Sessions that there still are.
    pub fn sessions(&self) -> usize {
        self.plan.sessions()
    }
}

impl Path for FailingPath {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.faulty.has() - not_in_fuse()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.faulty.fresh(needs, &self.plan);
        let connector = Overheard {
            inner: InProcessConnector::new(fresh.service, options()),
            replies: Arc::clone(&self.replies),
        };
        self.plan.fail_one(self.spared, self.errno);
        Fresh {
            service: Arc::new(FuseService::new(connector)),
            ..fresh
        }
    }
}

/// The errors of all replies.
#[derive(Default)]
struct Replies(Mutex<Vec<Errno>>);

impl Replies {
    fn lock(&self) -> MutexGuard<'_, Vec<Errno>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, reply: Option<&Vec<u8>>) {
        let header = reply.and_then(|reply| OutHeader::read_from_prefix(reply).ok());
        if let Some((header, _)) = header.filter(|(header, _)| header.error < 0) {
            self.lock().push(Errno::from_raw(-header.error));
        }
    }
}

/// Connections whose replies are looked at.
struct Overheard<T> {
    inner: T,
    replies: Arc<Replies>,
}

impl<C: Connector> Connector for Overheard<C> {
    type Transport = Overheard<C::Transport>;

    fn connect(&self, options: AttachOptions<'_>) -> Result<Self::Transport> {
        Ok(Overheard {
            inner: self.inner.connect(options)?,
            replies: Arc::clone(&self.replies),
        })
    }
}

impl<T: FuseTransport> FuseTransport for Overheard<T> {
    fn exchange(&self, message: Message<'_>) -> Option<Vec<u8>> {
        let reply = self.inner.exchange(message);
        self.replies.note(reply.as_ref());
        reply
    }

    fn exchange_later(&self, message: Message<'_>, done: Done) {
        let replies = Arc::clone(&self.replies);
        let noted = move |reply: Option<Vec<u8>>| {
            replies.note(reply.as_ref());
            done(reply);
        };
        self.inner.exchange_later(message, Box::new(noted));
    }
}
