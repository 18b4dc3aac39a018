//! Attributes of nodes and of the file system.

use crate::harness::{ROOT, Share, errno, name};
use sluice_vfs::{
    AttrMask, Errno, FileType, NewNode, NodeId, OpenFlags, SetAttr, SetTime, Timestamp, VecSink,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const NOTHING: SetAttr = SetAttr {
    perm: None,
    uid: None,
    gid: None,
    size: None,
    atime: None,
    mtime: None,
    touch_ctime: false,
    kill_suidgid: false,
};

#[test]
fn attributes_are_the_hosts() {
    let share = Share::new();
    fs::write(share.path("f"), vec![1; 5000]).unwrap();
    let (attr, host) = (
        share.find("f").unwrap().attr,
        fs::metadata(share.path("f")).unwrap(),
    );
    assert!(attr.mask.contains(AttrMask::BASIC));
    assert_eq!(attr.ino, host.ino());
    assert_eq!(attr.mode.0, host.mode());
    assert_eq!(u64::from(attr.nlink), host.nlink());
    assert_eq!((attr.uid, attr.gid), (host.uid(), host.gid()));
    assert_eq!((attr.size, attr.blocks), (5000, host.blocks()));
    assert_eq!(attr.mtime.sec, host.mtime());
    assert_eq!(i64::from(attr.mtime.nsec), host.mtime_nsec());
    assert!(!attr.is_submount);
    assert!(!share.attached.root.attr.is_submount);
    assert_eq!(
        share.attached.root.attr.mode.file_type(),
        Some(FileType::Directory)
    );
}

#[test]
fn times_are_set_left_or_now() {
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let node = share.node("f");
    let set = |atime, mtime| {
        let changes = SetAttr {
            atime,
            mtime,
            ..NOTHING
        };
        share.s().setattr(&ROOT, node, None, &changes)
    };
    let time = |sec, nsec| Timestamp { sec, nsec };
    let (early, late) = (time(-5, 1), time(4_000_000_000, 999_999_999));
    let attr = set(Some(SetTime::To(early)), Some(SetTime::To(late)));
    let attr = attr.unwrap().attr;
    assert_eq!((attr.atime.sec, attr.mtime.sec), (early.sec, late.sec));
    let attr = set(None, Some(SetTime::Now)).unwrap().attr;
    assert_eq!(attr.atime.sec, early.sec);
    assert!(attr.mtime.sec > 1_700_000_000 && attr.mtime.sec < late.sec);
    // The kernel's own words for "now" and "leave it" are not times.
    for nsec in [1_000_000_000, 0x3fff_ffff, 0x3fff_fffe, u32::MAX] {
        let outcome = set(Some(SetTime::To(time(0, nsec))), None);
        assert_eq!(errno(outcome), Errno::EINVAL);
    }
}

#[test]
fn symlinks_are_changed_themselves_and_have_no_mode() {
    let share = Share::new();
    fs::write(share.path("target"), "").unwrap();
    fs::set_permissions(share.path("target"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("target", share.path("l")).unwrap();
    let node = share.node("l");
    let perm = SetAttr {
        perm: Some(0o777),
        ..NOTHING
    };
    let outcome = share.s().setattr(&ROOT, node, None, &perm);
    assert_eq!(errno(outcome), Errno::EOPNOTSUPP);
    let old = SetTime::To(Timestamp { sec: 1000, nsec: 0 });
    let times = SetAttr {
        mtime: Some(old),
        ..NOTHING
    };
    let stat = share.s().setattr(&ROOT, node, None, &times).unwrap();
    assert_eq!(stat.attr.mtime.sec, 1000);
    let target = fs::metadata(share.path("target")).unwrap();
    assert_eq!(target.mode() & 0o777, 0o640);
    assert_ne!(target.mtime(), 1000);
    let size = SetAttr {
        size: Some(0),
        ..NOTHING
    };
    let outcome = share.s().setattr(&ROOT, node, None, &size);
    assert_eq!(errno(outcome), Errno::EINVAL);
    let outcome = share.s().setattr(&ROOT, NodeId::ROOT, None, &size);
    assert_eq!(errno(outcome), Errno::EISDIR);
}

#[test]
fn files_are_cut_and_grown() {
    let share = Share::new();
    fs::write(share.path("f"), "0123456789").unwrap();
    let node = share.node("f");
    let reader = share.open(node, OpenFlags::READ).unwrap();
    let writer = share.open(node, OpenFlags::WRITE).unwrap();
    for (handle, size) in [(None, 4), (Some(reader), 2), (Some(writer), 8)] {
        let changes = SetAttr {
            size: Some(size),
            ..NOTHING
        };
        let stat = share.s().setattr(&ROOT, node, handle, &changes).unwrap();
        assert_eq!(stat.attr.size, size);
    }
    assert_eq!(fs::read(share.path("f")).unwrap(), b"01\0\0\0\0\0\0");
    let changes = SetAttr {
        size: Some(u64::MAX),
        ..NOTHING
    };
    let outcome = share.s().setattr(&ROOT, node, Some(writer), &changes);
    assert_eq!(errno(outcome), Errno::EINVAL);
}

#[test]
fn a_lone_touch_moves_the_change_time() {
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let node = share.node("f");
    let before = share.attr(node);
    let touch = SetAttr {
        touch_ctime: true,
        ..NOTHING
    };
    // The clock of a file system is coarse; it moves on in a few milliseconds.
    let moved = (0..1_000_000).any(|_| {
        let attr = share.s().setattr(&ROOT, node, None, &touch).unwrap().attr;
        assert_eq!((attr.mtime, attr.mode), (before.mtime, before.mode));
        attr.ctime > before.ctime
    });
    assert!(moved);
    let untouched = share.attr(node).ctime;
    share.s().setattr(&ROOT, node, None, &NOTHING).unwrap();
    assert_eq!(share.attr(node).ctime, untouched);
}

#[test]
fn special_nodes_can_be_changed_too() {
    let share = Share::new();
    let new = NewNode::with_perm(0o600);
    let dev = sluice_vfs::Device::default();
    let fifo = share
        .s()
        .mknod(&ROOT, NodeId::ROOT, name("p"), FileType::Fifo, dev, &new)
        .unwrap();
    let changes = SetAttr {
        perm: Some(0o644),
        mtime: Some(SetTime::To(Timestamp { sec: 7, nsec: 0 })),
        ..NOTHING
    };
    let stat = share.s().setattr(&ROOT, fifo.node, None, &changes).unwrap();
    assert_eq!(stat.attr.mode.perm(), 0o644);
    assert_eq!(stat.attr.mtime.sec, 7);
}

#[test]
fn set_id_bits_go_by_themselves_when_that_is_all_that_is_asked() {
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let node = share.node("f");
    for (before, after) in [(0o6755, 0o755), (0o6745, 0o2745), (0o644, 0o644)] {
        fs::set_permissions(share.path("f"), fs::Permissions::from_mode(before)).unwrap();
        let changes = SetAttr {
            kill_suidgid: true,
            ..NOTHING
        };
        let stat = share.s().setattr(&ROOT, node, None, &changes).unwrap();
        assert_eq!(stat.attr.mode.perm(), after);
    }
}

#[test]
fn file_systems_and_link_targets_are_reported() {
    let share = Share::new();
    let stat = share.s().statfs(&ROOT, NodeId::ROOT).unwrap();
    assert!(stat.bsize > 0 && stat.namelen >= 255 && stat.blocks >= stat.bfree);
    let long = "x/".repeat(2000);
    symlink(&long, share.path("l")).unwrap();
    let node = share.node("l");
    let mut sink = VecSink::new(4096);
    share.s().readlink(&ROOT, node, &mut sink).unwrap();
    assert_eq!(sink.into_bytes(), long.as_bytes());
    let outcome = share.s().readlink(&ROOT, node, &mut VecSink::new(10));
    assert_eq!(errno(outcome), Errno::EMSGSIZE);
    let outcome = share
        .s()
        .readlink(&ROOT, NodeId::ROOT, &mut VecSink::new(10));
    assert_eq!(errno(outcome), Errno::EINVAL);
}
