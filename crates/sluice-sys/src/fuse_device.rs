//! `/dev/fuse` beyond read and write.

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, Setter};
use sluice_vfs::Result;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE` of linux/fuse.h: `_IOR(229, 0, uint32_t)`.
const FUSE_DEV_IOC_CLONE: ioctl::Opcode = ioctl::opcode::read::<u32>(229, 0);

/// Another descriptor of the same FUSE connection, with a queue of its own for
/// the requests that are being worked on, so that threads don't share one.
/// The file system must be mounted already. A reply goes to the descriptor
/// that its request was read from.
///
/// # Errors
/// Those of opening `/dev/fuse` (`EACCES` where only root may) and of the ioctl.
pub fn clone_fuse_connection(connection: BorrowedFd<'_>) -> Result<OwnedFd> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let raw = connection.as_raw_fd() as u32;
    // SAFETY: the request takes a pointer to a u32 that the kernel only reads,
    // despite the direction in its number; `Setter` keeps it alive for the call.
    unsafe {
        let clone = Setter::<FUSE_DEV_IOC_CLONE, u32>::new(raw);
        ioctl::ioctl(&device, clone)?;
    }
    Ok(device)
}
