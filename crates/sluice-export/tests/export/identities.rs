//! For whom things are done. All of it needs a daemon that is root.

use crate::harness::{RDWR, ROOT, Share, Terms, errno, name, require_root, skipped, user};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::capabilities;
use sluice_export::{Becomes, ExportOptions, IdMap, IdRun};
use sluice_vfs::{
    Access, CreateArgs, Ctx, Device, Errno, FileType, NewNode, NodeId, OpenFlags, RenameFlags,
    SetAttr, SliceSource, WriteArgs, XattrFlags, XattrName,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

fn chmod(share: &Share, child: &str, mode: u32) {
    fs::set_permissions(share.path(child), Permissions::from_mode(mode)).unwrap();
}

/// Owner, group and permissions on the host.
fn looks(share: &Share, child: &str) -> (u32, u32, u32) {
    let host = fs::symlink_metadata(share.path(child)).unwrap();
    (host.uid(), host.gid(), host.mode() & 0o7777)
}

fn create_with(share: &Share, ctx: &Ctx<'_>, parent: NodeId, child: &str, new: NewNode<'_>) {
    let args = CreateArgs { flags: RDWR, new };
    share.s().create(ctx, parent, name(child), &args).unwrap();
}

#[test]
fn what_is_made_belongs_to_the_caller() {
    require_root!();
    let share = Share::new();
    chmod(&share, "", 0o700);
    let ctx = user(1234, 2345, &[]);
    let (root, new) = (NodeId::ROOT, NewNode::with_perm(0o666));
    let s = share.s();
    create_with(&share, &ctx, root, "file", new);
    s.mkdir(&ctx, root, name("dir"), &new).unwrap();
    s.symlink(&ctx, root, name("link"), b"t", &new).unwrap();
    let dev = Device { major: 1, minor: 3 };
    for (child, kind) in [
        ("fifo", FileType::Fifo),
        ("sock", FileType::Socket),
        ("char", FileType::CharDevice),
        ("reg", FileType::Regular),
    ] {
        s.mknod(&ctx, root, name(child), kind, dev, &new).unwrap();
    }
    for child in ["file", "dir", "link", "fifo", "sock", "char", "reg"] {
        let (uid, gid, _) = looks(&share, child);
        assert_eq!((uid, gid), (1234, 2345), "{child}");
    }
    create_with(&share, &ROOT, root, "root's", new);
    assert_eq!(looks(&share, "root's"), (0, 0, 0o666));
    create_with(&share, &user(0, 77, &[]), root, "root's in 77", new);
    assert_eq!(looks(&share, "root's in 77"), (0, 77, 0o666));
    let unnamed = CreateArgs { flags: RDWR, new };
    let made = s.tmpfile(&ctx, root, &unnamed).unwrap();
    assert_eq!((made.entry.attr.uid, made.entry.attr.gid), (1234, 2345));
}

#[test]
fn the_thread_is_itself_again_afterwards() {
    require_root!();
    let state = || (geteuid(), getegid(), getgroups(), capabilities(None));
    let before = state();
    let share = Share::checked();
    chmod(&share, "", 0o777);
    let ctx = user(1234, 2345, &[3456]);
    let new = NewNode::with_perm(0o644);
    create_with(&share, &ctx, NodeId::ROOT, "f", new);
    assert_eq!(state(), before);
    let outcome = share.s().mkdir(&ctx, NodeId::ROOT, name("f"), &new);
    assert_eq!(errno(outcome), Errno::EEXIST);
    assert_eq!(state(), before);
    let nobody = user(u32::MAX, 5, &[]);
    let outcome = share.s().mkdir(&nobody, NodeId::ROOT, name("d"), &new);
    assert_eq!(errno(outcome), Errno::EINVAL);
    assert_eq!(state(), before);
}

#[test]
fn the_umask_is_the_callers_unless_a_default_acl_takes_its_place() {
    require_root!();
    let share = Share::new();
    let with_umask = |umask| NewNode {
        umask,
        ..NewNode::with_perm(0o777)
    };
    for (child, umask, expected) in [("a", 0o022, 0o755), ("b", 0o077, 0o700), ("c", 0, 0o777)] {
        create_with(&share, &ROOT, NodeId::ROOT, child, with_umask(umask));
        assert_eq!(looks(&share, child).2, expected);
    }

    fs::create_dir(share.path("acl")).unwrap();
    let parent = share.node("acl");
    // Version 2; rwx for the owner, rw for the group, r for others.
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm) in [(0x01_u16, 7_u16), (0x04, 6), (0x20, 4)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(u32::MAX.to_le_bytes());
    }
    let attribute = XattrName::new(b"system.posix_acl_default").unwrap();
    let flags = XattrFlags::empty();
    match share.s().setxattr(&ROOT, parent, attribute, &acl, flags) {
        Err(Errno::EOPNOTSUPP) => skipped("no ACLs here"),
        outcome => {
            outcome.unwrap();
            create_with(&share, &ROOT, parent, "f", with_umask(0o077));
            assert_eq!(looks(&share, "acl/f").2, 0o764);
        }
    }
}

