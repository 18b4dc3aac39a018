//! What cases need of the directory and the user they run as.

use super::place::Place;
use crate::posix::cases::acl;
use rustix::fs::{
    FallocateFlags, IFlags, OFlags, RenameFlags, StatxFlags, ioctl_getflags, ioctl_setflags,
};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;

/// Something that not every file system or user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// To be the superuser: nodes can be given away, others' rights taken.
    Root,
    /// POSIX ACLs.
    Acl,
    /// `user.` attributes.
    Xattr,
    /// `trusted.` and `security.` attributes.
    TrustedXattr,
    /// Values of attributes beyond a page.
    LongXattr,
    /// Files without a name.
    Tmpfile,
    /// `FS_IOC_SETFLAGS` of flags that bind the superuser too.
    FileFlags,
    /// `O_DIRECT`.
    Direct,
    /// Fallocate that makes holes.
    PunchHole,
    /// Fallocate that zeroes.
    ZeroRange,
    /// `SEEK_HOLE` that finds holes.
    Holes,
    /// `RENAME_WHITEOUT`.
    Whiteout,
    /// Birth times.
    Btime,
    /// Device nodes.
    Devices,
    /// Files of 2^40 bytes.
    LargeFiles,
}

impl Need {
    const ALL: [Need; 15] = [
        Need::Root,
        Need::Acl,
        Need::Xattr,
        Need::TrustedXattr,
        Need::LongXattr,
        Need::Tmpfile,
        Need::FileFlags,
        Need::Direct,
        Need::PunchHole,
        Need::ZeroRange,
        Need::Holes,
        Need::Whiteout,
        Need::Btime,
        Need::Devices,
        Need::LargeFiles,
    ];

    /// In words, for when it is missing.
    fn describe(self) -> &'static str {
        match self {
            Need::Root => "needs root",
            Need::Acl => "no POSIX ACLs",
            Need::Xattr => "no user attributes",
            Need::TrustedXattr => "no trusted attributes",
            Need::LongXattr => "no long attributes",
            Need::Tmpfile => "no files without a name",
            Need::FileFlags => "no file flags",
            Need::Direct => "no direct I/O",
            Need::PunchHole => "no punching of holes",
            Need::ZeroRange => "no zeroing of ranges",
            Need::Holes => "no search for holes",
            Need::Whiteout => "no whiteouts",
            Need::Btime => "no birth times",
            Need::Devices => "no device nodes",
            Need::LargeFiles => "no large files",
        }
    }

    fn probe(self, place: &Place) -> Result<()> {
        let file = || place.create("probe", OFlags::RDWR, 0o644);
        match self {
            Need::Root => when(rustix::process::geteuid().is_root()),
            Need::Acl => {
                file()?;
                place.set_xattr("probe", acl::ACCESS, &acl::granting_reads_to(1))
            }
            Need::Xattr => {
                file()?;
                place.set_xattr("probe", "user.probe", b"1")
            }
            Need::TrustedXattr => {
                file()?;
                place.set_xattr("probe", "trusted.probe", b"1")
            }
            Need::LongXattr => {
                file()?;
                place.set_xattr("probe", "user.probe", &[0; 10_000])
            }
            Need::Tmpfile => place
                .open_mode(".", OFlags::TMPFILE | OFlags::RDWR, 0o600)
                .map(drop),
            Need::FileFlags => {
                let file = file()?;
                let old = ioctl_getflags(&file)?;
                ioctl_setflags(&file, old | IFlags::APPEND)?;
                ioctl_setflags(&file, old)
            }
            Need::Direct => {
                file()?;
                place.open("probe", OFlags::RDWR | OFlags::DIRECT).map(drop)
            }
            Need::PunchHole => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file()?, flags, 0, 4096)
            }
            Need::ZeroRange => rustix::fs::fallocate(file()?, FallocateFlags::ZERO_RANGE, 0, 4096),
            Need::Holes => {
                let file = file()?;
                rustix::io::pwrite(&file, b"x", 1 << 20)?;
                rustix::fs::fsync(&file)?;
                let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0))?;
                when(hole == 0)
            }
            Need::Whiteout => {
                file()?;
                place.rename_with("probe", "moved", RenameFlags::WHITEOUT)
            }
            Need::Btime => {
                file()?;
                let found = place.statx("probe", StatxFlags::BTIME)?;
                when(found.stx_mask & StatxFlags::BTIME.bits() != 0)
            }
            Need::Devices => place.make_node(
                "probe",
                rustix::fs::FileType::CharacterDevice,
                0o600,
                (1, 3),
            ),
            Need::LargeFiles => rustix::fs::ftruncate(file()?, 1 << 40),
        }
    }
}

/// What cannot be had here, and why.
pub(super) struct Missing(BTreeMap<Need, String>);

impl Missing {
    /// Tries everything in directories that `fresh` makes.
    pub(super) fn find(mut fresh: impl FnMut(&str) -> Result<Place>) -> Result<Missing> {
        let mut missing = BTreeMap::new();
        for need in Need::ALL {
            let place = fresh(&format!("probe.{need:?}"))?;
            if let Err(errno) = need.probe(&place) {
                let why = match errno {
                    ABSENT => need.describe().to_owned(),
                    _ => format!("{}: {errno}", need.describe()),
                };
                missing.insert(need, why);
            }
        }
        Ok(Missing(missing))
    }

    /// Why a case with these needs cannot run.
    pub(super) fn reason(&self, needs: &[Need]) -> Option<&str> {
        let mut reasons = needs.iter().filter_map(|need| self.0.get(need));
        reasons.next().map(String::as_str)
    }
}

/// Says nothing that [`Need::describe`] does not.
const ABSENT: Errno = Errno::CANCELED;

fn when(is_so: bool) -> Result<()> {
    if is_so { Ok(()) } else { Err(ABSENT) }
}
