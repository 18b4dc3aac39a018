//! Where a mount's socket is: in the run-time folder of its owner, named after the
//! number that the kernel gave the mount.

use super::http::Listener;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sluice_virtio::vhost_user;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Listens for questions about the mount `device` (`MAJOR:MINOR`).
pub(super) fn bind(device: &str) -> io::Result<Listener> {
    let folder = own_folder().ok_or(io::ErrorKind::NotFound)?;
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let _alone = sweep_folder(&folder)?;
    let path = folder.join(file_name(device));
    let listener = match vhost_user::Listener::bind(&path) {
        // The number is this mount's: whoever had it before is gone.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            fs::remove_file(&path)?;
            vhost_user::Listener::bind(&path)?
        }
        outcome => outcome?,
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(Listener::Unix(listener))
}

/// Removes sockets that were left behind by mounts of this user whose process was
/// killed. What others' folders are and hold is theirs to say: root must not follow.
pub(super) fn sweep() -> io::Result<()> {
    let folder = own_folder().ok_or(io::ErrorKind::NotFound)?;
    sweep_folder(&folder).map(drop)
}

/// Until the file that this returns is closed, no other mount binds a socket: nobody
/// listens yet on one that was just bound.
fn sweep_folder(folder: &Path) -> io::Result<File> {
    let lock = File::open(folder)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_socket = entry.file_type()?.is_socket();
        if is_socket && is_left_behind(&entry.path()).unwrap_or(false) {
            match fs::remove_file(entry.path()) {
                // Its mount was just about to do that.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(lock)
}

/// Whether nobody listens on a socket, without waiting for whoever does.
fn is_left_behind(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = rustix::net::connect(&socket, &SocketAddrUnix::new(path)?);
    Ok(connected == Err(Errno::CONNREFUSED))
}

/// Where the mount `device` of the user `owner` may be asked.
pub(super) fn candidates(device: &str, owner: Option<u32>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = own_folder().into_iter().collect();
    folders.push(folder_of(owner.unwrap_or(0)));
    folders.dedup();
    let name = file_name(device);
    folders.iter().map(|folder| folder.join(&name)).collect()
}

fn own_folder() -> Option<PathBuf> {
    let uid = rustix::process::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !uid.is_root() => Some(Path::new(&folder).join("sluice")),
        _ => Some(folder_of(uid.as_raw())),
    }
}

fn folder_of(uid: u32) -> PathBuf {
    match uid {
        0 => PathBuf::from("/run/sluice"),
        uid => PathBuf::from(format!("/run/user/{uid}/sluice")),
    }
}

fn file_name(device: &str) -> String {
    format!("mount-{}.sock", device.replace(':', "-"))
}
