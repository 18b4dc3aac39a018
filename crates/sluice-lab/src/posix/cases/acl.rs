//! POSIX ACLs (acl(5)), in the form of linux/posix_acl_xattr.h.

use super::fails;
use crate::posix::Place;
use rustix::fs::OFlags;
use rustix::io::Errno;

cases!("acl":
    an_acl_is_kept [Acl],
    an_acl_sets_the_bits [Acl],
    chmod_sets_the_mask [Acl],
    a_named_user_may_what_its_entry_says [Root, Acl],
    the_mask_limits_named_users [Root, Acl],
    files_inherit_a_default_acl [Acl],
    directories_inherit_a_default_acl_twice [Acl],
    a_default_acl_takes_the_umasks_place [Acl],
    a_default_acl_is_for_directories [Acl],
    an_acl_without_names_is_bits [Acl],
    a_malformed_acl_is_einval [Acl],
    only_the_owner_sets_acls [Root, Acl],
);

pub(in crate::posix) const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NO_ID: u32 = u32::MAX;

/// The value of an attribute: version 2, then tag, permissions and id of each.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// `u::rw-,u:UID:r--,g::---,m::r--,o::---`.
pub(in crate::posix) fn granting_reads_to(uid: u32) -> Vec<u8> {
    acl(&[
        (USER_OBJ, 6, NO_ID),
        (USER, 4, uid),
        (GROUP_OBJ, 0, NO_ID),
        (MASK, 4, NO_ID),
        (OTHER, 0, NO_ID),
    ])
}

/// `u::rwx,u:UID:rwx,g::r-x,m::rwx,o::---`.
fn granting_all_to(uid: u32) -> Vec<u8> {
    acl(&[
        (USER_OBJ, 7, NO_ID),
        (USER, 7, uid),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, 7, NO_ID),
        (OTHER, 0, NO_ID),
    ])
}

fn an_acl_is_kept(p: &Place) {
    p.write("f", "");
    fails(p.xattr("f", ACCESS), Errno::NODATA);
    p.set_xattr("f", ACCESS, &granting_reads_to(1000)).unwrap();
    assert_eq!(p.xattr("f", ACCESS).unwrap(), granting_reads_to(1000));
    assert_eq!(p.xattrs("f").unwrap(), [ACCESS]);
    p.remove_xattr("f", ACCESS).unwrap();
    fails(p.xattr("f", ACCESS), Errno::NODATA);
}

fn an_acl_sets_the_bits(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", ACCESS, &granting_all_to(1000)).unwrap();
    assert_eq!(p.mode("f"), 0o770);
}

fn chmod_sets_the_mask(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", ACCESS, &granting_all_to(1000)).unwrap();
    p.chmod("f", 0o641).unwrap();
    let expected = acl(&[
        (USER_OBJ, 6, NO_ID),
        (USER, 7, 1000),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, 4, NO_ID),
        (OTHER, 1, NO_ID),
    ]);
    assert_eq!(p.xattr("f", ACCESS).unwrap(), expected);
}

fn a_named_user_may_what_its_entry_says(p: &Place) {
    p.file_with_mode("f", 0o600);
    p.set_xattr("f", ACCESS, &granting_reads_to(1000)).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        assert_eq!(p.read("f"), b"content");
        fails(p.open("f", OFlags::WRONLY), Errno::ACCESS);
    });
    p.as_user(1001, 1000, &[], |p| {
        fails(p.open("f", OFlags::RDONLY), Errno::ACCESS)
    });
}

fn the_mask_limits_named_users(p: &Place) {
    p.file_with_mode("f", 0o600);
    p.set_xattr("f", ACCESS, &granting_all_to(1000)).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        p.open("f", OFlags::RDWR).map(drop).unwrap()
    });
    p.chmod("f", 0o740).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        p.open("f", OFlags::RDONLY).unwrap();
        fails(p.open("f", OFlags::WRONLY), Errno::ACCESS);
    });
}

fn files_inherit_a_default_acl(p: &Place) {
    let d = p.directory("d", 0o755);
    p.set_xattr("d", DEFAULT, &granting_all_to(1000)).unwrap();
    assert_eq!(p.mode("d"), 0o755);
    d.create("f", OFlags::WRONLY, 0o640).unwrap();
    let expected = acl(&[
        (USER_OBJ, 6, NO_ID),
        (USER, 7, 1000),
        (GROUP_OBJ, 5, NO_ID),
        (MASK, 4, NO_ID),
        (OTHER, 0, NO_ID),
    ]);
    assert_eq!(d.xattr("f", ACCESS).unwrap(), expected);
    assert_eq!(d.mode("f"), 0o640);
}

fn directories_inherit_a_default_acl_twice(p: &Place) {
    let d = p.directory("d", 0o755);
    p.set_xattr("d", DEFAULT, &granting_all_to(1000)).unwrap();
    d.mkdir("e", 0o777).unwrap();
    assert_eq!(d.xattr("e", DEFAULT).unwrap(), granting_all_to(1000));
    assert_eq!(d.xattr("e", ACCESS).unwrap(), granting_all_to(1000));
    assert_eq!(d.mode("e"), 0o770);
}

fn a_default_acl_takes_the_umasks_place(p: &Place) {
    let d = p.directory("d", 0o755);
    p.set_xattr("d", DEFAULT, &granting_all_to(1000)).unwrap();
    d.with_umask(0o077, |d| {
        d.create("f", OFlags::WRONLY, 0o666).unwrap();
        d.mkdir("e", 0o777).unwrap();
    });
    assert_eq!(d.mode("f"), 0o660);
    assert_eq!(d.mode("e"), 0o770);
}

fn a_default_acl_is_for_directories(p: &Place) {
    p.write("f", "");
    fails(
        p.set_xattr("f", DEFAULT, &granting_all_to(1000)),
        Errno::ACCESS,
    );
}

fn an_acl_without_names_is_bits(p: &Place) {
    p.write("f", "");
    let bits = acl(&[
        (USER_OBJ, 7, NO_ID),
        (GROUP_OBJ, 5, NO_ID),
        (OTHER, 1, NO_ID),
    ]);
    p.set_xattr("f", ACCESS, &bits).unwrap();
    assert_eq!(p.mode("f"), 0o751);
    fails(p.xattr("f", ACCESS), Errno::NODATA);
}

fn a_malformed_acl_is_einval(p: &Place) {
    p.write("f", "");
    let no_mask = [
        (USER_OBJ, 7, NO_ID),
        (USER, 7, 1000),
        (GROUP_OBJ, 5, NO_ID),
        (OTHER, 0, NO_ID),
    ];
    fails(p.set_xattr("f", ACCESS, &acl(&no_mask)), Errno::INVAL);
    fails(p.set_xattr("f", ACCESS, &acl(&no_mask[..1])), Errno::INVAL);
    assert_eq!(p.mode("f"), 0o644);
}

fn only_the_owner_sets_acls(p: &Place) {
    p.file_with_mode("f", 0o666);
    p.as_user(1000, 1000, &[], |p| {
        fails(
            p.set_xattr("f", ACCESS, &granting_all_to(1000)),
            Errno::PERM,
        );
    });
    p.chown("f", Some(1000), None).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        p.set_xattr("f", ACCESS, &granting_all_to(1000)).unwrap()
    });
}
