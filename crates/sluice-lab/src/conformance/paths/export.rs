//! The export engine over a directory of this machine.

use super::host::HostAbilities;
use crate::conformance::{Fresh, Needs, Path};
use sluice_export::{Export, ExportOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// The export engine, asked directly, over fresh directories.
pub struct ExportPath {
    name: String,
    base: PathBuf,
    has: Needs,
}

impl ExportPath {
    /// Over directories that are made below `base`; what its file system can
    /// do is tried out.
    pub fn below(name: &str, base: PathBuf) -> std::io::Result<Self> {
        let has = export_abilities() | HostAbilities::of(&base)?.needs();
        Ok(ExportPath {
            name: format!("export on {name}"),
            base,
            has,
        })
    }
}

impl Path for ExportPath {
    fn name(&self) -> &str {
        &self.name
    }

    fn has(&self) -> Needs {
        self.has
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let dir = tempfile::tempdir_in(&self.base).expect("a directory for the case");
        let options = ExportOptions {
            read_only: needs.contains(Needs::READ_ONLY_TREE),
            ..ExportOptions::default()
        };
        let service = Export::open(dir.path(), options).expect("it can be exported");
        Fresh {
            service: Arc::new(service),
            host_dir: Some(dir.path().to_owned()),
            keep: Box::new(dir),
        }
    }
}

/// What the engine offers whatever it stands on. It publishes no changes and
/// versions nothing, since nothing watches the host yet; and the host has no
/// way to ask about a flock.
pub(super) fn export_abilities() -> Needs {
    Needs::all()
        - HostAbilities::all()
        - Needs::EVENTS
        - Needs::STAMPS
        - Needs::SMALL_TREE
        - Needs::FLOCK_TEST
}
