//! POSIX ACLs (acl(5)), in the form of linux/posix_acl_xattr.h.

use crate::conformance::client::{ROOT, fails, opened};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Access, Errno, FileType, NewNode, OpenFlags, XattrFlags};

const ACL: Needs = Needs::POSIX_ACL;
const CHECKED: Needs = ACL.union(Needs::ROOT).union(Needs::SERVICE_CHECKS);

pub(super) const CASES: &[Case] = &[
    case!(an_acl_reads_back, ACL),
    case!(an_acl_is_listed, ACL),
    case!(an_acl_sets_the_permission_bits, ACL),
    case!(permission_bits_show_the_mask, ACL),
    case!(chmod_changes_the_mask, ACL),
    case!(an_acl_that_says_what_the_bits_say_is_not_kept, ACL),
    case!(an_acl_without_entries_removes_it, ACL),
    case!(a_removed_acl_leaves_the_bits, ACL),
    case!(removing_no_acl_is_no_error, ACL),
    case!(a_default_acl_reads_back, ACL),
    case!(a_default_acl_on_a_file_is_eacces, ACL),
    case!(a_default_acl_leaves_the_directorys_bits, ACL),
    case!(files_inherit_a_default_acl, ACL),
    case!(a_default_acl_takes_the_umasks_place, ACL),
    case!(directories_inherit_a_default_acl_twice, ACL),
    case!(pipes_and_nodes_inherit_a_default_acl, ACL),
    case!(symlinks_inherit_nothing, ACL),
    case!(
        unnamed_files_inherit_a_default_acl,
        ACL.union(Needs::TMPFILE)
    ),
    case!(a_minimal_default_acl_gives_bits_only, ACL),
    case!(a_removed_default_acl_is_not_inherited, ACL),
    case!(symlinks_have_no_acl, ACL),
    case!(malformed_acls_are_refused, ACL),
    case!(an_acl_of_another_version_is_eopnotsupp, ACL),
    case!(an_acl_clears_set_group_id_if_told, ACL.union(Needs::ROOT)),
    case!(a_named_user_may_what_its_entry_says, CHECKED),
    case!(the_mask_limits_named_users, CHECKED),
    case!(
        a_named_group_may_what_its_entry_says,
        CHECKED.union(Needs::GROUPS)
    ),
    case!(only_the_owner_sets_acls, CHECKED),
    case!(access_obeys_acls, CHECKED),
];

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

type AclEntry = (u16, u16, u32);

/// The value of an ACL attribute.
fn acl(entries: &[AclEntry]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// `u::rwx,u:1000:rw-,g::r-x,m::rwx,o::r--`.
fn named_user_acl() -> Vec<u8> {
    acl(&[
        (USER_OBJ, 7, NO_ID),
        (USER, 6, 1000),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, 7, NO_ID),
        (OTHER, 4, NO_ID),
    ])
}

/// The permissions of the first entry with `tag` in an attribute's value.
fn perm_of(value: &[u8], tag: u16) -> Option<u16> {
    let (_, entries) = value.split_at(4);
    let (entries, _) = entries.as_chunks::<8>();
    entries
        .iter()
        .find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == tag)
        .map(|entry| u16::from_le_bytes([entry[2], entry[3]]))
}

fn an_acl_reads_back(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    assert_eq!(c.getxattr(file, ACCESS).unwrap(), named_user_acl());
}

fn an_acl_is_listed(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    assert_eq!(c.listxattr(file).unwrap(), [ACCESS]);
}

fn an_acl_sets_the_permission_bits(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o774);
}

fn permission_bits_show_the_mask(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let value = acl(&[
        (USER_OBJ, 6, NO_ID),
        (GROUP_OBJ, 7, NO_ID),
        (GROUP, 7, 2000),
        (MASK, 1, NO_ID),
        (OTHER, 0, NO_ID),
    ]);
    c.setxattr(file, ACCESS, &value).unwrap();
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o610);
}

fn chmod_changes_the_mask(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    c.chmod(file, 0o640).unwrap();
    let value = c.getxattr(file, ACCESS).unwrap();
    assert_eq!(perm_of(&value, USER_OBJ), Some(6));
    assert_eq!(perm_of(&value, USER), Some(6));
    assert_eq!(perm_of(&value, GROUP_OBJ), Some(5));
    assert_eq!(perm_of(&value, MASK), Some(4));
    assert_eq!(perm_of(&value, OTHER), Some(0));
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o640);
}

fn an_acl_that_says_what_the_bits_say_is_not_kept(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let value = acl(&[
        (USER_OBJ, 7, NO_ID),
        (GROUP_OBJ, 5, NO_ID),
        (OTHER, 1, NO_ID),
    ]);
    c.setxattr(file, ACCESS, &value).unwrap();
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o751);
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
}

fn an_acl_without_entries_removes_it(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    c.setxattr(file, ACCESS, &acl(&[])).unwrap();
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
}

