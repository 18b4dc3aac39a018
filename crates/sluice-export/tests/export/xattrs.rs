//! Extended attributes.

use crate::harness::{ROOT, Share, errno, name, require_root, skipped};
use sluice_vfs::{
    Device, Errno, FileType, NewNode, NodeId, Result, SetAttr, VecSink, XattrFlags, XattrName,
};
use std::fs;
use std::os::unix::fs::symlink;

fn xattr(name: &str) -> XattrName<'_> {
    XattrName::new(name.as_bytes()).unwrap()
}

fn get(share: &Share, node: NodeId, name: &str, room: usize) -> Result<Vec<u8>> {
    let mut sink = VecSink::new(room);
    let len = share
        .s()
        .getxattr(&ROOT, node, xattr(name), Some(&mut sink))?;
    let value = sink.into_bytes();
    assert_eq!(value.len(), len);
    Ok(value)
}

fn set(share: &Share, node: NodeId, name: &str, value: &[u8], flags: XattrFlags) -> Result<()> {
    share
        .s()
        .setxattr(&ROOT, node, xattr(name), value, flags)
        .map(drop)
}

#[test]
fn values_and_lists_fit_or_are_refused() {
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let node = share.node("f");
    if set(&share, node, "user.a", b"value", XattrFlags::CREATE) == Err(Errno::EOPNOTSUPP) {
        skipped("no user attributes here");
        return;
    }
    assert_eq!(
        set(&share, node, "user.a", b"v", XattrFlags::CREATE),
        Err(Errno::EEXIST)
    );
    assert_eq!(
        set(&share, node, "user.b", b"v", XattrFlags::REPLACE),
        Err(Errno::ENODATA)
    );
    assert_eq!(get(&share, node, "user.a", 100).unwrap(), b"value");
    assert_eq!(get(&share, node, "user.a", 5).unwrap(), b"value");
    for room in [0, 4] {
        assert_eq!(errno(get(&share, node, "user.a", room)), Errno::ERANGE);
    }
    let length = share.s().getxattr(&ROOT, node, xattr("user.a"), None);
    assert_eq!(length, Ok(5));
    set(&share, node, "user.empty", b"", XattrFlags::empty()).unwrap();
    assert_eq!(get(&share, node, "user.empty", 0).unwrap(), b"");

    let mut sink = VecSink::new(1000);
    let len = share.s().listxattr(&ROOT, node, Some(&mut sink)).unwrap();
    let list = sink.into_bytes();
    assert_eq!(list.len(), len);
    let names: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
    assert!(names.contains(&&b"user.a"[..]) && names.contains(&&b"user.empty"[..]));
    assert_eq!(share.s().listxattr(&ROOT, node, None), Ok(len));
    let outcome = share
        .s()
        .listxattr(&ROOT, node, Some(&mut VecSink::new(len - 1)));
    assert_eq!(outcome, Err(Errno::ERANGE));

    share.s().removexattr(&ROOT, node, xattr("user.a")).unwrap();
    assert_eq!(errno(get(&share, node, "user.a", 10)), Errno::ENODATA);
    let outcome = share.s().removexattr(&ROOT, node, xattr("user.a"));
    assert_eq!(errno(outcome), Errno::ENODATA);
}

#[test]
fn every_kind_of_node_has_its_own() {
    require_root!();
    let share = Share::new();
    fs::write(share.path("target"), "").unwrap();
    symlink("target", share.path("link")).unwrap();
    let new = NewNode::with_perm(0o600);
    let made = share.s().mknod(
        &ROOT,
        NodeId::ROOT,
        name("fifo"),
        FileType::Fifo,
        Device::default(),
        &new,
    );
    made.unwrap();
    for (child, value) in [("link", b"on link"), ("fifo", b"on fifo")] {
        let node = share.node(child);
        set(&share, node, "trusted.t", value, XattrFlags::empty()).unwrap();
        assert_eq!(get(&share, node, "trusted.t", 100).unwrap(), value);
    }
    let target = share.node("target");
    assert_eq!(errno(get(&share, target, "trusted.t", 100)), Errno::ENODATA);
}

#[test]
fn an_acl_can_take_the_set_group_id_bit_away() {
    let share = Share::new();
    fs::write(share.path("f"), "").unwrap();
    let node = share.node("f");
    let set_perm = SetAttr {
        perm: Some(0o2770),
        ..SetAttr::default()
    };
    let with_sgid = share.s().setattr(&ROOT, node, None, &set_perm).unwrap();
    assert_eq!(with_sgid.attr.mode.perm(), 0o2770);
    // Version 2; user, group and others with rwx, as the mode has it.
    let mut acl = vec![2, 0, 0, 0];
    for (tag, perm) in [(0x01_u16, 7_u16), (0x04, 7), (0x20, 0)] {
        acl.extend(tag.to_le_bytes());
        acl.extend(perm.to_le_bytes());
        acl.extend(u32::MAX.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    match set(&share, node, name, &acl, XattrFlags::KILL_SGID) {
        Err(Errno::EOPNOTSUPP) => skipped("no ACLs here"),
        outcome => {
            outcome.unwrap();
            assert_eq!(share.attr(node).mode.perm(), 0o770);
        }
    }
}
