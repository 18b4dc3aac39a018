//! Name spaces with nothing in them but the shares.

use super::SharePlace;
use crate::failure::{Failure, system_words};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, mkdirat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount_change, mount_remount,
    move_mount, open_tree, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use sluice_sys::{MountAttrs, set_mount_attrs};
use std::io;
use std::path::{Path, PathBuf};

/// Makes a file system of the shares and of this process' descriptors, by which
/// files are opened again, the root. It lies in memory, is otherwise empty and
/// cannot be changed. Returns where the shares are in it.
pub(super) fn move_in(shares: &[SharePlace]) -> Result<Vec<PathBuf>, Failure> {
    // What the host mounts below a share is seen; nothing goes the other way.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation).map_err(|error| cannot("change mounts", error))?;
    let tree = |share: &SharePlace| {
        share_tree(share).map_err(|error| Failure::from_io("serve", &share.dir, &error))
    };
    let trees: Vec<OwnedFd> = shares.iter().map(tree).collect::<Result<_, _>>()?;
    let descriptors = copy_of("/proc/self/fd", OpenTreeFlags::empty())
        .map_err(|error| cannot("use /proc/self/fd", error))?;
    let root = empty_root().map_err(|error| cannot("mount a tmpfs", error))?;
    let dirs = fill(&root, &descriptors, &trees).map_err(|error| cannot("mount", error))?;
    change_root(&root).map_err(|error| cannot("change the root directory", error))?;
    Ok(dirs)
}

fn cannot(what: &str, error: impl Into<io::Error>) -> Failure {
    let words = system_words(&error.into());
    Failure::new(format!(
        "cannot isolate this process: cannot {what}: {words}"
    ))
    .advise("give --sandbox none")
}

/// The share with all that is mounted below it. Nobody serving it has a use for
/// device nodes and set-id bits that work.
fn share_tree(share: &SharePlace) -> io::Result<OwnedFd> {
    let tree = copy_of(&share.dir, OpenTreeFlags::AT_RECURSIVE)?;
    let mut attrs = MountAttrs::NO_DEV | MountAttrs::NO_SUID;
    attrs.set(MountAttrs::READ_ONLY, share.read_only);
    match set_mount_attrs(&tree, attrs) {
        Ok(()) => {}
        Err(sluice_vfs::Errno::ENOSYS) => tracing::debug!("mounts keep their attributes"),
        Err(error) => return Err(io::Error::from_raw_os_error(error.raw())),
    }
    Ok(tree)
}

fn copy_of(path: impl AsRef<Path>, more: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path.as_ref(), flags | more)
}

/// A file system in memory, mounted over the root.
fn empty_root() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attrs = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let root = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attrs)?;
    move_mount(&root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(root)
}

fn fill(
    root: &OwnedFd,
    descriptors: &OwnedFd,
    shares: &[OwnedFd],
) -> rustix::io::Result<Vec<PathBuf>> {
    let mode = Mode::from_raw_mode(0o755);
    for dir in ["proc", "proc/self", "proc/self/fd"] {
        mkdirat(root, dir, mode)?;
    }
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(descriptors, "", root, "proc/self/fd", flags)?;
    let mut dirs = Vec::new();
    for (number, share) in shares.iter().enumerate() {
        let name = format!("share{number}");
        mkdirat(root, &name, mode)?;
        move_mount(share, "", root, &name, flags)?;
        dirs.push(Path::new("/").join(name));
    }
    Ok(dirs)
}

/// The old root ends up above the new one, and is taken away (pivot_root(2)).
fn change_root(root: &OwnedFd) -> rustix::io::Result<()> {
    fchdir(root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    let flags = MountFlags::BIND
        | MountFlags::RDONLY
        | MountFlags::NOSUID
        | MountFlags::NODEV
        | MountFlags::NOEXEC;
    mount_remount("/", flags, "")
}
