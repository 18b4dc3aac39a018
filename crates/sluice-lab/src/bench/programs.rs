//! Where the programs are that are measured.

use super::error::BenchError;
use std::path::{Path, PathBuf};

/// Paths of the contestants.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The binary `sluice`.
    pub sluice: PathBuf,
    /// This program, which is also the null server.
    pub bench: PathBuf,
    /// The folder with the peers' binaries.
    pub peers: PathBuf,
    /// What `lab/prepare` filled.
    pub lab: PathBuf,
}

impl Programs {
    /// Takes what is given, or looks where `make` puts things: `sluice` beside
    /// this program, peers in the lab's cache.
    ///
    /// # Errors
    /// When there is no `sluice`.
    pub fn find(sluice: Option<PathBuf>, peers: Option<PathBuf>) -> Result<Self, BenchError> {
        let bench = std::env::current_exe()?;
        let sluice = sluice.unwrap_or_else(|| bench.with_file_name("sluice"));
        if !sluice.is_file() {
            return Err(BenchError::new(format!(
                "no program {}; build it with cargo build --release -p sluicefs, or name it with --sluice",
                sluice.display()
            )));
        }
        Ok(Programs {
            sluice,
            bench,
            peers: peers.unwrap_or_else(|| lab_cache().join("bin")),
            lab: lab_cache(),
        })
    }

    /// The peer called `name`.
    pub fn peer(&self, name: &str) -> PathBuf {
        self.peers.join(name)
    }
}

fn lab_cache() -> PathBuf {
    std::env::var_os("SLUICE_LAB_CACHE")
        .map_or_else(|| Path::new("lab").join("cache"), PathBuf::from)
}
