//! The file that names the process behind a socket.

use crate::failure::Failure;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file with this process's id and a line break, for its owner alone, and
/// locked (flock(2)) for as long as this lives. The file stays, as virtiofsd's
/// does: who finds it unlocked knows that the process is gone.
#[derive(Debug)]
pub(super) struct PidFile(#[expect(dead_code, reason = "holds the lock")] File);

impl PidFile {
    /// `SOCKET.pid`.
    ///
    /// # Errors
    /// A file that cannot be had, or that another process has locked.
    pub(super) fn beside(socket: &Path) -> Result<Self, Failure> {
        let mut name = socket.as_os_str().to_owned();
        name.push(".pid");
        PidFile::create(&PathBuf::from(name))
    }

    fn create(path: &Path) -> Result<Self, Failure> {
        let cannot = |error| Failure::from_io("write the process id to", path, &error);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(cannot)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Failure::new(format!(
                "cannot lock '{}': another process serves there",
                path.display()
            ))
        })?;
        file.set_len(0).map_err(cannot)?;
        writeln!(file, "{}", std::process::id()).map_err(cannot)?;
        Ok(PidFile(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_private_locked_and_says_who() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.pid");
        let first = PidFile::beside(&dir.path().join("s")).unwrap();
        let own = format!("{}\n", std::process::id());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let second = PidFile::create(&path).unwrap_err().to_string();
        assert!(second.contains("another process"), "{second}");

        drop(first);
        std::fs::write(&path, "a much longer text from an earlier process").unwrap();
        let _third = PidFile::create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
    }
}
