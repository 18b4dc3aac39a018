//! The unix socket that monitors connect to.

use crate::failure::Failure;
use sluice_virtio::vhost_user::Listener;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Longest path of a unix socket in bytes (unix(7)).
const PATH_MAX: usize = 107;

/// Listens at `path`. A socket that a dead server left there is replaced; one
/// that something listens on, and what is no socket, is not. The file goes
/// with the listener.
pub(super) fn listen_at(path: &Path) -> Result<Listener, Failure> {
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
