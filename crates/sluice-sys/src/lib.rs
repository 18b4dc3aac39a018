//! Thin system call wrappers that rustix does not have.
//!
//! Every function takes descriptors (and names relative to them), never a path
//! of the caller's choice, and reports the kernel's own errno. Nothing here
//! decides anything: policy belongs to the callers.

mod child;
mod chmod;
mod clock;
mod clone_process;
mod close;
mod dirent;
mod file_flags;
mod file_handle;
mod fuse_device;
mod group;
mod inherited;
mod limits;
pub mod lock;
mod mount_attr;
mod packet;
mod thread_fs;
mod vsock;
mod xattr;

pub use child::bind_child;
pub use chmod::chmod_at_empty_path;
pub use clock::stamping_time;
pub use clone_process::{Cloned, NewNamespaces, clone_process};
pub use close::close;
pub use dirent::{Dirent, getdents};
pub use file_flags::{file_flags, fsx, set_file_flags, set_fsx};
pub use file_handle::FileHandle;
pub use fuse_device::clone_fuse_connection;
pub use group::group_id;
pub use inherited::{duplicate_inherited, keep_descriptors};
pub use limits::raise_nofile_limit;
pub use mount_attr::{MountAttrs, set_mount_attrs};
pub use packet::PacketAddr;
pub use thread_fs::{unshare_thread_fs, unshare_thread_mounts, unshare_thread_network};
pub use vsock::VsockAddr;
pub use xattr::{XattrSet, getxattr_at, listxattr_at, removexattr_at, setxattr_at};

use sluice_vfs::{Errno, Result};

/// The errno that the C library left, for a call that reported failure.
fn last_errno() -> Errno {
    std::io::Error::last_os_error().into()
}

/// The result of a call that says −1 for failure.
fn check(outcome: libc::c_long) -> Result<usize> {
    usize::try_from(outcome).map_err(|_| last_errno())
}
