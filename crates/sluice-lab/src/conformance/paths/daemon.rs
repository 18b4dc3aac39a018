//! `sluice serve` as a process of its own, driven through its rings.

use super::export::ExportPath;
use super::fuse::not_in_a_ring;
use crate::conformance::{Fresh, Needs, Path};
use crate::fuse_client::{DaemonConnector, FuseService};
use std::path::PathBuf;
use std::sync::Arc;

/// A process for every connection, over fresh directories of this machine.
pub struct DaemonPath {
    inner: ExportPath,
    name: String,
    program: PathBuf,
    options: Vec<String>,
}

impl DaemonPath {
    /// Over the directories of `inner`, by the `sluice` command at `program` with
    /// these options of `serve`.
    pub fn over(inner: ExportPath, program: impl Into<PathBuf>, options: &[&str]) -> Self {
        DaemonPath {
            name: format!("sluice serve {} over {}", options.join(" "), inner.name()),
            inner,
            program: program.into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        }
    }
}

impl Path for DaemonPath {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.inner.has() - not_in_a_ring()
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let mut options = self.options.clone();
        if needs.contains(Needs::READ_ONLY_TREE) {
            options.push("--read-only".to_owned());
        }
        let dir = fresh.host_dir.clone().expect("it is a directory");
        let connector = DaemonConnector::new(self.program.clone(), dir, options);
        Fresh {
            service: Arc::new(FuseService::new(connector)),
            ..fresh
        }
    }
}
