//! `sluice serve` as a process of its own, driven through its rings and sockets.

use super::export::ExportPath;
use super::fuse::not_in_a_ring;
use super::p9::not_in_a_9p_ring;
use crate::conformance::{Fresh, Needs, Path};
use crate::fuse_client::{self, FuseService};
use crate::p9_client::{self, P9Service};
use sluice_vfs::FileService;
use std::path::PathBuf;
use std::sync::Arc;

/// What a daemon's device speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// FUSE (virtio-fs).
    Fuse,
    /// 9P (virtio-9p).
    P9,
    /// 9P on a unix socket, whose peer has checked what users may do.
    P9OnSocket,
}

/// A process for every connection, over fresh directories of this machine.
pub struct DaemonPath {
    inner: ExportPath,
    speech: Speech,
    name: String,
    program: PathBuf,
    options: Vec<String>,
}

impl DaemonPath {
    /// Over the directories of `inner`, by the `sluice` command at `program` with
    /// these options of `serve`.
    pub fn over(
        inner: ExportPath,
        speech: Speech,
        program: impl Into<PathBuf>,
        options: &[&str],
    ) -> Self {
        let (words, below) = (options.join(" "), inner.name());
        DaemonPath {
            name: format!("{speech:?} of sluice serve {words} over {below}"),
            inner,
            speech,
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
        self.inner.has()
            - match self.speech {
                Speech::Fuse => not_in_a_ring(),
                Speech::P9 | Speech::P9OnSocket => not_in_a_9p_ring(),
            }
    }

    fn fresh(&self, needs: Needs) -> Fresh {
        let fresh = self.inner.fresh(needs);
        let mut options = self.options.clone();
        if needs.contains(Needs::READ_ONLY_TREE) {
            options.push("--read-only".to_owned());
        }
        let dir = fresh.host_dir.clone().expect("it is a directory");
        let program = self.program.clone();
        let service: Arc<dyn FileService> = match self.speech {
            Speech::Fuse => {
                let connector = fuse_client::DaemonConnector::new(program, dir, options);
                Arc::new(FuseService::new(connector))
            }
            Speech::P9 => {
                let connector = p9_client::DaemonConnector::new(program, dir, options);
                Arc::new(P9Service::new(connector))
            }
            Speech::P9OnSocket => {
                options.push("--access=client".to_owned());
                let connector = p9_client::SocketConnector::new(program, dir, options);
                Arc::new(P9Service::new(connector))
            }
        };
        Fresh { service, ..fresh }
    }
}