#[test]
fn set_group_id_directories_pass_their_group_on() {
    require_root!();
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    chown(share.path("d"), Some(0), Some(500)).unwrap();
    chmod(&share, "d", 0o2777);
    let parent = share.node("d");
    let ctx = user(1234, 2345, &[]);
    let new = NewNode::with_perm(0o2775);
    create_with(&share, &ctx, parent, "f", new);
    // Not a member of the group: executable for it, but not set-group-id.
    assert_eq!(looks(&share, "d/f"), (1234, 500, 0o775));
    create_with(&share, &user(1234, 2345, &[500]), parent, "member's", new);
    assert_eq!(looks(&share, "d/member's"), (1234, 500, 0o2775));
    share.s().mkdir(&ctx, parent, name("sub"), &new).unwrap();
    assert_eq!(looks(&share, "d/sub"), (1234, 500, 0o2775));
}

#[test]
fn where_the_peer_checks_nothing_is_checked_again() {
    require_root!();
    let share = Share::new();
    fs::create_dir(share.path("d")).unwrap();
    chmod(&share, "d", 0o700);
    fs::write(share.path("d/f"), "secret").unwrap();
    chmod(&share, "d/f", 0o600);
    let ctx = user(1234, 2345, &[]);
    let parent = share.node("d");
    let new = NewNode::with_perm(0o600);
    create_with(&share, &ctx, parent, "mine", new);
    let found = share.s().lookup(&ctx, parent, name("f")).unwrap();
    let node = found.found().unwrap().node;
    share.s().open(&ctx, node, RDWR).unwrap();
    let access = share.s().access(&ctx, node, Access::READ);
    assert_eq!(
        access,
        Err(Errno::EACCES),
        "a question gets the true answer"
    );
    let access = share.s().access(&ROOT, node, Access::READ | Access::WRITE);
    assert_eq!(access, Ok(()));
    let whiteout = share.s().rename(
        &ctx,
        (parent, name("mine")),
        (parent, name("moved")),
        RenameFlags::WHITEOUT,
    );
    if whiteout != Err(Errno::EINVAL) {
        whiteout.unwrap();
        assert_eq!(looks(&share, "d/mine").0, 1234);
    }
}

