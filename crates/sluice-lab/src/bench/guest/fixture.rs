//! The share that guests work on.

use super::MEMORY_MIB;
use crate::bench::error::{BenchError, Context};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Directories of [`TREE`], and files in each of them.
pub(super) const DIRECTORIES: u32 = 200;
pub(super) const FILES_EACH: u32 = 100;

/// A file of four times a guest's memory.
pub(super) const DATA: &str = "data";
/// A file for each of so many jobs, together as large: these are followed by the job's number.
pub(super) const DATA_OF_JOB: &str = "data-";
pub(super) const JOBS: u32 = 4;
/// A system with a compiler.
pub(super) const SYSTEM: &str = "system";
/// In an entrant's own directory: hostapd's sources.
pub(super) const SOURCES: &str = "hostapd";
/// In the system: where these are to be.
pub(super) const SOURCES_AT: &str = "usr/src/hostapd";
/// A tree of 20,000 small files.
pub(super) const TREE: &str = "tree";
/// Its repository.
pub(super) const REPOSITORY: &str = "tree.git";
/// Its archive.
pub(super) const ARCHIVE: &str = "tree.tar";
/// In an entrant's own directory: a copy of the tree, to be removed.
pub(super) const DOOMED: &str = "doomed";
/// In an entrant's own directory: where the archive is unpacked.
pub(super) const EXTRACTED: &str = "extracted";

const MIB: usize = 1 << 20;

/// Gone when dropped; beside the share there is room for sockets and logs.
pub(super) struct GuestFixture {
    folder: TempDir,
    /// What there is to build, if that is wanted.
    sources: Option<PathBuf>,
}

impl GuestFixture {
    /// With a system, and something to build there, from the cache `lab`.
    pub(super) fn make(
        parent: &Path,
        entrants: usize,
        lab: Option<&Path>,
    ) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new()
            .prefix("sluice-bench-")
            .tempdir_in(parent)
            .context(parent.display())?;
        let fixture = GuestFixture {
            folder,
            sources: lab.map(|lab| lab.join("hostapd")),
        };
        fixture.fill(entrants).context("making the share")?;
        if let Some(lab) = lab {
            let system = fixture.share().join(SYSTEM);
            copy(&lab.join("root"), &system)?;
            fs::create_dir_all(system.join(SOURCES_AT))?;
        }
        Ok(fixture)
    }

    fn fill(&self, entrants: usize) -> Result<(), BenchError> {
        let share = self.share();
        fs::create_dir(&share)?;
        fs::create_dir(self.beside("tools"))?;
        write_data(&share.join(DATA), 4 * MEMORY_MIB)?;
        for job in 0..JOBS {
            let data = share.join(format!("{DATA_OF_JOB}{job}"));
            write_data(&data, 4 * MEMORY_MIB / JOBS)?;
        }
        plant(&share.join(TREE))?;
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(share.join(ARCHIVE));
        tar.arg("-C").arg(share.join(TREE)).arg(".");
        succeed(&mut tar)?;
        self.commit()?;
        for entrant in 0..entrants {
            fs::create_dir(share.join(own(entrant)))?;
            self.renew(entrant)?;
        }
        Ok(())
    }

    /// A repository that has seen the tree, in one pack.
    fn commit(&self) -> Result<(), BenchError> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.arg("--git-dir").arg(self.share().join(REPOSITORY));
            git.arg("--work-tree").arg(self.share().join(TREE));
            succeed(git.args(arguments))
        };
        git(&["init", "-q"])?;
        // Inode numbers and change times are each server's own affair.
        git(&["config", "core.checkStat", "minimal"])?;
        git(&["config", "core.trustctime", "false"])?;
        git(&["config", "core.bare", "false"])?;
        git(&["add", "."])?;
        git(&[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "-q",
            "-m",
            "tree",
        ])?;
        git(&["repack", "-q", "-a", "-d"])
    }

    /// What an entrant's last burst took away is there again, and what it made
    /// is gone.
    pub(super) fn renew(&self, entrant: usize) -> Result<(), BenchError> {
        let own = self.share().join(own(entrant));
        let extracted = own.join(EXTRACTED);
        if extracted.exists() {
            fs::remove_dir_all(&extracted)?;
        }
        fs::create_dir(&extracted)?;
        let doomed = own.join(DOOMED);
        if !doomed.exists() {
            plant(&doomed)?;
        }
        if let Some(sources) = &self.sources {
            let own = own.join(SOURCES);
            if own.exists() {
                fs::remove_dir_all(&own)?;
            }
            copy(sources, &own)?;
        }
        Ok(())
    }

    pub(super) fn share(&self) -> PathBuf {
        self.folder.path().join("share")
    }

    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The directory of an entrant's own.
pub(super) fn own(entrant: usize) -> String {
    format!("own-{entrant}")
}

/// A directory of the tree.
pub(super) fn directory(index: u32) -> String {
    format!("directory-{index:03}")
}

/// Files of the tree, neighbours in different directories.
pub(super) fn tree_file(index: u32) -> PathBuf {
    let nth = index / DIRECTORIES % FILES_EACH;
    Path::new(&directory(index % DIRECTORIES)).join(file(nth))
}

fn file(index: u32) -> String {
    format!("file-{index:02}.c")
}

/// Long ago: a repository does not trust what is as young as itself.
const PLANTED: Timestamps = Timestamps {
    last_access: LONG_AGO,
    last_modification: LONG_AGO,
};
const LONG_AGO: Timespec = Timespec {
    tv_sec: 1_000_000_000,
    tv_nsec: 0,
};

fn plant(tree: &Path) -> Result<(), BenchError> {
    fs::create_dir(tree)?;
    for index in 0..DIRECTORIES {
        let directory = tree.join(directory(index));
        fs::create_dir(&directory)?;
        for nth in 0..FILES_EACH {
            let path = directory.join(file(nth));
            let line = format!("int value_{index}_{nth}(void);\n");
            fs::write(&path, line.repeat(1 + nth as usize % 40))?;
            utimensat(CWD, &path, &PLANTED, AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Not sparse, and nothing in it that could be squeezed.
fn write_data(path: &Path, size_mib: u32) -> Result<(), BenchError> {
    let mut file = File::create(path)?;
    let block: Vec<u8> = (0..MIB).map(|index| (index % 251) as u8 | 1).collect();
    for _ in 0..size_mib {
        file.write_all(&block)?;
    }
    Ok(())
}

/// Copies a tree with all that belongs to it.
fn copy(from: &Path, to: &Path) -> Result<(), BenchError> {
    succeed(Command::new("cp").arg("-a").arg(from).arg(to))
}

pub(super) fn succeed(command: &mut Command) -> Result<(), BenchError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().context(&name)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(BenchError::new(format!("{name}: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_tree_has_one_number() {
        let mut files: Vec<_> = (0..DIRECTORIES * FILES_EACH).map(tree_file).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), 20_000);
    }
}
