//! Attributes of a whole tree of mounts.

use bitflags::bitflags;
use rustix::fd::{AsFd, AsRawFd};
use sluice_vfs::Result;

bitflags! {
    /// What is forbidden below a mount (mount_setattr(2)).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MountAttrs: u64 {
        /// Changes.
        const READ_ONLY = libc::MOUNT_ATTR_RDONLY;
        /// Set-id bits that have an effect.
        const NO_SUID = libc::MOUNT_ATTR_NOSUID;
        /// Opening device nodes.
        const NO_DEV = libc::MOUNT_ATTR_NODEV;
    }
}

/// Sets attributes of the mount that `mount` holds and of all below it.
pub fn set_mount_attrs(mount: impl AsFd, attrs: MountAttrs) -> Result<()> {
    let change = libc::mount_attr {
        attr_set: attrs.bits(),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel reads an empty string and a structure of the length that it
    // is told, both of which outlive the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    super::check(outcome).map(drop)
}