#[test]
fn where_the_service_checks_the_caller_may_do_what_a_local_user_may() {
    require_root!();
    let share = Share::checked();
    chmod(&share, "", 0o755);
    fs::create_dir(share.path("closed")).unwrap();
    chmod(&share, "closed", 0o700);
    fs::write(share.path("closed/f"), "").unwrap();
    for (child, mode) in [
        ("open", 0o666),
        ("read", 0o644),
        ("none", 0o600),
        ("run", 0o711),
    ] {
        fs::write(share.path(child), "abc").unwrap();
        chmod(&share, child, mode);
    }
    fs::write(share.path("group"), "abc").unwrap();
    chown(share.path("group"), Some(0), Some(500)).unwrap();
    chmod(&share, "group", 0o660);

    let (s, root) = (share.s(), NodeId::ROOT);
    let plain = user(1234, 2345, &[]);
    let member = user(1234, 2345, &[500]);
    let (read, write) = (OpenFlags::READ, OpenFlags::WRITE);
    for (ctx, child, flags, expected) in [
        (&plain, "open", RDWR, Ok(())),
        (&plain, "read", read, Ok(())),
        (&plain, "read", write, Err(Errno::EACCES)),
        (&plain, "none", read, Err(Errno::EACCES)),
        (&plain, "run", read, Err(Errno::EACCES)),
        (&plain, "run", OpenFlags::EXEC, Ok(())),
        (&plain, "read", OpenFlags::EXEC, Err(Errno::EACCES)),
        (&plain, "group", read, Err(Errno::EACCES)),
        (&member, "group", RDWR, Ok(())),
        (&ROOT, "none", RDWR, Ok(())),
    ] {
        let outcome = s.open(ctx, share.node(child), flags).map(drop);
        assert_eq!(outcome, expected, "{child} {flags:?}");
    }
    let ran = s.open(&plain, share.node("run"), OpenFlags::EXEC).unwrap();
    let content = share.read(share.node("run"), Some(ran.handle));
    assert_eq!(content.unwrap(), b"abc", "the peer's kernel reads it");

    let eacces = |outcome: sluice_vfs::Result<()>| assert_eq!(outcome, Err(Errno::EACCES));
    let eperm = |outcome: sluice_vfs::Result<()>| assert_eq!(outcome, Err(Errno::EPERM));
    let closed = share.node("closed");
    let new = NewNode::with_perm(0o644);
    eacces(s.lookup(&plain, closed, name("f")).map(drop));
    eacces(s.mkdir(&plain, root, name("x"), &new).map(drop));
    eacces(share.create_as(&plain, root, "x", RDWR).map(drop));
    eacces(s.unlink(&plain, root, name("open")).map(drop));
    let to = (root, name("y"));
    eacces(
        s.rename(&plain, (root, name("open")), to, RenameFlags::empty())
            .map(drop),
    );
    eacces(s.access(&plain, share.node("none"), Access::READ));
    assert_eq!(s.access(&plain, share.node("run"), Access::EXEC), Ok(()));
    let none = share.node("none");
    let change = |perm, size, uid| SetAttr {
        perm,
        size,
        uid,
        ..SetAttr::default()
    };
    eperm(
        s.setattr(&plain, none, None, &change(Some(0o777), None, None))
            .map(drop),
    );
    eperm(
        s.setattr(&plain, none, None, &change(None, None, Some(1234)))
            .map(drop),
    );
    eacces(
        s.setattr(&plain, none, None, &change(None, Some(0), None))
            .map(drop),
    );
    let trusted = XattrName::new(b"trusted.x").unwrap();
    let xattr_flags = XattrFlags::empty();
    eperm(
        s.setxattr(&plain, share.node("open"), trusted, b"", xattr_flags)
            .map(drop),
    );
    let listed = s.readdir(
        &plain,
        closed,
        None,
        0,
        sluice_vfs::DirWant::Names,
        &mut crate::harness::ListSink::with_room(10),
    );
    eacces(listed.map(drop));
}

/// Writes as `ctx` asks, and says what is left of the set-id bits.
fn bits_after(share: &Share, act: impl FnOnce(NodeId)) -> u32 {
    fs::write(share.path("suid"), "abc").unwrap();
    chmod(share, "suid", 0o6777);
    act(share.node("suid"));
    looks(share, "suid").2 & 0o6000
}

