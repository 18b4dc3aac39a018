//! Asking the kernel to mount and to unmount.

use super::mount_table::{self, MountEntry};
use super::options::MountOptions;
use super::{MAX_MESSAGE_BYTES, fusermount};
use crate::failure::{Failure, system_words};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Type that the mount table shows.
pub(super) const FS_TYPE: &str = "fuse.sluice";

/// A mount that this process made.
#[derive(Debug)]
pub(super) struct KernelMount {
    target: PathBuf,
    entry: MountEntry,
    /// No other mount ever has it; none where the kernel does not tell.
    unique_id: Option<u64>,
    by_helper: bool,
}

/// Mounts on `target` and returns the connection to the kernel with it. Root
/// does it directly; anybody else through fusermount3.
pub(super) fn mount(
    source: &str,
    target: &Path,
    options: &MountOptions,
) -> Result<(KernelMount, OwnedFd), Failure> {
    let target = mount_point(target)?;
    // There would be a mount that nobody finds again.
    mount_table::check()?;
    let (device, by_helper) = if rustix::process::geteuid().is_root() {
        (mount_directly(source, &target, options)?, false)
    } else {
        (fusermount::mount(source, &target, options)?, true)
    };
    let Some(entry) = mount_table::topmost_at(&target, FS_TYPE) else {
        return Err(Failure::new(format!(
            "mounted on '{}', but the mount table does not show it",
            target.display()
        ))
        .advise("mount /proc"));
    };
    let mount = KernelMount {
        unique_id: mount_table::unique_id(&target),
        target,
        entry,
        by_helper,
    };
    Ok((mount, device))
}

impl KernelMount {
    /// Where it is mounted.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// The number that the kernel gave it, `MAJOR:MINOR`.
    pub(super) fn device(&self) -> &str {
        &self.entry.device
    }

    /// Whether it can be seen somewhere beneath `dir`, which is absolute and
    /// without symlinks: a mount spreads to all views of a shared mount point.
    pub(super) fn is_beneath(&self, dir: &Path) -> bool {
        mount_table::is_beneath(dir, &self.entry.device)
    }

    /// Lets the kernel read ahead by whole messages (bdi's default is an
    /// eighth of one). Needs root; without it sequential reads are slower.
    pub(super) fn raise_read_ahead(&self) {
        let path = format!("/sys/class/bdi/{}/read_ahead_kb", self.entry.device);
        if let Err(error) = std::fs::write(&path, (MAX_MESSAGE_BYTES / 1024).to_string()) {
            tracing::debug!(path, %error, "cannot raise the read-ahead");
        }
    }

    /// Unmounts; if somebody still uses it, takes it out of the tree, and the
    /// kernel ends it after its last user. Nothing to do when it is gone or
    /// hidden below another mount.
    pub(super) fn unmount(&self) -> io::Result<()> {
        if !self.is_on_top() {
            return Ok(());
        }
        if self.by_helper {
            return fusermount::unmount(&self.target);
        }
        match rustix::mount::unmount(&self.target, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => {
                let lazily = UnmountFlags::NOFOLLOW | UnmountFlags::DETACH;
                Ok(rustix::mount::unmount(&self.target, lazily)?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// Whether this is the mount that a path leads to. The next one on the same
    /// directory has the numbers of the table again.
    fn is_on_top(&self) -> bool {
        let entry = mount_table::topmost_at(&self.target, FS_TYPE);
        entry.as_ref() == Some(&self.entry)
            && mount_table::unique_id(&self.target) == self.unique_id
    }
}

/// The mount point as an absolute path without symlinks. It may be the root of
/// another mount, but not of one of ours: two on one point are a mistake.
///
/// # Errors
/// It is no directory that one can mount on.
pub(super) fn mount_point(target: &Path) -> Result<PathBuf, Failure> {
    let path = directory(target)?;
    if mount_table::topmost_at(&path, FS_TYPE).is_some() {
        let what = format!(
            "cannot mount on '{}': a mount of sluice is there already",
            target.display()
        );
        return Err(Failure::new(what).advise("unmount it first, or choose another directory"));
    }
    Ok(path)
}

fn directory(target: &Path) -> Result<PathBuf, Failure> {
    let is_dir = target.metadata().map(|found| found.is_dir());
    match (is_dir, target.canonicalize()) {
        (Ok(true), Ok(path)) => Ok(path),
        (Ok(false), _) => Err(Failure::new(format!(
            "cannot mount on '{}': Not a directory",
            target.display()
        ))
        .advise("give an existing directory")),
        (Err(error), _) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            Err(Failure::from_io("mount on", target, &error)
                .advise("a mount there lost its server: unmount it first"))
        }
        (Err(error), _) | (_, Err(error)) => {
            Err(Failure::from_io("mount on", target, &error).advise("give an existing directory"))
        }
    }
}

fn mount_directly(source: &str, target: &Path, options: &MountOptions) -> Result<OwnedFd, Failure> {
    let device = open_device()?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,max_read={}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        MAX_MESSAGE_BYTES,
    );
    if options.lets_others_in() {
        data.push_str(",allow_other");
    }
    for context in &options.contexts {
        data.push(',');
        data.push_str(context);
    }
    let data = CString::new(data).map_err(|_| Failure::new("mount data holds a NUL"))?;
    rustix::mount::mount(
        source,
        target,
        FS_TYPE,
        options.flags,
        Some(data.as_c_str()),
    )
    .map_err(|errno| {
        let failure = Failure::from_io("mount on", target, &errno.into());
        match errno {
            Errno::PERM => failure.advise(
                "CAP_SYS_ADMIN is needed here; mount as an ordinary user to go through fusermount3",
            ),
            Errno::NODEV => failure.advise("load the kernel's fuse module (modprobe fuse)"),
            _ => failure,
        }
    })?;
    Ok(device)
}

fn open_device() -> Result<OwnedFd, Failure> {
    rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| {
        let words = system_words(&errno.into());
        Failure::new(format!("cannot open '/dev/fuse': {words}")).advise(
            "load the kernel's fuse module (modprobe fuse), or pass the device into the container",
        )
    })
}
