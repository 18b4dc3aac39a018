//! All inodes of the model, with what they share: clock, versions, space.

use super::ModelOptions;
use super::content::PAGE;
use super::directory::Directory;
use super::inode::{Body, Inode};
use sluice_vfs::{Device, Errno, FileType, Fsx, Result, Stamp, StatFs, Timestamp};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Inode number of the root.
pub(super) const ROOT_INO: u64 = 1;

/// `TMPFS_MAGIC`, which is what the model resembles most.
const FS_TYPE: u32 = 0x0102_1994;

pub(super) struct Tree {
    inodes: BTreeMap<u64, Inode>,
    options: ModelOptions,
    next_ino: u64,
    last_version: u64,
    last_time: Timestamp,
    used_pages: u64,
}

/// What a new inode starts with.
pub(super) struct Birth {
    pub(super) file_type: FileType,
    pub(super) perm: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: Device,
    pub(super) body: Body,
}

impl Tree {
    pub(super) fn new(options: ModelOptions) -> Self {
        let mut tree = Tree {
            inodes: BTreeMap::new(),
            options,
            next_ino: ROOT_INO,
            last_version: 0,
            last_time: Timestamp::default(),
            used_pages: 0,
        };
        let root = Birth {
            file_type: FileType::Directory,
            perm: 0o755,
            uid: 0,
            gid: 0,
            rdev: Device::default(),
            body: Body::Dir(Directory::new(ROOT_INO)),
        };
        tree.insert(root, 2);
        tree
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.options.read_only
    }

    pub(super) fn inode_count(&self) -> u64 {
        self.inodes.len() as u64
    }

    pub(super) fn get(&self, ino: u64) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(Errno::ESTALE)
    }

    pub(super) fn get_mut(&mut self, ino: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    /// `ENOSPC` if another inode would be one too many.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.inode_count() >= self.options.inodes {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Makes an inode with `nlink` links; whoever asks adds the names.
    pub(super) fn insert(&mut self, birth: Birth, nlink: u32) -> u64 {
        let ino = self.next_ino;
        self.next_ino += 1;
        let now = self.now();
        let stamp = self.next_version();
        let inode = Inode {
            ino,
            file_type: birth.file_type,
            perm: birth.perm,
            nlink,
            uid: birth.uid,
            gid: birth.gid,
            rdev: birth.rdev,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            stamp,
            names_stamp: stamp,
            pins: 0,
            is_linkable: false,
            xattrs: BTreeMap::new(),
            flags: 0,
            fsx: Fsx::default(),
            body: birth.body,
        };
        self.inodes.insert(ino, inode);
        ino
    }

    pub(super) fn pin(&mut self, ino: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.pins += 1;
        }
    }

    /// Undoes a [`Tree::pin`]; says whether the inode is gone.
    pub(super) fn unpin(&mut self, ino: u64) -> bool {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.pins = inode.pins.saturating_sub(1);
        }
        self.reap(ino)
    }

    /// Drops an inode that has neither names nor pins.
    pub(super) fn reap(&mut self, ino: u64) -> bool {
        let is_garbage = |inode: &Inode| inode.nlink == 0 && inode.pins == 0;
        if !self.inodes.get(&ino).is_some_and(is_garbage) {
            return false;
        }
        if let Some(inode) = self.inodes.remove(&ino) {
            self.used_pages -= inode.pages();
        }
        true
    }

    /// Changes content and keeps account of the space it takes.
    pub(super) fn with_space<T>(
        &mut self,
        ino: u64,
        change: impl FnOnce(&mut Inode, u64) -> Result<T>,
    ) -> Result<T> {
        let free = self.free_pages();
        let inode = self.inodes.get_mut(&ino).ok_or(Errno::ESTALE)?;
        let before = inode.pages();
        let outcome = change(inode, free);
        self.used_pages = self.used_pages - before + inode.pages();
        outcome
    }

    pub(super) fn next_version(&mut self) -> Stamp {
        self.last_version += 1;
        Stamp(self.last_version)
    }

    /// The wall clock, made to move with every look at it so that two changes
    /// never have the same time.
    pub(super) fn now(&mut self) -> Timestamp {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let clock = Timestamp {
            sec: clock.as_secs() as i64,
            nsec: clock.subsec_nanos(),
        };
        self.last_time = clock.max(after(self.last_time));
        self.last_time
    }

    pub(super) fn statfs(&self) -> StatFs {
        let blocks = self.options.capacity_bytes / PAGE;
        let ffree = self.options.inodes.saturating_sub(self.inode_count());
        StatFs {
            fs_type: FS_TYPE,
            bsize: PAGE as u32,
            frsize: PAGE as u32,
            blocks,
            bfree: self.free_pages(),
            bavail: self.free_pages(),
            files: self.options.inodes,
            ffree,
            fsid: 1,
            namelen: sluice_vfs::NAME_MAX as u32,
        }
    }

    fn free_pages(&self) -> u64 {
        (self.options.capacity_bytes / PAGE).saturating_sub(self.used_pages)
    }
}

/// The next nanosecond.
fn after(time: Timestamp) -> Timestamp {
    if time.nsec >= 999_999_999 {
        Timestamp {
            sec: time.sec + 1,
            nsec: 0,
        }
    } else {
        Timestamp {
            nsec: time.nsec + 1,
            ..time
        }
    }
}