#[test]
fn set_id_bits_go_when_someone_unprivileged_changes_the_content() {
    require_root!();
    let share = Share::new();
    let s = share.s();
    let write = |node, kill_suidgid| {
        let args = WriteArgs {
            kill_suidgid,
            ..WriteArgs::default()
        };
        let mut source = SliceSource::new(b"x");
        s.write(&ROOT, node, None, &args, &mut source).unwrap();
    };
    assert_eq!(bits_after(&share, |node| write(node, false)), 0o6000);
    assert_eq!(bits_after(&share, |node| write(node, true)), 0);
    let cut = |node, kill_suidgid| {
        let changes = SetAttr {
            size: Some(1),
            kill_suidgid,
            ..SetAttr::default()
        };
        s.setattr(&ROOT, node, None, &changes).unwrap();
    };
    assert_eq!(bits_after(&share, |node| cut(node, false)), 0o6000);
    assert_eq!(bits_after(&share, |node| cut(node, true)), 0);
    let empty = |node, flags| {
        share
            .open(node, RDWR | OpenFlags::TRUNCATE | flags)
            .unwrap();
    };
    let kill = OpenFlags::KILL_SUIDGID;
    assert_eq!(
        bits_after(&share, |node| empty(node, OpenFlags::empty())),
        0o6000
    );
    assert_eq!(bits_after(&share, |node| empty(node, kill)), 0);
    let grow = |node, ctx: &Ctx<'_>| {
        let mode = sluice_vfs::FallocateMode::empty();
        s.fallocate(ctx, node, None, mode, 0..4096).unwrap();
    };
    assert_eq!(bits_after(&share, |node| grow(node, &ROOT)), 0o6000);
    assert_eq!(bits_after(&share, |node| grow(node, &user(5, 5, &[]))), 0);
}

#[test]
fn ids_are_translated_both_ways() {
    require_root!();
    let shifted = |peer, host| {
        let run = |first, count, becomes| IdRun {
            first,
            count,
            becomes,
        };
        let mut map = IdMap::default();
        map.add_to_host(run(peer, 10, Becomes::From(host))).unwrap();
        map.add_to_host(run(77, 1, Becomes::Refused)).unwrap();
        map.add_to_peer(run(host, 10, Becomes::From(peer))).unwrap();
        map.add_to_peer(run(77, 1, Becomes::Only(4))).unwrap();
        map
    };
    let share = Share::on(Terms {
        options: ExportOptions {
            uid_map: shifted(1000, 5000),
            gid_map: shifted(2000, 6000),
            ..ExportOptions::default()
        },
        ..Terms::default()
    });
    let ctx = user(1003, 2004, &[]);
    let made = share.create_as(&ctx, NodeId::ROOT, "f", RDWR).unwrap();
    assert_eq!(looks(&share, "f"), (5003, 6004, 0o644));
    let attr = made.entry.attr;
    assert_eq!((attr.uid, attr.gid), (1003, 2004));
    let owner = |uid| SetAttr {
        uid: Some(uid),
        ..SetAttr::default()
    };
    let node = made.entry.node;
    let stat = share.s().setattr(&ROOT, node, None, &owner(1009)).unwrap();
    assert_eq!((stat.attr.uid, looks(&share, "f").0), (1009, 5009));
    let outcome = share.s().setattr(&ROOT, node, None, &owner(77));
    assert_eq!(errno(outcome), Errno::EPERM);
    let stat = share.s().setattr(&ROOT, node, None, &owner(1010)).unwrap();
    assert_eq!((stat.attr.uid, looks(&share, "f").0), (1010, 1010));
    let stranger = user(77, 2000, &[]);
    let outcome = share.create_as(&stranger, NodeId::ROOT, "g", RDWR);
    assert_eq!(errno(outcome), Errno::EPERM);
    chown(share.path("f"), Some(77), None).unwrap();
    assert_eq!(share.attr(node).uid, 4);
}

#[test]
fn a_new_owner_and_a_new_mode_are_both_had() {
    require_root!();
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    chmod(&share, "f", 0o4755);
    let node = share.node("f");
    let owner = SetAttr {
        uid: Some(5),
        ..SetAttr::default()
    };
    share.s().setattr(&ROOT, node, None, &owner).unwrap();
    assert_eq!(looks(&share, "f"), (5, 0, 0o755));
    let both = SetAttr {
        gid: Some(6),
        perm: Some(0o4711),
        ..SetAttr::default()
    };
    share.s().setattr(&ROOT, node, None, &both).unwrap();
    assert_eq!(looks(&share, "f"), (5, 6, 0o4711));
    let nobody = SetAttr {
        uid: Some(u32::MAX),
        ..SetAttr::default()
    };
    let outcome = share.s().setattr(&ROOT, node, None, &nobody);
    assert_eq!(errno(outcome), Errno::EINVAL);
}