fn a_removed_acl_leaves_the_bits(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    c.removexattr(file, ACCESS).unwrap();
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
    assert!(c.listxattr(file).unwrap().is_empty());
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o774);
}

fn removing_no_acl_is_no_error(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.removexattr(dir, ACCESS).unwrap();
    c.removexattr(dir, DEFAULT).unwrap();
}

fn a_default_acl_reads_back(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    assert_eq!(c.getxattr(dir, DEFAULT).unwrap(), named_user_acl());
    fails(c.getxattr(dir, ACCESS), Errno::ENODATA);
}

fn a_default_acl_on_a_file_is_eacces(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    fails(c.setxattr(file, DEFAULT, &named_user_acl()), Errno::EACCES);
}

fn a_default_acl_leaves_the_directorys_bits(w: &World) {
    let c = w.client();
    let dir = c.mkdir(ROOT, "d", 0o700).unwrap().node;
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    assert_eq!(c.getattr(dir).unwrap().mode.perm(), 0o700);
}

fn files_inherit_a_default_acl(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    let file = c.create(dir, "f", 0o660).unwrap().node;
    let value = c.getxattr(file, ACCESS).unwrap();
    assert_eq!(perm_of(&value, USER_OBJ), Some(6));
    assert_eq!(perm_of(&value, USER), Some(6));
    assert_eq!(perm_of(&value, MASK), Some(6));
    assert_eq!(perm_of(&value, OTHER), Some(0));
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o660);
    fails(c.getxattr(file, DEFAULT), Errno::ENODATA);
}

fn a_default_acl_takes_the_umasks_place(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    let new = NewNode {
        umask: 0o077,
        ..NewNode::with_perm(0o666)
    };
    let made = c.create_with(dir, "f", OpenFlags::WRITE, &new).unwrap();
    assert_eq!(made.entry.attr.mode.perm(), 0o664);
    let new = NewNode {
        umask: 0o077,
        ..NewNode::with_perm(0o777)
    };
    let made = c.mkdir_with(dir, "e", &new).unwrap();
    assert_eq!(made.attr.mode.perm(), 0o774);
}

fn directories_inherit_a_default_acl_twice(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    let inner = c.mkdir(dir, "e", 0o750).unwrap().node;
    assert_eq!(c.getxattr(inner, DEFAULT).unwrap(), named_user_acl());
    let value = c.getxattr(inner, ACCESS).unwrap();
    assert_eq!(perm_of(&value, MASK), Some(5));
    assert_eq!(c.getattr(inner).unwrap().mode.perm(), 0o750);
}

fn pipes_and_nodes_inherit_a_default_acl(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    for (name, file_type) in [("p", FileType::Fifo), ("f", FileType::Regular)] {
        let node = c.mknod(dir, name, file_type, 0o600).unwrap().node;
        let value = c.getxattr(node, ACCESS).unwrap();
        assert_eq!(perm_of(&value, MASK), Some(0), "{name}");
    }
}

fn symlinks_inherit_nothing(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    let link = c.symlink(dir, "l", "target").unwrap();
    assert_eq!(link.attr.mode.perm(), 0o777);
    assert!(c.listxattr(link.node).unwrap().is_empty());
}

fn unnamed_files_inherit_a_default_acl(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    let file = c.tmpfile(dir, OpenFlags::WRITE, 0o640).unwrap();
    assert_eq!(c.getattr(file.node).unwrap().mode.perm(), 0o640);
    let value = c.getxattr(file.node, ACCESS).unwrap();
    assert_eq!(perm_of(&value, MASK), Some(4));
}

fn a_minimal_default_acl_gives_bits_only(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    let value = acl(&[
        (USER_OBJ, 7, NO_ID),
        (GROUP_OBJ, 4, NO_ID),
        (OTHER, 0, NO_ID),
    ]);
    c.setxattr(dir, DEFAULT, &value).unwrap();
    let file = c.create(dir, "f", 0o666).unwrap().node;
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o640);
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
}

fn a_removed_default_acl_is_not_inherited(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    c.setxattr(dir, DEFAULT, &named_user_acl()).unwrap();
    c.removexattr(dir, DEFAULT).unwrap();
    fails(c.getxattr(dir, DEFAULT), Errno::ENODATA);
    let new = NewNode {
        umask: 0o022,
        ..NewNode::with_perm(0o666)
    };
    let made = c.create_with(dir, "f", OpenFlags::WRITE, &new).unwrap();
    assert_eq!(made.entry.attr.mode.perm(), 0o644);
    assert!(c.listxattr(opened(&made).node).unwrap().is_empty());
}

fn symlinks_have_no_acl(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    fails(
        c.setxattr(link, ACCESS, &named_user_acl()),
        Errno::EOPNOTSUPP,
    );
    fails(c.getxattr(file, ACCESS), Errno::ENODATA);
}

