//! The unix socket that monitors connect to.

use super::pid_file::PidFile;
use crate::failure::{Failure, system_words};
use rustix::fs::{AtFlags, CWD, Gid, Mode, chownat};
use sluice_virtio::vhost_user::Listener;
use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Longest path of a unix socket in bytes (unix(7)).
const PATH_MAX: usize = 107;

/// Where monitors connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket that is made at this path, and removed in the end. The process's
    /// umask decides who may connect.
    Path(PathBuf),
    /// The same as virtiofsd makes it: for the owner alone, or for a group too,
    /// with a locked `PATH.pid` beside it.
    Private {
        /// Where.
        path: PathBuf,
        /// Who else may connect.
        group: Option<Gid>,
    },
    /// A listening socket that this process was started with.
    Inherited(i32),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Path(path) | Endpoint::Private { path, .. } => path.display().fmt(f),
            Endpoint::Inherited(number) => write!(f, "descriptor {number}"),
        }
    }
}

/// An [`Endpoint`] that listens.
pub(super) struct Listening {
    pub(super) listener: Listener,
    /// Held until serving ends.
    pub(super) pid_file: Option<PidFile>,
}

impl Listening {
    /// Leaves removing the socket's file to another process, and closes what
    /// leads there.
    pub(super) fn leave_file(&mut self) {
        self.listener.leave_file();
    }
}

impl Endpoint {
    /// The file of the socket, if it is made for this.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Endpoint::Path(path) | Endpoint::Private { path, .. } => Some(path),
            Endpoint::Inherited(_) => None,
        }
    }

    /// Listens there.
    pub(super) fn listen(&self) -> Result<Listening, Failure> {
        let (listener, pid_file) = match self {
            Endpoint::Path(path) => (listen_at(path)?, None),
            Endpoint::Private { path, group } => {
                let pid_file = PidFile::beside(path)?;
                (listen_privately(path, *group)?, Some(pid_file))
            }
            Endpoint::Inherited(number) => (take_over(*number)?, None),
        };
        Ok(Listening { listener, pid_file })
    }
}

fn listen_privately(path: &Path, group: Option<Gid>) -> Result<Listener, Failure> {
    let hidden = match group {
        Some(_) => Mode::RWXO,
        None => Mode::RWXG | Mode::RWXO,
    };
    // The socket must never be there with more than that. No other thread makes
    // files yet.
    let before = rustix::process::umask(hidden);
    let listener = listen_at(path);
    rustix::process::umask(before);
    let listener = listener?;
    if group.is_some() {
        chownat(CWD, path, None, group, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| {
            Failure::from_io("let the group use", path, &error.into())
                .advise("give a --socket-group that you belong to, or be root")
        })?;
    }
    Ok(listener)
}

fn take_over(number: i32) -> Result<Listener, Failure> {
    let cannot = |why: &str| Failure::new(format!("cannot serve on descriptor {number}: {why}"));
    let fd = sluice_sys::duplicate_inherited(number)
        .map_err(|error| cannot(&system_words(&error.into())))?;
    Listener::from_fd(fd).map_err(|_| cannot("it is not a listening unix socket"))
}

/// Listens at `path`. A socket that a dead server left there is replaced; one
/// that something listens on, and what is no socket, is not. The file goes
/// with the listener.
pub(crate) fn listen_at(path: &Path) -> Result<Listener, Failure> {
    let error = match Listener::bind(path) {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let shown = path.display();
    Err(match error.kind() {
        io::ErrorKind::AddrInUse if !is_socket(path) => Failure::new(format!(
            "cannot listen on '{shown}': it exists and is not a socket"
        ))
        .advise("choose another path"),
        io::ErrorKind::AddrInUse => Failure::new(format!(
            "cannot listen on '{shown}': something already does"
        ))
        .advise("stop it, or choose another path"),
        io::ErrorKind::NotFound => {
            Failure::from_io("listen on", path, &error).advise("make its directory first")
        }
        io::ErrorKind::PermissionDenied => Failure::from_io("listen on", path, &error)
            .advise("choose a path in a directory that you may write to"),
        _ if path.as_os_str().len() > PATH_MAX => {
            Failure::new(format!("cannot listen on '{shown}': the path is too long"))
                .advise(format!("a socket path has at most {PATH_MAX} bytes"))
        }
        _ => Failure::from_io("listen on", path, &error),
    })
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_stale_socket_is_replaced_and_a_busy_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let busy = listen_at(&path).unwrap_err().to_string();
        assert!(busy.contains("something already does"), "{busy}");

        drop(listener);
        assert!(path.exists());
        let replaced = listen_at(&path).unwrap();
        drop(replaced);
        assert!(!path.exists());
    }

    #[test]
    fn a_private_socket_is_its_owners_with_the_process_id_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let group = rustix::process::getegid();
        for (group, mode) in [(None, 0o700), (Some(group), 0o770)] {
            let endpoint = Endpoint::Private {
                path: path.clone(),
                group,
            };
            let listening = endpoint.listen().unwrap();
            let found = path.symlink_metadata().unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
            drop(listening);
            assert!(!path.exists());
            assert!(dir.path().join("s.pid").exists());
        }
    }

    #[test]
    fn only_listening_sockets_are_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        Endpoint::Inherited(listener.as_raw_fd()).listen().unwrap();
        let no_socket = std::fs::File::open(dir.path()).unwrap();
        for (number, why) in [
            (no_socket.as_raw_fd(), "not a listening"),
            (-1, "Bad file"),
            (i32::MAX, "Bad file"),
        ] {
            let error = take_over(number).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, "precious").unwrap();
        let error = listen_at(&path).unwrap_err().to_string();
        assert!(error.contains("is not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");

        let missing = listen_at(&dir.path().join("no/such/dir")).unwrap_err();
        assert!(
            missing.to_string().contains("make its directory first"),
            "{missing}"
        );
        let long = listen_at(&dir.path().join("x".repeat(200))).unwrap_err();
        assert!(long.to_string().contains("at most 107 bytes"), "{long}");
    }
}
