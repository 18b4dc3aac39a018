//! Runs cases over a path and says how each ended.

use super::client::Client;
use super::needs::Needs;
use sluice_vfs::{AccessChecks, Features, FileService, SessionLimits};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::path;
use std::sync::{Arc, Once, mpsc};
use std::thread;
use std::time::Duration;

/// How long a case may run before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fresh, empty tree.
pub struct Fresh {
    /// The way to it.
    pub service: Arc<dyn FileService>,
    /// Where it lies on this machine, if it does.
    pub host_dir: Option<path::PathBuf>,
    /// Kept until the case is over.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// A way to get at trees, for cases to run over.
pub trait Path: Send + Sync {
    /// Short name for reports.
    fn name(&self) -> &str;

    /// What it offers.
    fn has(&self) -> Needs;

    /// What a case is about that this path has no words for, where no
    /// [`Needs`] tells.
    fn lacks(&self, _case: &str) -> Option<&str> {
        None
    }

    /// Makes a tree of the kind that `needs` asks for
    /// ([`Needs::READ_ONLY_TREE`], [`Needs::SMALL_TREE`], or a plain one).
    fn fresh(&self, needs: Needs) -> Fresh;
}

/// A named check.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group::what_is_so`.
    pub name: &'static str,
    /// What it takes.
    pub needs: Needs,
    /// Panics where the path is wrong.
    pub run: fn(&World),
}

/// What a case works in.
pub struct World {
    tree: Fresh,
    has: Needs,
}

impl World {
    /// A new session whose peer's kernel has checked permissions.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.attach(AccessChecks::Peer, SessionLimits::default())
    }

    /// A new session where the service checks permissions.
    #[track_caller]
    pub fn checked_client(&self) -> Client {
        self.attach(AccessChecks::Service, SessionLimits::default())
    }

    /// A new session held to `limits`.
    #[track_caller]
    pub fn limited_client(&self, limits: SessionLimits) -> Client {
        self.attach(AccessChecks::Peer, limits)
    }

    /// Where the tree lies on this machine.
    #[track_caller]
    pub fn host_dir(&self) -> &path::Path {
        let dir = self.tree.host_dir.as_deref();
        dir.expect("cases that look need HOST")
    }

    /// What the path offers, for checks that only some can make.
    pub fn has(&self, needs: Needs) -> bool {
        self.has.contains(needs)
    }

    #[track_caller]
    fn attach(&self, checks: AccessChecks, limits: SessionLimits) -> Client {
        let service = self.tree.service.as_ref();
        let client = Client::attach(service, checks, limits, self.has(Needs::ROOT));
        let expected = [
            (Needs::LOCKS, Features::LOCKS),
            (Needs::TMPFILE, Features::TMPFILE),
            (Needs::NO_OPEN, Features::NO_OPEN),
            (Needs::EVENTS, Features::EVENTS),
            (Needs::POSIX_ACL, Features::POSIX_ACL),
        ];
        for (need, feature) in expected {
            if self.has(need) {
                let is_announced = client.features.contains(feature);
                assert!(is_announced, "{feature:?} is announced");
            }
        }
        client
    }
}

/// How a run ended.
pub struct Report {
    /// The path's name.
    pub path: String,
    /// Cases that passed.
    pub passed: Vec<&'static str>,
    /// Cases that failed, and where and why.
    pub failed: Vec<(&'static str, String)>,
    /// Cases that need what the path doesn't offer, and what that is.
    pub not_expressible: Vec<(&'static str, String)>,
}

/// What a panic begins with that ends a case as not expressible.
const NOT_EXPRESSIBLE: &str = "not expressible: ";

/// Ends the case, which needs `what` of a protocol that has no message for it.
pub fn not_expressible<T>(what: &str) -> T {
    panic!("{NOT_EXPRESSIBLE}{what}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, why) in &self.failed {
            writeln!(f, "{}: FAILED {name}: {why}", self.path)?;
        }
        for (name, missing) in &self.not_expressible {
            writeln!(f, "{}: not expressible: {name} ({missing})", self.path)?;
        }
        write!(
            f,
            "{}: {} passed, {} failed, {} not expressible",
            self.path,
            self.passed.len(),
            self.failed.len(),
            self.not_expressible.len()
        )
    }
}

/// Runs every case whose name contains `filter` over `path`, each in a tree of
/// its own.
pub fn run(path: &Arc<dyn Path>, cases: &[Case], filter: &str) -> Report {
    let mut report = Report {
        path: path.name().to_owned(),
        passed: Vec::new(),
        failed: Vec::new(),
        not_expressible: Vec::new(),
    };
    for case in cases.iter().filter(|case| case.name.contains(filter)) {
        let missing = case.needs - path.has();
        if !missing.is_empty() {
            report
                .not_expressible
                .push((case.name, format!("{missing:?}")));
            continue;
        }
        if let Some(what) = path.lacks(case.name) {
            report.not_expressible.push((case.name, what.to_owned()));
            continue;
        }
        match run_case(path, *case) {
            Ok(()) => report.passed.push(case.name),
            Err(why) => match why.split_once(NOT_EXPRESSIBLE) {
                Some((_, what)) => report.not_expressible.push((case.name, what.to_owned())),
                None => report.failed.push((case.name, why)),
            },
        }
    }
    report
}

/// Runs one case on a thread of its own, so that one that hangs is found out.
fn run_case(path: &Arc<dyn Path>, case: Case) -> Result<(), String> {
    let (sender, receiver) = mpsc::channel();
    let path = Arc::clone(path);
    let runner = move || {
        let outcome = caught(|| {
            let world = World {
                tree: path.fresh(case.needs),
                has: path.has(),
            };
            (case.run)(&world);
        });
        // The receiver gives up on cases that hang.
        let _ = sender.send(outcome);
    };
    let spawned = thread::Builder::new()
        .name(case.name.to_owned())
        .spawn(runner);
    let thread = spawned.map_err(|error| format!("no thread: {error}"))?;
    let outcome = receiver
        .recv_timeout(PATIENCE)
        .map_err(|_| format!("still running after {} s", PATIENCE.as_secs()))?;
    match thread.join() {
        Ok(()) => outcome,
        Err(_) => Err("the case's thread died".to_owned()),
    }
}

thread_local! {
    /// Where a panic of this thread is written down instead of printed.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `act`; what it panics with, and where, becomes the error.
pub(crate) fn caught(act: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_ours = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(text) => {
                    *text = info.to_string();
                    true
                }
                None => false,
            });
            if !is_ours {
                usual(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(act));
    let text = CAUGHT.take().unwrap_or_default();
    outcome.map_err(|_| text)
}
