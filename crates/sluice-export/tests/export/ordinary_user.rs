//! A daemon that is nobody special.

use crate::harness::{
    RDWR, ROOT, Share, attach, errno, in_child, is_child, is_root, myself, myself_as, name, user,
};
use sluice_export::{Export, ExportOptions};
use sluice_vfs::{
    AccessChecks, Errno, Features, Lookup, NewNode, NodeId, OpenFlags, SessionLimits, SetAttr,
    SliceSource, WriteArgs,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// The user that a test runs as where it starts as root.
const SOMEONE: (u32, u32) = (65_534, 65_534);

/// This test binary as an ordinary user, whoever runs it.
fn as_ordinary_user() -> Command {
    match is_root() {
        true => myself_as(SOMEONE.0, SOMEONE.1),
        false => myself(),
    }
}

#[test]
fn it_acts_as_itself_for_itself_and_for_root() {
    if !is_child() {
        let test = "ordinary_user::it_acts_as_itself_for_itself_and_for_root";
        return in_child(as_ordinary_user(), test);
    }
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    assert_ne!(own.0, 0);
    for share in [Share::new(), Share::checked()] {
        for (child, ctx) in [("a", ROOT), ("b", user(own.0, own.1, &[]))] {
            let made = share.create_as(&ctx, NodeId::ROOT, child, RDWR).unwrap();
            let host = fs::metadata(share.path(child)).unwrap();
            assert_eq!((host.uid(), host.gid()), own);
            let handle = Some(made.opened.handle);
            share.write(made.entry.node, handle, 0, b"abc").unwrap();
            assert_eq!(share.read(made.entry.node, None).unwrap(), b"abc");
        }
        let new = NewNode::with_perm(0o700);
        let root = NodeId::ROOT;
        let dir = share.s().mkdir(&ROOT, root, name("d"), &new).unwrap();
        share
            .s()
            .symlink(&ROOT, dir.node, name("l"), b"t", &new)
            .unwrap();
        share
            .s()
            .link(&ROOT, share.node("a"), dir.node, name("a2"))
            .unwrap();
        share.s().unlink(&ROOT, dir.node, name("a2")).unwrap();
    }
}

/// What a handle would have kept open cannot be opened again.
#[test]
fn it_cannot_do_without_handles() {
    if !is_child() {
        let test = "ordinary_user::it_cannot_do_without_handles";
        if is_root() {
            let features = Share::new().attached.features;
            assert!(features.contains(Features::NO_OPEN));
        }
        return in_child(as_ordinary_user(), test);
    }
    let features = Share::new().attached.features;
    assert!(!features.contains(Features::NO_OPEN));
}

#[test]
fn it_opens_others_files_without_noatime_unless_told_to_insist() {
    if !is_child() {
        let test = "ordinary_user::it_opens_others_files_without_noatime_unless_told_to_insist";
        return in_child(as_ordinary_user(), test);
    }
    for (preserve_noatime, expected) in [(false, Ok(())), (true, Err(Errno::EPERM))] {
        let options = ExportOptions {
            preserve_noatime,
            ..ExportOptions::default()
        };
        // Root's, and everybody may read it.
        let export = Export::open(Path::new("/etc"), options).unwrap();
        let session = attach(&export, AccessChecks::Peer, SessionLimits::default()).session;
        let found = session.lookup(&ROOT, NodeId::ROOT, name("passwd"));
        let node = found.and_then(Lookup::found).unwrap().node;
        let flags = OpenFlags::READ | OpenFlags::NOATIME;
        let opened = session.open(&ROOT, node, flags).map(drop);
        assert_eq!(opened, expected);
    }
}

#[test]
fn others_can_use_what_is_there_but_own_nothing() {
    if !is_child() {
        let test = "ordinary_user::others_can_use_what_is_there_but_own_nothing";
        return in_child(as_ordinary_user(), test);
    }
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    let other = user(4321, 4321, &[]);
    let new = NewNode::with_perm(0o777);
    let (s, root) = (share.s(), NodeId::ROOT);
    let eperm = |outcome: sluice_vfs::Result<()>| assert_eq!(outcome, Err(Errno::EPERM));
    eperm(share.create_as(&other, root, "x", RDWR).map(drop));
    eperm(s.mkdir(&other, root, name("x"), &new).map(drop));
    eperm(s.symlink(&other, root, name("x"), b"t", &new).map(drop));
    let give_away = SetAttr {
        uid: Some(4321),
        ..SetAttr::default()
    };
    let f = share.node("f");
    eperm(s.setattr(&ROOT, f, None, &give_away).map(drop));
    assert!(s.open(&other, f, RDWR).is_ok());
    s.unlink(&other, root, name("f")).unwrap();
    assert_eq!(errno(share.find("f")), Errno::ENOENT);
}

#[test]
fn set_id_bits_still_go() {
    if !is_child() {
        return in_child(as_ordinary_user(), "ordinary_user::set_id_bits_still_go");
    }
    let share = Share::new();
    fs::write(share.path("f"), "abc").unwrap();
    fs::set_permissions(share.path("f"), Permissions::from_mode(0o4755)).unwrap();
    let args = WriteArgs {
        kill_suidgid: true,
        ..WriteArgs::default()
    };
    let mut source = SliceSource::new(b"x");
    share
        .s()
        .write(&ROOT, share.node("f"), None, &args, &mut source)
        .unwrap();
    let mode = fs::metadata(share.path("f")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
}
