//! Where a mount's socket is: in the run-time folder of its owner, named after the
//! number that the kernel gave the mount.

use super::http::Listener;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Listens for questions about the mount `device` (`MAJOR:MINOR`).
pub(super) fn bind(device: &str) -> io::Result<Listener> {
    let folder = own_folder().ok_or(io::ErrorKind::NotFound)?;
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = folder.join(file_name(device));
    let listener = match Listener::on(&path) {
        // The number is this mount's: whoever had it before is gone.
        Err(error) if error.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error()) => {
            fs::remove_file(&path)?;
            Listener::on(&path)?
        }
        outcome => outcome?,
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
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