fn malformed_acls_are_refused(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let owner = (USER_OBJ, 7, NO_ID);
    let group = (GROUP_OBJ, 5, NO_ID);
    let other = (OTHER, 0, NO_ID);
    let mut cut = named_user_acl();
    cut.pop();
    let malformed = [
        ("shorter than its header", vec![2, 0]),
        ("cut in an entry", cut),
        ("no entry for others", acl(&[owner, group])),
        ("two owners", acl(&[owner, owner, group, other])),
        ("out of order", acl(&[group, owner, other])),
        (
            "a named user and no mask",
            acl(&[owner, (USER, 6, 1000), group, other]),
        ),
        (
            "permissions beyond rwx",
            acl(&[(USER_OBJ, 8, NO_ID), group, other]),
        ),
        (
            "an unknown tag",
            acl(&[owner, group, other, (0x40, 7, NO_ID)]),
        ),
    ];
    for (what, value) in malformed {
        let outcome = c.setxattr(file, ACCESS, &value);
        assert_eq!(outcome, Err(Errno::EINVAL), "{what}");
    }
    assert_eq!(c.getattr(file).unwrap().mode.perm(), 0o644);
}

fn an_acl_of_another_version_is_eopnotsupp(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let mut value = named_user_acl();
    value[0] = 3;
    fails(c.setxattr(file, ACCESS, &value), Errno::EOPNOTSUPP);
}

fn an_acl_clears_set_group_id_if_told(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.chown(file, Some(1000), Some(3000)).unwrap();
    let user = c.as_user(1000, 1000, &[]);
    for (flags, perm) in [
        (XattrFlags::empty(), 0o2774),
        (XattrFlags::KILL_SGID, 0o774),
    ] {
        c.chmod(file, 0o2755).unwrap();
        user.setxattr_if(file, ACCESS, &named_user_acl(), flags)
            .unwrap();
        assert_eq!(c.getattr(file).unwrap().mode.perm(), perm, "{flags:?}");
    }
}

fn a_named_user_may_what_its_entry_says(w: &World) {
    let c = w.checked_client();
    let file = c.file(ROOT, "f", b"content");
    c.chmod(file, 0o600).unwrap();
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    let named = c.as_user(1000, 1000, &[]);
    let open = named
        .open(file, OpenFlags::READ | OpenFlags::WRITE)
        .unwrap();
    assert_eq!(named.read(open, 0, 10).unwrap(), b"content");
    let other = c.as_user(1001, 1001, &[]);
    other.open(file, OpenFlags::READ).unwrap();
    fails(other.open(file, OpenFlags::WRITE), Errno::EACCES);
}

fn the_mask_limits_named_users(w: &World) {
    let c = w.checked_client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    c.chmod(file, 0o744).unwrap();
    let named = c.as_user(1000, 1000, &[]);
    named.open(file, OpenFlags::READ).unwrap();
    fails(named.open(file, OpenFlags::WRITE), Errno::EACCES);
}

fn a_named_group_may_what_its_entry_says(w: &World) {
    let c = w.checked_client();
    let file = c.file(ROOT, "f", b"");
    let value = acl(&[
        (USER_OBJ, 6, NO_ID),
        (GROUP_OBJ, 0, NO_ID),
        (GROUP, 6, 2000),
        (MASK, 6, NO_ID),
        (OTHER, 0, NO_ID),
    ]);
    c.setxattr(file, ACCESS, &value).unwrap();
    let member = c.as_user(1000, 1000, &[2000]);
    member
        .open(file, OpenFlags::READ | OpenFlags::WRITE)
        .unwrap();
    let stranger = c.as_user(1000, 1000, &[2001]);
    fails(stranger.open(file, OpenFlags::READ), Errno::EACCES);
}

fn only_the_owner_sets_acls(w: &World) {
    let c = w.checked_client();
    let file = c.file(ROOT, "f", b"");
    c.chmod(file, 0o666).unwrap();
    let stranger = c.as_user(1000, 1000, &[]);
    fails(
        stranger.setxattr(file, ACCESS, &named_user_acl()),
        Errno::EPERM,
    );
    fails(stranger.removexattr(file, ACCESS), Errno::EPERM);
    c.chown(file, Some(1000), None).unwrap();
    stranger.setxattr(file, ACCESS, &named_user_acl()).unwrap();
}

fn access_obeys_acls(w: &World) {
    let c = w.checked_client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, ACCESS, &named_user_acl()).unwrap();
    let named = c.as_user(1000, 1000, &[]);
    named.access(file, Access::READ | Access::WRITE).unwrap();
    fails(named.access(file, Access::EXEC), Errno::EACCES);
    let other = c.as_user(1001, 1001, &[]);
    other.access(file, Access::READ).unwrap();
    fails(other.access(file, Access::WRITE), Errno::EACCES);
}
