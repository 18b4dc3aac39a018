//! Words of 9P for what is in the tree.

use crate::bench::null::tree::{Kind, Node};
use sluice_proto::fuse::wire::{Attr, FattrValid, SetattrIn};
use sluice_proto::p9::wire::{
    Attr as WireAttr, GetattrMask, Qid, QidType, SetAttr, SetattrMask, StatFs,
};

pub(super) fn qid(node: &Node) -> Qid {
    Qid {
        kind: match &node.kind {
            Kind::Directory(_) => QidType::DIR,
            Kind::Symlink(_) => QidType::SYMLINK,
            Kind::File(_) | Kind::Other => QidType::empty(),
        },
        // Never 0, with which Linux passes by its page cache.
        version: 1,
        path: node.attr.ino,
    }
}

pub(super) fn wire_attr(node: &Node) -> WireAttr {
    let attr: &Attr = &node.attr;
    WireAttr {
        valid: GetattrMask::BASIC,
        qid: qid(node),
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        nlink: attr.nlink.into(),
        rdev: attr.rdev.into(),
        size: attr.size,
        blksize: attr.blksize.into(),
        blocks: attr.blocks,
        atime_sec: attr.atime,
        atime_nsec: attr.atimensec.into(),
        mtime_sec: attr.mtime,
        mtime_nsec: attr.mtimensec.into(),
        ctime_sec: attr.ctime,
        ctime_nsec: attr.ctimensec.into(),
        ..WireAttr::default()
    }
}

/// The tree takes what FUSE says.
pub(super) fn to_fuse(changes: &SetAttr) -> SetattrIn {
    let mut valid = FattrValid::empty();
    for (is_said, meant) in [
        (SetattrMask::MODE, FattrValid::MODE),
        (SetattrMask::UID, FattrValid::UID),
        (SetattrMask::GID, FattrValid::GID),
        (SetattrMask::SIZE, FattrValid::SIZE),
        (SetattrMask::ATIME, FattrValid::ATIME_NOW),
        (SetattrMask::MTIME, FattrValid::MTIME_NOW),
    ] {
        valid.set(meant, changes.valid.contains(is_said));
    }
    for (is_said, meant, now) in [
        (
            SetattrMask::ATIME_SET,
            FattrValid::ATIME,
            FattrValid::ATIME_NOW,
        ),
        (
            SetattrMask::MTIME_SET,
            FattrValid::MTIME,
            FattrValid::MTIME_NOW,
        ),
    ] {
        if changes.valid.contains(is_said) {
            valid = (valid - now) | meant;
        }
    }
    SetattrIn {
        valid,
        mode: changes.mode,
        uid: changes.uid,
        gid: changes.gid,
        size: changes.size,
        atime: changes.atime_sec,
        atimensec: changes.atime_nsec as u32,
        mtime: changes.mtime_sec,
        mtimensec: changes.mtime_nsec as u32,
        ..SetattrIn::default()
    }
}

/// Room for everything.
pub(super) fn statfs() -> StatFs {
    StatFs {
        bsize: 4096,
        blocks: 1 << 32,
        bfree: 1 << 32,
        bavail: 1 << 32,
        files: 1 << 32,
        ffree: 1 << 32,
        namelen: 255,
        ..StatFs::default()
    }
}
