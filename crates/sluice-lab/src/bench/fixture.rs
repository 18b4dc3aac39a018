//! The directory that everybody serves.

use super::error::{BenchError, Context};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files in [`Fixture::MANY`].
pub const MANY_FILES: u32 = 1000;

/// Bytes of [`Fixture::DATA`].
pub const DATA_LEN: u64 = 4 << 20;

/// Bytes of [`Fixture::BIG`].
pub const BIG_LEN: u64 = 64 << 20;

/// A share in a temporary place, and a folder beside it for sockets, logs and
/// mount points. Gone when dropped.
#[derive(Debug)]
pub struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// An empty file at the top.
    pub const PLAIN: &'static str = "plain";
    /// A file for small reads and writes.
    pub const DATA: &'static str = "data";
    /// A file for sequential reads and writes.
    pub const BIG: &'static str = "big";
    /// A directory with [`MANY_FILES`] empty files.
    pub const MANY: &'static str = "many";
    /// An empty directory, for what comes and goes.
    pub const SCRATCH: &'static str = "scratch";
    /// What no file is called.
    pub const MISSING: &'static str = "missing";

    /// Makes one inside of `parent`.
    ///
    /// # Errors
    /// When there is no room or no permission.
    pub fn make(parent: &Path) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("sluice-bench-")
            .tempdir_in(parent)
            .context(parent.display())?;
        let fixture = Fixture { folder };
        fixture.fill().context("making the share")?;
        Ok(fixture)
    }

    fn fill(&self) -> std::io::Result<()> {
        let share = self.share();
        fs::create_dir(&share)?;
        fs::create_dir(share.join(Self::SCRATCH))?;
        fs::create_dir(share.join(Self::MANY))?;
        for index in 0..MANY_FILES {
            fs::write(share.join(Self::MANY).join(file_name(index)), "")?;
        }
        fs::write(share.join(Self::PLAIN), "")?;
        fs::write(share.join(Self::DATA), pattern(DATA_LEN))?;
        fs::write(share.join(Self::BIG), pattern(BIG_LEN))
    }

    /// The directory to serve.
    pub fn share(&self) -> PathBuf {
        self.folder.path().join("share")
    }

    /// A place beside the share, for `name`.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Name of a file in [`Fixture::MANY`].
pub fn file_name(index: u32) -> String {
    format!("file-{index:04}")
}

/// Bytes that are neither zero nor all alike, so that nothing is sparse.
fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8 | 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_what_the_cells_expect() {
        let parent = tempfile::tempdir().unwrap();
        let fixture = Fixture::make(parent.path()).unwrap();
        let share = fixture.share();
        let len = |name| fs::metadata(share.join(name)).unwrap().len();
        assert_eq!(len(Fixture::DATA), DATA_LEN);
        assert_eq!(len(Fixture::BIG), BIG_LEN);
        assert!(share.join(Fixture::MANY).join(file_name(999)).exists());
        assert!(!share.join(Fixture::MISSING).exists());
        drop(fixture);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
