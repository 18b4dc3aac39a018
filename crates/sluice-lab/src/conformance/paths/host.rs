//! What a directory's file system and the user that runs the tests can do.

use crate::conformance::Needs;
use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Abilities that come from the host, found out by trying.
pub(super) struct HostAbilities {
    found: Needs,
}

impl HostAbilities {
    /// Everything that is found out here.
    pub(super) fn all() -> Needs {
        TRIALS.iter().map(|(needs, _)| *needs).collect::<Needs>()
            | Needs::ROOT
            | Needs::SERVICE_CHECKS
            | Needs::TMPFILE
    }

    pub(super) fn of(base: &Path) -> std::io::Result<Self> {
        let mut found = Needs::empty();
        let is_root = rustix::process::geteuid().is_root();
        found.set(Needs::ROOT | Needs::SERVICE_CHECKS, is_root);
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        found.set(Needs::TMPFILE, fs::open(base, flags, Mode::RWXU).is_ok());
        for (needs, works) in TRIALS {
            let file = tempfile::NamedTempFile::new_in(base)?;
            found.set(*needs, works(file.as_file()));
        }
        Ok(HostAbilities { found })
    }

    pub(super) fn needs(&self) -> Needs {
        self.found
    }
}

/// An ability, and whether a new, empty file has it.
type Trial = (Needs, fn(&File) -> bool);

const TRIALS: &[Trial] = &[
    (Needs::XATTR, |file| sets_xattr(file, "user.sluice", 1)),
    (Needs::TRUSTED_XATTR, |file| {
        sets_xattr(file, "trusted.sluice", 1)
    }),
    (Needs::BIG_XATTR, |file| {
        sets_xattr(file, "user.sluice", sluice_vfs::XATTR_VALUE_MAX)
    }),
    (Needs::POSIX_ACL, |file| {
        let acl = fs::fgetxattr(file, "system.posix_acl_access", &mut [0; 64][..]);
        acl == Err(Errno::NODATA)
    }),
    (Needs::FILE_FLAGS, |file| {
        let flags = fs::ioctl_getflags(file);
        flags.is_ok_and(|flags| fs::ioctl_setflags(file, flags | fs::IFlags::NODUMP).is_ok())
    }),
    (Needs::SHIFT_RANGE, |file| {
        takes_fallocate(file, FallocateFlags::INSERT_RANGE)
    }),
    (Needs::ZERO_RANGE, |file| {
        takes_fallocate(file, FallocateFlags::ZERO_RANGE)
    }),
    (Needs::HUGE_FILES, |file| {
        fs::ftruncate(file, i64::MAX as u64).is_ok()
    }),
    (Needs::BTIME, |file| {
        let stat = fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
        stat.is_ok_and(|stat| stat.stx_mask & StatxFlags::BTIME.bits() != 0)
    }),
];

fn sets_xattr(file: &File, name: &str, len: usize) -> bool {
    fs::fsetxattr(file, name, &vec![7; len], XattrFlags::empty()).is_ok()
}

fn takes_fallocate(file: &File, mode: FallocateFlags) -> bool {
    const BLOCK: u64 = 65_536;
    fs::ftruncate(file, 4 * BLOCK).is_ok() && fs::fallocate(file, mode, BLOCK, BLOCK).is_ok()
}
