//! What statx(2) says, and what of it peers see.

use crate::export::Host;
use crate::fd_cache::is_young;
use crate::inode::{Identity, InodeKey};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp, statx};
use sluice_vfs::{Attr, AttrMask, Device, Errno, FileType, Name, Result, Timestamp, UnixMode};

/// Attributes of an inode, as read.
pub(crate) struct HostStat {
    statx: Statx,
    pub(crate) identity: Identity,
    pub(crate) file_type: FileType,
}

/// All that an entry carries.
pub(crate) const FULL: AttrMask = AttrMask::BASIC.union(AttrMask::BTIME);

impl HostStat {
    /// At least the attributes in `mask` of what `fd` holds.
    pub(crate) fn of_fd(fd: BorrowedFd<'_>, mask: AttrMask) -> Result<Self> {
        Self::read(fd, "", AtFlags::EMPTY_PATH, mask)
    }

    /// All attributes of what `name` is in `dir`.
    pub(crate) fn of_name(dir: BorrowedFd<'_>, name: Name<'_>) -> Result<Self> {
        Self::read(dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW, FULL)
    }

    fn read(
        dir: BorrowedFd<'_>,
        path: impl rustix::path::Arg,
        flags: AtFlags,
        mask: AttrMask,
    ) -> Result<Self> {
        let wanted = StatxFlags::from_bits_retain(mask.bits()) | IDENTITY;
        let statx = statx(dir, path, flags | AtFlags::NO_AUTOMOUNT, wanted)?;
        let key = InodeKey {
            mount_id: statx.stx_mnt_id,
            dev: u64::from(statx.stx_dev_major) << 32 | u64::from(statx.stx_dev_minor),
            ino: statx.stx_ino,
        };
        let has_btime = statx.stx_mask & StatxFlags::BTIME.bits() != 0;
        let identity = Identity {
            key,
            btime: has_btime.then(|| timestamp(&statx.stx_btime)),
        };
        let file_type = FileType::from_mode(statx.stx_mode.into()).ok_or(Errno::EIO)?;
        Ok(HostStat {
            statx,
            identity,
            file_type,
        })
    }

    /// Whether the identity can't become another inode's; `now` is from before
    /// this was read.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        let btime = self.identity.btime;
        btime.is_some_and(|btime| !is_young(btime, now))
    }

    /// Names that the inode has.
    pub(crate) fn nlink(&self) -> u32 {
        self.statx.stx_nlink
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.statx.stx_size
    }

    /// Permission bits.
    pub(crate) fn perm(&self) -> u32 {
        UnixMode(self.statx.stx_mode.into()).perm()
    }

    /// The attributes as peers of `host` see them.
    pub(crate) fn to_attr(&self, host: &Host) -> Attr {
        let statx = &self.statx;
        let device = |major, minor| Device { major, minor };
        Attr {
            mask: AttrMask::from_bits_truncate(statx.stx_mask),
            ino: host
                .inos
                .to_peer(self.identity.key.dev, self.identity.key.ino),
            mode: UnixMode(statx.stx_mode.into()),
            nlink: statx.stx_nlink,
            uid: host.options.uid_map.to_peer(statx.stx_uid),
            gid: host.options.gid_map.to_peer(statx.stx_gid),
            rdev: device(statx.stx_rdev_major, statx.stx_rdev_minor),
            dev: device(statx.stx_dev_major, statx.stx_dev_minor),
            size: statx.stx_size,
            blocks: statx.stx_blocks,
            blksize: statx.stx_blksize,
            atime: timestamp(&statx.stx_atime),
            mtime: timestamp(&statx.stx_mtime),
            ctime: timestamp(&statx.stx_ctime),
            btime: timestamp(&statx.stx_btime),
            flags: statx.stx_attributes.bits(),
            flags_mask: statx.stx_attributes_mask.bits(),
            is_submount: self.is_mounted_dir() && self.identity.key != host.root_key,
        }
    }

    fn is_mounted_dir(&self) -> bool {
        let is_mount_root = self
            .statx
            .stx_attributes
            .contains(StatxAttributes::MOUNT_ROOT);
        is_mount_root && self.file_type == FileType::Directory
    }
}

/// What an identity takes, whatever else is asked for.
const IDENTITY: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::INO)
    .union(StatxFlags::MNT_ID);

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        sec: time.tv_sec,
        nsec: time.tv_nsec,
    }
}
