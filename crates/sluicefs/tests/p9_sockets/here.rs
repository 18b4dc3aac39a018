//! A server in this process.

use crate::common::PATIENCE;
use crate::peer::Peer;
use crate::server::write_pattern;
use sluice_export::{Export, ExportOptions};
use sluice_lab::faults::{FaultyService, Plan};
use sluice_proto::p9::wire::*;
use sluicefs::serve::{HubLimits, P9Options, P9Serving};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

/// Serves a directory whose calls go as planned.
pub(crate) struct Here {
    pub(crate) plan: Arc<Plan>,
    dir: TempDir,
    _serving: P9Serving,
}

impl Here {
    pub(crate) fn start() -> Self {
        Here::within(HubLimits::default())
    }

    pub(crate) fn within(limits: HubLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let share = dir.path().join("share");
        std::fs::create_dir(&share).unwrap();
        let export = Export::open(&share, ExportOptions::default()).unwrap();
        let plan = Arc::<Plan>::default();
        let service = Arc::new(FaultyService::new(Arc::new(export), Arc::clone(&plan)));
        let socket = dir.path().join("socket");
        let options = P9Options::default();
        let serving = P9Serving::start_within(service, &socket, &options, limits).unwrap();
        Here {
            plan,
            dir,
            _serving: serving,
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        self.stranger().mounted(1 << 20)
    }

    /// Somebody who has just connected.
    pub(crate) fn stranger(&self) -> Peer {
        Peer::unix(&self.socket())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn share(&self) -> PathBuf {
        self.dir.path().join("share")
    }

    /// Waits until so many peers are attached.
    pub(crate) fn wait_for_sessions(&self, count: usize) {
        wait_until("sessions come or go", || self.plan.sessions() == count);
    }

    /// Somebody who has a file open, and what is in it.
    pub(crate) fn reader(&self) -> (Peer, Vec<u8>) {
        let bytes = write_pattern(&self.share().join("file"), 100_000);
        let mut peer = self.peer();
        peer.open(1, b"file", LopenFlags::RDWR).unwrap();
        (peer, bytes)
    }
}

/// Waits for what the server does by itself.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::yield_now();
    }
}
