//! The file of a listening unix socket, removed by whoever made it.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A socket's place in the file system. Dropping it removes the file, if that is
/// still the one that was found here, and however the process sees paths by then.
#[derive(Debug)]
pub(super) struct SocketFile {
    directory: OwnedFd,
    name: OsString,
    device: u64,
    inode: u64,
    is_left: bool,
}

impl SocketFile {
    /// The socket that was just made at `path`.
    pub(super) fn find(path: &Path) -> io::Result<Self> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, parent, flags, Mode::empty())?;
        let Stat { st_dev, st_ino, .. } = stat(&directory, name)?;
        Ok(SocketFile {
            directory,
            name: name.to_owned(),
            device: st_dev,
            inode: st_ino,
            is_left: false,
        })
    }

    /// Lets go of the place without removing the file.
    pub(super) fn leave(mut self) {
        self.is_left = true;
    }

    fn is_still_there(&self) -> bool {
        stat(&self.directory, &self.name)
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (self.device, self.inode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.is_left && self.is_still_there() {
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

fn stat(directory: &OwnedFd, name: &std::ffi::OsStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}
